"""The built site in a browser: `make docs` runs this, and `make test` does not, since it needs the site."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser import browsing, opened, violations
from tests.conftest import ROOT

pytestmark = pytest.mark.browser
SITE = ROOT / "site"
PAGES = sorted(page.relative_to(SITE).as_posix() for page in SITE.rglob("*.html") if "_static" not in page.parts)

DARK = [
    "index.html",
    "search.html",
    "docs/tutorial.html",
    "docs/reference.html",
    "docs/ten-pictures.html",
    "docs/r.html",
]
"""In the dark one page of each kind is asked: all have the same parts and colours."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with browsing() as found:
        yield found


def address(page: str) -> str:
    return (SITE / page).as_uri()


def sideways(page: Page) -> bool:
    return bool(page.evaluate("document.documentElement.scrollWidth > innerWidth"))


def test_nothing_comes_from_elsewhere() -> None:
    loads = re.compile(r"<(?:script|img|iframe|link)\b[^>]*(?:src|href)=\"(?:https?:)?//[^\"]*\"")
    assert PAGES
    assert {page: found for page in PAGES if (found := loads.findall((SITE / page).read_text("utf-8")))} == {}
    styles = "".join(path.read_text("utf-8") for path in SITE.rglob("*.css"))
    assert re.findall(r"(?:@import|url\()\s*[\"']?(?:https?:)?//", styles) == []


@pytest.mark.parametrize(("scheme", "width"), [("light", 390), ("dark", 1920)])
def test_every_page_is_accessible(browser: Browser, scheme: str, width: int) -> None:
    found = []
    with opened(browser, address("index.html"), viewport={"width": width, "height": 1000}, color_scheme=scheme) as page:
        for name in PAGES if scheme == "light" else DARK:
            page.goto(address(name))
            assert page.get_attribute("html", "data-theme") == scheme, name
            found += [f"{name}: {one}" for one in violations(page)]
    assert found == []


def test_no_page_scrolls_sideways_and_scripts_are_not_needed_to_read(browser: Browser) -> None:
    wide = []
    with opened(browser, address("index.html"), java_script_enabled=False) as page:
        for name in PAGES:
            page.goto(address(name), wait_until="load")
            for width in (390, 1920):
                page.set_viewport_size({"width": width, "height": 1000})
                wide += [f"{name} at {width}"] if sideways(page) else []
    assert wide == []


def test_the_keyboard_skips_to_the_text_and_searches(browser: Browser) -> None:
    with opened(browser, address("docs/tutorial.html")) as page:
        page.keyboard.press("Tab")
        expect(page.locator(":focus")).to_have_text("Skip to main content")
        page.keyboard.press("Enter")
        expect(page).to_have_url(re.compile("#main-content$"))
        page.keyboard.press("Control+k")
        page.keyboard.type("microaggregate")
        page.keyboard.press("Enter")
        expect(page).to_have_url(re.compile("search.html"))
        expect(page.locator("ul.search li a", has_text="Reference of the command line").first).to_be_visible()
        assert violations(page) == []
