"""The workbench and the reports in a real browser: the whole path, for everyone, with nothing asked of other hosts."""

import re
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from postrand import release
from tests.browser import browsing, faults, opened, violations, workbench
from tests.release_case import make

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.xdist_group("browser")]
SCREENS = ("data", "risk", "design", "protect", "compare", "take")
PROTECTED = "protected by post-randomisation"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with browsing() as found:
        yield found


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with workbench() as url:
        yield url


def go(page: Page, screen: str) -> None:
    page.click(f"[data-screen={screen}]")
    expect(page.locator(f"#screen-{screen}")).to_be_visible()


def settled(page: Page) -> None:
    """Wait until nothing on the screen shown is being computed."""
    page.wait_for_timeout(150)
    expect(page.locator("main > section:not([hidden]) :is(.busy, .recalculating)")).to_have_count(0, timeout=20_000)


def protect(page: Page) -> None:
    go(page, "protect")
    page.click("text=Protect the file")
    expect(page.locator("#protect h3")).to_have_text("Done", timeout=60_000)


def test_the_whole_path_on_the_demonstration(browser: Browser, address: str, tmp_path: Path) -> None:
    with opened(browser, address) as page:
        expect(page.locator("h2").first).to_be_visible()
        expect(page.locator("table.variables tbody tr")).to_have_count(11)
        expect(page.locator("#status")).to_contain_text("17,137 records · 11 variables · 8 perturbed")
        page.select_option("[data-act=role][data-key='7']", "other")
        expect(page.locator("#status")).to_contain_text("7 perturbed")
        assert not page.is_checked("[data-act=perturb][data-key='7']")

        go(page, "risk")
        expect(page.locator("#risk")).to_contain_text("Sample uniques")
        page.fill("[data-act=fraction]", "1")
        page.keyboard.press("Tab")
        settled(page)
        expect(page.locator("#risk")).to_contain_text(re.compile(r"τ1, population uniques\s*\d"))

        page.click("text=Show the most exposed records")
        expect(page.locator("#records")).to_contain_text("Confidential: these are values of persons")
        page.reload()
        expect(page.locator("#records")).to_contain_text("Show the most exposed records")
        expect(page.locator("#records")).not_to_contain_text("Confidential")

        go(page, "design")
        expect(page.locator("#map svg .step")).to_have_count(13)
        before = page.locator("#readout").inner_text()
        page.focus("#level-slider")
        page.keyboard.press("ArrowRight")
        expect(page.locator("#readout")).not_to_have_text(before)
        assert page.input_value("#level-number") == "1.1"
        page.select_option("[data-act=shown]", label="workstat")
        expect(page.locator("#matrix table.heat tbody tr")).to_have_count(9)
        page.select_option("[data-act=model]", "bistochastic")
        expect(page.locator("#level")).to_contain_text("β of each variable")
        page.select_option("[data-act=model]", "differential")
        expect(page.locator("#level-number")).to_have_value("1.1")
        page.select_option("[data-act=structure]", "uniform-off-diagonal")

        protect(page)
        go(page, "compare")
        expect(page.locator("#compare")).to_contain_text("Risk before and after", timeout=30_000)
        page.select_option("[data-act=pair][data-key=first]", label="female")
        expect(page.locator("#compare h3", has_text=re.compile("^female by "))).to_be_visible()
        go(page, "take")
        plan = tomllib.loads(page.locator("#take code").first.text_content() or "")
        assert [b["privacy"]["epsilon"] for b in plan["blocks"]] == [1.1] * 7
        with page.expect_download() as got:
            page.click("text=The release, as one zip file")
        got.value.save_as(tmp_path / "release.zip")
    with zipfile.ZipFile(tmp_path / "release.zip") as packed:
        packed.extractall(tmp_path / "release")
    assert release.verify(tmp_path / "release").ok


def test_the_new_york_sample(browser: Browser, address: str, shared_data: Path) -> None:
    with opened(browser, address) as page:
        expect(page.locator("table.variables tbody tr")).to_have_count(11)
        page.set_input_files("input[type=file]", shared_data / "ny_pums_2000_sample.csv")
        expect(page.locator("#status")).to_contain_text("ny_pums_2000_sample.csv · 20,000 records · 10 variables")
        page.click("[data-act=rest][data-key=key]")
        expect(page.locator("#status")).to_contain_text("10 perturbed")
        go(page, "risk")
        settled(page)
        expect(page.locator("#explored")).to_contain_text("Worst combinations of keys")
        go(page, "design")
        expect(page.locator("#map svg .step")).to_have_count(13)
        protect(page)
        go(page, "compare")
        expect(page.locator("#compare")).to_contain_text("Risk before and after", timeout=30_000)


