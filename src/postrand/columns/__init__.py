"""Whole columns: numerical variables whose values change places, and tables that are parted (Anatomy)."""
