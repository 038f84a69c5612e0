"""The key variables of a command: those that are named, or else those that have the role in the codebook."""

from __future__ import annotations

from collections.abc import Sequence

from postrand.codebook import Codebook
from postrand.errors import UsageError, sentence


def named_keys(keys: Sequence[str], codebook: Codebook | None) -> list[str]:
    """Return the ``keys`` that are named, or all variables with the role ``key``.

    Raises
    ------
    UsageError
        If none are named, and no variable has the role.

    Examples
    --------
    >>> named_keys(["sex"], None)
    ['sex']
    """
    found = list(keys) or [v.name for v in (codebook.with_role("key") if codebook is not None else ())]
    if not found:
        fix = "name them: --keys A,B; or give a --codebook in which variables have the role 'key'"
        raise UsageError(sentence("no key variables are named", fix=fix))
    return found
