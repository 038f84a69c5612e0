from .columns import columns_report
from .html import internal_report, public_report

__all__ = ["columns_report", "internal_report", "public_report"]
