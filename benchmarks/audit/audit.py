"""The audit: all cases by the program as it is, then every planted defect; each case is one run of the program."""

import dataclasses
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from benchmarks.audit import neighbours
from benchmarks.audit.cases import CASES
from benchmarks.audit.checks import dependence_problems, law_problems, sampler_problems
from benchmarks.audit.planted_files import unguarded
from benchmarks.audit.runs import observe, quiet, verified, where

from postrand.errors import PostrandError

ALPHA = 1e-3
"""The probability that any bound of an audit is above the truth, all cases together."""
FOLDER_CLAIMS = 2


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found of a case: its bounds, and what refuses it or contradicts it, by the means that found it."""

    name: str
    covers: str
    draws: int
    bounds: tuple
    problems: dict
    seconds: float

    @property
    def caught(self):
        """The means by which something wrong was found, in words."""
        found = [f"{b.claim}: {b.measured:.3g}, stated {b.stated:.3g}" for b in self.bounds if b.broken]
        return [*found, *(name for name, told in self.problems.items() if told)]


def bounds_in_all():
    """Return how many bounds an audit makes; each has the same part of ALPHA."""
    return FOLDER_CLAIMS + sum(len(case.claims) for case in CASES)


def audit_case(case, rng, plant=None, copies=None):
    """Run a case, with a planted defect or as it is, and measure what it does."""
    began, alpha = time.monotonic(), ALPHA / bounds_in_all()
    case = case if plant is None else dataclasses.replace(case, command=False)
    with tempfile.TemporaryDirectory() as folder:
        made, refused = _observed(case, where(folder, "run"), rng, plant, copies)
        if refused and plant is not None:
            made, _ = _observed(case, where(folder, "unguarded"), rng, _both(plant), copies)
        if made is None:
            return Finding(case.name, case.covers, 0, (), {"refused": refused}, time.monotonic() - began)
        seen, sampler = made
        problems = {
            "refused": refused,
            "verify": [text for release in seen.releases[: len(case.waves)] for text in verified(release.path)],
            "law": law_problems(seen, case),
            "independence": dependence_problems(seen),
            "sampler": sampler,
        }
        bounds = tuple(claim(seen, case, alpha, rng) for claim in case.claims)
    return Finding(case.name, case.covers, seen.of.size, bounds, problems, time.monotonic() - began)


def _observed(case, folder, rng, plant, copies):
    """Return what was seen and what is wrong with the sampler, or None; and why the program refused."""
    try:
        with (plant or quiet)():
            seen = observe(case, folder, rng, copies)
            return (seen, sampler_problems(seen.release)), []
    except PostrandError as error:
        return None, [str(error)]


def _both(plant):
    @contextmanager
    def planted():
        with plant(), unguarded():
            yield

    return planted


def audit_folders(runs, plant=None):
    """Release two neighbouring files many times, with a planted defect or as they are."""
    began, alpha = time.monotonic(), ALPHA * FOLDER_CLAIMS / bounds_in_all()
    with tempfile.TemporaryDirectory() as folder:
        try:
            with (plant or quiet)():
                seen, release = neighbours.folders(where(folder, "folders"), runs, by_command=plant is None)
        except PostrandError as error:
            found = {"refused": [str(error)]}
            return Finding(neighbours.NAME, neighbours.COVERS, 0, (), found, time.monotonic() - began)
        problems = {"verify": verified(release.path)}
        bounds = tuple(neighbours.bounds(seen, release, alpha))
    return Finding(neighbours.NAME, neighbours.COVERS, 2 * runs, bounds, problems, time.monotonic() - began)


def generator():
    """Return the audit's own randomness: it fills files and cuts halves. Release keys are the program's."""
    return np.random.default_rng()
