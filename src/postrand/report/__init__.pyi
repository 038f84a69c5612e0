from .columns import columns_report
from .completed import completed_report
from .html import internal_report, public_report
from .release_readme import readme
from .values import page_values

__all__ = ["columns_report", "completed_report", "internal_report", "page_values", "public_report", "readme"]
