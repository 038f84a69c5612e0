"""The variables of the joint model: which column each is, its codes, and what of a file the model leaves out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from postrand.codebook import Codebook
from postrand.support.showing import few

Kind = Literal["perturbed", "categories", "bins", "ranked", "weight"]
TAKEN_FOR_TRUE = "released values are taken for true ones"
"""The note of a column that was released by ranks."""

WEAKER = (
    "Differences between categories, of rare ones above all, can come out smaller in the copies than they are, also "
    "where no test fails."
)
"""What a reader of completed files must know beside the tests."""


def moved_told(approximated: Mapping[str, str]) -> list[str]:
    """Return what analyses of copies leave aside, if values of columns moved in rank; ``approximated``: notes by name.

    >>> moved_told({"pay": TAKEN_FOR_TRUE})[0][:67]
    'The values of pay were exchanged or averaged among neighbours in ra'
    >>> moved_told({"age": "in bins"})
    []
    """
    ranked = [name for name, why in approximated.items() if why == TAKEN_FOR_TRUE]
    if not ranked:
        return []
    return [
        f"The values of {few(ranked)} were exchanged or averaged among neighbours in rank, in every copy alike, and no "
        "analysis counts how far: in groups, with weights and in models, standard errors are too small, and relations "
        "with other variables are changed. A mean over all records, without weights, is right."
    ]


@dataclass(frozen=True, slots=True)
class ModelVariable:
    """Describe one variable of the model: the column ``name``, a text for each of its codes, and how it is there.

    ``kind``: ``perturbed`` (true values are drawn), ``categories`` and ``bins`` (unperturbed columns, which copies show
    as they are), ``weight`` (a sampling weight in bins), ``ranked`` (a column released by ranks: copies show the
    released values, and the model takes them for true ones). ``note`` says what the model simplifies. ``distinct``:
    each code of a number is one value.
    """

    name: str
    kind: Kind
    labels: tuple[str, ...]
    note: str = ""
    distinct: bool = False

    @property
    def size(self) -> int:
        """The number of codes; a missing value that is kept is one of them, the last."""
        return len(self.labels)


@dataclass(frozen=True, slots=True)
class Modelled:
    """Describe what the model has of a file: its variables in order, and the columns that it leaves out with a reason.

    ``codebook`` describes the true values of the perturbed variables.
    """

    variables: tuple[ModelVariable, ...]
    left_out: tuple[tuple[str, str], ...]
    codebook: Codebook

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the variables, as in :class:`postrand.mixture.Evidence`."""
        return tuple(variable.name for variable in self.variables)

    @property
    def perturbed(self) -> tuple[str, ...]:
        """The variables whose true values are drawn."""
        return tuple(variable.name for variable in self.variables if variable.kind == "perturbed")

    def __getitem__(self, name: str) -> ModelVariable:
        return self.variables[self.names.index(name)]

    def __repr__(self) -> str:
        clear = len(self.variables) - len(self.perturbed)
        out = f"; left out: {', '.join(name for name, _ in self.left_out)}" if self.left_out else ""
        return f"Modelled({len(self.perturbed)} perturbed variables and {clear} unperturbed ones{out})"
