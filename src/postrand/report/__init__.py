"""The HTML report of a release: one self-contained page, a pure function of the release's other files."""

from postrand.report.columns import columns_report
from postrand.report.html import internal_report, public_report

__all__ = ["columns_report", "internal_report", "public_report"]
