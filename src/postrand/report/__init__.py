"""The HTML report of a release: one self-contained page, a pure function of the release's other files."""

from postrand.report.html import internal_report, public_report

__all__ = ["internal_report", "public_report"]
