"""Which variables are released together: the blocks of a plan that are made by hand, as values."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Together:
    """Hold variables that are drawn together, and their strata: each combination of ``given`` has its own matrix."""

    variables: tuple[str, ...]
    given: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The variables, as people write a table of them."""
        return " × ".join(self.variables)

    @property
    def is_plain(self) -> bool:
        """Whether it is one variable without strata."""
        return len(self.variables) == 1 and not self.given


Blocks = tuple[Together, ...]


def current(held: Iterable[Together], perturbed: Sequence[str]) -> Blocks:
    """Return the blocks of the variables that are perturbed now: those held, then each other variable by itself.

    >>> [one.name for one in current([Together(("b", "a", "x"))], ["a", "b", "c"])]
    ['b × a', 'c']
    """
    left = dict.fromkeys(perturbed)
    found = []
    for one in held:
        names = tuple(name for name in one.variables if name in left)
        for name in names:
            del left[name]
        if names:
            given = tuple(name for name in one.given if name not in perturbed)
            found.append(Together(names, given))
    return (*found, *(Together((name,)) for name in left))


def put(blocks: Blocks, name: str, beside: str) -> Blocks:
    """Return the blocks with one variable in the block of another; ``beside`` empty: by itself.

    >>> [one.name for one in put(current([], ["a", "b", "c"]), "c", "a")]
    ['a × c', 'b']
    >>> [one.name for one in put((Together(("a", "b")),), "a", "")]
    ['b', 'a']
    """
    rest = [dataclasses.replace(one, variables=tuple(n for n in one.variables if n != name)) for one in blocks]
    found = [
        dataclasses.replace(one, variables=(*one.variables, name)) if beside and beside in one.variables else one
        for one in rest
        if one.variables
    ]
    return tuple(found) if any(name in one.variables for one in found) else (*found, Together((name,)))


def stratified(blocks: Blocks, name: str, stratum: str, *, is_one: bool) -> Blocks:
    """Return the blocks with a variable as a stratum of the block of ``name``, or without it.

    >>> stratified((Together(("a",)),), "a", "region", is_one=True)
    (Together(variables=('a',), given=('region',)),)
    """
    return tuple(
        dataclasses.replace(one, given=(*(n for n in one.given if n != stratum), *([stratum] if is_one else [])))
        if name in one.variables
        else one
        for one in blocks
    )
