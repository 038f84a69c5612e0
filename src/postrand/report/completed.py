"""Render the page of a folder of completed files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from postrand.report.completed_values import completed_view
from postrand.report.html import environment


def completed_report(told: Mapping[str, Any], data: str) -> str:
    """Return the page of a folder of completed files, from what its ``completed.json`` says and the name of the data.

    No script, no request to any host, the same bytes every time.
    """
    return environment().get_template("completed_page.html").render(completed=completed_view(told, data))
