"""What goes wrong in a tab, as text for a person: an error stops its work, and no other tab."""

from __future__ import annotations

import asyncio
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from postrand.app.watch import Cancelled
from postrand.errors import PostrandError, sentence
from postrand.support.memory import give_back

LONG = 0.2
"""After work of so many seconds memory is given back: what follows a slider leaves none to speak of."""
CANCELLED = "Cancelled: nothing was released."


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem, as text for a person."""

    text: str


async def guarded(function: Callable[[], Any], cancelled: str = CANCELLED) -> Any:
    """Run a function in a thread; any exception becomes a Problem, so that the server continues."""

    def work() -> Any:
        start = time.monotonic()
        found = attempt(function, cancelled)
        if time.monotonic() - start > LONG:
            give_back()
        return found

    return await asyncio.to_thread(work)


def attempt(function: Callable[[], Any], cancelled: str = CANCELLED) -> Any:
    """Return the result of a function, or a Problem if it raises."""
    try:
        return function()
    except Cancelled:
        return Problem(cancelled)
    except PostrandError as error:
        return Problem("\n".join(error.told))
    except MemoryError:
        return Problem("There is not enough memory for this file.")
    except OSError as error:  # a folder that a person named, a full disk
        return Problem(sentence("the disk refuses", where=str(error.filename or ""), got=error.strerror or "an error"))
    except Exception as error:  # an error in the workbench must not stop the other tabs
        traceback.print_exc(file=sys.stderr)
        return Problem(f"Something went wrong in the workbench ({type(error).__name__}). Your choices are kept.")
