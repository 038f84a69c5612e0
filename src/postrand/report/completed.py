"""Render what pages say of completed files: a section of the release's report, and a page of their own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jinja2 import TemplateError
from markupsafe import Markup

from postrand.errors import DataError, sentence
from postrand.report.completed_values import completed_view
from postrand.report.html import environment


def completed_section(told: Mapping[str, Any], data: str) -> Markup:
    """Return the section, from what ``completed.json`` says and the name of the released data.

    Raises
    ------
    DataError
        If what it says of the tests of the model has not the form of this version.
    """
    try:
        return Markup(environment().get_template("completed.html").render(c=completed_view(told, data)))
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError, TemplateError):
        what = "the results of the tests of the model are not in the form of this version"
        raise DataError(sentence(what, where="completed.json", fix="make the files again")) from None


def completed_report(told: Mapping[str, Any], data: str) -> str:
    """Return the page of a folder of completed files: a function of ``completed.json`` and the name of the data.

    No script, no request to any host, the same bytes every time. Raises as :func:`completed_section`.
    """
    section = completed_section(told, data)
    return environment().get_template("completed_page.html").render(told=told, section=section)
