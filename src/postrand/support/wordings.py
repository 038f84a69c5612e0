"""The words of certificates and verifications: files contain codes with values, and this module puts them into words.

A certificate on the disk contains codes, levels and names, and no sentences; the code that shows it asks this module.
So a wording can be improved at any time, and earlier releases stay as they are.

A template is text with fields: ``{level:up}`` is the value ``level``, rounded up. See :data:`FORMATS`.
"""

from __future__ import annotations

import math
import string
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from postrand.support import options
from postrand.support.column_wordings import COLUMN_WORDINGS
from postrand.support.entropy import format_lower
from postrand.support.exact import format_upper
from postrand.support.unit_wordings import INSTEAD, OF_UNIT, UNIT_WORDINGS, are_persons, levels, of_persons, told_units

Entry = Mapping[str, Any]
"""Plain data of a certificate: of a limit its ``code`` and values by name; of a claim, what it states."""

NO_COPIES = "Completed files ('postrand complete') cannot be made of this release: records share draws."
"""What a plan and a release say where a unit's records share draws."""
WORDINGS: Mapping[str, str] = MappingProxyType(
    {
        # What a claim states about the mechanism, by the name of its privacy model.
        "claim.differential": (
            "each record's perturbed values are released under ε-differential privacy, ε <= {law_level:up}"
        ),
        "claim.metric": "values at distance d are released under ε-privacy of at most ε d, ε <= {level:up}",
        "claim.bistochastic": (
            "bistochastic privacy holds with β >= {level:down}, it hides at least {bits:down} of {most_bits:three} bits"
        ),
        "claim.recognition": (
            "no released combination of these keys, seen {sets}{strata}, points to a person with a posterior "
            "probability above {alpha}; checked by the curator against the file's confidential frequencies: "
            "recomputing it needs the file"
        ),
        "claim.other": "{model} privacy holds at level {level:short}",
        "claim.anatomy": (
            "{smallest_class}-anonymity over {classes} classes; bistochastic privacy holds with β >= {beta:down}, "
            "{bits:down} of {most_bits:three} bits"
        ),
        "claim.permute": "bistochastic privacy holds with β >= {beta:down}, {bits:down} of {most_bits:three} bits",
        "claim.average": (
            "averaged by a bistochastic rank law with β >= {beta:down}, {bits:down} of {most_bits:three} bits; at "
            "least {shared} records share each value"
        ),
        # What follows a claim.
        "sets.size": "{size} at a time",
        "sets.named": "as {sets:lists}",
        "sets.strata": " together with {given:list}",
        "then.within": " among true values of the same class",
        "then.priors_counted": ", and ε <= {level:up} including what the priors spent",
        "then.priors_beside": "; in addition, the priors spent ε <= {priors:up}",
        "then.no_ties": ", provided that no two values are equal",
        "then.kept": "; at most {shown:percent} of records are expected to keep their value",
        "then.known": "; the averages give {shown:percent} of the values to within 0.5%",
        # What a guarantee does not cover.
        "limit.not_private": (
            "The release key was made from a seed for tests: THE RELEASE IS NOT PRIVATE to anyone who knows the seed."
        ),
        "limit.covers": "The guarantee is per record and covers only the values of: {variables:list}.",
        "limit.unclaimed": "Perturbed, but not covered by any claim: {variables:list}.",
        "limit.feasible": (
            "Block {block:block}: the guarantee is stated on the {cells:count} feasible of {combinations:count} "
            "combinations."
        ),
        "limit.strata": (
            "Block {block:block}: a separate transition matrix for each value of {given:list}, which this block reads "
            "as it is."
        ),
        "limit.classes": (
            "Block {block:block}: values are exchanged within {classes:count} classes only; the release shows the "
            "class of each record."
        ),
        "limit.listed_classes": (
            "Block {block:block}: values are exchanged within {classes:count} classes only; the release shows the "
            "class of each record: {members:sets}."
        ),
        "limit.unchanged_values": (
            "Block {block:block}: {values:count} of {cells:count} values are released unchanged, and only by records "
            "that have them; this block does not protect these records: anyone who sees such a value knows that it is "
            "true."
        ),
        "limit.selected_values": (
            "Block {block:block}: the file's own counts decided which values are perturbed; the matrix reveals which "
            "combinations few records have, and a record that is released with one of these combinations truly has one "
            "of them."
        ),
        "limit.unchanged": (
            "Released unperturbed, with no guarantee; they may single out records and reveal perturbed values: "
            "{variables:list}."
        ),
        "limit.fresh_numbers": (
            "New random numbers, which say nothing by themselves, but show which records are one household: its size, "
            "and the unperturbed values of its members together, may single it out: {variables:list}."
        ),
        "limit.missing_shown": "The release shows which records have a missing value: {variables:list}.",
        "limit.no_epsilon": (
            "There is no guarantee by ε for {variables:list}: each was moved alone, and only among neighbours in rank."
        ),
        "limit.permuted": (
            "{variable}: permuted among neighbours in rank. All its values are released, extremes included; the "
            "release hides only which of these neighbours has which value. Anyone who knows a record's rank knows that "
            "its value is one of its neighbours' values; if these are equal, the value is disclosed. Nobody can "
            "recompute from the release that this rank law permuted the values."
        ),
        "limit.averaged": (
            "{variable}: averaged over neighbours in rank. Nothing is drawn at random: averages are functions of the "
            "true values; they make values coarser, and a respondent cannot deny them. All values of a block lie "
            "between the averages of the blocks before and after it; anyone who knows all but one of them knows the "
            "last one. Averages of the same values over other blocks, or of functions of the values, can be solved "
            "together with these. Nobody can recompute from the release that these are the averages of the true values."
        ),
        "limit.recognition": (
            "Security against spontaneous recognition is about this file and few keys at a time. It does not cover "
            "more keys at once, other released variables, several records of one person, or the same matrix on another "
            "file. There is no condition on combinations that no record has; their rows of the matrix are never used."
        ),
        "limit.confidential_matrix": (
            "The guarantee does not cover the choice of the matrix or of its ε, which rests on confidential records: "
            "{blocks:blocks}."
        ),
        "limit.confidential_recodes": (
            "The guarantee does not cover the recodes of {variables:list}: confidential counts decided, or may have "
            "decided, which categories were merged, or where bands begin."
        ),
        "limit.unstated_matrix": (
            "The guarantee does not cover the choice of the matrix, whose origin was not stated: {blocks:blocks}."
        ),
        "limit.dp_budget": (
            "The guarantee does not cover the choice of ε, because differentially private frequencies of other "
            "blocks were used to divide the budget: {blocks:blocks}."
        ),
        "limit.confidential_budget": (
            "The guarantee does not cover the choice of ε, because confidential frequencies of other blocks were "
            "used to divide the budget: {blocks:blocks}."
        ),
        "limit.unstated_budget": (
            "The guarantee does not cover the choice of ε, because unstated frequencies of other blocks were used to "
            "divide the budget: {blocks:blocks}."
        ),
        "limit.unstated_spending": (
            "The ε that a differentially private prior spent was not stated, and is not counted: {blocks:blocks}."
        ),
        "limit.original_order": "Records are in their original order.",
        "limit.ids": "Record ids are released.",
        "limit.persons": (
            "Not covered: that a person is in the file. For a person or household, ε counts once for each record: with "
            "two records 2 × ε, with three 3 × ε. Nothing else is certified of several of its records together."
        ),
        # What the file says as a whole, and which conditions fail where it says nothing as a whole.
        "file.level": (
            "The whole file: its {records:count} records are in random order, and nothing else tells them apart. If "
            "one record were another one, the probability of any outcome would change by a factor of at most e^ε, but "
            "for a probability of δ: (ε, δ)-differential privacy with ε <= {epsilon:up} and δ = {delta:short}, proven "
            "{proof}. The number of records is public. The order and the draws come from AES with a private key: "
            "whoever could break it learns more"
        ),
        "bound.blanket": "from the matrices themselves (privacy blanket)",
        "bound.clones": "from the ε of one record (clones)",
        "file.none": "No level of the whole file (ε, δ) is stated. What fails: {fails}",
        "file.order": "the records are in their original order",
        "file.ids": "record ids are released",
        "file.ranks": "values that were moved or averaged by rank have no ε: {variables:list}",
        "file.no_codebook": "without a codebook it is unknown what else is released",
        "file.clear": "released unperturbed: {variables:list}",
        "file.weight": "weights are released, and tell records apart: {variables:list}",
        "file.household": "household numbers show which records belong together: {variables:list}",
        "file.missing": "the release shows which records have a missing value: {variables:list}",
        "file.seed": "the key was made from a seed for tests",
        "file.reused_key": "another release was made with the same key, and says more about the same records",
        "file.strata": "the matrix depends on other variables of the record: {blocks:blocks}",
        "file.selected": "the file's own counts decided which values are perturbed: {blocks:blocks}",
        "file.no_epsilon": "a released value excludes some true values, so there is no finite ε: {blocks:blocks}",
        "file.confidential_prior": "the matrix or its ε was chosen with the confidential records: {blocks:blocks}",
        "file.unstated_prior": "the origin of the matrix or of its ε is not stated: {blocks:blocks}",
        "file.unstated_spending": "the ε that a differentially private prior spent is not stated: {blocks:blocks}",
        "file.confidential_recodes": "the file's own counts decided how variables were recoded: {variables:list}",
        "file.file_claims": "a claim rests on the file's confidential frequencies",
        **COLUMN_WORDINGS,
        # The result of a check.
        "check.files": "every entry is a plain file",
        "check.manifest": "well formed",
        "check.published": "the manifest is the published one",
        "check.digests": "every file has its size and SHA-256",
        "check.signed": "signed by {keys:list}, the named signer",
        "check.signed_by": "signed by {keys:list}; not compared with a key that you trust (--signer office.pub)",
        "check.codebook": "well formed",
        "check.mechanism": "every row sums to exactly 2^53",
        "check.claims": "every published claim holds: each was computed again from the exact matrices",
        "check.claims_but_files": "every published claim that can be recomputed from the release holds: each was "
        "computed again from the exact matrices",
        "check.data": "every value fits the codebook and the matrices",
        "check.margins": "the matrices can produce the released counts (tables tested: {tables:count})",
        "check.bytes": "its bytes contain only the records",
        "check.derived": "each is what the other files produce",
        "check.file": "every published claim holds on this file: each was computed again from the exact matrices",
        "check.columns": "unperturbed columns have the values of this file, numbers of households and records aside; "
        "the release key compares all",
        "check.columns_and_households": "unperturbed columns have the values of this file, and household numbers put "
        "the same records together, numbers of records aside; the release key compares all",
        "check.values": "values and averages are those that the rank laws make from this file",
        "check.drawn": "the key draws these records from this file with this mechanism",
        "check.records": "claims on the whole file state its number of records",
        "check.stated": "{claims:claims}: stated by the curator; not recomputable from the release, only from the file",
        "check.levels": "every level agrees with the released tables",
        "check.tables_bytes": "the bytes of the tables contain only the records",
        "check.page": "the report is what the certificate produces",
        "check.method": "the released values are those that the method makes from this file",
        "check.copies_said": "well formed",
        "check.copies": "{copies:count} copies of {records:count} records, each of which fits the released one",
        "check.completed_listed": "every file is listed, and no other is there",
        "check.completed_release": "the release verifies",
        "check.completed_pages": "they follow from completed.json, or another program worded them",
        "check.redone": "the seed gives these copies and these results of the tests again",
        "check.stands_on": "not checked, because an earlier check failed",
        "check.stands_on_open": "not checked, because an earlier check could not run here",
        # Statements of a release that nobody can recompute.
        "said.ranks": "nobody can recompute that the rank law was followed ({columns:list}); counts and claims fit",
        "said.ranks_with_file": "nobody can recompute that the rank law was followed ({columns:list}); the values fit",
        "said.facts": "stated by the curator, not checked: {facts:facts}",
        "said.origins": "stated by the curator, not checked: that matrices were designed as stated ({origins:origins})",
        "said.series": (
            "stated by the curator, checked only with the ledger ('postrand ledger verify LEDGER --release FOLDER'): "
            "that this is release {number} of the population {population}, and the total of its releases, {total}"
        ),
        "said.extra": "the contents of extra files are not checked: {files:list}",
        "said.writer": "the bytes cannot show that postrand {version} with {library} wrote them",
        "said.rendered": (
            "another program, postrand {version}, wrote these pages; this one would use other words, so their words "
            "are not compared: {files:list}"
        ),
        "said.completed": (
            "that the completed copies were drawn from this release alone, with seed {seed}, is stated; then every "
            "guarantee of the release, that of the whole file too, holds with them as without them "
            "(--redo-completed makes them again)"
        ),
        "said.completed_problems": "the makers of the copies say that the model failed tests: {problems:count}",
        "said.earlier_words": (
            "an earlier version wrote sentences into the certificate; they are not compared. Its claims and levels are "
            "compared, and this version shows them in its own words"
        ),
        "said.earlier_levels": (
            "an earlier version stated these levels: those of numerical columns are correct if no two values are "
            "equal, those of Anatomy for a person who looks at one class only"
        ),
        "said.averages": "nobody can recompute without the file that the averages are those of the true values",
        "said.cut_links": (
            "nobody can recompute that the links of keys and other values were cut at random, and that the key is "
            "private"
        ),
        "said.moved_ranks": "nobody can recompute that the ranks were moved at random, and that the key is private",
        "fact.drawn": "that the records were drawn from the confidential file with this mechanism",
        "fact.key": "that the release key is private",
        "fact.order": "that their order was shuffled",
        "origin.public": "public figures, or from none",
        "origin.dp": "a differentially private histogram, and the ε that it spent",
        **UNIT_WORDINGS,
    }
)


