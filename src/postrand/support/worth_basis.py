"""Under which frequencies the worth of a release is computed: the same release is worth more or less under others."""

from __future__ import annotations

from typing import Literal

Basis = Literal["equal", "plan", "file", "released", "model"]

BASES: dict[Basis, str] = {
    "equal": "if every combination were equally frequent",
    "plan": "with the frequencies that the plan assumes",
    "file": "with this file's own frequencies",
    "released": "with the frequencies that the release estimates, which differ by chance from those of the file",
    "model": "with the shares that the model of the completed copies estimates, ± the error of its simulation",
}
"""The words of each basis, which stand beside every worth that a command prints."""

OTHERS = (
    f"Worth is the same figure on every page: {BASES['equal']}, which says nothing of the file. Where a few values are "
    "much more frequent than others, a table is usually worth less; where a figure takes other frequencies, it says so."
)
"""What the worth of a table takes for granted."""

MEAN = "on average (harmonic mean)"
HARMONIC = "the harmonic mean of the tables, each counted once"
WEIGHTED = "the harmonic mean of the tables, each counted by its weight in the workload"
WORST = "the table that is worth least for its weight"
"""How the worth of several tables is made one number, and the short words for it.

The table that is worth least counts most in a harmonic mean.
"""

PRIORS = {
    "uniform": "all values equally frequent",
    "file": "the file's own shares",
    "dp": "the file's shares, counted with noise",
}
"""The words of each prior of a plan: the shares under which a matrix is designed, and its value is computed."""
