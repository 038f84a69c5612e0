from .completed import Completed, complete
from .diagnostics import Diagnostics
from .frames import Copies

__all__ = ["Completed", "Copies", "Diagnostics", "complete"]
