"""The one tree of errors, and how their sentences are made.

::

    PostrandError                exit code 1
    ├── UsageError               2   an invalid call or command line
    ├── SpecificationError       3   an invalid codebook, plan or mechanism: all problems of the file together
    ├── DataError                4   records that do not match the codebook, or the question
    ├── PrivacyError             5   a claim that the exact matrix does not meet, or a level that no matrix can reach
    ├── DesignError              6   an infeasible problem, or a solver that did not converge
    ├── ReleaseError             7   a release that cannot be written, or that fails verification
    │   └── UncheckedError       9   a consistent release for which one of the checks could not run here
    ├── EstimationError          8   a quantity that the release cannot identify, or no convergence
    └── PolicyError              11  a plan that does not meet the office's policy

A message says what is wrong, where, what was given, what is expected and what to do next. It never contains a record's
values, its identifier or a small count. It can name categories (the codebook publishes them) and the position of a row
in a *file that could not be parsed*.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable

from postrand.address import hidden

_LONGEST = 400
"""Characters of a value that a message shows."""
_COMPARED = 1000
"""Names with which a misspelt one is compared: that is slow, and each of many problems asks for it."""
MOST = 20
"""Problems that a message shows; a file by somebody else can have any number."""
LEAST_HIDDEN = 3
"""A list is cut only where so many of it would be hidden: one or two more take no more room than saying so."""


class PostrandError(Exception):
    """Any failure that postrand explains; ``problems`` contains one sentence for each problem."""

    exit_code = 1

    def __init__(self, problems: str | Iterable[str], advice: str = "") -> None:
        """Take the problems, and the next step for all of them together, if there is one."""
        self.problems: tuple[str, ...] = (problems,) if isinstance(problems, str) else tuple(problems)
        self.advice = advice
        super().__init__(_join(self.told, len(self.problems)) + f"\n{advice}" * bool(advice))

    @property
    def told(self) -> tuple[str, ...]:
        """What is shown: the first 20 problems, and how many more there are, where these are three or more."""
        rest = len(self.problems) - MOST
        return self.problems if rest < LEAST_HIDDEN else (*self.problems[:MOST], f"And {rest:,} more.")


class UsageError(PostrandError):
    """An invalid call or command line."""

    exit_code = 2


class SpecificationError(PostrandError):
    """An invalid codebook, plan, mechanism or matrix."""

    exit_code = 3


class DataError(PostrandError):
    """Records that do not match the codebook, or a column that does not fit the question."""

    exit_code = 4


class PrivacyError(PostrandError):
    """A privacy claim that the exact matrix does not meet, or a level that no matrix can reach."""

    exit_code = 5


class DesignError(PostrandError):
    """An infeasible design problem, or a solver that did not converge."""

    exit_code = 6


class ReleaseError(PostrandError):
    """A release that cannot be written, read or verified."""

    exit_code = 7


class UncheckedError(ReleaseError):
    """A check of a release that could not run here: it has not passed and it has not failed."""

    exit_code = 9


class EstimationError(PostrandError):
    """A quantity that the release cannot identify, or an estimate that did not converge."""

    exit_code = 8


class PolicyError(PostrandError):
    """A plan that does not meet a rule of the office's policy."""

    exit_code = 11


def sentence(what: str, *, where: str = "", got: object = None, wanted: object = None, fix: str = "") -> str:
    """Return one message in the common form: where, what is wrong, what was given, what is expected, the next step.

    An address in ``where`` or ``got`` is not shown, because it can contain a password.

    >>> sentence("epsilon is not positive", where="plan.toml [privacy]", got=-1, wanted="> 0", fix="set epsilon = 1.0")
    'plan.toml [privacy]: epsilon is not positive; got -1; wanted > 0. Next: set epsilon = 1.0.'
    """
    text = f"{hidden(shown(where))}: {what}" if where else what
    if got is not None:
        text += f"; got {hidden(shown(got))}"
    if wanted is not None:
        text += f"; wanted {wanted}"
    text = text if text.endswith(".") else text + "."
    return printable(f"{text} Next: {fix.rstrip('.')}." if fix else text)


def without_fix(problem: str) -> str:
    """Return a sentence of :func:`sentence` without its next step, which is for somebody else.

    >>> without_fix("row 0 does not sum to 1. Next: correct it.")
    'row 0 does not sum to 1.'
    """
    return problem.rpartition(" Next: ")[0] or problem


def printable(text: str) -> str:
    r"""Return a text with every control character written out: otherwise a name in a file could control the terminal.

    >>> printable("age\x1b[2K\rok")
    'age\\x1b[2K\\rok'
    """
    return text if text.isprintable() else "".join(c if c.isprintable() else _spelt(c) for c in text)


def _spelt(character: str) -> str:
    return character.encode("unicode_escape").decode()


def shown(value: object, form: Callable[[object], str] = str) -> str:
    """Return a value as text of limited length: a user can write any value where a number is expected.

    >>> shown(0.5), shown("a", repr), len(shown([1] * 1000))
    ('0.5', "'a'", 400)
    """
    try:
        text = form(value)
    except (ValueError, RecursionError):  # more digits than Python prints, lists in lists in lists
        return f"a value of type {type(value).__name__} that is too long to show"
    return text if len(text) <= _LONGEST else text[: _LONGEST - 4] + " ..."


def nearest(word: str, known: Iterable[str], like: float = 0.6) -> str:
    """Return `` (did you mean 'x'?)`` for the known word closest to ``word``, in letters of any case, or "".

    ``like`` is the least likeness, from 0 to 1: matching letters of both words over all letters.

    >>> nearest("EPSILOM", ["epsilon", "delta"])
    " (did you mean 'epsilon'?)"
    """
    names = {name.casefold(): name for name in reversed(list(known))}
    close = difflib.get_close_matches(word.casefold(), names, n=1, cutoff=like) if len(names) <= _COMPARED else ()
    return f" (did you mean {names[close[0]]!r}?)" if close else ""


def raise_all(kind: type[PostrandError], problems: Iterable[str], advice: str = "") -> None:
    """Raise ``kind`` with every problem at once, and ``advice`` on all, or return when there is none."""
    found = tuple(problems)
    if found:
        raise kind(found, advice)


def _join(told: tuple[str, ...], number: int) -> str:
    if number == 1:
        return told[0]
    return f"{number:,} problems:\n" + "\n".join(f"  {i}. {p}" for i, p in enumerate(told, 1))