def say(code: str, /, **values: Any) -> str:
    """Return the words of a code, its values in their places.

    Raises
    ------
    KeyError
        If there is no such code, or the template names a value that is not given.

    Examples
    --------
    >>> say("limit.unchanged", variables=["area", "size"])
    'Released unperturbed, with no guarantee; they may single out records and reveal perturbed values: area, size.'
    """
    return fill(WORDINGS[code], **values)


def fill(template: str, /, **values: Any) -> str:
    """Return a template's words, the values in their places: of a privacy model that brings its own wording.

    >>> fill("ρ <= {level:up}", level=0.25)
    'ρ <= 0.25'
    """
    return _FORMATTER.vformat(template, (), values)


def limit(entry: Entry, units: Entry = MappingProxyType({})) -> str:
    """Return the sentence of an entry of ``not_covered``; ``units`` are those of its certificate.

    >>> limit({"code": "ids"})
    'Record ids are released.'
    """
    whole = [unit for unit, told in told_units(units).items() if "levels" in told]
    if entry["code"] == "covers" and whole:
        return say("unit.covers", whole=" and of a ".join(whole), variables=entry["variables"])
    code, text = entry["code"], say_entry("limit", entry)
    if not are_persons(units):
        return text
    return say(INSTEAD[code]) if code in INSTEAD else of_persons(text) if code in OF_UNIT else text


