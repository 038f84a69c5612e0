"""How records were drawn, as an office records it or an analyst states it: clusters, strata, replicate weights."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from postrand.errors import SpecificationError, UsageError, nearest, raise_all, sentence, shown
from postrand.support.inputs import finite, listed

Replication = Literal["brr", "fay", "jk1", "jkn", "bootstrap", "other"]
REPLICATIONS: tuple[str, ...] = get_args(Replication)
Lonely = Literal["refuse", "adjust", "certainty"]
LONELY: tuple[str, ...] = get_args(Lonely)
_LARGER = "standard errors are then without it, usually a little too large"
WITHOUT = {
    "weights": "estimates are then those of the records, not of the population",
    "strata": "standard errors are then without them, usually a little too large",
    "psu": "standard errors are then without clusters, usually too small",
    "fpc": _LARGER,
    "replicates": "standard errors are then those of weights, strata and clusters, if these are named",
    "calibrated": _LARGER,
}
"""What estimates are if a part of a design is left out."""
MOST_EFFECT = 1000
"""The largest factor that clusters are believed to have: all records of clusters of 1,000 would be the same."""
_DONE = {"weights": "used", "strata": "used", "psu": "drawn"}
NAMED = {"weights": "weights", "strata": "strata", "psu": "clusters"}
"""The parts that can have been drawn by and not be released, in words."""


@dataclass(frozen=True, slots=True)
class SurveyDesign:
    """Name the released columns that say how the records were drawn. None of them may be perturbed.

    Without replicate weights, variances are linearised: with ``z_p`` the sum over the primary sampling unit (PSU) p of
    ``w_i`` times the influence of record i, ``V = Σ_h (1 − f_h) n_h/(n_h − 1) Σ_{p in h} (z_p − z̄_h)(z_p − z̄_h)ᵀ``.
    With replicate weights, each estimate is made again with each of them: ``V = scale Σ_r rscale_r (θ_r − θ̄)(θ_r −
    θ̄)ᵀ``. Either way V includes sampling and perturbation, which is drawn for each record alone.

    Parameters
    ----------
    weights
        The column of sampling weights; without it all records weigh the same.
    strata, psu
        Columns of strata and of primary sampling units (clusters), numbered within or across strata. Without ``psu``
        each record is a unit.
    fpc
        A column that is the same for all records of a stratum: the number of PSUs in the population, or the share of
        them that was drawn; or a number, the share drawn in every stratum, above 0 and 1 at most. What it takes off is
        the variance of sampling, not that of the perturbation: 1, of a file that is the whole population, leaves that
        of the perturbation alone. With replicate weights: the share that was drawn, of which they take account by their
        factors.
    replicates
        The columns of replicate weights, which include the sampling weight.
    method
        How they were made: ``brr``, ``fay``, ``jk1``, ``jkn``, ``bootstrap`` or ``other``.
    rho
        Fay's factor, 0 <= ρ < 1.
    scale, rscales
        The factor of V, and one for each replicate. By default 1 / R for ``brr``, 1 / (R (1 − ρ)²) for ``fay``,
        (R − 1) / R for ``jk1``, 1 / (R − 1) for ``bootstrap``, and 1 else; ``jkn`` needs ``rscales``.
    mse
        Take deviations from the estimate rather than from the mean of the replicates.
    calibrated
        Columns of categories whose population totals the weights meet one by one (post-strata, or raked margins): what
        they explain of the influence then does not vary. For other calibration use replicate weights.
    lonely
        A stratum with one PSU: ``refuse``; ``adjust``: its deviation is taken from 0, the mean of all influences;
        ``certainty``: it was drawn with certainty, and adds nothing.
    not_released
        What the records were drawn by, and no released column tells: ``weights``, ``strata``, ``psu``; beside a column
        of ``psu``, such as households, larger clusters. Said wherever errors are.
    cluster_effect
        Of clusters that are not released: the variance with them over the variance without them, with the same weights
        and strata, 1 or more. V is multiplied by it, with its part by perturbation, which clusters do not change: that
        of estimates from the release is enough (``postrand clusters --plan``), and that of the file makes errors of
        what is perturbed rather too large.

    Raises
    ------
    UsageError
        With every part that does not fit.

    Examples
    --------
    >>> SurveyDesign(weights="w", strata="region", psu="village").columns
    ('w', 'region', 'village')
    >>> SurveyDesign(weights="w", not_released=["psu"], cluster_effect=1.6).cluster_effect
    1.6
    >>> SurveyDesign(weights="w", replicates=["w1", "w2", "w3", "w4"], method="fay", rho=0.5).factors
    (1.0, 1.0, 1.0, 1.0)

    References
    ----------
    Binder (1983) for linearisation; Wolter (2007), Introduction to Variance Estimation, for replication; Deville &
    Särndal (1992) for calibration.
    """

    weights: str | None = None
    strata: str | None = None
    psu: str | None = None
    fpc: str | float | None = None
    replicates: tuple[str, ...] = ()
    method: Replication | None = None
    rho: float | None = None
    scale: float | None = None
    rscales: tuple[float, ...] = ()
    mse: bool = False
    calibrated: tuple[str, ...] = ()
    lonely: Lonely = "refuse"
    not_released: tuple[str, ...] = ()
    cluster_effect: float | None = None

    def __post_init__(self) -> None:
        for name in ("replicates", "rscales", "calibrated", "not_released"):
            given = getattr(self, name)
            held = listed(given)
            object.__setattr__(self, name, (given,) if held is None else tuple(held))
        raise_all(UsageError, _problems(self))

    @property
    def columns(self) -> tuple[str, ...]:
        """Every column that it names, each once."""
        return tuple(name for name, _ in self.parts)

    @property
    def parts(self) -> tuple[tuple[str, str], ...]:
        """Every column that it names, each once, with the first part that names it.

        >>> SurveyDesign(weights="w", strata="region", calibrated=("region", "sex")).parts
        (('w', 'weights'), ('region', 'strata'), ('sex', 'calibrated'))
        """
        found: dict[str, str] = {}
        for part in WITHOUT:
            named = getattr(self, part)
            for name in [named] if isinstance(named, str) else named if isinstance(named, tuple) else ():
                found.setdefault(name, part)
        return tuple(found.items())

    @property
    def lacking(self) -> tuple[str, ...]:
        """What the release does not tell of how records were drawn, in sentences.

        >>> SurveyDesign(weights="w", not_released=["psu"]).lacking
        ('Clusters were drawn, and are not released: standard errors are then without clusters, usually too small.',)
        """
        drawn = {part: f"{NAMED[part].capitalize()} were {_DONE[part]}, and are not released" for part in NAMED}
        told = {part: f"{drawn[part]}: {WITHOUT[part]}." for part in self.not_released}
        if "psu" in told and self.psu is not None:
            told["psu"] = (
                "Clusters larger than those of the column of psu were drawn, and are not released: standard errors "
                "are usually too small."
            )
        if self.cluster_effect is not None:
            told["psu"] = (
                f"{drawn['psu']}. They multiply variances by {self.cluster_effect:g}, as the office states: 'postrand "
                "estimate' counts that (of most variables, rather too much); elsewhere, take standard errors times "
                f"{math.sqrt(self.cluster_effect):.3g}."
            )
        return tuple(told[part] for part in NAMED if part in told)

    @property
    def factors(self) -> tuple[float, ...]:
        """What the squared deviation of each replicate is multiplied by."""
        count = len(self.replicates)
        if not count:
            return ()
        usual = {"brr": 1 / count, "jk1": (count - 1) / count, "bootstrap": 1 / max(count - 1, 1)}
        if self.method == "fay":
            assert self.rho is not None, "checked"
            usual["fay"] = 1 / (count * (1 - self.rho) ** 2)
        scale = usual.get(str(self.method), 1.0) if self.scale is None else self.scale
        return tuple(scale * each for each in (self.rscales or (1.0,) * count))


def seems_strata(name: str, label: str = "") -> bool:
    """Return whether the name or label of a column says that it has the strata from which records were drawn.

    >>> seems_strata("strata"), seems_strata("h2", "Sampling stratum"), seems_strata("strategy")
    (True, True, False)
    """
    return bool(_STRATA.fullmatch(name) or _OF_STRATA.search(label))


def seems_clusters(name: str, label: str = "") -> bool:
    """Return whether the name or label of a column says that it numbers the clusters that were drawn.

    >>> seems_clusters("PSU"), seems_clusters("v021", "Primary sampling unit"), seems_clusters("psux")
    (True, True, False)
    >>> seems_clusters("school_id"), seems_clusters("school"), seems_clusters("school_type")
    (True, False, False)
    """
    return bool(_NAMES.fullmatch(name) or _PLACES.fullmatch(name) or _LABELS.search(label))


_STRATA = re.compile(
    r"(v_?|var_?|id_?)?(strata|stratum|schicht|estrato|strato)(_?(id|no|nr|num|number))?", re.IGNORECASE
)
_OF_STRATA = re.compile(
    r"\b(sample|sampling) (strata|stratum)\b|\b(strata|stratum) (number|id)\b|\bZiehungsschicht", re.IGNORECASE
)
_NAMES = re.compile(
    r"(v_?|var_?|id_?)?(psu|cluster|clusters|upm|klumpen|grappe|(sample|sampling)_?points?)(_?(id|no|nr|num|number))?",
    re.IGNORECASE,
)
_PLACES = re.compile(
    r"(v_?|var_?|id_?)?(school|schule|ecole|école|escuela|village|dorf|aldea|class|classroom|klasse|hospital|clinic|klinik|"
    r"firm|company|establishment|betrieb|ea|enumeration_?area|segment)_?(id|no|nr|num|number|code)",
    re.IGNORECASE,
)
_LABELS = re.compile(
    r"\bprimary sampling unit|\bPSU\b|\bsampl\w* (cluster|point)|\bcluster (number|id)|\bKlumpen|\bPrimäreinheit|"
    r"\bunité primaire|\bgrappe|\bunidad primaria|\bconglomerado|\bunità primaria",
    re.IGNORECASE,
)


def survey_from_dict(data: Any, where: str, names: Iterable[str]) -> SurveyDesign:
    """Build the design that a codebook records from plain data.

    Raises
    ------
    SpecificationError
        With every unknown part, every column that is none of ``names``, and every part that does not fit.
    """
    if not isinstance(data, Mapping):
        raise SpecificationError(sentence("the survey design is not a table", where=where, fix="write [survey]"))
    problems = [
        sentence(f"unknown part {k!r}{nearest(str(k), _FIELDS)}", where=where) for k in data if k not in _FIELDS
    ]
    try:
        design = SurveyDesign(**{k: data[k] for k in data if k in _FIELDS})
    except UsageError as error:
        raise SpecificationError([*problems, *(f"{where}: {text}" for text in error.problems)]) from None
    raise_all(SpecificationError, [*problems, *column_problems(design, names, where)])
    return design


def column_problems(design: SurveyDesign, names: Iterable[str], where: str) -> Iterable[str]:
    """Say which columns of a design are none of ``names``, and where a number stands for one."""
    if _is_number(design.fpc):
        fix = "leave it out, and state the share where an estimate is asked: 'postrand estimate' with --fpc"
        yield sentence("fpc of a codebook names a column", where=where, got=shown(design.fpc), fix=fix)
    known = tuple(names)
    for name in design.columns:
        if name not in known:
            yield sentence(f"no variable {name!r} in the codebook{nearest(name, known)}", where=where)


def survey_to_dict(design: SurveyDesign) -> dict[str, Any]:
    """Return plain data; parts at their default are left out.

    >>> survey_to_dict(SurveyDesign(psu="village", strata="region"))
    {'strata': 'region', 'psu': 'village'}
    """
    plain = SurveyDesign()
    found = {name: getattr(design, name) for name in _FIELDS}
    kept = {name: value for name, value in found.items() if value != getattr(plain, name)}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in kept.items()}


_FIELDS = tuple(field.name for field in dataclasses.fields(SurveyDesign))


def _problems(design: SurveyDesign) -> Iterable[str]:
    """Yield every problem; the parts can have any type, because they come from a file or are typed."""
    names = [*design.replicates, *design.calibrated]
    single = [getattr(design, part) for part in ("weights", "strata", "psu")]
    single += [] if _is_number(design.fpc) else [design.fpc]
    if not all(isinstance(name, str) for name in names) or not all(n is None or isinstance(n, str) for n in single):
        yield sentence("a part of a survey design names a column by a text", got=shown(single, repr))
        return
    if _is_number(design.fpc) and not 0 < finite(design.fpc) <= 1:
        yield sentence("fpc is not the share that was drawn", got=shown(design.fpc), wanted="above 0, and 1 at most")
    if len(set(design.replicates)) != len(design.replicates):
        yield sentence("a column of replicate weights is named twice")
    if not isinstance(design.mse, bool):
        yield sentence("'mse' is not true or false", got=shown(design.mse, repr))
    if design.lonely not in LONELY:
        what = f"unknown treatment of a stratum with one PSU{nearest(shown(design.lonely), LONELY)}"
        yield sentence(what, got=shown(design.lonely, repr), wanted=" or ".join(LONELY))
    yield from _lacking_problems(design)
    yield from _replication_problems(design) if design.replicates else _linear_problems(design)


def _lacking_problems(design: SurveyDesign) -> Iterable[str]:
    """Yield what is wrong with the parts that are said not to be released, and with the effect of clusters."""
    for part in design.not_released:
        if part not in NAMED:
            what = f"unknown part {shown(part, repr)} in not_released{nearest(shown(part), NAMED)}"
            yield sentence(what, wanted=" or ".join(NAMED))
        elif part != "psu" and getattr(design, part) is not None:
            what = f"{part!r} is in not_released, and names the column {shown(getattr(design, part), repr)}"
            yield sentence(what, fix="keep one of them")
    if design.cluster_effect is None:
        return
    if not (_is_number(design.cluster_effect) and 1 <= finite(design.cluster_effect) <= MOST_EFFECT):
        what = "cluster_effect is not the factor by which clusters multiply variances"
        yield sentence(what, got=shown(design.cluster_effect), wanted=f"a number from 1 to {MOST_EFFECT:,}")
    if design.psu is not None or design.replicates:
        which = "clusters" if design.psu is not None else "replicate weights"
        yield sentence(f"cluster_effect stands beside {which}, which it would multiply", fix="keep one of them")


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _linear_problems(design: SurveyDesign) -> Iterable[str]:
    for part in ("method", "rho", "scale", "rscales"):
        if getattr(design, part):
            yield sentence(f"{part!r} is about replicate weights, and none are named", fix="name them in 'replicates'")


def _replication_problems(design: SurveyDesign) -> Iterable[str]:
    parts = [part for part in ("strata", "psu", "calibrated") if getattr(design, part)]
    if parts:
        what = "replicate weights already hold the strata, clusters and calibration"
        yield sentence(what, got=", ".join(parts), fix="leave these out, or leave out the replicate weights")
    if len(design.replicates) < 2:
        yield sentence("one column of replicate weights does not show any variation", wanted="2 or more")
    if design.method not in REPLICATIONS:
        what = f"the method of the replicate weights is not known{nearest(shown(design.method), REPLICATIONS)}"
        yield sentence(what, got=shown(design.method, repr), wanted=", ".join(REPLICATIONS))
    if (design.method == "fay") != (design.rho is not None):
        what = "'fay' needs rho" if design.method == "fay" else "rho is for the method 'fay'"
        yield sentence(what, wanted="Fay's factor, from 0 to below 1")
    elif design.rho is not None and not 0 <= finite(design.rho) < 1:
        yield sentence("rho is not from 0 to below 1", got=shown(design.rho))
    if design.method == "jkn" and not design.rscales:
        fix = "give (n_h − 1) / n_h of the stratum that the replicate leaves a unit out of"
        yield sentence("'jkn' needs rscales, one for each replicate", fix=fix)
    if design.rscales and len(design.rscales) != len(design.replicates):
        yield sentence("not one of rscales for each replicate", got=len(design.rscales), wanted=len(design.replicates))
    given = [*design.rscales, *([] if design.scale is None else [design.scale])]
    if not all(math.isfinite(finite(one)) and finite(one) >= 0 for one in given):
        yield sentence("scale and rscales are not numbers >= 0")
