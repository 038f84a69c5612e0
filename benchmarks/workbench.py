"""Time the workbench as its user sees it, in Chromium: from a click to the last change of the screen.

``python benchmarks/workbench.py [FILE]`` opens a file, by default 953,076 records x 10 variables, five keys and five
sensitive ones, as in the other benchmarks, and goes once through all screens. For each step: seconds until the answer
stands there, processor seconds of the server, and its peak memory during the step. The file is protected twice, of one
level and of another: pressed as soon as the button can be pressed, while the risk is being measured, and once the risk
stands there. Beside Chromium it wants playwright.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import sync_playwright

import child
import files

MOVES, SHARE, LONG, READING = 7, "5", 300_000, 3_000
NAMES = ("chromium", "chromium-browser", "google-chrome")
TICKS = os.sysconf("SC_CLK_TCK")
QUIET = """([asked, changing]) => new Promise(done => {
  const busy = "main > section:not([hidden]) :is(.busy, .recalculating)", start = performance.now();
  const text = () => changing && document.querySelector(changing)?.innerText, before = text();
  let first = null, last = start;
  if (asked === "slide") {
    const slider = document.getElementById("level-slider");
    slider.value = (Number(slider.value) + 1) % (Number(slider.max) + 1);
    slider.dispatchEvent(new Event("input", {bubbles: true}));
  } else if (asked) document.querySelector(asked).click();
  const look = () => {
    const now = performance.now(), waits = document.querySelector(busy);
    if (first === null && text() !== before && !document.querySelector(changing + " .busy")) first = last = now;
    if (waits || (changing && first === null)) last = now;
    if (now - last < 400) setTimeout(look, 5);
    else done([(last - start) / 1000, first === null ? null : (first - start) / 1000]);
  };
  look();
})"""
"""Click or slide, then wait: seconds until nothing on the screen moves for 0.4 s, and until the text has changed."""


class Server:
    """The process of the workbench: its processor time, and its peak memory since it was last asked."""

    def __init__(self, process):
        self.place = Path("/proc", str(process.pid))
        self.before = 0.0

    def took(self):
        """Return processor seconds and peak megabytes since the last call."""
        fields = (self.place / "stat").read_text().rpartition(")")[2].split()
        used = (int(fields[11]) + int(fields[12])) / TICKS
        peak = int(re.search(r"VmHWM:\s+(\d+)", (self.place / "status").read_text())[1]) * 1024 / 1e6
        (self.place / "clear_refs").write_text("5")
        before, self.before = self.before, used
        return used - before, peak


@contextmanager
def served(path, folder):
    """Yield the address of a workbench with the file open, its process, and the seconds until it answered."""
    start, environment = time.perf_counter(), child.environment(folder / "caches")
    command = child.postrand("app", "--no-browser", path)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        try:
            yield process.stdout.readline().split()[-1], process, time.perf_counter() - start
        finally:
            process.terminate()
            process.wait(30)


def steps(page, url, server, start):
    """Yield each step with its seconds, processor seconds and megabytes."""

    def row(name, found):
        return name, found, *server.took()

    def after(asked, changing=None):
        return page.evaluate(QUIET, [asked, changing])

    def screen(name):
        return row(f"screen {name}", after(f"[data-screen={name}]")[0])

    yield row("start of the server", start)
    begin = time.perf_counter()
    page.goto(url)
    page.locator("table.variables tbody tr").first.wait_for()
    yield row("first screen", time.perf_counter() - begin)
    for name in files.NAMES:
        role = "key" if name in files.KEYS else "sensitive"
        page.select_option(f"[aria-label='Role of {name}']", role)
    after(None)
    while page.locator("[data-act=perturb]:not(:checked)").count():
        page.locator("[data-act=perturb]:not(:checked)").first.click()
        after(None)
    yield row("roles of ten variables", None)
    yield screen("risk")
    page.fill("[data-act=fraction]", SHARE)
    page.keyboard.press("Tab")
    yield row("risk with τ", after(None, "#risk")[0])
    yield screen("design")
    for _ in range(MOVES):
        whole, first = after("slide", "#readout")
        yield row(f"slider: read-out {first:.2f} s, whole screen", whole)
    yield from protected(page, row, "pressed at once", False)
    yield screen("design")
    yield row("another level", after("slide", "#readout")[0])
    yield from protected(page, row, "pressed when the risk is there", True)
    yield screen("compare")


def protected(page, row, name, reads):
    """Yield the steps from the click on the screen of the release to the release; ``reads``: once its risk is shown."""
    begin = time.perf_counter()
    page.evaluate("document.querySelector('[data-screen=protect]').click()")
    page.locator("#check h3").wait_for()
    page.locator("[data-act=protect]:not([disabled])").wait_for()
    yield row("release check: findings", time.perf_counter() - begin)
    if reads:
        page.locator("#check_risk table").wait_for()
        yield row("release check: risk, from the same click", time.perf_counter() - begin)
        page.wait_for_timeout(READING)
        yield row("read for some seconds", None)
    begin = time.perf_counter()
    page.click("[data-act=protect]")
    page.locator("[data-act=cancel]").wait_for()
    page.locator("#protect h3", has_text="Done").wait_for()
    yield row(f"protect, {name}", time.perf_counter() - begin)


def main(path):
    """Print a line for each step."""
    browser = next((found for name in NAMES if (found := shutil.which(name))), None)
    if browser is None:
        sys.exit("no Chromium on this machine")
    print(f"{'step':45} {'s':>7} {'CPU s':>7} {'peak MB':>8}")
    with tempfile.TemporaryDirectory() as made, sync_playwright() as playwright:
        with served(path, Path(made)):
            pass  # Python compiles its modules
        with served(path, Path(made)) as (url, process, start):
            page = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox"]).new_page()
            page.set_default_timeout(LONG)
            for name, seconds, used, peak in steps(page, url, Server(process), start):
                print(
                    f"{name:45} {'' if seconds is None else f'{seconds:7.2f}':>7} {used:7.2f} {peak:8.0f}", flush=True
                )


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else files.survey(Path(tempfile.gettempdir()))[0])
