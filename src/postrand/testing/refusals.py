"""What the suites say of refusals: the right kind of error, the right words, and nothing of a record."""

from __future__ import annotations

import re
from collections.abc import Callable

from postrand.errors import PostrandError


def refused(kind: type[PostrandError], words: str, call: Callable[[], object]) -> PostrandError:
    r"""Return the error that a call raises; ``words`` is a pattern that its text has to match somewhere.

    Raises
    ------
    AssertionError
        If nothing, or another error, is raised, or its text is another one.

    Examples
    --------
    >>> from postrand.errors import UsageError
    >>> from postrand.formats import format_of
    >>> refused(UsageError, "unknown file type", lambda: format_of("x.doc")).exit_code
    2
    """
    found = _error_of(call)
    assert found is not None, f"{kind.__name__} is wanted ({words!r}); nothing was refused"
    assert isinstance(found, kind), f"{kind.__name__} is wanted; got {type(found).__name__}: {found}"
    assert re.search(words, str(found), re.DOTALL), f"{words!r} is not in the error: {found}"
    return found


def _error_of(call: Callable[[], object]) -> Exception | None:
    try:
        call()
    except Exception as error:
        return error
    return None
