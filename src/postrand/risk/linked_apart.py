"""What a release makes of linked variables: perturbed separately, or perturbed and beside their own function."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from postrand.mechanism import Mechanism
from postrand.risk.linked import Link, gathered


@dataclass(frozen=True, slots=True)
class Apart:
    """Hold a link that a release tears apart: ``clear`` of its variables leave unperturbed, ``about`` are perturbed.

    ``is_certain``: true values of ``about`` can be computed from ``clear``. ``is_exact``: the link is no near one.
    """

    clear: tuple[str, ...]
    about: tuple[str, ...]
    text: str
    is_certain: bool = False
    is_exact: bool = False


def units_of(mechanism: Mechanism) -> dict[str, str]:
    """Return for each perturbed variable what perturbs it: its block, the split or its rank law.

    The variables of a split are one unit: no record pays for two of its subsets.
    """
    units = {name: f"block {number}" for number, block in enumerate(mechanism.blocks) for name in block.variables}
    if mechanism.split is not None:
        units |= {name: units.get(name, "split") for name in mechanism.variables}
    return units | {column.variable: f"rank {column.variable}" for column in mechanism.numerical}


def torn_apart(
    links: Sequence[Link],
    units: Mapping[str, str],
    clear: Collection[str],
    told: Collection[tuple[str, str]],
    certain: Collection[tuple[str, str]] = (),
) -> Iterator[Apart]:
    """Yield the links whose variables are all released, but not perturbed together.

    ``told`` are pairs of a perturbed and an unperturbed variable that a curator is warned of already, ``certain``
    those of them where the second all but settles the first.
    """
    released = [link for link in links if all(name in units or name in clear for name in link.names)]

    def stands(link: Link) -> object:
        own = units.get(link.variables[0])
        return "clear" if own is None else own in {units.get(name) for name in link.of}

    for link in gathered(released, stands):
        about = tuple(name for name in link.names if name in units)
        free = tuple(name for name in link.names if name in clear)
        if not about:
            continue
        if len({units[name] for name in about}) > 1:
            text = f"{link.text}; {_separately(about, units)}: {_together(link, about, units)}"
            yield Apart((), about, text, is_exact=link.is_exact)
        settles = _settles(link, about)
        known = certain if settles else told
        if free and not all((name, other) in known for name in about for other in free):
            reason = "no epsilon prevents this: drop the unperturbed variables, or perturb all of them together"
            reveal = "reveals" if len(free) == 1 else "reveal"
            text = f"{link.text}; {', '.join(free)} released unperturbed {reveal} true values of {', '.join(about)}"
            text = f"{text}, which {'is' if len(about) == 1 else 'are'} perturbed; {reason}"
            yield Apart(free, about, text, settles, link.is_exact)


def _settles(link: Link, about: Sequence[str]) -> bool:
    """Whether the other columns of a link say the values of these: a function's argument does not follow from it."""
    return set(about) <= set(link.variables) if link.kind in ("function", "near") else len(about) == 1


def _separately(about: Sequence[str], units: Mapping[str, str]) -> str:
    in_blocks = all(units[name].startswith("block") for name in about)
    cost = "epsilon is spent again on one fact, and" if in_blocks else "one fact is perturbed several times, and"
    return f"they are perturbed separately, so {cost} released values contradict each other"


def _together(link: Link, about: Sequence[str], units: Mapping[str, str]) -> str:
    drop = f"drop {', '.join(link.variables[-1:] if link.kind == 'dummies' else link.variables)}"
    ranked = any(units[name].startswith("rank") for name in about)
    return drop if ranked else f"perturb them in one block, or {drop}"
