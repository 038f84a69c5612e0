/* Every control that carries data-act sends one action; nothing is decided here. */
(function () {
  "use strict";
  const $$ = (selector, root) => Array.from((root || document).querySelectorAll(selector));
  let timer = null, sent = 0;

  function tabId() {
    let id = sessionStorage.getItem("tab");
    if (!id) {
      id = Array.from(crypto.getRandomValues(new Uint8Array(8)), (b) => b.toString(16).padStart(2, "0")).join("");
      sessionStorage.setItem("tab", id);
    }
    return id;
  }
  function send(control, value) {
    sent += 1;
    const message = { act: control.dataset.act, key: control.dataset.key || "", value: String(value), sent: sent };
    window.Shiny.setInputValue("act", message, { priority: "event" });
    date();
  }
  /* What Undo and Redo would change is shown only where no action is on its way: the words of an earlier one are untrue. */
  function date() {
    const history = document.getElementById("history"), row = history.querySelector("[data-heard]");
    history.classList.toggle("late", Boolean(row) && Number(row.dataset.heard) < sent);
  }
  function later(delay, work) {
    clearTimeout(timer);
    timer = setTimeout(work, delay);
  }
  /* Each screen is a step of the browser's history: "go" adds one, "back" and "start" follow the address. */
  function show(name, how) {
    if (!document.getElementById("screen-" + name)) name = "data";
    for (const section of $$("main > section")) {
      section.hidden = section.id !== "screen-" + name;
    }
    /* The framework asks only for what is on the screen. It would not see by itself what is below the fold. */
    window.Shiny.bindAll(document.querySelector("main"));
    for (const step of $$("[data-screen]")) {
      if (step.dataset.screen === name) step.setAttribute("aria-current", "step");
      else step.removeAttribute("aria-current");
    }
    if (how === "go" && location.hash !== "#" + name) history.pushState(null, "", "#" + name);
    else history.replaceState(null, "", "#" + name);
    document.title = document.querySelector("[data-screen=" + name + "]").textContent + " – postrand workbench";
    const title = document.querySelector("#screen-" + name + " h2");
    if (how && $$("#problem [role=alert]").length) send({ dataset: { act: "seen" } }, "");
    if (how === "go") {
      title.focus({ preventScroll: true });
      window.scrollTo(0, 0);
    } else if (how === "back") setTimeout(() => title.focus({ preventScroll: true }), 0); /* the browser's own comes first */
  }
  function slide(slider) {
    const grid = slider.dataset.grid.split(","), number = document.getElementById(slider.dataset.for);
    number.value = grid[Number(slider.value)];
    slider.setAttribute("aria-valuetext", number.value);
    later(40, () => send(number, number.value));
  }
  function follow(number) {
    const slider = document.getElementById("level-slider");
    if (!slider) return;
    const grid = slider.dataset.grid.split(",").map(Number), value = Number(number.value);
    slider.value = grid.reduce((best, x, i) => (Math.abs(x - value) < Math.abs(grid[best] - value) ? i : best), 0);
    slider.setAttribute("aria-valuetext", number.value);
  }
  document.addEventListener("input", (event) => {
    const control = event.target;
    if (control.id === "level-slider") return slide(control);
    if (control.dataset.live) {
      follow(control);
      later(150, () => send(control, control.value));
    } else if (control.type === "search") later(250, () => send(control, control.value));
  });
  /* By keyboard a list goes from entry to entry: what is passed on the way is not chosen. */
  let held = null, keyed = -Infinity;
  function settle() {
    if (!held) return;
    const control = held.control;
    clearTimeout(held.timer);
    held = null;
    send(control, control.value);
  }
  document.addEventListener("keydown", (event) => {
    if (event.target.tagName !== "SELECT") return;
    keyed = performance.now();
    if (event.key === "Enter") settle();
  });
  document.addEventListener("focusout", (event) => { if (held && held.control === event.target) settle(); });
  document.addEventListener("change", (event) => {
    const control = event.target;
    if (!control.dataset || !control.dataset.act || control.dataset.live || control.type === "search") return;
    if (control.tagName === "SELECT" && performance.now() - keyed < 300) {
      if (held && held.control !== control) settle();
      if (held) clearTimeout(held.timer);
      held = { control: control, timer: setTimeout(settle, 700) };
      return;
    }
    send(control, control.type === "checkbox" ? control.checked : control.value);
  });
  /* Enter in a box for a path presses the button below it. */
  document.addEventListener("keydown", (event) => {
    const box = event.target;
    if (event.key !== "Enter" || !box.dataset || box.dataset.act !== "written" || box.type !== "text") return;
    send(box, box.value);
    box.closest("label").parentElement.querySelector("button[data-act]").click();
  });
  document.addEventListener("click", (event) => {
    const found = event.target.closest("button");
    if (!found) return;
    if (found.dataset.screen) show(found.dataset.screen, "go");
    else if (found.dataset.act) send(found, found.dataset.key || "");
    else if (found.classList.contains("copy")) {
      const code = found.closest(".copyable").querySelector("code");
      navigator.clipboard.writeText(code.textContent).then(
        () => { found.textContent = "Copied"; },
        () => { getSelection().selectAllChildren(code); found.textContent = "Selected"; }
      );
      setTimeout(() => { found.textContent = "Copy"; }, 2000);
    }
  });
  document.addEventListener("DOMContentLoaded", () => {
    const $ = window.jQuery;
    $(document).on("shiny:connected", () => {
      window.Shiny.setInputValue("tab", tabId());
      show(location.hash.slice(1) || "data", "start");
    });
    $(document).on("shiny:disconnected", () => {
      const tell = (id) => { document.getElementById(id).hidden = false; };
      fetch("assets/app.js", { method: "HEAD" }).then((answer) => tell(answer.ok ? "lost" : "ended"), () => tell("ended"));
    });
    new MutationObserver(date).observe(document.getElementById("history"), { childList: true, subtree: true });
    window.addEventListener("popstate", () => show(location.hash.slice(1) || "data", "back"));
    /* A drop beside the box would make the browser leave the page. */
    for (const name of ["dragover", "drop"]) window.addEventListener(name, (event) => {
      if (!event.target.closest(".shiny-input-container")) event.preventDefault();
    });
  });
})();
