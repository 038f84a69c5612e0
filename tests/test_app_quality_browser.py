"""The workbench in a browser: its address, its history, its focus, and every state at every size."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser import browsing, faults, fits, looked_at, opened, violations, workbench
from tests.test_app_browser import SCREENS, go, protect, settled

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.xdist_group("browser")]
LOOKS = {"light": {"width": 320, "height": 256}, "dark": {"width": 1920, "height": 1080}}
"""What 400 % leaves of a screen of 1,280 by 1,024, and a wide screen."""
DRAWN_ANEW = """() => {
  const box = document.activeElement, other = box.cloneNode(true);
  other.value = box.value;
  box.replaceWith(other);
}"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with browsing() as found:
        yield found


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    file = tmp_path_factory.mktemp("quality") / "mine.csv"
    file.write_text("sex,area,pay\n" + "".join(f"{'FM'[i % 2]},a{i % 3},{i % 5}\n" for i in range(300)))
    with workbench(file) as url:
        yield url


def shown(page: Page) -> str:
    return str(page.evaluate("document.querySelector('main > section:not([hidden])').id")).removeprefix("screen-")


def test_the_token_leaves_the_address_and_back_goes_from_screen_to_screen(browser: Browser, address: str) -> None:
    root = address.rsplit("/", 2)[0] + "/"
    with opened(browser, address) as page:
        expect(page.locator("table.variables tbody tr")).to_have_count(3)
        assert page.url == f"{root}#data"
        cookie = page.context.cookies()[0]
        assert (cookie["httpOnly"], cookie["sameSite"], cookie["path"]) == (True, "Strict", "/")
        assert cookie["value"] not in address
        assert page.evaluate("document.cookie") == ""
        for screen in ("risk", "design"):
            go(page, screen)
        assert page.title().startswith("Design")
        page.go_back()
        assert (shown(page), page.url) == ("risk", f"{root}#risk")
        expect(page.locator("#screen-risk h2")).to_be_focused()
        assert page.get_attribute("[data-screen=risk]", "aria-current") == "step"
        page.go_back()
        assert shown(page) == "data"
        page.go_forward()
        assert shown(page) == "risk"
        page.reload()
        expect(page.locator("#screen-risk")).to_be_visible()
        page.go_back()
        expect(page.locator("#screen-data")).to_be_visible()
        tab = page.context.new_page()  # another tab of this browser has the cookie, another browser has not
        answer = tab.goto(root)
        assert answer is not None
        assert "unsafe" not in answer.headers["content-security-policy"]
        expect(tab.locator("table.variables tbody tr")).to_have_count(3)
        stranger = browser.new_page()
        refused = stranger.goto(root)
        stranger.close()
        assert refused is not None
        assert refused.status == 404


def test_the_focus_and_what_is_open_stay_when_a_part_is_drawn_anew(browser: Browser, address: str) -> None:
    with opened(browser, address) as page:
        page.click("[data-act=rest][data-key=key]")
        expect(page.locator("#status")).to_contain_text("3 perturbed")
        go(page, "risk")
        expect(page.locator("#measures summary").first).to_be_visible(timeout=20_000)
        page.focus("#measures summary >> nth=0")
        page.keyboard.press("Enter")
        words = page.locator("#measures summary").first.inner_text()
        page.evaluate("document.querySelector('[data-act=fraction]').value = '10'")
        page.locator("[data-act=fraction]").dispatch_event("change")
        expect(page.locator("#measures .busy")).to_have_count(0)
        settled(page)
        again = page.locator("#measures details", has_text=words).first
        expect(again).to_have_attribute("open", "")
        expect(again.locator("summary").first).to_be_focused()
        go(page, "design")
        page.locator("#level-number").select_text()
        page.evaluate(DRAWN_ANEW)  # before the key that replaces what is marked
        page.keyboard.type("2")
        page.evaluate(DRAWN_ANEW)  # and before the next one
        page.keyboard.type("5")
        expect(page.locator("#level-number")).to_have_value("25")
        expect(page.locator("#history")).to_contain_text("25")  # what is not sent yet would undo what comes next
        go(page, "protect")
        expect(page.locator("[data-act=protect]")).to_be_enabled()
        page.focus("[data-act=protect]")
        page.keyboard.press("Enter")
        expect(page.locator("#protect h3")).to_have_text("Done", timeout=60_000)
        assert page.evaluate("document.activeElement.closest('#protect') !== null")  # and not lost at the page's top


def test_every_state_is_accessible_at_400_percent_and_on_a_wide_screen(
    browser: Browser, address: str, tmp_path: Path
) -> None:
    with opened(browser, address) as page:
        found: list[str] = []

        def look(state: str, usual: bool = False) -> None:
            settled(page)
            for scheme in looked_at(page, LOOKS):
                if not usual or scheme == "light":  # the usual states in dark colours are looked at elsewhere
                    found.extend(f"{state}, {scheme}: {one}" for one in violations(page))
                found.extend([] if fits(page) else [f"{state}, {scheme}: scrolls sideways"])
            page.set_viewport_size(LOOKS["light"])  # what follows is done at 400 %

        expect(page.locator("table.variables tbody tr")).to_have_count(3)
        for screen in SCREENS:  # nothing is decided yet: each says what is missing
            go(page, screen)
            look(f"{screen}, at first", usual=True)
        go(page, "data")
        (tmp_path / "bad.parquet").write_bytes(b"nothing")
        page.set_input_files("input[type=file]", tmp_path / "bad.parquet")
        expect(page.locator("#opening [role=alert]")).to_be_visible()
        look("a file that cannot be read")
        page.click("[data-act=rest][data-key=key]")
        expect(page.locator("#status")).to_contain_text("3 perturbed")
        go(page, "design")
        page.fill("#level-number", "0")
        expect(page.locator("#readout [role=alert]")).to_be_visible()
        look("a level that is none")
        page.fill("#level-number", "1")
        expect(page.locator("#map svg .step").first).to_be_visible()
        look("design", usual=True)
        page.evaluate("document.getElementById('lost').hidden = document.getElementById('ended').hidden = false")
        look("the connection is lost")
        protect(page)
        look("done", usual=True)
        page.click("[data-act=undo]")
        look("the choices have changed")
        go(page, "compare")
        expect(page.locator("#compare")).to_contain_text("Risk before and after", timeout=30_000)
        look("compare", usual=True)
        go(page, "take")
        look("take", usual=True)
        with page.expect_popup() as other:
            page.click("text=Two pages for the data protection officer")
        sheet = other.value
        sheet.wait_for_load_state()
        expect(sheet.locator("h1")).to_have_text("Decision on a release of mine.csv")
        found.extend(f"to sign: {one}" for one in faults(sheet, LOOKS))
        sheet.click("text=the public report")
        expect(sheet.locator("h1")).to_have_text("Microdata protected by post-randomisation")
        assert found == []
