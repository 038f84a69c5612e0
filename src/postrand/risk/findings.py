"""What leaves a release in clear, measured on the file and said once: one list that every surface shows."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from postrand.codebook import Codebook
from postrand.errors import SpecificationError, raise_all, sentence
from postrand.formats import Source
from postrand.mechanism import Mechanism
from postrand.mechanism.units import words_of
from postrand.risk.finding import (
    KEYS,
    KEYS_FIX,
    NAMING,
    PERTURB_TOO,
    PLAN_STATES,
    PUBLISHED,
    PUBLISHED_FIX,
    listed,
    stated_as,
)
from postrand.risk.finding import Finding as Finding
from postrand.risk.finding import share_text as share_text
from postrand.risk.household_sizes import HouseholdSizes, household_sizes
from postrand.risk.linked_apart import units_of
from postrand.risk.regrouped import regrouping
from postrand.risk.reveals import PairReveal
from postrand.risk.sample import Grouped, Sample, Sampled, sampled, taken
from postrand.risk.shared import Shared, shared_values
from postrand.risk.shared_told import in_one, of_household
from postrand.risk.singled import MAX_ALONE, MAX_COLUMNS, Singled, singled_out
from postrand.risk.singled_together import Every, Together, all_together, together
from postrand.risk.size_told import SIZES, is_told, size_findings, sizes_fix, told_by_sizes
from postrand.risk.telling import in_ranges, told_pairs
from postrand.risk.told_findings import columns_in, jointly, linked, perturbed_of, telling, told_by_order, weighing
from postrand.risk.told_linearly import told_all
from postrand.risk.told_most import in_line, told_most
from postrand.risk.weights_told import MAX_HIDDEN, Weights, before_recoding, hidden_in, hidden_of, weights_of
from postrand.support.measure_names import KEYS_ALONE
from postrand.support.showing import few

CLEAR, OTHER = "Released unperturbed, with no protection of their own", "Other findings"
"""The headings of findings."""
OF_SEVERAL = (
    "What three or more unperturbed columns together reveal of a perturbed one was looked for in sums, means and "
    "scores of numbers alone: other functions of three are not found."
)
"""What is never tried of any file: said wherever all is told, and left out of the short form."""
MAX_NAMED = 8
"""So many unperturbed columns are named, where all of them are meant."""


@dataclass(frozen=True, slots=True)
class Findings:
    """Hold all findings on a file and a plan, most serious first, and what they rest on.

    ``largest_household`` is the most records of one household of the file, 0 where it is not known; ``sizes``
    what its household numbers single out; ``every`` what all unperturbed columns do, None where that was not looked at.
    ``most`` is what unperturbed columns say most of a perturbed one, though it is no finding.
    ``words`` makes words on households those on persons, where the households are persons. ``as_is`` are the columns
    that the plan releases as they are.
    """

    found: tuple[Finding, ...] = ()
    singled: tuple[Singled, ...] = ()
    pairs: tuple[PairReveal, ...] = ()
    shared: tuple[Shared, ...] = ()
    not_tried: tuple[str, ...] = ()
    largest_household: int = 0
    sizes: HouseholdSizes | None = None
    every: Every | None = None
    words: Callable[[str], str] = str
    most: PairReveal | None = None
    as_is: tuple[str, ...] = ()

    @property
    def undecided(self) -> tuple[str, ...]:
        """The columns for which the plan must state whether they are released as they are."""
        return tuple(dict.fromkeys(name for finding in self.found if finding.is_open for name in finding.variables))

    @property
    def refusals(self) -> tuple[str, ...]:
        """Why nothing is released yet, naming all columns at once: they single out records, or settle true values."""
        shares = {s.name: s.alone for s in self.singled}
        open_ = [finding for finding in self.found if finding.is_open and finding.code not in ("names", "key", "size")]
        keys = [finding for finding in self.found if finding.is_open and finding.code == "key"]
        sizes = [finding for finding in self.found if finding.is_open and finding.code == "size"]
        naming = [finding for finding in self.found if finding.is_open and finding.code == "names"]
        singling, settling = [f for f in open_ if not f.about], [f for f in open_ if f.about]
        single = [f"{f.variables[0]} ({share_text(shares[f.variables[0]])})" for f in singling]
        certain = [f"{', '.join(f.about)} (by {listed(f.variables)})" for f in settling]
        alone = f"unperturbed columns single out more than {MAX_ALONE:.0%} of the records each, alone"
        settle = "unperturbed columns all but settle true values of perturbed ones, which no epsilon prevents"
        rank = "or give it a rank law in [[numerical]] or the role 'drop'"
        drop = f"give the unperturbed ones the role 'drop', {PERTURB_TOO}, or name each in {_as_is(settling)}"
        said = (
            (PUBLISHED, (told := [n for f in naming for n in f.about]), f"{PUBLISHED_FIX} {stated_as('listed', told)}"),
            (NAMING, [n for f in naming for n in f.variables], f"set role = 'drop', or name each in {_as_is(naming)}"),
            (alone, single, f"name each in {_as_is(singling)}, {rank}"),
            (settle, certain, drop),
            (KEYS, [f.variables[0] for f in keys], f"{KEYS_FIX} {_as_is(keys)}"),
            (self.words(SIZES), [f.about[0] for f in sizes], self.words(sizes_fix(sizes, _as_is(sizes)))),
        )
        held = [(f"{what}: {', '.join(all_)}", fix) for what, all_, fix in said if all_]
        return tuple(sentence(what, where="plan", fix=fix) for what, fix in self._in_one_line(held))

    def _in_one_line(self, told: list[tuple[str, str]]) -> list[tuple[str, str]]:
        """Return refusals and what to do, the last of them with one line that states all columns as they are.

        Without it where one of them has this line already: a plan has the line once.
        """
        open_ = [f for f in self.found if f.is_open]
        line = stated_as("as_is", [*self.as_is, *(n for f in open_ for n in f.variables)])
        having = [k for k, (_, fix) in enumerate(told) if "[release] as_is = " in fix]
        if having and not any(line in told[k][1] for k in having):
            what, fix = told[having[-1]]
            told[having[-1]] = (what, f"{fix}; with all others that are released as they are, in one line: {line}")
        return told

    @property
    def refusal(self) -> str:
        """The refusals as one text, a line each; empty where all is decided."""
        return "\n".join(self.refusals)

    def require_decisions(self) -> None:
        """Raise SpecificationError where a column needs a decision that the plan does not make."""
        raise_all(SpecificationError, self.refusals)

    @property
    def warnings(self) -> tuple[str, ...]:
        """The sentences that warn a curator: not of decisions, all columns together, or how numbers move."""
        said = (finding for finding in self.told if not finding.is_decided)
        return tuple(finding.sentence for finding in said if finding.code not in ("moves", "together"))

    @property
    def told(self) -> tuple[Finding, ...]:
        """The findings as they are told: all combinations that single out records are one, and so is what is alike."""
        return tuple(in_one(self._combined, self.shared, self.words))

    @property
    def _combined(self) -> tuple[Finding, ...]:
        """The findings, all combinations of columns that single out records being one."""
        many = [f for f in self.found if len(f.variables) > 1 and f.code == "singles-out" and not f.is_decided]
        if not many or len([*many, *(every := [f for f in self.found if f.code == "together"])]) < 2:
            return self.found
        largest = sorted((*many, *every), key=lambda f: -f.share)
        named = ((_all_of(f.variables) if f in every else listed(f.variables), f.share) for f in largest)
        parts = [f"{text} ({share_text(share)} of the records)" for text, share in named]
        most = f"{share_text(largest[0].share)} of the records"
        text = f"columns that are released unperturbed single out {most} together: {'; '.join(parts)}; {KEYS_ALONE}"
        names = tuple(dict.fromkeys(name for finding in many for name in finding.variables))
        one = Finding("singles-out", names, (), text, share=max(f.gravity for f in (*many, *every)))
        rest = [f for f in self.found if f not in many and f not in every]
        return tuple(sorted((*rest, one), key=lambda f: f.place))

    @property
    def brief(self) -> tuple[str, ...]:
        """Every finding in a line or two, what gives away most first, decided or not: internal.

        What the same columns give away is one finding, that of which they say most, with the names of the others.
        """
        found = sorted(self._combined, key=lambda finding: (not finding.is_exact, -finding.gravity))
        left = (text for text in self.not_tried if text != OF_SEVERAL)
        return (*_briefly(found), *self.alone(exact=True), *self.quiet, *left)

    @property
    def sentences(self) -> tuple[str, ...]:
        """Every finding in words, what other columns single out, and what was not tried."""
        return (*(finding.sentence for finding in self.told), *self.alone(), *self.not_tried)

    @property
    def inside(self) -> tuple[str, ...]:
        """The same with exact shares of the records: internal."""
        said = (finding.sentence for finding in self.told)
        return (*said, *self.alone(exact=True), *self.quiet, *self.not_tried)

    @property
    def quiet(self) -> tuple[str, ...]:
        """What unperturbed columns say most of a perturbed one, beside findings; () where there is none: internal."""
        if self.most is None:
            return ()
        return (self.words(in_line(self.most, beside=any(one.about for one in self.found))),)

    def alone(self, *, exact: bool = False) -> tuple[str, ...]:
        """Return how many records unperturbed columns without a finding of their own single out; () without any.

        ``exact``: with the share of the records of each, which is internal.
        """
        few = [one for one in self.singled if one.alone > 0 and not one.is_much]
        names = [f"{one.name} ({100 * one.alone:.2g}%)" if exact else one.name for one in few]
        none = [one.name for one in self.singled if one.alone == 0]
        said = [f"{share_text(0.0)} by {listed(names)}"] if few else []
        said += [f"none by {listed(none, 'or')}"] if none else []
        told = (
            (f"Records that unperturbed columns single out, each column by itself: {', '.join(said)}.",) if few else ()
        )
        if none and not few:
            text = f"By itself, {none[0]} singles out no record"
            if len(none) > 1:
                whole = 1.0 if self.every is None else self.every.share  # more alone: it is not counted there
                rest = [one.name for one in self.singled if one.name not in none and one.alone <= whole]
                beside = f"together with {listed(rest)}" if rest else "together"
                text = f"Looked at one by one, these columns single out no record: {listed(none)}; {beside} they "
                text += "were not looked at" if self.every is None else self.every.in_words
            told = (f"{text}.",)
        if self.sizes is None or self.sizes.is_much:
            return told
        return (*told, f"{self.words(_size_text(self.sizes))}.")

    @property
    def headed(self) -> tuple[tuple[str, str], ...]:
        """Every sentence with the heading under which it is told: on unperturbed columns, or other."""
        clear = [*(f.sentence for f in self.told if f.variables), *self.alone()]
        other = [f.sentence for f in self.told if not f.variables]
        return (*((CLEAR, text) for text in clear), *((OTHER, text) for text in (*other, *self.not_tried)))

    @property
    def worst(self) -> list[PairReveal]:
        """The pairs of variables, those that a curator is warned of first."""
        return sorted(self.pairs, key=lambda t: (not t.is_much, -max(t.guessed, t.settled, t.same)))

    def to_dict(self) -> dict[str, Any]:
        """Return plain data that can be published."""
        return {"found": [f.to_dict() for f in self.found], "not_tried": list(self.not_tried)}

    def internal(self) -> dict[str, Any]:
        """Return plain data with every figure, for the internal dossier."""
        return {
            "found": [f.to_dict() | {"figures": dict(f.figures)} for f in self.found],
            "columns": [asdict(one) for one in self.singled],
            "pairs": [asdict(pair) for pair in self.worst],
            "households": [asdict(one) for one in self.shared],
            "most": None if self.most is None else asdict(self.most),
            "not_tried": list(self.not_tried),
        }


def _briefly(found: Sequence[Finding]) -> Iterator[str]:
    """Yield each finding in a line or two; those on what the same columns tell of several variables as one."""
    told: dict[tuple[tuple[str, ...], bool], list[str]] = {}
    for one in (one for one in found if one.code == "tells"):
        told.setdefault((one.variables, one.is_open), []).extend(one.about)
    for one in found:
        names = told.pop((one.variables, one.is_open), None) if one.code == "tells" else list(one.about)
        if names is not None:
            others = [name for name in names if name not in one.about]
            many = f"{len(others)} others: " if len(others) > 1 else ""
            yield one.brief + (f"; also of {many}{few(others)}" if others else "")


def _as_is(found: Iterable[Finding]) -> str:
    """Return the line of a plan that releases the columns of these findings as they are."""
    return stated_as("as_is", (name for one in found for name in one.variables))


def find(
    source: Source,
    codebook: Codebook,
    mechanism: Mechanism,
    released: Iterable[str],
    *,
    as_is: Collection[str] = (),
    exempt: Collection[str] = (),
) -> Findings:
    """Measure what unperturbed variables reveal, in one pass over the file.

    ``codebook`` is the file's, ``mechanism`` bound to what is released, ``released`` the columns of the release.
    ``as_is`` are those that the plan has decided on; ``exempt`` those that are not measured, because their values
    are new random numbers (household numbers).
    """
    want = sample_of(codebook, perturbed_of(mechanism), released, exempt, len(set(units_of(mechanism).values())))
    if want is None:
        return Findings()
    sample = taken(source, want)
    return find_in(sample, codebook, mechanism, as_is=as_is, original=before_recoding(source, sample, codebook))


def sample_of(
    codebook: Codebook,
    perturbed: Sequence[str],
    released: Iterable[str],
    exempt: Collection[str] = (),
    units: int = 1,
    grouped: Grouped | None = None,
    ordered: bool = False,
    first: tuple[str, ...] = (),
) -> Sample | None:
    """Return what findings want of a file; None where one block perturbs all, and nobody lives together.

    ``units``: how many blocks, splits and rank laws perturb something. ``grouped``: a column that is not released and
    numbers households or persons, where no variable has their role. ``ordered``: records leave in the file's order, of
    which the ``first`` are wanted in these columns.
    """
    clear = tuple(name for name in released if name not in perturbed and name not in exempt)
    house = next((v.name for v in codebook.with_role("household")), None)
    names = (*perturbed, *clear, *hidden_of(codebook, clear))
    want = Sample(names, clear, house, grouped=grouped, ranged=weights_of(codebook, clear), first=first)
    return want if clear or house is not None or units > 1 or ordered or first else None


def find_in(
    sample: Sampled,
    codebook: Codebook,
    mechanism: Mechanism,
    *,
    as_is: Collection[str] = (),
    original: Weights,
    ordered: bool = False,
) -> Findings:
    """Measure what unperturbed variables reveal on the answer to :func:`sample_of`; see :func:`find`.

    ``original`` are weights before the codebook recodes them: :func:`postrand.risk.weights_told.before_recoding`.
    ``ordered``: the records are released in the order of the file.
    """
    clear = list(sample.alone)
    singled = singled_out(sample, clear)
    larger = _larger(sample, singled)
    codes = [v for v in codebook.variables if v.is_categorical]
    coded = {v.name: dict(zip(map(str, v.categories), v.code_labels, strict=False)) for v in codes}
    weights = weights_of(codebook, clear)
    pairs, joint, left, exact = told_pairs(sample, coded, perturbed_of(mechanism), [s.name for s in singled], weights)
    columns = columns_in(sample, mechanism, clear)
    facts = tuple(linked(columns, mechanism, clear, pairs, joint, as_is))
    joint = jointly(sample, columns, mechanism, coded, pairs, joint, exact, facts, as_is)
    shown = any(is_told(pair) for pair in told_by_sizes(sample, coded, clear))  # then that column tells as much
    of_size = told_by_sizes(sample, coded, perturbed_of(mechanism))
    by_size = () if shown else of_size
    shared = shared_values(sample, mechanism.bind(codebook)) if sample.household is not None else ()
    sizes = household_sizes(sample, singled)
    named, held = tuple(_singling(singled, as_is, larger)), _known_of(singled, codebook)
    every = all_together(sample, [one.name for one in held])
    found = [
        *named,
        *_every(every, held, named),
        *telling(_without(pairs, facts), joint, as_is),
        *weighing(sample, codebook, mechanism, pairs, as_is, original),
        *facts,
        *(told_by_order(sample, coded, perturbed_of(mechanism)) if ordered else ()),
        *(of_household([one]) for one in shared if one.is_much),
        *_sized(sizes),
        *size_findings(by_size, sample.household, as_is),
        *regrouping(sample, codebook),
    ]
    words = words_of(mechanism.units)
    found = [one.worded(words) if one.code in ("household", "household-size", "size") else one for one in found]
    found.sort(key=lambda f: f.place)
    largest = sample.largest_household if sample.is_whole else 0
    ranged = [name for name in in_ranges(sample, clear, coded) if name not in weights]
    left_out = (*_not_tried(sample, singled, larger, left), *_not_told(codebook, mechanism, clear, ranged))
    told = {(key, name) for one in found for name in one.variables for key in one.about}
    rest = [one for one in (*pairs, *of_size) if one.is_much or (one.perturbed, one.clear) not in told]
    most = told_most(sample, coded, perturbed_of(mechanism), [one.name for one in singled], rest)
    looked = (singled, (*pairs, *by_size), shared, left_out, largest, sizes, every, words, most)
    return Findings(tuple(found), *looked, tuple(as_is))


def singling(source: Source, names: Sequence[str], as_is: Collection[str] = (), decided: str = PLAN_STATES) -> Findings:
    """Return what these columns single out, alone or with others; ``decided`` are the words for those ``as_is``."""
    if not names:
        return Findings()
    singled = singled_out(sample := sampled(source, names, names), names)
    larger, every = _larger(sample, singled), all_together(sample, [one.name for one in singled])
    named = tuple(_singling(singled, as_is, larger, decided))
    left_out = tuple(_not_tried(sample, singled, larger, {}))
    return Findings((*named, *_every(every, singled, named)), singled, not_tried=left_out, every=every)


def settling(
    sample: Sampled, coded: Collection[str], perturbed: Sequence[str], clear: Sequence[str]
) -> dict[tuple[str, ...], tuple[PairReveal, ...]]:
    """Return the columns, alone or together, that all but settle others, and what they say; ``coded`` are codes."""
    pairs, joint = told_all(sample, coded, perturbed, clear)
    found: dict[tuple[str, ...], tuple[PairReveal, ...]] = {}
    for names, pair in [*(((pair.clear,), pair) for pair in pairs), *joint]:
        if pair.is_certain:
            found[names] = (*found.get(names, ()), pair)
    return found


def _larger(sample: Sampled, singled: Sequence[Singled]) -> Together | None:
    """Search combinations of the columns that single out few records alone; None where triples are all there are."""
    names = [one.name for one in singled if not one.is_much]
    return together({name: sample.codes(name) for name in names}, MAX_ALONE) if len(names) > 3 else None


def _without(pairs: Sequence[PairReveal], facts: Sequence[Finding]) -> list[PairReveal]:
    """Return the pairs but those that only rule out values where a finding names the link between both."""
    linked = {(name, other) for fact in facts for name in fact.about for other in fact.variables}
    return [pair for pair in pairs if pair.says_values or (pair.perturbed, pair.clear) not in linked]


def _singling(
    singled: Sequence[Singled], as_is: Collection[str], larger: Together | None, states: str = PLAN_STATES
) -> Iterator[Finding]:
    """Yield a finding for each column that singles out more than ``MAX_ALONE``, alone or with others."""
    seen: set[frozenset[str]] = set()
    for one in singled:
        figures = {n: v for n in ("alone", "pair", "triple") if (v := getattr(one, n)) is not None}
        if one.is_much:
            decided = one.name in as_is
            text = f"{one.name} is released unperturbed and singles out {share_text(one.alone)} of the records alone"
            text += f"; {states} that it is released as it is" if decided else ""
            yield Finding("singles-out", (one.name,), (), text, figures, not decided, decided)
            continue
        if (one.pair or 0.0) > MAX_ALONE:
            others, share = one.one, one.pair
        else:  # three, where they single out more than two of them do
            others, share = one.beyond, one.more
            figures = {"alone": one.alone, **({} if share is None else {"triple": share})}
        columns = frozenset((one.name, *others))
        if share is None or columns in seen:
            continue
        seen.add(columns)
        yield _together([one.name, *others], share, figures, as_is)
    for found, share in () if larger is None else larger.sets:
        if frozenset(found) not in seen:
            yield _together(found, share, {"together": share}, as_is)


def _together(names: Sequence[str], share: float, figures: Mapping[str, float], as_is: Collection[str]) -> Finding:
    text = f"{listed(names)} are released unperturbed and single out {share_text(share)} of the records together; "
    text += KEYS_ALONE
    return Finding("singles-out", tuple(names), (), text, figures, False, set(names) <= set(as_is), share)


def _known_of(singled: Sequence[Singled], codebook: Codebook) -> list[Singled]:
    """Return the columns without numbers of households and records, which nobody knows of a person: told apart."""
    numbers = {one.name for one in (*codebook.with_role("household"), *codebook.with_role("record_key"))}
    return [one for one in singled if one.name not in numbers]


def _every(every: Every | None, held: Sequence[Singled], found: Sequence[Finding]) -> Iterator[Finding]:
    """Yield what all unperturbed columns single out together, where this is more than any that are named do."""
    if every is None:
        return
    names, share = tuple(one.name for one in held), every.share
    named = max([*(one.alone for one in held), *(one.share for one in found)])
    if share > MAX_ALONE and share_text(share) != share_text(named):
        text = f"{_all_of(names)} together single out {share_text(share)} of the records; {KEYS_ALONE}"
        yield Finding("together", names, (), text, {"together": share}, share=share)


def _all_of(names: Sequence[str]) -> str:
    """Return the words for all unperturbed columns, with their names where these are few."""
    return "all unperturbed columns" + (
        f" ({listed(names)})" if len(names) <= MAX_NAMED else f", {len(names)} of them,"
    )


def _sized(sizes: HouseholdSizes | None) -> Iterator[Finding]:
    """Yield a finding where sizes of households, alone or with unperturbed columns, single out too many."""
    if sizes is not None and sizes.is_much:
        figures = {n: getattr(sizes, n) for n in ("alone", "share", "every")}
        text = f"{_size_text(sizes)}; {KEYS_ALONE}"
        yield Finding("household-size", (sizes.name, *sizes.columns), (), text, figures)


def _size_text(sizes: HouseholdSizes) -> str:
    """Return in words what a household number shows, and in which share of the records it singles the household out."""
    alone, share, every = map(share_text, (sizes.alone, sizes.share, sizes.every))
    text = f"the household number {sizes.name} shows which records are one household, and so its size: {alone} of the "
    text += "records are in a household that its size alone singles out"
    if sizes.columns:
        text += f", and {share} in one that its size and the unperturbed values of {listed(sizes.columns)} in its "
        text += "members single out"
    return text if every == share else f"{text}; with all unperturbed columns it is {every} of the records"


def _not_tried(
    sample: Sampled, singled: Sequence[Singled], larger: Together | None, left: Mapping[str, Sequence[str]]
) -> Iterator[str]:
    if not sample.is_whole:
        kind = "records" if sample.household is None else "records in whole households"
        yield f"Columns together were compared on a sample of {sample.table.num_rows:,} {kind}, not on the whole file."
    many = sum(not s.is_much for s in singled)
    if larger is not None and larger.every > MAX_ALONE and many > 4:  # of four, the search tries all of them together
        which = f"the {MAX_COLUMNS} most identifying of {many} columns" if many > MAX_COLUMNS else f"{many} columns"
        yield (
            f"Every pair and every triple of {which} was tried, but only some of the larger combinations "
            f"({larger.trials} trials): a combination that is not named here may single out records too."
        )
    if left:
        many = max(len(names) for names in left.values())
        of = "what is perturbed" if many > MAX_NAMED else listed(max(left.values(), key=len))
        yield f"Not known, because of too many different values: what {few([*left])} may reveal of {of}."


def _not_told(codebook: Codebook, mechanism: Mechanism, clear: Sequence[str], ranged: Sequence[str]) -> Iterator[str]:
    """Yield of which columns nobody knows what they reveal: together, or by values that few records have."""
    if ranged and perturbed_of(mechanism):
        yield f"Compared in ranges alone, because few records have each of their values: {few(ranged)}."
    if len(clear) > 2 and perturbed_of(mechanism):
        yield OF_SEVERAL
    left = len(hidden_in(codebook)) - MAX_HIDDEN
    if left > 0 and (weights := weights_of(codebook, clear)):
        yield f"Weights ({listed(weights)}) were not compared with {left} of the columns that are not released."
