"""Divide a record's β among the attributes that have none of their own (RDF Definition 2: bits add up)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from postrand.designers.bistochastic.truthfulness import allocate
from postrand.errors import DesignError, sentence

_MARGIN = 1e-11
"""Of β, so that laws that keep the shares surely add up to it."""


def shares(
    beta: float,
    priors: Sequence[ArrayLike],
    weights: Sequence[float] | None = None,
    *,
    others: Sequence[tuple[float, int]] = (),
) -> tuple[float, ...]:
    """Return the β of each attribute that together with the others make ``Σ H(P_k) >= β Σ ln S_k``.

    ``priors`` (S_k,) are those of the attributes that share; ``weights`` say what a true value of each is worth.
    ``others`` are ``(entropy in nats, at least; S)`` of the attributes that do not. The shares are those of the most
    truthful laws (:func:`allocate`).

    Raises
    ------
    DesignError
        If even uniform laws for those that share would not reach β, or as :func:`allocate`.

    Examples
    --------
    >>> [round(b, 3) for b in shares(0.5, [[0.9, 0.1], [0.25] * 4])]
    [0.413, 0.544]
    >>> [round(b, 3) for b in shares(0.5, [[0.5, 0.5]], others=[(0.75 * math.log(4), 4)])]
    [0.0]
    """
    room = math.fsum(math.log(np.size(prior)) for prior in priors)
    whole = room + math.fsum(math.log(size) for _, size in others)
    missing = beta * whole - math.fsum(nats for nats, _ in others)
    if missing > room * (1 + _MARGIN):
        raise DesignError(
            sentence(
                "the blocks with their own beta leave more bits to the others than these can provide",
                got=f"{missing / math.log(2):.6g} bits",
                wanted=f"at most {room / math.log(2):.6g}",
                fix="raise the blocks' own beta, or lower the record's",
            )
        )
    if missing <= 0 or not room:
        return (0.0,) * len(priors)
    best = allocate(priors, min(missing / room + _MARGIN, 1.0), weights)
    return tuple(law.beta for law in best.matrices)
