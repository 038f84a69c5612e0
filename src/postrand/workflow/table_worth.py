"""The worth of tables, under the name by which the steps of a plan know it."""

from postrand.report.table_worth import TableWorth, little_use, pairs_of, table_worth

__all__ = ["TableWorth", "little_use", "pairs_of", "table_worth"]
