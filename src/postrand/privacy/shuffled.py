"""(ε, δ)-differential privacy of the whole released file, whose records are in random order."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from postrand.errors import PrivacyError, raise_all, sentence, shown
from postrand.mechanism.matrix import TransitionMatrix
from postrand.privacy.base import Finding, LinearConstraints, ModelTraits
from postrand.privacy.differential import EPSILON, DifferentialPrivacy
from postrand.privacy.indistinct import distinguishing
from postrand.privacy.shuffle import shuffled_delta
from postrand.support.exact import log_upper
from postrand.support.guesses import guesses_in_words
from postrand.support.inputs import finite, is_whole
from postrand.support.options import Range
from postrand.support.wordings import fill

_HINT = "smaller protects more: the part of what may happen that ε does not cover; keep it far below 1 / records"
_LARGEST = 50.0
_CLEAR = ("clear", "weight", "household")
_DISTINGUISHING = {
    "order": ("the records are released in their original order", "set shuffle = true"),
    "ids": ("record ids are released", "set release_ids = false"),
    "ranks": ("numerical variables have no ε", ""),
    "no_codebook": ("without a codebook it is unknown what else is released", "bind the mechanism to its codebook"),
    "missing": ("kept missing values distinguish the records", "set missing = 'category'"),
}


@dataclass(frozen=True, slots=True)
class ShuffledPrivacy:
    """Ask that the file of all records, in random order, is (ε, δ)-differentially private: one record may be another.

    Whose record is whose is then hidden among ``records``, which protects far more than the law of one record says
    (:mod:`postrand.privacy.shuffle`). It holds only where nothing tells records apart: every released variable is
    perturbed, no ids and no weights leave, no missing value is kept. The number of records is public.

    ``records`` is the file's; 0 leaves it to the run, which fills it in.

    Raises
    ------
    PrivacyError
        If ε is not a positive finite number, δ not in (0, 1), or ``records`` not a whole number.

    Examples
    --------
    >>> from postrand.mechanism.matrix import randomised_response
    >>> law = randomised_response(4, 1.0)
    >>> ShuffledPrivacy(0.1, 1e-6, records=10_000).check([law]).holds
    True
    >>> ShuffledPrivacy(0.1, 1e-6, records=100).check([law]).holds
    False
    """

    name: ClassVar[str] = "shuffled"
    wording: ClassVar[str] = (
        "the file of {records:count} records in random order is released under (ε, δ)-differential privacy, "
        "ε = {epsilon} and δ <= {level:up}"
    )
    traits: ClassVar[ModelTraits] = ModelTraits(
        code="claim.shuffled",
        plain="Differential privacy of the whole file in random order: whose record is whose is hidden among all "
        "records. It holds only where every released variable is perturbed.",
        level="delta",
        mixes=True,  # the bound takes no more than the ε of a record, which a public draw keeps
        structure="symmetric",
        rank=90,
    )
    epsilon: float = field(metadata={"range": EPSILON})
    delta: float = field(metadata={"range": Range(1e-12, 1e-2, 1e-6, "probability", _HINT)})
    records: int = 0

    def __post_init__(self) -> None:
        epsilon, delta = finite(self.epsilon), finite(self.delta)
        problems = []
        if not epsilon > 0:
            got = shown(self.epsilon, repr)
            problems.append(sentence("epsilon is not a positive number", got=got, wanted="0 < epsilon < inf"))
        if not 0 < delta < 1:
            problems.append(sentence("delta is not a probability", got=shown(self.delta, repr), wanted="0 < delta < 1"))
        if not is_whole(self.records) or self.records > 10**12:
            got = shown(self.records, repr)
            problems.append(sentence("records is not a number of records", got=got, wanted="0, or the file's own"))
        raise_all(PrivacyError, problems)
        for name, value in (("epsilon", epsilon), ("delta", delta), ("records", int(self.records))):
            object.__setattr__(self, name, value)

    @classmethod
    def example(cls, counts: NDArray[np.int64]) -> ShuffledPrivacy:
        """Return the model for a file of ten thousand records."""
        return cls(0.1, 1e-6, records=10_000)

    def of_records(self, records: int) -> ShuffledPrivacy:
        """Return the model for a file of so many records, where it names none."""
        return self if self.records else dataclasses.replace(self, records=records)

    def require(self, records: int) -> None:
        """Raise PrivacyError if the claim and the file differ in the number of records."""
        if records != self.records:
            what = "the claim and the file differ in the number of records"
            raise PrivacyError(sentence(what, where=self.name, got=f"{self.records:,}", wanted=f"{records:,}"))

    def release_problems(self, mechanism: Any, variables: Sequence[str], facts: Any) -> Iterator[str]:
        """Yield what distinguishes the released records: then their order hides nothing."""
        only = "use this claim only if all released variables are perturbed, or leave it out"
        if set(variables) != set(mechanism.variables):
            yield sentence("the claim does not cover every perturbed variable", where=self.name, fix=only)
        clear: list[str] = []
        for entry in distinguishing(mechanism, facts):
            code, names = entry["code"], entry.get("variables", [])
            if code in _CLEAR:
                clear += names
                continue
            what, fix = _DISTINGUISHING[code]
            yield sentence(what, where=self.name, got=", ".join(names) or None, fix=fix or only)
        if clear:
            yield sentence("unperturbed variables distinguish the records", where=self.name, got=", ".join(clear))

    def promise(self, size: int) -> str:
        """Return what the level means for guesses between two records that a person may have; ``size`` plays no part.

        Others see the file, and not which of its records is the person's.
        """
        return guesses_in_words(self.epsilon, delta=self.delta, of="records that a person may have")

    def check(self, matrices: Sequence[TransitionMatrix]) -> Finding:
        """Compare δ with an upper bound of the shuffled file's, from the blocks' exact ε together."""
        self._known()
        ratios = [matrix.ratio for matrix in matrices]
        known = [ratio for ratio in ratios if ratio is not None]
        if len(known) < len(ratios):
            text = "a released value excludes some true values, so there is no finite ε"
            return Finding(False, 1.0, text, ratios.index(None), "a zero")
        local = max(log_upper(math.prod(known, start=Fraction(1))), math.ulp(0.0))
        level = shuffled_delta(local, self.records, self.epsilon)
        text = fill(self.wording, records=self.records, epsilon=self.epsilon, level=level)
        return Finding(level <= self.delta, level, text, ratios.index(max(known)), "the rows that differ most")

    def constraints(self, size: int) -> LinearConstraints:
        """Return those of the largest ε of one record for which shuffling does the rest."""
        return DifferentialPrivacy(self._local()[1]).constraints(size)

    def stays(self, size: int) -> tuple[float, float]:
        """Return the ends of randomised response, at the largest ε of one record."""
        return DifferentialPrivacy(self._local()[1]).stays(size)

    def rounded(self, array: NDArray[np.float64]) -> TransitionMatrix | None:
        """Round as for the largest ε of one record."""
        return DifferentialPrivacy(self._local()[0]).rounded(array)

    def _local(self) -> tuple[float, float]:
        self._known()
        return _local_epsilon(self.epsilon, self.delta, self.records)

    def _known(self) -> None:
        if not self.records:
            what = "the claim depends on the number of records, which is unknown"
            raise PrivacyError(sentence(what, where=self.name, fix="give records, the file's own number"))


@functools.lru_cache(maxsize=64)
def _local_epsilon(epsilon: float, delta: float, records: int) -> tuple[float, float]:
    """Return an ε of one record that shuffling takes below (ε, δ), and one just above that it does not."""
    low, high = epsilon, _LARGEST
    for _ in range(60):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if shuffled_delta(middle, records, epsilon) <= delta else (low, middle)
    return low, high
