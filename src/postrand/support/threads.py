"""Threads that a system refuses: accounts and containers have limits, and Arrow can wait forever where it meets one."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from contextvars import copy_context
from functools import cache
from typing import TypeVar

import numpy as np
import pyarrow as pa

from postrand.support.arrow import from_numpy
from postrand.support.system import processors

_Thing = TypeVar("_Thing")
_REFUSED = "can't start new thread"


@cache
def ready_arrow() -> None:
    """Start what Arrow needs to read text, in a step that can fail; once for the process.

    Arrow starts threads when it first needs them. If its reader of CSV is refused one in the midst of reading, that
    reader waits for itself. So the first of them starts here, and where threads are few, Arrow works with it alone.

    Raises
    ------
    RuntimeError
        With the words of Python itself, if the system refuses even this thread.
    """
    wanted = 2 * processors() + 8  # Arrow's for work, ours for work, and those that read
    usual = pa.cpu_count() if spare_threads(wanted) == wanted else 1
    batch = pa.RecordBatch.from_arrays([from_numpy(np.zeros(1))], names=["zero"])
    options = pa.ipc.IpcWriteOptions(compression="zstd")  # which a thread for work does; a refused one is told
    pa.set_cpu_count(1)
    try:
        with pa.ipc.new_stream(pa.MockOutputStream(), batch.schema, options=options) as stream:
            stream.write_batch(batch)
    except pa.ArrowException:
        raise RuntimeError(_REFUSED) from None
    pa.set_cpu_count(usual)


def spare_threads(wanted: int) -> int:
    """Return how many threads this process can start now, at most ``wanted``; they have ended when this returns.

    >>> spare_threads(2)
    2
    """
    over, started = threading.Event(), list[threading.Thread]()
    with suppress(RuntimeError):
        for _ in range(wanted):
            thread = threading.Thread(target=over.wait, daemon=True)
            thread.start()
            started.append(thread)
    over.set()
    for thread in started:
        thread.join()
    return len(started)


@contextmanager
def behind(work: Callable[[_Thing], object], most: int = 2) -> Iterator[Callable[[_Thing], object]]:
    """Yield a function that hands things to ``work``, which does them in order in a thread of its own.

    At most ``most`` things wait. What ``work`` raises is raised by a later call, or at the end of the block; things
    that wait then, or when the block fails, are left undone. Where no thread can be started, it yields ``work``.

    >>> done = []
    >>> with behind(done.append) as hand:
    ...     for n in range(4):
    ...         hand(n)
    >>> done
    [0, 1, 2, 3]
    """
    if not spare_threads(1):
        yield work
        return
    waiting, context = deque[Future[object]](), copy_context()

    def hand(thing: _Thing) -> None:
        waiting.append(pool.submit(context.run, work, thing))
        while len(waiting) > most:
            waiting.popleft().result()

    with ThreadPoolExecutor(1, thread_name_prefix="postrand-behind") as pool:
        try:
            yield hand
            while waiting:
                waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
