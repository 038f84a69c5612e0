"""The worth of tables, under the name by which the steps of a plan know it."""

from postrand.report.table_worth import (
    TableWorth,
    little_use,
    middle,
    pairs_of,
    shown,
    table_worth,
    worth_line,
)

__all__ = ["TableWorth", "little_use", "middle", "pairs_of", "shown", "table_worth", "worth_line"]
