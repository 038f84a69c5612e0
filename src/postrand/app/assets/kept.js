/* A part of the page that is drawn anew gives back the focus, and opens again what was open. */
(function () {
  "use strict";
  const PARTS = ".shiny-html-output";
  const FOCUSABLE = "a, button, input, select, textarea, summary, [tabindex='0']";
  const NAMED = FOCUSABLE + ", [data-focus]";  /* a heading that was led to is found again, but is no control to go to */
  const opened = new Map();
  let last = null, place = null, led = null, head = null, typed = false;

  const part = (element) => element.closest(PARTS);
  const words = (element) => element.getAttribute("aria-label") || element.textContent.trim();
  /* What a control is, in words that stay the same when it is drawn anew. */
  function name(control) {
    const { act, key } = control.dataset;
    return act === undefined ? control.tagName + "|" + words(control) : "act|" + act + "|" + (key || "");
  }
  function again() {
    const root = document.getElementById(last.part) || document;
    const same = (control) => name(control) === last.name && !control.disabled;
    const all = (from) => Array.from(from.querySelectorAll(NAMED));
    return all(root).find(same) || (last.name.startsWith("act|") ? all(document).find(same) : undefined);
  }
  /* A box whose number is marked, as Tab marks it, stays marked: what is typed next must not stand beside the old number. */
  function enter(control) {
    const going = typed;
    control.focus({ preventScroll: true });
    typed = going;
    if (!control.select) return;
    if (!going) return control.select();
    const value = control.value;  /* the caret goes to the end: a box for numbers has no other way to say so */
    control.value = "";
    control.value = value;
  }
  function restore() {
    if (!last || document.contains(last.at)) return;
    if (document.activeElement !== document.body && document.activeElement !== place) return;
    const found = again();
    if (found) return enter(found);
    /* It is gone, such as the button of a run that has begun: go to the result, to Cancel, or to what stands there.
       The part itself has no box of its own (display: contents), and cannot have the focus. */
    const root = document.getElementById(last.part);
    if (!root || (place && document.contains(place))) return;
    const usable = Array.from(root.querySelectorAll(FOCUSABLE)).find((control) => !control.disabled);
    const section = root.closest("section");
    const words = root.querySelector("[data-here]") || (usable ? null : root.firstElementChild || (section && section.querySelector("h2")));
    if (!words) return usable && enter(usable);
    place = words;
    place.tabIndex = -1;
    place.focus();
  }
  function reopen() {
    for (const details of document.querySelectorAll(PARTS + " details")) {
      const summary = details.querySelector("summary");
      if (summary && opened.get(part(details).id + "|" + words(summary)) && !details.dataset.seen) details.open = true;
      details.dataset.seen = "yes";
    }
  }
  /* What was asked for elsewhere on the screen, such as the editor of a variable, gets the focus when it comes. */
  function lead() {
    const heading = document.querySelector("[data-focus]"), wanted = heading ? heading.dataset.focus : null;
    const lost = document.activeElement === document.body || document.activeElement === place;
    if (heading && (wanted !== led || (lost && heading !== head))) heading.focus();
    head = heading;
    led = wanted;
  }
  document.addEventListener("focusin", (event) => {
    if (event.target === place) return;
    place = null;
    typed = false;
    const root = part(event.target);
    last = root ? { at: event.target, part: root.id, name: name(event.target) } : null;
  });
  document.addEventListener("focusout", (event) => {
    if (document.contains(event.target) && event.relatedTarget && event.relatedTarget !== place) last = null;
  });
  document.addEventListener("input", () => { typed = true; });
  document.addEventListener("toggle", (event) => {
    const root = event.target.tagName === "DETAILS" ? part(event.target) : null;
    const summary = root && event.target.querySelector("summary");
    if (summary) opened.set(root.id + "|" + words(summary), event.target.open);
  }, true);
  new MutationObserver(() => { reopen(); restore(); lead(); }).observe(document, { childList: true, subtree: true });
})();
