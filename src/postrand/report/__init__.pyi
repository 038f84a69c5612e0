from .columns import columns_report
from .completed import completed_report, completed_section
from .html import public_report
from .internal import decision_page, internal_report
from .release_readme import columns_readme, readme
from .values import page_values

__all__ = [
    "columns_readme",
    "columns_report",
    "completed_report",
    "completed_section",
    "decision_page",
    "internal_report",
    "page_values",
    "public_report",
    "readme",
]
