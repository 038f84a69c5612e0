"""Whole columns: numerical variables with permuted values, and tables split in two (Anatomy)."""