def say_entry(kind: str, entry: Entry) -> str:
    """Return the words of an entry of a code and its values.

    >>> say_entry("file", {"code": "clear", "variables": ["area"]})
    'released unperturbed: area'
    """
    return say(f"{kind}.{entry['code']}", **{name: value for name, value in entry.items() if name != "code"})


def file_level(entry: Entry) -> tuple[str, ...]:
    """Return the sentence of a certificate about the whole file, if it states a level."""
    if "epsilon" not in entry:
        return ()
    return (say("file.level", proof=say(f"bound.{entry['bound']}"), **entry) + ".",)


def no_file_level(entry: Entry) -> tuple[str, ...]:
    """Return the sentence about the conditions that fail, if a certificate states no level of the file."""
    fails = entry.get("fails", ())
    return (f"{say('file.none', fails='; '.join(say_entry('file', one) for one in fails))}.",) if fails else ()


def unit_levels(units: Entry) -> tuple[str, ...]:
    """Return one sentence for each unit of a certificate that has levels.

    >>> levels = [{"records": 1, "epsilon": 1.5}, {"records": 3, "epsilon": 2.5}]
    >>> told = {"column": "hid", "variables": ["region"], "levels": levels}
    >>> unit_levels({"household": told})[0].partition("privacy, ")[2]
    'ε <= 1.5 for 1 record and ε <= 2.5 for 3 records, the most that are allowed; drawn once for all of them: region.'
    """
    return tuple(f"{_unit(unit, told)}." for unit, told in told_units(units).items() if "levels" in told)


