"""What every privacy model must keep."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from postrand.errors import PostrandError
from postrand.mechanism.matrix import TransitionMatrix
from postrand.privacy import PrivacyModel, level_of, promise
from postrand.testing.cases import (
    FILES,
    NEAR,
    SEED,
    Floats,
    boundary,
    check_declared,
    check_plain_data,
    exact,
    example,
    far_laws,
    on_the_way,
    require,
)

_ROUNDING = 1e-9


def check_model(kind: Any) -> None:
    """Run every check of :data:`MODEL_CHECKS` on a privacy model; raises AssertionError where one fails.

    >>> from postrand.privacy import DifferentialPrivacy
    >>> check_model(DifferentialPrivacy)
    """
    for check in MODEL_CHECKS:
        check(kind)


@functools.cache
def _paths(kind: Any) -> tuple[tuple[Any, Floats, float], ...]:
    """Return a model, a law to go to from the uniform one, and the share of the way that meets the model, for each."""
    found = []
    for counts in FILES:
        model = example(kind, counts)
        for far in far_laws(model, len(counts)):
            found.append((model, far, boundary(model, far)))
    return tuple(found)


def check_declaration(kind: Any) -> None:
    """Check that it is a model with a code for certificates, and its level is an option with a range."""
    check_declared(kind)
    require(isinstance(example(kind, FILES[-1]), PrivacyModel), kind, "it has not every verb of PrivacyModel")
    code = kind.traits.code
    require(code and code == code.lower() and " " not in code, kind, "traits.code is not a word of a certificate")
    level = next((f for f in dataclasses.fields(kind) if f.name == kind.traits.level), None)
    offered = None if level is None else level.metadata.get("range")
    require(offered is not None, kind, "traits.level is not the name of an option with a range")
    assert offered is not None
    require(offered.least <= offered.usual <= offered.most, kind, "the usual level is outside the range offered")
    require(offered.unit and offered.hint, kind, "the level has no unit, or no hint what it means")


def check_independent_release(kind: Any) -> None:
    """Check that a release that is independent of the truth meets the model."""
    for counts in FILES:
        model = example(kind, counts)
        uniform = exact(model, np.full((len(counts),) * 2, 1 / len(counts)))
        require(model.check([uniform]).holds, kind, "the uniform law does not meet it")


def check_against_constraints(kind: Any) -> None:
    """Check that ``check`` and ``constraints``, written apart, agree inside, outside and next to the boundary."""
    for model, far, share in _paths(kind):
        rows = model.constraints(len(far))
        for part in (0.0, share / 2, share * (1 - NEAR), share * (1 + NEAR), (1 + share) / 2, 1.0):
            law = exact(model, on_the_way(far, min(part, 1.0)))
            holds, excess = model.check([law]).holds, rows.excess(law.array)
            require(not holds or excess <= _ROUNDING, kind, f"a law holds that exceeds its constraints by {excess:g}")
            inside = model.traits.linear and excess < -_ROUNDING
            require(holds or not inside, kind, f"a law fails that is inside its constraints by {-excess:g}")


def check_mutant(kind: Any) -> None:
    """Check that a law just outside the boundary is rejected, one just inside is not; some laws are outside."""
    outside = 0
    for model, far, share in _paths(kind):
        inner = model.check([exact(model, on_the_way(far, share * (1 - NEAR)))])
        require(inner.holds, kind, "a law just inside its boundary is rejected")
        if share * (1 + NEAR) < 1:
            outside += 1
            outer = model.check([exact(model, on_the_way(far, share * (1 + NEAR)))])
            require(not outer.holds, kind, "a law just outside its boundary is accepted")
            require(outer.sentence, kind, "a law that fails is not said to fail")
    require(outside, kind, "every law meets it: it promises nothing")


def check_levels(kind: Any) -> None:
    """Check that the level of a law that holds is within what is asked; a model that promises less holds too."""
    smaller = kind.traits.stronger == "smaller"
    for model, far, share in _paths(kind):
        law, asked = exact(model, on_the_way(far, share / 2)), level_of(model)
        found = model.check([law])
        within = found.level <= asked if smaller else found.level >= asked
        require(found.holds and within, kind, f"it holds at {asked:g} with level {found.level:g}")
        weaker = dataclasses.replace(model, **{kind.traits.level: asked * (1.01 if smaller else 0.99)})
        require(weaker.check([law]).holds, kind, "a law meets it, and not the model that asks for less")


def check_composition(kind: Any) -> None:
    """Check that levels of independent blocks make that of the record as declared: ``sum``, ``bits`` or not at all."""
    for model, far, share in _paths(kind):
        law = exact(model, on_the_way(far, share / 2))
        alone = model.check([law]).level
        if kind.traits.composition == "sum":
            both = model.check([law, law]).level
            require(alone <= both <= 2 * alone * (1 + _ROUNDING), kind, "two blocks spend more than their sum")
            twice = dataclasses.replace(model, **{kind.traits.level: max(2 * alone * (1 + _ROUNDING), 1e-9)})
            require(twice.check([law, law]).holds, kind, "two blocks do not meet the sum of their levels")
        elif kind.traits.composition == "bits":
            both = model.check([law, law]).level
            require(math.isclose(alone, both, rel_tol=_ROUNDING), kind, "two equal blocks have another share of bits")
        else:
            _check_two_blocks(model, law)


def _check_two_blocks(model: Any, law: TransitionMatrix) -> None:
    """Check that two blocks are judged or refused by a sentence, and never better than one."""
    try:
        both = model.check([law, law])
    except PostrandError:
        return
    require(not both.holds or both.level >= model.check([law]).level, model, "two blocks spend less than one of them")


def check_post_processing(kind: Any) -> None:
    """Check that merging released categories, which anyone can do, keeps the guarantee, where it is declared."""
    if not kind.traits.post_processing:
        return
    for model, far, share in _paths(kind):
        law = exact(model, on_the_way(far, share * (1 - NEAR)))
        for first in range(1, law.size):
            merged = law.weights.copy()
            merged[:, 0] += merged[:, first]
            merged[:, first] = 0
            require(model.check([TransitionMatrix(merged)]).holds, kind, "merging released categories breaks it")


def check_mixing(kind: Any) -> None:
    """Check that a public draw of one of two laws meets the model where both do, if it is declared.

    The release (which law, released category) is one matrix; each true category stands in it twice, so it is square.
    """
    if not kind.traits.mixes:
        return
    for model, far, share in _paths(kind):
        laws = [on_the_way(far, share * part) for part in (0.5, 0.9)]
        for parts in ((0.5, 0.5), (0.01, 0.99)):
            rows = np.hstack([part * law for part, law in zip(parts, laws, strict=True)])
            found = model.check([TransitionMatrix.from_array(np.vstack([rows, rows]))])
            most = max(model.check([exact(model, law)]).level for law in laws)
            within = found.level <= most * (1 + _ROUNDING)
            require(found.holds and within, kind, "a public draw of one of two laws spends more than either")


def check_sentence(kind: Any) -> None:
    """Check that what holds is said in a sentence that names the level."""
    for model, far, share in _paths(kind):
        text = model.check([exact(model, on_the_way(far, share / 2))]).sentence
        plain = text and text == text.strip() and text.isprintable() and not text.endswith(".")
        require(plain, kind, f"its finding is not said in a plain sentence: {text!r}")
        said = promise(model, 3)
        require(said and not said.endswith("."), kind, f"its promise is not said in plain words: {said!r}")


def check_rounding(kind: Any) -> None:
    """Check that what its own rounding returns is close to the matrix."""
    generator = np.random.default_rng(SEED)
    for model, far, share in _paths(kind):
        if hasattr(model, "rounded"):
            array = on_the_way(far, share * (1 - NEAR) * generator.uniform())
            law = model.rounded(array)
            near = law is None or np.abs(law.array - array).max() <= 1e-6
            require(near, kind, "its rounding moves a matrix far")


MODEL_CHECKS: tuple[Callable[[Any], None], ...] = (
    check_declaration,
    check_plain_data,
    check_independent_release,
    check_against_constraints,
    check_mutant,
    check_levels,
    check_composition,
    check_post_processing,
    check_mixing,
    check_sentence,
    check_rounding,
)
"""The conformance suite of privacy models."""