def test_every_screen_is_accessible(browser: Browser, address: str) -> None:
    with opened(browser, address) as page:
        expect(page.locator("table.variables tbody tr")).to_have_count(11)
        protect(page)
        for screen in SCREENS:
            go(page, screen)
            settled(page)
            if screen == "compare":
                expect(page.locator("#compare")).to_contain_text("Risk before and after", timeout=30_000)
            if screen == "risk":
                expect(page.locator("#measures")).to_contain_text("Measure by measure", timeout=30_000)
            for summary in page.locator(f"#screen-{screen} summary").all():
                summary.click()
            assert faults(page) == [], screen
        for words in ("The public report", "The internal report", "Two pages for the data protection officer"):
            with page.expect_popup() as shown:
                page.click(f"text={words}")
            shown.value.wait_for_load_state()
            title = "Decision on a release of gss.parquet" if "Two" in words else f"Microdata {PROTECTED}"
            assert shown.value.locator("h1").inner_text() == title
            assert faults(shown.value) == [], words
            if words == "The internal report":  # a matrix has other information under other shares: each says which
                said = shown.value.locator("body")
                expect(said).to_contain_text("Value and bound are computed under the shares of the column Under")
                expect(said.locator("td", has_text="all values equally frequent").first).to_be_visible()
                expect(said).to_contain_text("Computed under this variable's own shares in the file")


def test_the_check_finds_what_is_not_accessible(browser: Browser) -> None:
    page = browser.new_page()
    page.set_content(
        "<html><body><p style='color:#aaa;background:#fff'>pale</p><select></select><img src='x'></body></html>"
    )
    found = " ".join(violations(page))
    for rule in ("color-contrast", "html-has-lang", "image-alt", "select-name", "document-title"):
        assert rule in found
    page.close()


def test_a_long_run_can_be_stopped(browser: Browser, shared_data: Path) -> None:
    with workbench(shared_data / "ny_like_population_953076.parquet") as url, opened(browser, url) as page:
        expect(page.locator("#status")).to_contain_text("953,076 records", timeout=60_000)
        page.click("[data-act=rest][data-key=key]")
        go(page, "protect")
        page.click("text=Protect the file")
        page.click("text=Cancel")
        expect(page.locator("#protect [role=alert]")).to_contain_text(
            "Cancelled: nothing was released.", timeout=60_000
        )
        expect(page.locator("text=Protect the file")).to_be_enabled()


def test_a_reload_keeps_everything_and_tabs_are_apart(browser: Browser, address: str) -> None:
    with opened(browser, address) as page:
        expect(page.locator("table.variables tbody tr")).to_have_count(11)
        page.select_option("[data-act=role][data-key='0']", "drop")
        expect(page.locator("#status")).to_contain_text("7 perturbed")
        go(page, "design")
        page.fill("#level-number", "0.4")
        expect(page.locator("#readout")).to_contain_text("2.8")
        other = page.context.new_page()
        other.goto(address)
        expect(other.locator("#status")).to_contain_text("8 perturbed")
        other.select_option("[data-act=role][data-key='1']", "drop")
        other.select_option("[data-act=role][data-key='2']", "drop")
        expect(other.locator("#status")).to_contain_text("6 perturbed")
        page.reload()
        expect(page.locator("#screen-design")).to_be_visible()
        expect(page.locator("#status")).to_contain_text("7 perturbed")
        expect(page.locator("#level-number")).to_have_value("0.4")


def test_a_reload_during_the_run_finds_it_again(browser: Browser, address: str) -> None:
    with opened(browser, address) as page:
        expect(page.locator("table.variables tbody tr")).to_have_count(11)
        go(page, "protect")
        page.click("text=Protect the file")
        page.reload()
        expect(page.locator("#protect h3")).to_have_text("Done", timeout=60_000)


