"""The page of the workbench: the parts that do not change during use."""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import Any

from htmltools import Tag, tags
from shiny import ui

from postrand.formats import formats

SCREENS = (
    ("data", "Data", "What is in the file?"),
    ("risk", "Risk", "How identifiable are the records?"),
    ("design", "Design", "How much privacy, and what does it cost?"),
    ("protect", "Protect", "Draw the released values"),
    ("compare", "Before and after", "What the release still shows"),
    ("take", "Download", "Release, plan and command line"),
)
LIVE = ("status", "readout")
"""Parts that a screen reader reads aloud when they change, as a whole; in others it reads alerts and the work only."""
SCRIPTS = ("app.js", "kept.js")

ICON = (
    "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 8 8'%3E%3Crect width='8' height='8' "
    "fill='%230b5cad'/%3E%3Crect x='2' y='2' width='2' height='2' fill='white'/%3E%3C/svg%3E"
)


@cache
def asset(name: str) -> str:
    """Return a file of the application as text."""
    return resources.files("postrand.app").joinpath("assets", name).read_text("utf-8")


def style() -> str:
    """Return the common style of the report and of the application."""
    return resources.files("postrand.report").joinpath("templates", "style.css").read_text("utf-8") + asset("app.css")


def served(name: str) -> tuple[str, str] | None:
    """Return the text and the kind of a file that the page loads from this server; None if there is none."""
    if name == "app.css":
        return style(), "text/css"
    return (asset(name), "text/javascript") if name in SCRIPTS else None


def page() -> Tag:
    """Return the page: a header with the steps, and one section for each screen, inputs beside outputs."""
    head = tags.head(
        tags.meta(charset="utf-8"),
        tags.meta(name="viewport", content="width=device-width, initial-scale=1"),
        tags.title("postrand workbench"),
        tags.link(rel="icon", href=ICON),
        tags.link(rel="stylesheet", href="assets/app.css"),
        *(tags.script(src=f"assets/{name}") for name in SCRIPTS),
    )
    steps = [
        tags.li(tags.button(name, type="button", data_screen=key, aria_current="step" if key == "data" else None))
        for key, name, _ in SCREENS
    ]
    header = tags.header(
        tags.div(
            tags.p(tags.strong("postrand"), " workbench", class_="brand"),
            ui.output_ui("status"),
            tags.nav(tags.ol(*steps), aria_label="Steps"),
        )
    )
    sections = [_section(key, question) for key, _, question in SCREENS]
    lost = _alert("lost", "The connection to the workbench was lost. Reload this page: everything is kept.")
    ended = _alert(
        "ended",
        "The workbench has ended: only what you saved or downloaded is left. To go on, start it again: postrand app",
    )
    footer = tags.footer(
        ui.output_ui("history"),
        "Everything stays on this machine. No other machine can reach the workbench, and it does not contact any.",
    )
    main = tags.main(lost, ended, ui.output_ui("problem"), *sections)
    return tags.html(head, _quiet(tags.body(header, main, footer)), lang="en")


def _alert(key: str, words: str) -> Tag:
    return tags.div(words, id=key, class_="lost", role="alert", hidden="hidden")


def _quiet(tag: Tag) -> Tag:
    """Return a tag whose parts are silent but for those of ``LIVE``: the framework would have tables read aloud."""
    if "shiny-html-output" in str(tag.attrs.get("class", "")).split():
        tag.attrs.setdefault("aria-live", "polite" if tag.attrs["id"] in LIVE else "off")
    for child in tag.children:
        if isinstance(child, Tag):
            _quiet(child)
    return tag


def _section(key: str, question: str) -> Tag:
    inputs, outputs = _PARTS[key]
    return tags.section(
        tags.h2(question, tabindex="-1", id=f"title-{key}"),
        tags.div(
            tags.div(*inputs, class_="card input"),
            tags.div(*outputs, class_="output"),
            class_="io",
        ),
        tags.details(tags.summary("The same on the command line"), ui.output_ui(f"command_{key}")),
        id=f"screen-{key}",
        aria_labelledby=f"title-{key}",
        hidden=None if key == "data" else "hidden",
    )


def _without_styles(tag: Tag) -> Tag:
    """Return a tag of the framework without styles in its attributes, which the content security policy forbids.

    The field that shows the name of the chosen file cannot be typed in: it has a name, and is no stop of the Tab key.
    """
    tag.attrs.pop("style", None)
    if tag.attrs.get("readonly"):
        tag.attrs.update({"tabindex": "-1", "aria-label": "The chosen file"})
    for child in tag.children:
        if isinstance(child, Tag):
            _without_styles(child)
    return tag


def _data() -> tuple[list[Any], list[Any]]:
    suffixes = [s for f in formats() for s in f.suffixes]
    inputs = [
        tags.h3("Open a file"),
        _without_styles(
            ui.input_file(
                "file",
                "Choose a file, or drop it here",
                accept=suffixes,
                button_label="Browse",
                placeholder="no file chosen",
            )
        ),
        tags.p(
            "CSV and other text files, Excel, Parquet, Arrow, SPSS, Stata and SAS. The file stays on this machine.",
            class_="soft",
        ),
        tags.button("Use the demonstration survey", type="button", data_act="demo", data_key="", class_="button"),
        ui.output_ui("by_path"),
        ui.output_ui("opening"),
        tags.h3("The steps"),
        tags.ol(
            tags.li("Choose a role for each variable: could others use it to single out a person?"),
            tags.li("Look at the risk, and choose how much privacy each perturbed variable gets."),
            tags.li("Protect the data, compare before and after, and download the release."),
            class_="tour",
        ),
        tags.p(
            "Each perturbed answer is drawn with published probabilities. Analysts correct for them: their results are "
            "unbiased.",
            class_="soft",
        ),
    ]
    return inputs, [
        ui.output_ui("preview"),
        ui.output_ui("linked"),
        ui.output_ui("editor"),
        ui.output_ui("effect"),
        ui.output_ui("variables"),
    ]


_PARTS: dict[str, tuple[list[Any], list[Any]]] = {
    "data": _data(),
    "risk": (
        [tags.h3("Measured on"), ui.output_ui("risk_form")],
        [ui.output_ui(name) for name in ("risk", "explored", "records", "measures")],
    ),
    "design": (
        [ui.output_ui("advice_form"), ui.output_ui("level"), ui.output_ui("design_form")],
        [
            ui.output_ui("advice"),
            ui.output_ui("shown"),
            ui.output_ui("readout"),
            ui.output_ui("every"),
            ui.output_ui("file_level"),
            ui.output_ui("against"),
            ui.output_ui("map"),
            ui.output_ui("matrix"),
            ui.output_ui("frontier_form"),
            ui.output_ui("points"),
            ui.output_ui("explained"),
        ],
    ),
    "protect": (
        [tags.h3("The release"), ui.output_ui("protect_form")],
        [ui.output_ui("check"), ui.output_ui("check_risk"), ui.output_ui("protect")],
    ),
    "compare": ([tags.h3("Show"), ui.output_ui("pair")], [ui.output_ui("compare")]),
    "take": (
        [tags.h3("Files"), ui.output_ui("downloads")],
        [ui.output_ui("releases"), ui.output_ui("verification"), ui.output_ui("take")],
    ),
}
