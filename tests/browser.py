"""A headless Chromium, the pages it opens, and what they must never do."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect, sync_playwright

expect.set_options(timeout=20_000)  # another worker can have both cores for a while
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
WCAG = {
    "runOnly": {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]},
    "resultTypes": ["violations"],  # what passes is counted, not described
    "preload": False,  # only a rule that is not asked for reads style sheets, and a page that is a file may not
}
WIDE, NARROW = {"width": 1280, "height": 900}, {"width": 390, "height": 844}
LOOKS = {"light": WIDE, "dark": NARROW}  # each colour and each width once: colours know no width


def chromium() -> str:
    """Return the path of an installed Chromium; skips where there is none, and fails instead where CI is true."""
    found = next((path for name in NAMES if (path := shutil.which(name))), None)
    if found is None:
        say = pytest.fail if os.environ.get("CI") == "true" else pytest.skip
        say("no Chromium on this machine: run 'make services'")
    return str(found)


@contextmanager
def browsing() -> Iterator[Browser]:
    """Yield a browser for a module's tests."""
    path = chromium()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


@dataclass
class Watched:
    """What pages said on the console and which hosts they asked."""

    said: list[str] = field(default_factory=list)
    hosts: set[str] = field(default_factory=set)

    def watch(self, page: Page) -> Page:
        page.on("console", lambda m: self.said.append(m.text) if m.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: self.said.append(str(error)))
        page.on("request", lambda request: self.hosts.add(urlparse(request.url).netloc))
        page.on("websocket", lambda socket: self.hosts.add(urlparse(socket.url).netloc))
        return page


@contextmanager
def opened(browser: Browser, url: str, **context: Any) -> Iterator[Page]:
    """Yield a page; on leaving, its console must be free of errors and no other host may have been asked."""
    watched = Watched()
    held = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **context})
    page = watched.watch(held.new_page())
    page.set_default_timeout(20_000)
    page.goto(url)
    yield page
    broken = page.locator(".shiny-output-error").all_inner_texts()
    held.close()
    assert broken == []  # a part of the workbench that cannot be drawn
    assert watched.said == []
    assert watched.hosts - {urlparse(url).netloc, ""} == set()


def looked_at(page: Page, looks: Mapping[str, Any] = LOOKS) -> Iterator[str]:
    """Show the same state in each look, so that what it took to get there is done once; yield the names of colours."""
    for scheme, size in looks.items():
        page.emulate_media(color_scheme=scheme)
        page.set_viewport_size(size)
        yield scheme


def faults(page: Page, looks: Mapping[str, Any] = LOOKS) -> list[str]:
    """Return what is not accessible in each look, and where the page scrolls sideways."""
    found = []
    for look in looked_at(page, looks):
        found += [f"{look}: {one}" for one in violations(page)]
        found += [] if fits(page) else [f"{look}: scrolls sideways"]
    return found


def fits(page: Page) -> bool:
    return bool(page.evaluate("document.documentElement.scrollWidth <= innerWidth"))


def violations(page: Page) -> list[str]:
    """Return what axe finds against WCAG A and AA, one line each."""
    found = Axe().run(page, options=WCAG).response["violations"]
    return [f"{v['id']}: {node['target']} {node['failureSummary']}" for v in found for node in v["nodes"][:4]]


@contextmanager
def workbench(*arguments: str | Path) -> Iterator[str]:
    """Start ``postrand app`` as a person would, yield its address, and stop it."""
    command = [
        sys.executable,
        "-c",
        "from postrand.cli import main; main()",
        "app",
        "--no-browser",
        *map(str, arguments),
    ]
    with (
        tempfile.TemporaryDirectory() as made,
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "TMPDIR": made}
        ) as process,
    ):
        folder = Path(made)
        assert process.stdout is not None
        assert process.stderr is not None
        found = re.search(r"http://127\.0\.0\.1:\d+/[\w-]{32}/", process.stdout.readline())
        try:
            assert found, process.stderr.read()
            yield found[0]
            assert process.poll() is None, "the server has fallen"
        finally:
            process.terminate()
            errors = process.stderr.read()
            process.wait(20)
        assert "Traceback" not in errors, errors
        assert list(folder.iterdir()) == [], "working files were left behind"
