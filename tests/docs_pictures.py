"""Make the pictures of the tutorials: `python -m tests.docs_pictures`. It needs Chromium, and takes a minute.

The curator's tutorial is run in a temporary folder with a release key of its own, so that the pictures show the figures
of the pages. A test compares the names below with the files and with what the pages show.
"""

import contextlib
import io
import tempfile
from pathlib import Path

from PIL import Image  # comes with matplotlib
from playwright.sync_api import Browser, Page, expect

from tests.browser import browsing, opened, workbench
from tests.conftest import ROOT
from tests.guides import run_page

KEY = "2006" * 16  # of the tutorials' release: for examples only
NAMES = (
    "workbench-risk",
    "workbench-protect",
    "report",
    "report-table",
    "decision",
    "decision-sign",
    "dossier-risk",
)
FOLDER = ROOT / "docs" / "pictures"
COLOURS = 64


def main() -> None:
    """Run the tutorial, and take every picture anew."""
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as made, contextlib.chdir(made), browsing() as browser:
        folder = Path(made)
        secret = folder / "release.key"
        secret.write_text(KEY)
        secret.chmod(0o600)
        run_page("tutorial.md", folder, secret=secret)
        pages(browser, folder)
        screens(browser, folder)


def pages(browser: Browser, folder: Path) -> None:
    """Take the pages that a release and its dossier have."""
    with opened(browser, (folder / "release" / "report.html").as_uri()) as page:
        keep(page, "report", 1100, 625)
        keep(page, "report-table", 1100, 225, top="A corrected table: female by educ")
    with opened(browser, (folder / "internal" / "decision.html").as_uri()) as page:
        keep(page, "decision", 1100, 830)
        keep(page, "decision-sign", 1100, 900, top="What is guaranteed, whatever an attacker knows")
    with opened(browser, (folder / "internal" / "dossier.html").as_uri()) as page:
        keep(page, "dossier-risk", 1100, 800, top="Risk before and after")


def screens(browser: Browser, folder: Path) -> None:
    """Take two screens of the workbench, with the tutorial's plan."""
    with workbench(folder / "advice" / "plan-1.toml") as url, opened(browser, url) as page:
        expect(page.locator("#status")).to_contain_text("2,986 records")
        page.click("[data-screen=risk]")
        expect(page.locator("#risk")).to_contain_text("Sample uniques")
        settled(page)
        keep(page, "workbench-risk", 1280, 785)
        page.click("[data-screen=protect]")
        expect(page.locator("#check")).to_contain_text("Released as in the file", timeout=60_000)
        settled(page)
        keep(page, "workbench-protect", 1280, 805)


def settled(page: Page) -> None:
    """Wait until nothing is being computed."""
    page.wait_for_timeout(500)
    expect(page.locator("main > section:not([hidden]) :is(.busy, .recalculating)")).to_have_count(0, timeout=60_000)


def keep(page: Page, name: str, width: int, height: int, top: str = "") -> None:
    """Write what the page shows, from the heading ``top`` on, as a small file: a palette in place of full colours."""
    assert name in NAMES
    page.set_viewport_size({"width": width, "height": height})
    if top:
        heading = page.get_by_role("heading", name=top, exact=True)
        heading.evaluate("found => { found.scrollIntoView(); window.scrollBy(0, -20); }")
    shown = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    shown.quantize(COLOURS, dither=Image.Dither.NONE).save(FOLDER / f"{name}.png", optimize=True)


if __name__ == "__main__":
    main()
