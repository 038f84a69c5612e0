"""A split in the workbench, in a real browser: from the choice to the release, accessible to everyone."""

import re
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from postrand import release
from tests.browser import browsing, faults, opened, workbench
from tests.test_app_browser import go, settled
from tests.test_app_split import SPLIT, other_plan

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.xdist_group("browser")]
LONG = 60_000


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with browsing() as found:
        yield found


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with workbench() as url:
        yield url


def keys_only(page: Page) -> None:
    """Drop the variables that would be released unperturbed: then the file has a level."""
    expect(page.locator("table.variables tbody tr")).to_have_count(11)
    for name in ("happy", "attend", "income"):
        page.select_option(f"[aria-label='Role of {name}']", "drop")
    expect(page.locator("#status")).to_contain_text("8 perturbed")


def split(page: Page) -> None:
    go(page, "design")
    page.select_option("[data-act=way]", "split")
    expect(page.locator("#readout")).to_contain_text("effective records", timeout=LONG)


def test_from_the_choice_to_the_release(browser: Browser, address: str, tmp_path: Path) -> None:
    with opened(browser, address) as page:
        keys_only(page)
        split(page)
        expect(page.locator("#level-number")).to_have_value("8", timeout=LONG)
        expect(page.locator("#readout")).to_contain_text("All 28 tables")
        expect(page.locator("#map svg.together rect")).to_have_count(36)
        expect(page.locator("#matrix")).to_be_empty()
        page.select_option("[data-act=workload]", "worst")
        expect(page.locator("#readout")).to_contain_text("The least precise table", timeout=LONG)
        page.select_option("[data-act=workload]", "pairs")
        page.select_option("[data-act=goal]", "file")
        expect(page.locator("#level")).to_contain_text("ε of the file")
        expect(page.locator("#file_level")).to_contain_text("ε of the whole file, δ = 1e-07", timeout=LONG)
        page.click("text=Compare blocks and a split")
        expect(page.locator("#against")).to_contain_text("Best joint blocks", timeout=2 * LONG)
        expect(page.locator("#against tr.same")).to_contain_text("Split")

        go(page, "protect")
        expect(page.locator("#protect")).to_contain_text("To be perturbed, as a split: year")
        page.click("text=Protect the file")
        expect(page.locator("#protect h3")).to_have_text("Done", timeout=LONG)
        expect(page.locator("#protect")).to_contain_text("The whole file: its 17,137 records are in random order")
        go(page, "compare")
        expect(page.locator("#compare")).to_contain_text(re.compile(r"[\d,]+ records show both"), timeout=LONG)
        expect(page.locator("#compare")).to_contain_text("Risk before and after", timeout=LONG)
        go(page, "take")
        plan = tomllib.loads(page.locator("#take code").first.text_content() or "")
        assert plan["privacy"] == {"model": "differential", "file_epsilon": 1.0, "delta": 1e-7}
        assert len(plan["split"]["variables"]) == 8
        with page.expect_download() as got:
            page.click("text=The release, as one zip file")
        got.value.save_as(tmp_path / "release.zip")
    with zipfile.ZipFile(tmp_path / "release.zip") as packed:
        packed.extractall(tmp_path / "release")
    assert release.verify(tmp_path / "release").ok


def test_conditions_that_fail_are_said_and_nothing_is_lost(browser: Browser, address: str) -> None:
    with opened(browser, address) as page:
        expect(page.locator("table.variables tbody tr")).to_have_count(11)
        split(page)
        page.select_option("[data-act=goal]", "file")
        expect(page.locator("#readout [role=alert]")).to_contain_text("happy", timeout=LONG)  # released unperturbed
        page.select_option("[data-act=goal]", "stated")
        expect(page.locator("#file_level [role=alert]")).to_contain_text("happy", timeout=LONG)
        page.fill("[data-key='file.delta']", "much")
        page.keyboard.press("Tab")
        expect(page.locator("#readout [role=alert]")).to_contain_text("'δ' cannot be read")
        page.select_option("[data-act=goal]", "record")
        page.fill("#level-number", "0")
        expect(page.locator("#readout [role=alert]")).to_contain_text("epsilon", timeout=LONG)
        page.select_option("[data-act=way]", "blocks")
        expect(page.locator("#readout")).to_contain_text("Released unchanged")
        assert page.input_value("#level-number") == "1"


def test_blocks_share_what_the_file_leaves(browser: Browser, address: str) -> None:
    with opened(browser, address) as page:
        keys_only(page)
        go(page, "design")
        expect(page.locator("#against button")).to_have_text("Compare blocks and a split")
        page.select_option("[data-act=goal]", "file")
        expect(page.locator("#readout")).to_contain_text("Released unchanged", timeout=LONG)
        expect(page.locator("#file_level")).to_contain_text("ε of the whole file", timeout=LONG)
        expect(page.locator("#map svg .step")).to_have_count(13, timeout=LONG)


def test_a_split_is_accessible(browser: Browser, address: str) -> None:
    with opened(browser, address) as page:
        expect(page.locator("table.variables tbody tr")).to_have_count(11)
        page.select_option("[aria-label='Role of educ']", "drop")
        split(page)
        page.select_option("[data-act=goal]", "stated")
        expect(page.locator("#file_level [role=alert]")).to_be_visible(timeout=LONG)
        settled(page)
        for summary in page.locator("#screen-design summary").all():
            summary.click()
        assert faults(page) == []


def test_a_plan_is_opened_and_written_again(browser: Browser, tmp_path: Path) -> None:
    with workbench(other_plan(tmp_path, SPLIT)) as url, opened(browser, url) as page:
        expect(page.locator("#status")).to_contain_text("survey.parquet · 3,000 records · 4 variables · 3 perturbed")
        go(page, "design")
        expect(page.locator("#readout")).to_contain_text("All 2 tables: effective records", timeout=LONG)
        expect(page.locator("#map [role=alert]")).to_contain_text("sex × born")
        go(page, "take")
        plan = tomllib.loads(page.locator("#take code").first.text_content() or "")
        assert plan["split"] == tomllib.loads(SPLIT)["split"]
        go(page, "data")
        page.set_input_files("input[type=file]", tmp_path / "plan.toml")
        expect(page.locator("#opening [role=alert]")).to_contain_text("run postrand app plan.toml")
