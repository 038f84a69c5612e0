"""What somebody guesses of a confidential variable who knows which released record is a person's."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from postrand.codebook import Codebook, Variable
from postrand.mechanism import Block, Mechanism
from postrand.risk.blend import Blend
from postrand.risk.facts_told import SURE, Told
from postrand.risk.split_law import MAX_DENSE, lumped
from postrand.support.guesses import of_hundred
from postrand.support.showing import capital, few

FloatArray = NDArray[np.float64]
NAMED = 4
TWO = 2
"""Of a variable with so many answers both are told: one of them alone is confidential, and seldom the surest one."""


@dataclass(frozen=True, slots=True)
class Guess:
    """Say how often the best guess of a variable is right from its released value and without it, and the surest ones.

    With the shares p of the file, and of a split for each subset T by itself, because a record shows which one it is,
    ``right`` is ``Σ_T π_T Σ_j max_i p_i M_T[i, j]``, where a subset that does not show the variable has ``max_i p_i``,
    which is ``blind``. ``sure`` are answers with their largest posterior ``max_Tj p_i M_T[i, j] / Σ_i p_i M_T[i, j]``,
    largest first: of two answers both, else the first; ``some_none``: some persons have no answer. ``shown`` is the
    share of the records that show the variable. Confidential.
    """

    name: str
    right: float
    blind: float
    sure: tuple[tuple[str, float], ...]
    shown: float = 1.0
    some_none: bool = False

    @property
    def right_shown(self) -> float:
        """The same of the records that show the variable."""
        return (self.right - (1 - self.shown) * self.blind) / self.shown if self.shown > 0 else self.blind


def guesses(mechanism: Mechanism, codebook: Codebook, shares: Callable[[str], FloatArray | None]) -> tuple[Guess, ...]:
    """Return the guesses of each perturbed variable of role ``sensitive``; ``shares`` are those of its categories.

    Left out is what is drawn once for a household, and what has no shares, or no law of its own.
    """
    shared = {name for names in mechanism.shared.values() for name in names}
    found = []
    for variable in codebook.with_role("sensitive"):
        if variable.name not in mechanism.variables or variable.name in shared:
            continue
        prior, laws = shares(variable.name), _laws(mechanism, codebook, variable.name)
        if prior is not None and laws and all(one.shape == (prior.size, prior.size) for _, one in laws):
            found.append(_guess(variable, prior, laws))
    return tuple(found)


def _guess(variable: Variable, prior: FloatArray, laws: Sequence[tuple[float, FloatArray]]) -> Guess:
    blind, right, sure = float(prior.max()), 0.0, np.zeros(prior.size)
    for chance, matrix in laws:
        joint = prior[:, None] * matrix
        mass = joint.sum(axis=0)
        right += chance * float(joint.max(axis=0).sum())
        sure = np.maximum(sure, (joint[:, mass > 0] / mass[mass > 0]).max(axis=1))
    shown = min(sum(chance for chance, _ in laws), 1.0)
    right += (1 - shown) * blind
    answers = np.array(
        [i for i, code in enumerate(variable.categories) if code not in variable.missing_codes], dtype=int
    )
    answers = answers[prior[answers] > 0]
    surest = answers[np.argsort(-sure[answers], kind="stable")]
    told = surest if surest.size <= TWO else surest[:1]
    said = tuple((str(variable.code_labels[i]), float(sure[i])) for i in told)
    some_none = bool(prior.sum() > prior[answers].sum())
    return Guess(variable.name, right, blind, said, shown, some_none)


def _laws(mechanism: Mechanism, book: Codebook, name: str) -> list[tuple[float, FloatArray]]:
    """Return how probable it is that a record shows the variable by each block, and the block's matrix (S, S) of it.

    () where one is not known: other variables decide it, too, or it depends on the household who shows it.
    """
    split = mechanism.split
    if split is None or name not in split.variables:
        blocks = [(1.0, next(one for one in mechanism.blocks if name in one.perturbed))]
    elif split.of_members:
        return []
    else:
        blocks = [(one.probability, one.block) for one in split.subsets if name in one.variables]
    found = [(chance, _matrix(block, book, name)) for chance, block in blocks]
    known = [(chance, matrix) for chance, matrix in found if matrix is not None]
    return known if len(known) == len(found) else []


def _matrix(block: Block, book: Codebook, name: str) -> FloatArray | None:
    if block.given:
        return None
    sizes, place = [book[one].size for one in block.variables], block.variables.index(name)
    blend = Blend.of(block, (0,), sizes, (place,))
    if blend is not None and blend.cells.size == book[name].size:
        codes = np.arange(book[name].size)[:, None]
        return blend.entries(codes, codes)
    found = None if block.matrix.size > MAX_DENSE else lumped(block, sizes, (place,))
    return None if found is None else found[0]


def guessed_in_words(found: Sequence[Guess], persons: str = "persons", facts: Sequence[Told] = ()) -> Iterator[str]:
    r"""Yield what is guessed of each variable in sentences, the most that is added first; the last: what bounds all.

    >>> insured = Guess("insured", 0.86, 0.84, (("yes", 0.931), ("no", 0.5)))
    >>> from postrand.risk.facts_told import Open
    >>> facts = [Told("insured", 0.88, 0.85, 0.72, Open(0.3, 0.7, 0.6))]
    >>> told = guessed_in_words([insured, Guess("ill", 0.6, 0.55, (), 0.4)], facts=facts)
    >>> print(*told, sep="\n")  # doctest: +NORMALIZE_WHITESPACE
    Guesses of insured by somebody who knows which record is a person's, right of 100 persons: 84 without the record,
    about 86 with its released value. By somebody who also knows the keys: 85 without the record, about 88 with the
    whole record; of the persons whose keys do not tell it already (30 of 100): 60 without, about 70 with. By the value
    alone nobody is surer than 93.1% that it is yes, 50% that it is no; with the keys and the whole record somebody is
    more than 95% sure of about 72 of 100 persons; from the keys alone, of 70 of 100.
    Guesses of ill by somebody who knows which record is a person's, right of 100 persons: 55 without the record, about
    60 with its released value (40% of the records show it: of 100 of these persons about 67). Who guesses knows how
    frequent values are. Who knows more of a person can be surer: only the claims bound it.
    """
    if not found:
        return
    own, known, best = {one.name: one for one in found}, {one.name for one in facts}, best_guesses(found, facts)
    rest = [one.name for one in best[NAMED:]]
    after = f" {few(rest)} can be guessed, too." * bool(rest)
    after += " From all released values of the record a guess can be surer." * (not facts)
    after += " Who guesses knows how frequent values are. Who knows more of a person can be surer: only the claims "
    after += "bound it."
    *others, last = (_guessed(own[one.name], one if one.name in known else None, persons) for one in best[:NAMED])
    yield from (*others, last + after)


def _guessed(one: Guess, both: Told | None, persons: str) -> str:
    """Return what is guessed of a variable; ``both``: by who knows the keys, too, if that is known."""
    text = (
        f"Guesses of {one.name} by somebody who knows which record is a person's, right of 100 {persons}: "
        f"{of_hundred(one.blind)} without the record, about {of_hundred(one.right)} with its released value"
    )
    if one.shown < 1:
        text += f" ({one.shown:.0%} of the records show it: of 100 of these {persons} about "
        text += f"{of_hundred(one.right_shown)})"
    sure = [f"By the value alone nobody is surer than {_sure(one)}"] * bool(one.sure)
    if both is not None:
        text += f". By somebody who also knows the keys: {of_hundred(both.without)} without the record, about "
        text += f"{of_hundred(both.right)} with the whole record"
        if (apart := both.open) is not None:
            text += f"; of the {persons} whose keys do not tell it already ({of_hundred(apart.share)} of 100): "
            text += f"{of_hundred(apart.without)} without, about {of_hundred(apart.right)} with"
        share = f"with the keys and the whole record somebody is more than {SURE:.0%} sure of about "
        alone = "" if apart is None else f"; from the keys alone, of {of_hundred(1 - apart.share)} of 100"
        alone += ", because false values make some guesses less sure" * bool(apart and 1 - apart.share > both.sure)
        sure += [f"{share}{of_hundred(both.sure)} of 100 {persons}{alone}"] * (both.sure > 0)
    return f"{'. '.join([text, *filter(None, [capital('; '.join(sure))])])}."


def best_guesses(found: Sequence[Guess], facts: Sequence[Told]) -> tuple[Told, ...]:
    """Return the best guesses of each variable, of who knows the keys, too, where ``facts`` say it.

    Those to which the record adds most come first.
    """
    told = {one.name: one for one in facts}
    best = (_no_less(told.get(one.name, Told(one.name, one.right, one.blind)), one) for one in found)
    return tuple(sorted(best, key=lambda one: -one.gain))


def _no_less(told: Told, own: Guess) -> Told:
    """Return what is guessed by who knows more: no less than without that, where simulated releases say so by chance.

    >>> _no_less(Told("ill", 0.57, 0.33), Guess("ill", 0.58, 0.34, ()))
    Told(name='ill', right=0.58, without=0.34, sure=0.0, open=None)
    """
    return replace(told, right=max(told.right, own.right), without=max(told.without, own.blind))


def _sure(one: Guess) -> str:
    """Return how sure somebody can be of answers.

    >>> _sure(Guess("cause", 0.75, 0.72, (("heart", 0.619),), some_none=True))
    '62% that it is heart, the surest answer (that a person has none, somebody can be surer)'
    """
    text = ", ".join(f"{of_hundred(share, most=True)}% that it is {label}" for label, share in one.sure)
    text += ", the surest answer" * (len(one.sure) < TWO)
    return text + " (that a person has none, somebody can be surer)" * one.some_none
