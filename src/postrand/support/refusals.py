"""What the machine refuses: disk, memory, rights, threads. It says nothing of the bytes that were read."""

from __future__ import annotations

import errno
import os

from postrand.errors import sentence

SPACE, MEMORY = "free space there, then run again", "give the process more memory, then run again"
RIGHTS, FILES = "check the permissions there, then run again", "let the process open more files, then run again"
OTHER = "see why the program at the other end of the connection has ended, then run again"
DISK, THREADS = "check the disk, then run again", "let the process start more threads, then run again"
_NO_THREAD = ("can't start new thread", "Failed to launch worker thread", "Resource temporarily unavailable")
"""What Python, Arrow and the library of C++ say of it."""
NEXT = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT, errno.EFBIG), SPACE),
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), RIGHTS),
    **dict.fromkeys((errno.EMFILE, errno.ENFILE), FILES),
    **dict.fromkeys((errno.ENOMEM, errno.EAGAIN), MEMORY),
    **dict.fromkeys((errno.ECONNREFUSED, errno.ECONNRESET), OTHER),
    **dict.fromkeys((errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.ENODEV, errno.ENXIO, errno.ENOLCK), DISK),
}
"""The next step by the system's number. Other numbers, such as that of a missing file, tell of what was named."""


def refused(error: BaseException | None, *, any_call: bool = False) -> str | None:
    """Return a sentence on what the machine refused, if an error came from that, directly or in its context; or None.

    With ``any_call``, all that the system said of any call counts: nobody has named a file that is not there.

    >>> refused(ValueError("no number")) is None, refused(OSError(5, "Input/output error", "survey.csv"))
    (True, 'survey.csv: the system refused a step; got Input/output error. Next: check the disk, then run again.')
    """
    while error is not None:
        if isinstance(error, MemoryError):
            return sentence("there is not enough memory", fix=MEMORY)
        if isinstance(error, OSError) and (error.errno in NEXT or any_call):
            return _step(error)
        if isinstance(error, ImportError) and "failed to map segment" in str(error):
            return sentence("there is not enough memory for a library", fix=MEMORY)
        if any(words in str(error) for words in _NO_THREAD):
            return sentence("the system refused a thread", fix=THREADS)
        error = error.__context__
    return None


def _step(error: OSError) -> str:
    """Return the sentence of a call; the text of a library can quote what it read, that of the system does not."""
    of_system = error.errno is not None and error.filename is not None
    got = error.strerror if of_system else errno.errorcode.get(error.errno or 0, "an error without a number")
    where = os.fsdecode(error.filename) if isinstance(error.filename, str | bytes) else ""
    return sentence("the system refused a step", where=where, got=got, fix=NEXT.get(error.errno or 0, DISK))
