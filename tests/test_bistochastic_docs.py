"""The examples of the bistochastic guide run, and its table of the paper is the one recomputed."""

import doctest
import re

import numpy as np

from postrand.designers.bistochastic import blocks, circulant, tridiagonal
from postrand.mechanism.matrix import randomised_response
from tests.conftest import ROOT


def test_the_guide_s_examples_run():
    outcome = doctest.testfile(str(ROOT / "docs" / "bistochastic.md"), module_relative=False, encoding="utf-8")
    assert outcome.attempted >= 6
    assert outcome.failed == 0


def test_the_table_of_the_paper_is_recomputed():
    families = [
        [randomised_response(12, e) for e in (5.0, 3.0, 1.0)],
        [blocks([k] * (12 // k)) for k in (2, 3, 6)],
        [tridiagonal(np.full(11, a)) for a in (0.1, 0.3, 0.4)],
        [circulant([q] + [(1 - q) / 11] * 11) for q in (0.9, 0.6, 0.2)],
    ]
    text = (ROOT / "docs" / "papers" / "rdf.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| [^|]+ = [^|]+ \| ([\d., ]+) \| [\d, ]+ \|", text, re.MULTILINE)
    assert [row.strip() for row in rows] == [", ".join(f"{100 * M.beta:.1f}" for M in laws) for laws in families]