def _unit(unit: str, told: Entry) -> str:
    once = say("unit.once", variables=told["variables"]) if told["variables"] else ""
    once += (
        say("unit.member", member=told["member"], one="member" if unit == "household" else "record")
        if told.get("member")
        else ""
    )
    within = say("then.within") if told.get("within") else ""
    return say(f"unit.{unit}", **{**told, "within": within, "once": once})


def no_unit_levels(units: Entry) -> tuple[str, ...]:
    """Return one sentence for each unit of a certificate without a level."""
    return tuple(
        f"{say('unit.none', unit=unit, **told)}." for unit, told in told_units(units).items() if "infinite" in told
    )


def claim(entry: Entry, templates: Mapping[str, str] = MappingProxyType({})) -> str:
    """Return what a claim's entry states about the mechanism, without the names of its variables and the full stop.

    ``templates`` are those of privacy models that have none here, by their names.

    >>> entry = {"privacy": {"model": "mine", "kappa": 2}, "level": 0.25}
    >>> claim(entry, {"mine": "secrecy <= {level:up} at kappa {kappa}"})
    'secrecy <= 0.25 at kappa 2'
    """
    privacy, figures, level = entry["privacy"], entry.get("figures", {}), entry["level"]
    model, priors = privacy["model"], figures.get("priors")
    values = {"law_level": level, **privacy, "level": level, **figures}
    if model == "recognition":
        values |= {"sets": _sets(privacy["subsets"]), "strata": _strata(figures.get("given", ()))}
    code = f"claim.{model}"
    template = WORDINGS.get(code) or templates.get(model) or WORDINGS["claim.other"]
    text = fill(template, **values)
    text += say("then.within") if entry.get("within") else ""
    if "law_level" in figures:
        return text + say("then.priors_counted", level=level)
    return text if priors is None else text + say("then.priors_beside", priors=priors)


