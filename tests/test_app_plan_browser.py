"""The whole plan in a real browser: a file as people have it, edited, put into a joint block, and released."""

import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Browser, expect

from postrand import release
from tests.browser import browsing, opened, violations, workbench
from tests.test_app_browser import go, protect, settled

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.xdist_group("browser")]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with browsing() as found:
        yield found


def survey(folder: Path) -> Path:
    rng = np.random.default_rng(2)
    columns = (rng.choice(["männlich", "weiblich"], 800), rng.choice(list("nesw"), 800), rng.integers(18, 90, 800))
    rows = zip(*columns, strict=True)
    text = "Geschlecht;Ort;Alter\n" + "".join(f"{a};{b};{c}\n" for a, b, c in rows)
    (folder / "Umfrage 2024.csv").write_bytes(text.encode("windows-1252"))
    return folder / "Umfrage 2024.csv"


def test_from_a_semicolon_file_to_a_joint_block(browser: Browser, tmp_path: Path) -> None:
    with workbench() as address, opened(browser, address) as page:
        expect(page.locator("table.variables tbody tr")).to_have_count(11)
        page.set_input_files("input[type=file]", survey(tmp_path))
        expect(page.locator("#opening")).to_contain_text("Umfrage 2024.csv: the file is not UTF-8")
        expect(page.locator("#preview pre")).to_contain_text("weiblich;")
        expect(page.locator("[data-key='read.encoding'] option[value='koi8-r']")).to_have_text("koi8-r (Russian)")
        assert violations(page) == []
        page.select_option("[data-key='read.encoding']", "windows-1252")
        page.click("text=Read it so")
        expect(page.locator("#status")).to_contain_text("Umfrage 2024.csv · 800 records · 3 variables")
        page.click("text=first rows, and how it is read")
        expect(page.locator("#preview")).to_contain_text("männlich")
        for k, role in enumerate(("key", "key", "key")):
            page.select_option(f"[data-act=role][data-key='{k}']", role)

        page.click("[data-act=edit][data-key='2']")
        expect(page.locator("#editor-card h3[data-focus]")).to_be_focused()
        page.select_option("[data-key='recode.kind']", "bands")
        page.fill("[data-key='recode.bands']", "18, 40, 65")
        page.click("text=Show what it changes")
        expect(page.locator("#effect")).to_contain_text("72 → 3")
        assert violations(page) == []
        page.click("[data-act=recode]")
        expect(page.locator("table.variables tbody tr", has_text="Alter")).to_contain_text("18-39, 40-64, 65+")
        page.fill("[data-key='2:label']", "Age")
        page.keyboard.press("Tab")
        page.click("#editor-card >> text=Close")
        expect(page.locator("table.variables tbody tr", has_text="Alter")).to_contain_text("Age")

        go(page, "design")
        page.click("text=Released together: none")
        page.select_option("[data-act=block][data-key='1']", label="with Geschlecht")
        settled(page)
        expect(page.locator("#readout")).to_contain_text("Geschlecht × Ort")
        page.click("text=Draw all levels")
        expect(page.locator(".dot")).not_to_have_count(0, timeout=60_000)
        page.click("[data-act=point][data-key='blocks:4'] >> visible=true >> nth=-1")
        expect(page.locator("#level-number")).to_have_value("2")
        expect(page.locator("#points")).to_contain_text("In use")
        settled(page)
        assert violations(page) == []
        page.click("text=Recommend plans")
        page.click("[data-act=advise]")
        expect(page.locator("#advice table")).to_contain_text("in the recoded file → after", timeout=60_000)
        settled(page)
        assert violations(page) == []

        protect(page)
        go(page, "take")
        with page.expect_download() as got:
            page.click("text=The release, as one zip file")
        got.value.save_as(tmp_path / "release.zip")
    with zipfile.ZipFile(tmp_path / "release.zip") as packed:
        packed.extractall(tmp_path / "release")
    assert release.verify(tmp_path / "release").ok
    made = release.read(tmp_path / "release")
    assert [block.variables for block in made.mechanism.blocks] == [("Geschlecht", "Ort"), ("Alter",)]
    assert made.codebook["Alter"].label == "Age"
