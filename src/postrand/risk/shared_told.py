"""Findings on variables that all members of a household share, and that are perturbed again for each member."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from postrand.risk.finding import Finding, listed, share_text
from postrand.risk.shared import Shared


def of_household(held: Sequence[Shared]) -> Finding:
    """Return one finding on variables of which the same is told; the figures are those of one variable alone."""
    is_one, names = len(held) == 1, listed([one.name for one in held])
    each = "it" if is_one else "each"
    text = f"all members have the same value of {names} {_where(held[0])}, and {each} is perturbed "
    text += "again for each member"
    if _is_measured(held[0]):
        whole, single, blind = (
            listed([share_text(getattr(one, name) or 0.0) for one in held]) for name in ("majority", "single", "blind")
        )
        whole += " of the households" + ", in this order" * (not is_one)
        text += (
            f": the best guess from what all members show of {each} is right in {whole}, that from one member in "
            f"{single}, that without the release in {blind}"
            if held[0].is_partly
            else f": the most common released value of the members is the true value in {whole}, the released value of "
            f"one member in {single}, the best guess without the release in {blind}"
        )
    else:
        text += "; how often the members together show the true value is not measured, and may be much"
    fix = (
        "to draw it once for each household, perturb it in a block of its own and name it in [unit] household_variables"
        if is_one
        else "to draw them once for each household, perturb them in blocks of their own and name them in [unit] "
        "household_variables"
    )
    figures = _figures(held[0]) if is_one else {}
    about = tuple(one.name for one in held)
    return Finding("household", (), about, f"{text}; epsilon adds up over the members; {fix}", figures)


def in_one(found: Sequence[Finding], shared: Iterable[Shared], words: Callable[[str], str]) -> Iterator[Finding]:
    """Yield the findings, in their order, with one on all variables of households of which the same is told."""
    kinds: dict[tuple[str, bool, bool], list[Shared]] = {}
    about = {one.about[0]: one for one in found if one.code == "household"}
    for one in (one for one in shared if one.name in about):
        kinds.setdefault((_where(one), one.is_partly, _is_measured(one)), []).append(one)
    first: dict[str, list[Shared] | None] = {}
    for held in kinds.values():
        names = [name for name in about if name in {one.name for one in held}]  # as they are told
        held.sort(key=lambda one: names.index(one.name))
        first |= {name: None for name in names[1:]} | ({names[0]: held} if names[1:] else {})
    for finding in found:
        name = finding.about[0] if finding.code == "household" else ""
        if name not in first:
            yield finding
        elif together := first[name]:
            yield of_household(together).worded(words)


def _figures(one: Shared) -> dict[str, float]:
    figures = {"constant": one.constant}
    if one.majority is not None and one.single is not None:
        figures |= {"majority": one.majority, "single": one.single}
        figures |= {} if one.blind is None else {"blind": one.blind}
    return figures


def _is_measured(one: Shared) -> bool:
    return one.majority is not None and one.single is not None


def _where(one: Shared) -> str:
    share = f"in {share_text(one.constant)} of the households" if one.constant < 1 else "in all households"
    return f"{share} with several members"
