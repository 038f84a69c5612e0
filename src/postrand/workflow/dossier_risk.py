"""The table of risk before and after perturbation: measures as text, each with what it means."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from postrand.codebook import Codebook
from postrand.errors import PostrandError, UsageError, sentence
from postrand.formats import Source
from postrand.mechanism import Mechanism
from postrand.report.histogram import histogram
from postrand.risk.assessment import report_of
from postrand.risk.exposure import Exposure, TrueFile
from postrand.risk.file import CodedColumns, RiskFile
from postrand.risk.informed import THRESHOLD, Matches, Spread
from postrand.risk.measures import Assessment, Measured, kinds, measure_file
from postrand.risk.measures.base import shown
from postrand.risk.modelled import NO_SHARE
from postrand.risk.report import RiskReport
from postrand.support.showing import capital, outward, outward_percent

MEANING = "What it means"
Row = dict[str, object]

CAPTION = (
    "Two attackers. The register attacker has a register of the population and looks for any person, but does not know "
    "who is in the file. τ1 and τ2 are about this attacker too. The informed attacker knows the "
    "true keys of persons and that each of them is in the file, the matrices, and the released file. They link each "
    "person to the released record with the largest posterior probability by its keys, and by unperturbed columns that "
    "go with them. This attacker is the stronger one.",
    "A link is right if the record is that of the person. “95%” is a prediction interval of the number of right "
    "links in one release. After perturbation the links are simulated: whole releases are drawn from the matrices and "
    "attacked. "
    f"A risk is called high above {THRESHOLD:g}.",
)
NO_TAU = f"not computed: {NO_SHARE}"

MEASURES: tuple[tuple[str, str, Callable[[RiskReport], object]], ...] = (
    ("Records", "", lambda r: r.records),
    ("Occupied cells of the keys", "Combinations of key values that occur.", lambda r: r.occupied),
    (
        "Sample uniques",
        "Records with a combination that no other record has. Perturbation makes new ones, often not rare persons.",
        lambda r: r.sample_uniques,
    ),
    ("k-anonymity: smallest class", "Fewest records with one combination.", lambda r: r.k_anonymity.k),
    ("Records in classes below 3", "", lambda r: r.k_anonymity.records_below.get(3, 0)),
    ("Records in classes below 5", "", lambda r: r.k_anonymity.records_below.get(5, 0)),
    (
        "Population uniques among sample uniques (τ1)",
        "Expected number of records that are unique in the file and in the population.",
        lambda r: _tau(r.tau1_estimate),
    ),
    (
        "Expected correct matches, register attacker, sample uniques (τ2)",
        "Expected correct matches when the register attacker links each sample unique once.",
        lambda r: _tau(r.tau2_estimate),
    ),
    ("Model", "How τ1 and τ2 were estimated.", lambda r: f"{r.model}; {r.status}" if r.model else r.status),
)
"""The measures of a report, each with its text and meaning; they are exact, and therefore internal."""


def report_rows(before: RiskReport, after: RiskReport | None, notes: tuple[str, str] = ("", "")) -> Iterator[Row]:
    """Yield the measures of two reports; ``notes`` give the reasons why some could not be computed before or after."""
    for measure, meaning, value in MEASURES:
        row: Row = {"Measure": measure}
        for when, report, note in zip(("Before", "After"), (before, after), notes, strict=True):
            shown = "not computed" if report is None else value(report)
            row[when] = f"not computed: {note}" if note and shown in ("not computed", NO_TAU) else shown
        yield {**row, MEANING: meaning}


def require_one_share(codebook: Codebook, fraction: float | None) -> None:
    """Raise UsageError where a sampling ``fraction`` is given of a file with weights: each says another risk."""
    weights = [v.name for v in codebook.with_role("weight")]
    if fraction is not None and weights:
        what, fix = "both a sampling fraction and a weight are given", "leave --sampling-fraction out"
        where = f"--sampling-fraction, and {weights[0]} in the codebook"
        raise UsageError(sentence(what, where=where, wanted="one of them", fix=fix))


def assess(
    source: Source, codebook: Codebook, mechanism: Mechanism | None = None, fraction: float | None = None
) -> tuple[RiskReport | None, str]:
    """Return the risk on the codebook's keys, and the reason for missing parts: some files allow counts only.

    Uses the sampling ``fraction`` if it is given, otherwise the codebook's weights. Single records are left out.
    """
    keys = [v.name for v in codebook.with_role("key") if v.is_categorical]
    if not keys:
        return None, "no categorical variable has the role 'key'"
    weight = next((v.name for v in codebook.with_role("weight")), None)
    share: dict[str, Any] = {"weight": weight} if fraction is None else {"sampling_fraction": fraction}
    try:
        return _read(source, keys, codebook, mechanism, **share), ""
    except PostrandError as error:
        split = None if mechanism is None or mechanism.split is None else mechanism  # reads what is not shown
        try:
            return _read(source, keys, codebook, split), str(error)
        except PostrandError:
            return None, str(error)


def _read(
    source: Source, keys: Sequence[str], codebook: Codebook, mechanism: Mechanism | None, **share: Any
) -> RiskReport:
    """Return the report of a source without its records and the warnings of :func:`.assess`: findings have these."""
    partly = () if mechanism is None else mechanism.partly
    file = RiskFile.read(source, keys, codebook=codebook, partly=partly, **share)
    return report_of(file, mechanism).without_records()


SHOWN_ELSEWHERE = ("k-anonymity", "rare-combinations")
"""Measures of counts whose figures have tables of their own in the dossier."""


def measures(source: Any, codebook: Codebook, truth: TrueFile) -> Assessment:
    """Measure the file as it is by every measure that needs counts alone; the others take too long to wait for."""
    sensitive = tuple(v.name for v in codebook.with_role("sensitive") if v.is_categorical)
    columns = CodedColumns(source, codebook)
    file = RiskFile(truth.keys, None, truth.weights, truth.household, sensitive, columns)
    chosen = [kind() for name, kind in kinds().items() if kind.cost == "counts" and name not in SHOWN_ELSEWHERE]
    return measure_file(file, chosen).without_records()


def measure_sections(
    found: Assessment, said: Callable[[str], str]
) -> Iterator[tuple[str, list[Row], str, tuple[str, ...]]]:
    """Yield a section for each result: title, rows, the picture of its histogram or "", and paragraphs above.

    ``said`` makes their words those of the file, in which households can be persons.
    """
    for one in found.measured:
        title = said(f"{one.title}: before protection")
        about = (kinds()[one.measure].meaning, *map(_sentence, one.notes))
        yield title, worded(figures(one), said), said(picture(one)), tuple(map(said, about))
        if one.table:
            yield f"{title}, in detail", [{n: _plain(v) for n, v in row.items()} for row in one.table], "", ()


def worded(rows: Iterable[Mapping[str, object]], said: Callable[[str], str]) -> list[Row]:
    """Return rows whose texts ``said`` has made those of the file."""
    return [{name: said(held) if isinstance(held, str) else held for name, held in row.items()} for row in rows]


def _sentence(note: str) -> str:
    return capital(note) + ("" if note.endswith(".") else ".")


def figures(one: Measured) -> list[Row]:
    """Return the figures of a result as rows, counts exact and other numbers as text."""
    return [{**row, "Value": _plain(row["Value"])} for row in one.rows()]


def _plain(value: object) -> object:
    return value if isinstance(value, int) else shown(value)


def picture(one: Measured) -> str:
    """Return the histogram of a result as SVG, or an empty text."""
    bins = one.histogram
    return "" if bins is None else str(histogram(bins.unit, bins.edges, bins.labels(), bins.lengths(), one.title))


def exposure_rows(before: Exposure, after: Exposure | str, truth: TrueFile) -> Iterator[Row]:
    """Yield the rows of the informed attacker, for persons and households; ``after`` can be a reason for no rows."""
    for measure, value, meaning in _exposures(truth):
        later = f"not computed: {after}" if isinstance(after, str) else value(after)
        yield {"Measure": measure, "Before": value(before), "After": later, MEANING: meaning}


_Value = Callable[[Exposure], object]


def _exposures(truth: TrueFile) -> Iterator[tuple[str, _Value, str]]:
    n = truth.keys.records
    few = min(1000, n)
    yield (
        f"Informed attacker: correct matches, {few:,} persons",
        lambda e: _matches(e.file.anyone, few),
        "Persons drawn at random from the file.",
    )
    yield f"Informed attacker: correct matches, all {n:,} persons", lambda e: _matches(e.file.anyone, n), ""
    yield (
        "Informed attacker: correct matches the attacker claims, all persons",
        lambda e: outward(e.file.anyone.claimed * n),
        "The sum of the attacker's posterior probabilities. If it is near the number in the line above, the attacker "
        "knows how good the links are.",
    )
    yield (
        "Informed attacker: correct matches, all sample uniques",
        lambda e: "no sample uniques" if (u := e.file.unique) is None else f"{_matches(u, u.persons)} of {u.persons:,}",
        "Persons with a true combination that nobody else in the file has.",
    )
    yield (
        "Risk of a person, informed attacker",
        lambda e: _spread(e.file.individual, "persons"),
        "The attacker's posterior probability of the best link of each person.",
    )
    if truth.household is None:
        missing = "not computed: no variable has the role 'household'"
        yield "Risk of a household", lambda _: missing, ""
    else:
        yield from _households("informed attacker", lambda e: (e.file.some_member, e.file.whole))
        yield _joint("informed attacker", lambda e: e.joint, "The posterior of the best link of each household.")
    if truth.weights is None:
        yield "Risk of a person, register attacker", lambda _: f"not computed: {truth.note}", ""
        return
    yield (
        "Expected correct matches, register attacker, all records",
        lambda e: "" if e.register_expected is None else outward(e.register_expected),
        "The sum over all records of the mean of 1/F. F is the number of persons in the population with the same keys: "
        "it is not known. By the weights, or the sampling fraction where one was given, its law is a negative binomial "
        "one (Benedetti and Franconi 1998); by the model of population frequencies it is a Poisson one, whose mean the "
        "two-way log-linear model of the keys tells. The larger sum is shown, and so it is of every figure below. "
        "After perturbation: that mean times the probability that all keys stayed the same.",
    )
    yield (
        "Risk of a person, register attacker",
        lambda e: _spread(e.register, "persons"),
        "The terms of the sum in the line above.",
    )
    if truth.household is not None:
        yield from _households("register attacker", lambda e: (e.register_some, e.register_whole))
        meaning = "The mean of 1/F of the joint key, after perturbation times the probability that this key stayed the "
        meaning += "same. An estimate, not an upper bound: one who also uses the matrices, and picks the most "
        meaning += "probable household, finds more."
        yield _joint("register attacker: an estimate, not an upper bound", lambda e: e.register_joint, meaning)


def _households(
    who: str, pair: Callable[[Exposure], tuple[Spread | None, Spread | None]]
) -> Iterator[tuple[str, _Value, str]]:
    yield (
        f"Risk that a member of a household is found, {who}",
        lambda e: _spread(pair(e)[0], "households"),
        "The probability that at least one member is found: 1 − Π(1 − r) over the members' risks r, taken as "
        "independent. Where one random member shows the keys, links of two members exclude each other: then Σ r, "
        "which is an upper bound for the informed attacker. Keys that are drawn once for the household stay for all "
        "its members or for none.",
    )
    yield (
        f"Risk that each member of a household is found by itself, {who}",
        lambda e: _spread(pair(e)[1], "households"),
        "The probability that every member is found: Π r. Where one random member shows the keys, the least r, "
        "which is an upper bound.",
    )


def _joint(who: str, spread: Callable[[Exposure], Spread | None], meaning: str) -> tuple[str, _Value, str]:
    known = (
        "The attacker knows the keys of all members and links the household, by its size and its members' keys, or "
        "looks for each member by itself, if that finds more. "
    )
    return (
        f"Risk of a household, keys of all members known, {who}",
        lambda e: _spread(spread(e), "households"),
        f"{known}{meaning} Members draw apart, except for keys that are drawn once for the household.",
    )


def _matches(found: Matches, targets: int) -> str:
    low, high = found.interval(targets)
    shown = outward(found.rate * targets)
    return shown if low == high else f"{shown} (95% {low:,} to {high:,})"


def _spread(found: Spread | None, who: str) -> str:
    if found is None:
        return "not computed"
    mean, largest = outward(found.mean), outward(found.largest)
    return f"mean {mean}; largest {largest}; high for {outward_percent(found.above)} of {who}"


def _tau(estimate: object) -> object:
    return NO_TAU if estimate is None else str(estimate)