def claims(certificate: Entry, templates: Mapping[str, str] = MappingProxyType({})) -> tuple[str, ...]:
    """Return one sentence for each claim and each numerical variable of a certificate, naming its variables.

    ``templates`` are those of :func:`claim`.
    """
    found = [f"{', '.join(entry['variables'])}: {claim(entry, templates)}." for entry in certificate["claims"]]
    return (
        *found,
        *(f"{', '.join(e['variables'])}: {ranked(e, e['form'])}." for e in certificate.get("numerical", ())),
        *unit_levels(certificate.get("units") or {}),
        *file_level(certificate.get("file") or {}),
    )


def limits(certificate: Entry) -> tuple[str, ...]:
    """Return one sentence for each thing that a certificate's guarantee does not cover."""
    units = certificate.get("units") or {}
    said = (limit(entry, units) for entry in certificate["not_covered"])
    return (*said, *no_unit_levels(units), *no_file_level(certificate.get("file") or {}))


def ranked(entry: Entry, form: str) -> str:
    """Return what the entry of a numerical variable states, which was permuted or averaged (``form``) by rank."""
    records = entry.get("records", entry.get("values"))
    text = say(f"claim.{form}", **{"most_bits": math.log2(records or 1), **entry})
    level = entry.get("level")
    if level is None:
        return text + (say("then.no_ties") if form == "permute" else "")
    return text + say("then.kept" if form == "permute" else "then.known", shown=level["shown"])


