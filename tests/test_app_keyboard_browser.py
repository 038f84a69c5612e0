"""A whole session by the keyboard alone: from a file to a verified release, with a recode, a joint block and strata."""

import os
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from postrand import release
from tests.browser import browsing, opened, workbench

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.xdist_group("browser")]
LONG = 60_000
HAS = "all => all.includes(document.activeElement)"
"""Whether the control that has the focus is the wanted one."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with browsing() as found:
        yield found


def reach(page: Page, wanted: str, key: str = "Tab", most: int = 150) -> None:
    """Press Tab, or Shift+Tab, until a control has the focus; a person could not do otherwise without a mouse."""
    page.locator(wanted).first.wait_for()
    for _ in range(most):
        if page.locator(wanted).evaluate_all(HAS):
            return
        page.keyboard.press(key)
    raise AssertionError(f"{wanted} is not reached by {key}")


def choose(page: Page, wanted: str, words: str, key: str = "Tab") -> None:
    """Choose an entry of a list by typing the beginning of its words."""
    reach(page, wanted, key)
    page.keyboard.type(words)
    expect(page.locator(f"{wanted} option:checked").first).to_contain_text(words)


def write(page: Page, wanted: str, words: str, key: str = "Tab") -> None:
    reach(page, wanted, key)
    page.keyboard.press("Control+a")
    page.keyboard.type(words)
    page.keyboard.press("Tab")


def screen(page: Page, name: str) -> None:
    """Go to a screen by its button in the head of the page, from wherever the focus is; the title gets the focus."""
    page.keyboard.press("Control+Home")
    reach(page, f"[data-screen={name}]", "Shift+Tab")
    page.keyboard.press("Enter")
    expect(page.locator(f"#screen-{name} h2")).to_be_focused()


def picture(page: Page, name: str) -> None:
    """Keep what is seen, where a person wants to look at it."""
    if folder := os.environ.get("POSTRAND_PICTURES"):
        page.screenshot(path=f"{folder}/{name}.png", full_page=True)


def test_a_whole_session_by_keyboard(browser: Browser, shared_data: Path, tmp_path: Path) -> None:
    with workbench() as url, opened(browser, url) as page:
        expect(page.locator("table.variables tbody tr")).to_have_count(11, timeout=LONG)
        write(page, "[data-act=written][data-key=open]", str(shared_data / "household_survey_testdata.csv"))
        reach(page, "[data-act=open_typed]", "Shift+Tab")
        reach(page, "[data-act=open_typed]")
        page.keyboard.press("Enter")
        expect(page.locator("#status")).to_contain_text("4,580 records · 15 variables", timeout=LONG)
        roles = {
            "urbrur": "other",
            "relat": "key",
            "sex": "key",
            "age": "key",
            "income": "other",
            "ori_hid": "household",
        }
        for name, role in roles.items():
            choose(page, f"[aria-label='Role of {name}']", role)
        page.wait_for_timeout(1_500)  # what is typed is sent, and drawn
        for name, role in reversed(roles.items()):  # on a slow machine a browser takes one word for two: a person looks
            if role not in page.locator(f"[aria-label='Role of {name}'] option:checked").inner_text():
                choose(page, f"[aria-label='Role of {name}']", role, "Shift+Tab")
        reach(page, "[data-act=rest][data-key=drop]", "Shift+Tab")
        page.keyboard.press("Enter")
        expect(page.locator("#status")).to_contain_text("3 perturbed")
        picture(page, "1-roles")

        reach(page, "[aria-label='Edit age']")
        page.keyboard.press("Enter")
        expect(page.locator("#editor h3").first).to_be_focused()
        page.evaluate("(part => { part.innerHTML = part.innerHTML })(document.getElementById('editor'))")
        expect(page.locator("#editor h3").first).to_be_focused()  # also where the editor is drawn twice
        choose(page, "[data-act=typed][data-key='recode.kind']", "bands")
        write(page, "[data-act=typed][data-key='recode.bands']", "0, 15, 30, 45, 60")
        reach(page, "[data-act=try]")
        page.keyboard.press("Enter")
        expect(page.locator("#effect table").first).to_be_visible(timeout=LONG)
        picture(page, "2-age-in-bands")
        reach(page, "[data-act=recode]", "Shift+Tab")
        page.keyboard.press("Enter")
        expect(page.locator("table.variables tr", has_text="age")).to_contain_text("0-14", timeout=LONG)

        screen(page, "design")
        write(page, "#level-number", "2")
        reach(page, "summary:has-text('Released together')")
        page.keyboard.press("Enter")
        choose(page, "[data-act=block][data-key='6']", "with relat")
        expect(page.locator("#readout")).to_contain_text("relat × sex", timeout=LONG)
        reach(page, "summary:has-text('Strata: none')")
        page.keyboard.press("Enter")
        reach(page, "summary:has-text('Strata of relat × sex')")
        page.keyboard.press("Enter")
        reach(page, "[data-act=given]")
        page.keyboard.press("Space")
        expect(page.locator("#readout")).to_contain_text("urbrur", timeout=LONG)
        expect(page.locator("#every table").first.locator("tbody tr")).to_have_count(3, timeout=LONG)
        picture(page, "3-blocks-and-strata")

        screen(page, "protect")
        expect(page.locator("#check .findings")).to_be_visible(timeout=LONG)
        picture(page, "4-release-check")
        while page.locator("#check .findings .open").count():  # item by item
            reach(page, "#check .findings .open [data-act=drop]")
            name = page.evaluate("document.activeElement.textContent")
            page.keyboard.press("Enter")
            expect(page.locator(f"#check .findings .open button:has-text('{name}')")).to_have_count(0, timeout=LONG)
        reach(page, "[data-act=protect]")
        page.keyboard.press("Enter")
        expect(page.locator("#protect h3")).to_have_text("Done", timeout=LONG)
        picture(page, "5-done")

        screen(page, "compare")
        expect(page.locator("#compare")).to_contain_text("Risk before and after", timeout=LONG)
        picture(page, "6-before-and-after")
        screen(page, "take")
        reach(page, "[data-act=verify]")
        page.keyboard.press("Enter")
        expect(page.locator("#verification [role=status]")).to_have_text("Verified.", timeout=LONG)
        reach(page, "a:has-text('as one zip file')", "Shift+Tab")
        with page.expect_download() as got:
            page.keyboard.press("Enter")
        got.value.save_as(tmp_path / "release.zip")
        picture(page, "7-verified")
    with zipfile.ZipFile(tmp_path / "release.zip") as packed:
        packed.extractall(tmp_path / "release")
    made = release.read(tmp_path / "release")
    assert release.verify(tmp_path / "release").ok
    assert [(one.variables, one.given) for one in made.mechanism.blocks] == [
        (("urbrur", "relat", "sex"), ("urbrur",)),
        (("age",), ()),
    ]
    assert made.codebook["age"].size == 5
