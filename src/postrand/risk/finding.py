"""One finding on a file and a plan: what it says, how serious it is, and the same in a line."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from postrand.risk.reveals import LIKELY, RULED, SETTLED
from postrand.support.measure_names import KEYS_ALONE

PLAN_STATES = "the plan states"
"""How a finding says that a decision is made."""
WHERE = "where "
"""How a part of a finding begins that names the value which gives away another."""
WHOSE = "of those whose "
"""How a part of a finding begins that names the true value which is given away most often."""
NAMING = "unperturbed columns seem to name or number persons or households, or hold free text"
PUBLISHED = "perturbed variables hold free text or remarks, and a release lists their values in its codebook"
PUBLISHED_FIX = (
    "set role = 'drop', or put them into groups ([[recodes]]) whose names point to nobody; if they do not, state"
)
"""What a plan is refused for, and what to do about values that are published, before the option that lists them."""
PERTURB_TOO = "perturb them too (in [[blocks]] or [split]; 'postrand advise --perturb-also' does so)"
"""How unperturbed columns that give away perturbed ones, and that others do not know, are protected."""
KEYS = "keys without categories are released unperturbed, and no figure of risk has them"
KEYS_FIX = "put each into bands ([[recodes]]) and perturb it, give it the role 'drop' or a rank law, or name it in"
"""What a plan is refused for, and what to do about it, before the option that states it."""
GIVEN_AWAY = ("alone", "pair", "triple", "together", "every", "share", "guessed", "settled", "constant")
"""The figures of a finding that are shares of what is singled out or told."""
MUCH = 0.1
"""For so many records one value is likely that it is told beside how good guesses are."""
MOST_BRIEF = 3
"""So many combinations of columns are named in a line or two, those that single out most."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Hold one thing that a curator must know, in a sentence without counts.

    ``code`` is ``singles-out`` (``variables`` are released unperturbed and single out records), ``together`` (they are
    all unperturbed columns, and single out more than any of those that are named), ``tells`` (they reveal
    true values of the perturbed variable ``about``), ``weights`` (a weight reveals ``about`` by its exact values, or
    singles out records; and what rounding it costs), ``linked`` (one is a function of others, and they are not
    perturbed together), ``household-size`` (the number of a household shows its size, which singles it out with
    ``variables``), ``regroups`` (``variables`` put members of a household together again, whose number ``about`` is not
    released), ``neighbours`` (records next to each other share ``variables``, or ``about``, as members of a household
    do that no column numbers), ``order`` (the order of the file tells true values), ``household`` (a variable of a
    household is perturbed for each member), ``merged`` (rare categories that are merged are still too few), ``missing``
    (a category for missing values is one too many), ``moves`` (numbers hardly move in rank, or no weighted mean of them
    is left),
    ``swallowed`` (what looks like a code for no answer counts as a value), ``means`` (a recode changes
    a mean), ``key`` (a key without categories leaves unperturbed) or ``names`` (a column that seems to name or number
    persons, or holds free text).
    ``is_exact``: of ``linked``, columns are a sum or a function of others, not only nearly; it is told before others.
    ``is_open``: the plan has to decide. ``is_decided``: it has decided that the variable leaves as it is.
    ``figures`` and ``share``, that of the records which ``variables`` single out together, are confidential.
    """

    code: str
    variables: tuple[str, ...]
    about: tuple[str, ...]
    sentence: str
    figures: Mapping[str, float] = field(default_factory=dict, repr=False)
    is_open: bool = False
    is_decided: bool = False
    share: float = field(default=0.0, repr=False)
    is_exact: bool = False
    words: Callable[[str], str] = field(default=str, repr=False)

    @property
    def place(self) -> tuple[bool, bool, float]:
        """Where it is told: what is open first, then exact relations, then what gives away most."""
        return not self.is_open, not self.is_exact, -self.gravity

    @property
    def gravity(self) -> float:
        """How much it gives away, from 0 to 1: which share of the records is singled out, or told, by what is shown.

        Of guesses, the share of the wrong ones that they correct, or of the records whose value is all but settled.
        An exact relation with what is shown gives away all. What has no such figure is half where it must be, or is,
        decided on or is about numbers that hardly move or records that belong together, else nothing: it is told last.
        """
        if self.is_exact and self.variables:
            return 1.0
        shares = [value for name, value in self.figures.items() if name.rpartition(": ")[2] in GIVEN_AWAY]
        if "majority" in self.figures:
            blind = self.figures.get("blind", 0.0)
            shares = [max(self.figures["majority"] - blind, 0.0) / max(1.0 - blind, 1e-9)]
        plain = 0.5 if self.is_open or self.is_decided or self.code in ("moves", "neighbours") else 0.0
        return max(self.share, *shares) if shares else max(self.share, plain)

    @property
    def brief(self) -> str:
        """What it says in a line or two, without advice."""
        return self.words(self._brief)

    def worded(self, words: Callable[[str], str]) -> Finding:
        """Return the same in other words for households."""
        return replace(self, sentence=words(self.sentence), words=words)

    @property
    def _brief(self) -> str:
        about, figures = ", ".join(self.about), self.figures
        if self.code in ("tells", "weights") and (best := self._best_guess):
            by = f"the weights ({self.variables[0]})" if self.code == "weights" else ", ".join(self.variables)
            verb = "gives" if self.code == "tells" and len(self.variables) == 1 else "give"
            text = f"{by}, not perturbed, {verb} away true values of {about}{' (the range)' * best[2]}: of 100 guesses "
            text += f"about {100 * best[0]:.0f} are right, without the release about {100 * best[1]:.0f}"
            kept = [part for part in self.sentence.split("; ") if part.startswith((PLAN_STATES, WHERE, WHOSE))]
            is_better = f"{100 * best[0]:.0f}" != f"{100 * best[1]:.0f}"
            is_whose = any(part.startswith(WHOSE) for part in kept)  # says of whom the same is told
            text += self._settled(MUCH if is_better and not is_whose else SETTLED)
            text += self._ruled() + "; no epsilon prevents this"
            return "; ".join([text, *kept])
        if self.code == "household-size":
            alone, every = (share_text(figures[name]) for name in ("alone", "every"))
            shown = f"its size, which the number {self.variables[0]} shows"
            if every == alone:
                return f"{alone} of the records are in a household that {shown}, singles out"
            text = f"{every} of the records are in a household that all unperturbed columns and {shown}, single out"
            return f"{text}; {alone} in one that its size alone singles out"
        if "majority" in figures:
            whole, single = (share_text(figures[name]) for name in ("majority", "single"))
            same = share_text(figures["constant"]) if figures["constant"] < 1 else "all"
            text = (
                f"in {same} of the households of two or more all members have the same {about}: from what all of them "
                f"show it is guessed rightly in {whole} of "
            )
            blind = f", without the release in {share_text(figures['blind'])}" if "blind" in figures else ""
            return f"{text}the households, from one member in {single}{blind}"
        if self.code in ("neighbours", "regroups"):
            return self.sentence.rpartition("; ")[0]
        first, *rest = self.sentence.partition(f"; {KEYS_ALONE}")[0].split("; ")
        if self.code == "singles-out" and len(rest) >= MOST_BRIEF:
            left = len(rest) - MOST_BRIEF + 1
            rest = [*rest[: MOST_BRIEF - 1], f"{left} more combination{'s' * (left > 1)}"]
        return "; ".join([first, *rest])

    def _settled(self, least: float) -> str:
        """For how many records one value is likely; "" where these are fewer than the share ``least``."""
        share = max(self._own("settled"), default=0)
        text = f"; for about {100 * share:.0f} of 100 records one value is far likelier (at least {100 * LIKELY:.0f}%)"
        return text if share >= least else ""

    def _ruled(self) -> str:
        """For how many records values are ruled out that most have; "" where few, or where one value is likely."""
        share, settled = max(self._own("ruled"), default=0.0), max(self._own("settled"), default=0.0)
        text = (
            f"; for about {100 * share:.0f} of 100 records values are ruled out that half of all records or more have"
        )
        return text if share >= max(RULED, settled) else ""

    @property
    def _best_guess(self) -> tuple[float, float, bool] | None:
        """The shares of right guesses of the best one, with what is shown and without; whether it is of a range."""
        found = [*zip(self._own("right"), self._own("blind"), self._own("ranges"), strict=True)]
        right, blind, ranges = max(found, default=(0.0, 0.0, 0.0))
        return (right, blind, ranges > 0) if found else None

    def _own(self, figure: str) -> list[float]:
        """Return this figure of each of its variables alone, or of all: not what one more variable would tell."""
        own = {"", *self.variables, *self.about}
        held = (name.rpartition(": ") for name in self.figures)
        return [self.figures[f"{of}{by}{end}"] for of, by, end in held if end == figure and {*of.split(", ")} <= own]

    def to_dict(self) -> dict[str, Any]:
        """Return plain data that can be published: no figure."""
        names = ("code", "sentence", "is_open", "is_decided")
        return {n: getattr(self, n) for n in names} | {"variables": list(self.variables), "about": list(self.about)}


def share_text(share: float) -> str:
    """Return a share of the records in words that reveal no small count.

    >>> [share_text(s) for s in (0.0, 0.004, 0.126, 0.997)]
    ['fewer than 1%', 'fewer than 1%', 'about 13%', 'more than 99%']
    """
    if share < 0.01:
        return "fewer than 1%"
    return "more than 99%" if share > 0.99 else f"about {100 * share:.0f}%"


def stated_as(option: str, names: Iterable[str]) -> str:
    """Return the line of a plan that states of columns how they are released.

    >>> stated_as("as_is", ["pay"])
    '[release] as_is = ["pay"]'
    """
    return f"[release] {option} = [" + ", ".join(dict.fromkeys(f'"{name}"' for name in names)) + "]"


def listed(names: Sequence[str], last: str = "and") -> str:
    """Return names as they stand in a sentence.

    >>> listed(["a", "b", "c"]), listed(["a"]), listed(["a", "b"], "or")
    ('a, b and c', 'a', 'a or b')
    """
    return ", ".join(names[:-1]) + f" {last} {names[-1]}" if len(names) > 1 else names[0]


def how_many(names: Sequence[str]) -> str:
    """Return the number of several columns as it begins a sentence: ``two``, or digits.

    >>> how_many(["a", "b"]), how_many(["a", "b", "c"])
    ('two', '3')
    """
    return "two" if len(names) == 2 else str(len(names))