def in_words(certificate: Entry) -> dict[str, Any]:
    """Return the plain data of a certificate with a ``sentence`` in every claim, and limits as sentences."""
    units = certificate.get("units") or {}
    told = {**certificate, "not_covered": [limit(entry, units) for entry in certificate["not_covered"]]}
    if "method" in certificate:
        return {**told, "claims": [{**e, "sentence": _of_table(e, certificate)} for e in certificate["claims"]]}
    told["claims"] = [{**entry, "sentence": claim(entry)} for entry in certificate["claims"]]
    if "numerical" in certificate:
        told["numerical"] = [{**e, "sentence": ranked(e, e["form"])} for e in certificate["numerical"]]
    return told


def _of_table(entry: Entry, certificate: Entry) -> str:
    """Return the sentence of a claim of a folder of whole columns, or of Anatomy."""
    method = certificate["method"]
    if method["model"] == "anatomy":
        return f"{say('claim.anatomy', **certificate['details'], **entry)}."
    return f"{entry['column']}: {ranked(entry, method['form'])}."


def _sets(subsets: Any) -> str:
    return say("sets.size", size=subsets) if isinstance(subsets, int) else say("sets.named", sets=subsets)


def _strata(given: Sequence[str]) -> str:
    return say("sets.strata", given=given) if given else ""


def _percent(share: float) -> str:
    """Return a share in whole per cent, rounded up."""
    return f"{math.ceil(share * 100 - 1e-9)}%"


def _block(names: Iterable[str]) -> str:
    return " × ".join(names)


def _claims(entries: Iterable[Entry]) -> str:
    return "; ".join(f"{', '.join(entry['variables'])}: {options.in_words(entry['privacy'])}" for entry in entries)


def _origins(made: Mapping[str, Sequence[Sequence[str]]]) -> str:
    return "; ".join(f"{', '.join(map(_block, blocks))} from {say(f'origin.{o}')}" for o, blocks in made.items())


def _lower(value: float) -> str:
    """Return a bound from below with three digits, rounded down; of a share near 1, those of its distance from 1.

    >>> _lower(0.839941), _lower(2.16163), _lower(0.999912), _lower(1.0)
    ('0.839', '2.16', '0.999912', '1')
    """
    nines = int(-math.log10(1 - value)) if 0.9 <= value < 1 else 0
    return format_lower(value, nines + 3)


FORMATS: Mapping[str, Callable[[Any], str]] = MappingProxyType(
    {
        "up": format_upper,
        "down": _lower,
        "three": lambda value: f"{value:.3g}",
        "short": lambda value: f"{value:.6g}",
        "count": lambda value: f"{value:,}",
        "percent": _percent,
        "share": lambda value: f"{100 * value:.1f}%",
        "list": ", ".join,
        "lists": lambda lists: "; ".join(map(", ".join, lists)),
        "sets": lambda lists: "; ".join("{" + ", ".join(names) + "}" for names in lists),
        "block": _block,
        "blocks": lambda blocks: ", ".join(map(_block, blocks)),
        "claims": _claims,
        "levels": levels,
        "origins": _origins,
        "facts": lambda codes: ", and ".join(say(f"fact.{code}") for code in codes),
    }
)
"""How a value is written: bounds rounded to the safe side (``up``, ``down``), numbers, shares, names and lists."""


class _Formatter(string.Formatter):
    """Fill in templates with :data:`FORMATS`; a value is never taken for a template."""

    def format_field(self, value: Any, format_spec: str) -> str:
        return FORMATS[format_spec](value) if format_spec else str(value)


_FORMATTER = _Formatter()
