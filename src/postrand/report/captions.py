"""What corrected tables of the public page leave aside of how the records were drawn, to follow their captions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from postrand.codebook import Codebook
from postrand.estimate.alike import drawn_alone
from postrand.mechanism import Mechanism
from postrand.support.showing import capital


def counted_words(book: Codebook) -> str:
    """Return what a corrected table of the page leaves aside of how the records were drawn, to follow its caption.

    The page is made from counts of records, in one pass: they are not weighted.
    """
    found, weights = book.survey, [one.name for one in book.with_role("weight")]
    alone = "standard errors are those of a simple random sample"
    lacks = "" if found is None else "".join(f" {text}" for text in found.lacking)
    if found is not None and (found.weights or found.replicates):
        named = found.weights or "replicate weights"
        return (
            f" Figures of the records, not of the population: each record counts once, not by {named}, and {alone}. "
            f"'postrand estimate' gives those of the population, by the survey design.{lacks}"
        )
    if found is not None:
        return f" {alone.capitalize()}, not of the recorded survey design, which 'postrand estimate' uses.{lacks}"
    if not weights:
        return ""
    return (
        " Not weighted: each record counts once, so these are figures of the records, not of the population; "
        f"for that, use 'postrand estimate --weight {weights[0]}'."
    )


def alike_words(mechanism: Mechanism) -> Callable[[Sequence[str]], str]:
    """Return what says, to follow its caption, that errors of a table take records of a unit as drawn one by one.

    Draws that a household shares count once in the tables of the page.
    """
    book = mechanism.require_codebook()
    shared = {name for names in mechanism.shared.values() for name in names}

    def said(names: Sequence[str]) -> str:
        if book.survey is not None or not shared.isdisjoint(names):  # counted_words tells of a design
            return ""
        told = drawn_alone(mechanism, names, psu="; 'postrand estimate --psu {}' counts them so")
        return f" {capital(told)}." if told else ""

    return said
