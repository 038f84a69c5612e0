"""Completed files: copies of the released file with true values drawn given the released ones, for any software."""

from .completed import Completed, complete
from .frames import Copies

__all__ = ["Completed", "Copies", "complete"]
