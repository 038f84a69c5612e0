from .columns import columns_report
from .completed import completed_report, completed_section
from .html import internal_report, public_report
from .release_readme import columns_readme, readme
from .values import page_values

__all__ = [
    "columns_readme",
    "columns_report",
    "completed_report",
    "completed_section",
    "internal_report",
    "page_values",
    "public_report",
    "readme",
]
