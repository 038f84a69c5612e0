"""A release cannot go wrong silently: the defects of earlier workbenches, replayed in a real browser."""

import re
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser import browsing, opened, violations, workbench
from tests.test_app_browser import go

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.xdist_group("browser")]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with browsing() as found:
        yield found


def accessible(page: Page) -> None:
    assert violations(page) == []


def test_a_release_stays_what_it_is(browser: Browser, tmp_path: Path) -> None:
    with workbench() as url, opened(browser, url) as page:
        expect(page.locator("table.variables tbody tr")).to_have_count(11, timeout=20_000)

        # A shape that is not possible was shown, and another one released.
        go(page, "design")
        impossible = page.locator("[data-act=structure] optgroup option").first
        before = page.input_value("[data-act=structure]")
        page.select_option("[data-act=structure]", str(impossible.get_attribute("value")))
        expect(page.locator("#problem")).to_contain_text("not possible with the other choices")
        expect(page.locator("[data-act=structure]")).to_have_value(before)
        go(page, "protect")
        expect(page.locator("#problem [role=alert]")).to_have_count(0)  # it does not follow to other screens

        # Columns in clear were not listed, and findings were swallowed.
        expect(page.locator("#check")).to_contain_text("Released as in the file: happy, attend, income", timeout=90_000)
        expect(page.locator("#check")).to_contain_text("single out")

        # The risk was told after the decision.
        first = page.locator("#check_risk tbody tr").first
        expect(first).to_contain_text("Correct matches: persons found, informed attacker", timeout=90_000)
        decided_on = first.inner_text()
        page.click("#check_risk >> text=Look at the risk of the file")
        expect(page.locator("#screen-risk h2")).to_be_visible()
        page.go_back()
        accessible(page)
        page.click("text=Protect the file")
        expect(page.locator("#protect h3")).to_have_text("Done", timeout=60_000)
        expect(page.locator("#protect tbody tr", has_text="Correct matches: persons found")).to_have_text(
            re.compile(re.escape(decided_on.split()[-2]))
        )
        expect(page.locator("#check_risk table")).to_have_count(0)  # it is that of the release, and stands beside it
        expect(page.locator("#protect")).to_contain_text("Released as in the file: happy, attend, income")

        # The plan of other decisions was shown beside the release.
        go(page, "design")
        page.fill("#level-number", "3")
        expect(page.locator("#readout")).to_contain_text("24")
        for screen in ("protect", "compare", "take"):
            go(page, screen)
            changed = page.locator(f"#screen-{screen} .warning", has_text="made with other decisions")
            expect(changed).to_contain_text("ε of each variable or block: 1 → 3", timeout=90_000)
            if screen == "protect":
                expect(first).to_contain_text("Correct matches: persons found", timeout=90_000)
                assert first.inner_text() != decided_on  # of the plan as it is now
        plan = tomllib.loads(page.locator("#take code").first.text_content() or "")
        assert [b["privacy"]["epsilon"] for b in plan["blocks"]] == [1.0] * 8
        accessible(page)

        # Another file took the release away without a question.
        go(page, "data")
        page.click("text=Use the demonstration survey")
        expect(page.locator("#history")).to_contain_text("the file")
        go(page, "take")
        expect(page.locator("#releases .shelf > li")).to_have_count(1)
        page.click("#releases >> text=Return to the decisions of this release")
        expect(page.locator("#releases .warning")).to_have_count(0)
        expect(page.locator("#releases")).to_contain_text("of the decisions now")

        # Verification, saving and removal beside the download.
        page.click("text=Verify this release")
        expect(page.locator("#verification pre")).to_contain_text("The release is what it claims to be", timeout=60_000)
        folder = tmp_path / "mine"
        page.fill("#downloads [data-act=written][type=text]", str(folder))
        page.keyboard.press("Enter")
        expect(page.locator("#downloads")).to_contain_text(f"Saved in {folder}")
        page.click("#releases >> text=Remove …")
        expect(page.locator("#releases [role=alert]")).to_contain_text("Its files are deleted")
        accessible(page)
        page.click("text=Yes, remove it")
        expect(page.locator("#releases .shelf > li")).to_have_count(0)

        # A saved project is opened again, with its release.
        go(page, "data")
        page.fill("#by_path [data-act=written]", str(folder))
        page.keyboard.press("Enter")
        go(page, "take")
        expect(page.locator("#releases")).to_contain_text("of the decisions now", timeout=90_000)
        expect(page.locator("#downloads")).to_contain_text(f"Saved in {folder}")
        with page.expect_download() as got:
            page.click("text=The release, as one zip file")
        assert zipfile.is_zipfile(got.value.path())
        accessible(page)
        go(page, "protect")
        expect(page.locator("#protect h3")).to_have_text("Done")
        expect(page.locator("#check")).to_contain_text("Released as in the file: happy, attend, income", timeout=90_000)
        expect(page.locator("#history .row")).to_have_attribute("data-heard", re.compile("[1-9]"))
        for _ in range(2):
            page.click("text=Undo the last decision")
        page.click("#history >> text=Redo")