def test_bad_input_is_explained_and_nothing_is_lost(browser: Browser, address: str, tmp_path: Path) -> None:
    bad = {"x.parquet": b"nothing", "locked.sav": b"$FL2@(#)ENCRYPTEDSAV" + bytes(99), "x.doc": b"word"}
    said = ("not a readable Parquet file", "protected by a password", "unknown file type")
    with opened(browser, address) as page:
        expect(page.locator("table.variables tbody tr")).to_have_count(11)
        (tmp_path / "mine.csv").write_text("sex,age,job\n" + "F,1,x\nM,2,y\n" * 90)
        page.set_input_files("input[type=file]", tmp_path / "mine.csv")
        expect(page.locator("table.variables tbody tr")).to_have_count(3)
        expect(page.locator("#status")).to_contain_text("mine.csv · 180 records")  # all of the file is there: click now
        page.click("[data-act=rest][data-key=key]")
        expect(page.locator("#status")).to_contain_text("3 perturbed")
        (tmp_path / "mine.csv").write_text("sex,age\nF\n")  # the same name, and no longer readable
        bad["mine.csv"] = (tmp_path / "mine.csv").read_bytes()
        for (name, data), words in zip(bad.items(), (*said, "the row has too many or too few fields"), strict=True):
            (tmp_path / name).write_bytes(data)
            page.set_input_files("input[type=file]", tmp_path / name)
            expect(page.locator("#opening [role=alert]")).to_contain_text(words)
            expect(page.locator("#status")).to_contain_text("mine.csv · 180 records · 3 variables · 3 perturbed")
        go(page, "design")
        for value, words in (("0", "epsilon"), ("", "cannot be read"), ("1e-300", "epsilon")):
            page.fill("#level-number", value)
            expect(page.locator("#readout [role=alert]")).to_contain_text(words)
        protect_now = page.locator("#protect")
        go(page, "protect")
        expect(protect_now.locator("[role=alert]")).to_contain_text("epsilon")
        expect(page.locator("text=Protect the file")).to_be_disabled()  # said before anything is tried
        go(page, "design")
        page.fill("#level-number", "2")
        expect(page.locator("#readout")).to_contain_text("Released unchanged")


def test_markup_in_names_is_text_and_many_columns_are_paged(browser: Browser, address: str, tmp_path: Path) -> None:
    evil = "<img src=x onerror=alert(1)>"
    columns = [f"{evil}{i}" for i in range(1500)]
    rows = [columns, *([f"{evil}{(i + r) % 2}" for i in range(1500)] for r in range(9))]
    (tmp_path / "x.csv").write_text("".join(",".join(row) + "\n" for row in rows))
    with opened(browser, address) as page:
        page.set_input_files("input[type=file]", tmp_path / "x.csv")
        expect(page.locator("#status")).to_contain_text("1,500 variables", timeout=30_000)
        assert page.locator("img").count() == 0
        page.fill("[data-act=find]", "1499")
        expect(page.locator("table.variables tbody tr")).to_have_count(1)
        expect(page.locator("[data-act=find]")).to_be_focused()
        page.select_option("[data-act=role]", "key")
        page.click("[data-act=rest][data-key=drop]")
        expect(page.locator("#status")).to_contain_text("1 perturbed")
        protect(page)
        go(page, "compare")
        expect(page.locator("#compare")).to_contain_text(f"{evil}1499", timeout=30_000)
        assert page.locator("img").count() == 0


def test_nobody_gets_in_without_the_token(browser: Browser, address: str) -> None:
    root = address.rsplit("/", 2)[0]
    page = browser.new_page()
    for path in ("/", "/x/", "/" + "A" * 32 + "/"):
        response = page.goto(root + path)
        assert response is not None
        assert response.status == 404
    response = page.goto(f"{address}files/0000000000000000/plan.toml")
    assert response is not None
    assert response.status == 404
    page.close()


def test_the_report_is_accessible_and_asks_no_one(browser: Browser, tmp_path: Path) -> None:
    made = make(tmp_path / "release")
    page_url = (made.path / "report.html").as_uri()
    with opened(browser, page_url) as page:
        # The page forbids scripts to itself; axe comes in by the debugger's door.
        assert faults(page) == []


def test_a_file_of_the_command_line_is_opened_and_what_is_left_is_said_when_the_server_stops(
    browser: Browser, tmp_path: Path
) -> None:
    (tmp_path / "mine.csv").write_text("sex,age\n" + "F,1\nM,2\n" * 20)
    page = browser.new_page()  # the console may say that the server is gone
    with workbench(tmp_path / "mine.csv") as url:
        page.goto(url)
        expect(page.locator("#status")).to_contain_text("mine.csv · 40 records · 2 variables · 0 perturbed")
        go(page, "protect")
        expect(page.locator("#protect [role=alert]")).to_contain_text("variables without a role: sex, age")
        assert page.is_disabled("text=Protect the file")
        go(page, "data")
        page.select_option("[data-act=role][data-key='0']", "key")
        expect(page.locator("#status")).to_contain_text("1 perturbed")
        page.evaluate("window.Shiny.shinyapp.$socket.close()")  # the line breaks, and the server is there
        expect(page.locator("#lost")).to_contain_text("Reload this page: everything is kept.")
        expect(page.locator("#ended")).to_be_hidden()
        page.reload()
        expect(page.locator("#status")).to_contain_text("1 perturbed")
    expect(page.locator("#ended")).to_contain_text("only what you saved or downloaded is left")
    expect(page.locator("#lost")).to_be_hidden()  # a reload would find nothing: it is not promised
    page.close()
