"""The words of certificates and verifications: everything there is a code with values, and is put into words here.

No proof holds a sentence. A certificate on the disk has codes, levels and names; whoever shows it asks this module. So
a wording can be made better at any time, and no release made before is another one for it.

A template is text with fields: ``{level:up}`` is the value ``level``, rounded up. See :data:`FORMATS`.
"""

from __future__ import annotations

import math
import string
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from postrand.support import options
from postrand.support.entropy import format_lower
from postrand.support.exact import format_upper

Entry = Mapping[str, Any]
"""Plain data of a certificate: of a limit its ``code`` and values by name; of a claim, what it states."""

WORDINGS: Mapping[str, str] = MappingProxyType(
    {
        # What a claim says of the law, by the name of its privacy model.
        "claim.differential": (
            "each record's perturbed values are released under ε-differential privacy, ε <= {law_level:up}"
        ),
        "claim.metric": "values at distance d are released under ε-privacy of at most ε d, ε <= {level:up}",
        "claim.bistochastic": (
            "bistochastic privacy holds with β >= {level:down}, {bits:down} of {most_bits:short} bits"
        ),
        "claim.recognition": (
            "no released combination of these keys, overviewed {sets}{strata}, points to a person with posterior above "
            "{alpha}; checked by the curator against the file's confidential frequencies: recomputing it needs the file"
        ),
        "claim.other": "{model} privacy holds at level {level:short}",
        "claim.anatomy": (
            "{smallest_class}-anonymity over {classes} classes; bistochastic privacy holds with β >= {beta:down}, "
            "{bits:down} of {most_bits:short} bits"
        ),
        "claim.permute": "bistochastic privacy holds with β >= {beta:down}, {bits:down} of {most_bits:short} bits",
        "claim.average": (
            "averaged by a bistochastic law with β >= {beta:down}, {bits:down} of {most_bits:short} bits; each value "
            "is shared by at least {shared} records"
        ),
        # What follows a claim.
        "sets.size": "{size} at a time",
        "sets.named": "as {sets:lists}",
        "sets.strata": " together with {given:list}",
        "then.within": " among true values of the same class",
        "then.priors_counted": ", and ε <= {level:up} with what the priors spent",
        "then.priors_beside": "; the priors spent ε <= {priors:up} beside that",
        "then.no_ties": ", provided that no two values are equal",
        "then.kept": "; at most {shown:percent} of records are expected to keep their value",
        "then.known": "; the averages give {shown:percent} of the values to within 0.5%",
        # What a guarantee does not cover.
        "limit.not_private": (
            "The release key was made from a seed for tests: THE RELEASE IS NOT PRIVATE to whoever knows the seed."
        ),
        "limit.covers": "The guarantee is per record and covers only the values of: {variables:list}.",
        "limit.unclaimed": "Perturbed, but no claim covers: {variables:list}.",
        "limit.feasible": (
            "Block {block:block}: the guarantee is stated on the {cells:count} feasible of {combinations:count} "
            "combinations."
        ),
        "limit.strata": "Block {block:block}: a separate law for each value of {given:list}, read as it is.",
        "limit.classes": (
            "Block {block:block}: values are exchanged within {classes:count} classes only; which one a record is in "
            "is disclosed."
        ),
        "limit.listed_classes": (
            "Block {block:block}: values are exchanged within {classes:count} classes only; which one a record is in "
            "is disclosed: {members:sets}."
        ),
        "limit.unchanged_values": (
            "Block {block:block}: {values:count} of {cells:count} values are released unchanged, and only by records "
            "that have them; these records are not protected by this block, and who sees such a value knows it is true."
        ),
        "limit.selected_values": (
            "Block {block:block}: which values are perturbed was decided on the file's own counts; the matrix tells "
            "everyone which combinations few records have, and a record released with one of these has one of them."
        ),
        "limit.unchanged": "Released unchanged, with no guarantee: {variables:list}.",
        "limit.fresh_numbers": (
            "Numbers drawn anew, which tell the records of one household and nothing else: {variables:list}."
        ),
        "limit.missing_shown": "Which records have a missing value is disclosed for: {variables:list}.",
        "limit.no_epsilon": (
            "No ε holds for {variables:list}: each was moved alone, and only among neighbours in rank."
        ),
        "limit.permuted": (
            "{variable}: permuted among neighbours in rank. All its values are released, extremes included; hidden is "
            "only which of these neighbours has which. Whoever knows a record's rank knows that its value is one of "
            "its neighbours'; where these are equal, it is disclosed. That the values were permuted by this law is a "
            "fact of the run, which nobody can recompute from the release."
        ),
        "limit.averaged": (
            "{variable}: averaged over neighbours in rank. Nothing is drawn: averages are functions of the true "
            "values, and coarsen without deniability. All values of a block lie between the averages of the blocks "
            "before and after it; who knows all but one of them knows the last. Averages of the same values over other "
            "blocks, or of functions of them, can be solved together with these. That they are the averages of the "
            "true values is a fact of the run, which nobody can recompute from the release."
        ),
        "limit.recognition": (
            "Security against spontaneous recognition is about this file and few keys at a time: more keys at once, "
            "other released variables, several records of one person, and the same matrix on another file are not "
            "covered. Combinations that no record has carry no condition; their rows of the matrix are never drawn "
            "from."
        ),
        "limit.confidential_matrix": (
            "The guarantee does not cover the choice of the matrix, tuned on confidential frequencies: {blocks:blocks}."
        ),
        "limit.unstated_matrix": (
            "The guarantee does not cover the choice of the matrix, whose origin was not stated: {blocks:blocks}."
        ),
        "limit.dp_budget": (
            "The guarantee does not cover the choice of ε, for which differentially private frequencies of other "
            "blocks counted when the budget was divided: {blocks:blocks}."
        ),
        "limit.confidential_budget": (
            "The guarantee does not cover the choice of ε, for which confidential frequencies of other blocks counted "
            "when the budget was divided: {blocks:blocks}."
        ),
        "limit.unstated_budget": (
            "The guarantee does not cover the choice of ε, for which unstated frequencies of other blocks counted when "
            "the budget was divided: {blocks:blocks}."
        ),
        "limit.unstated_spending": (
            "What a differentially private prior spent was not stated, and is not counted: {blocks:blocks}."
        ),
        "limit.original_order": "Records stand in their original order.",
        "limit.ids": "Record ids are released.",
        "limit.persons": (
            "Not covered: that a person is in the file, and what several records of one person or household say "
            "together."
        ),
        # The same for folders of whole columns and of Anatomy.
        "limit.ranks_only": (
            "No ε holds for {variables:list}: a value never leaves its neighbourhood. β is an average."
        ),
        "limit.links_alone": (
            "The links of a class are equally likely only to one who looks at this class alone. Classes tell of one "
            "another how keys and other values go together: whoever learns that from all of them links better than "
            "that."
        ),
        "limit.link_rate": (
            "{variable}: guessed right for {plain:share} of the records from their class alone, and, as it expects "
            "itself, for {learnt:share} by an attack that learns from all classes; better ones exist."
        ),
        "limit.agreeing_classes": "Classes whose other values agree disclose them: see the diversity.",
        "limit.links_only": (
            "All values are released as they are; hidden is only which of the records of a class has which."
        ),
        "limit.as_they_are": "Released as they are, ids and weights included: {variables:list}.",
        "limit.linked_records": (
            "Records that belong together, such as those of a household or of one person, are not covered: what links "
            "them, an id or a class that is theirs alone, can tell whose they are."
        ),
        "limit.classes_only": "No ε holds: a record never leaves its class. β is an average over classes.",
        # What a verification found.
        "check.files": "every entry is a plain file",
        "check.manifest": "well formed",
        "check.published": "the manifest is the published one",
        "check.digests": "every file has its size and SHA-256",
        "check.codebook": "well formed",
        "check.mechanism": "every row sums to exactly 2^53",
        "check.claims": "every claim holds for the exact law",
        "check.claims_but_files": ("every claim that the release suffices to recompute holds for the exact law"),
        "check.data": "every value fits codebook and law",
        "check.margins": "the law can give the released counts (tables tested: {tables:count})",
        "check.bytes": "nothing is in its bytes beside the records",
        "check.derived": "each is the one the others give",
        "check.file": "every claim holds for the exact law and this file",
        "check.values": "values and averages are those that the law on ranks makes of this file",
        "check.drawn": "the key draws these records from this file, by this law",
        "check.records": "claims on the whole file are about as many records as it has",
        "check.stated": (
            "{claims:claims}: stated by the curator, not recomputable from the release; it takes the file"
        ),
        "check.levels": "every level is the one of the released tables",
        "check.tables_bytes": "nothing is in the tables' bytes beside the records",
        "check.page": "the report is the one that the certificate gives",
        "check.method": "the released values are those that the method makes of this file",
        "check.stands_on": "could not be checked, since an earlier check failed",
        "check.stands_on_open": "could not be checked, since an earlier check could not run here",
        # What a release states, and nobody can recompute.
        "said.ranks": (
            "that the law on ranks was followed ({columns:list}) is a fact of the run; counts and claims fit"
        ),
        "said.ranks_with_file": (
            "that the law on ranks was followed ({columns:list}) is a fact of the run; the values fit"
        ),
        "said.facts": "on the curator's word: {facts:facts}",
        "said.origins": "on the curator's word: that matrices were designed as stated ({origins:origins})",
        "said.extra": "contents of extra files are not checked: {files:list}",
        "said.writer": "that postrand {version} with {library} wrote it cannot be told from its bytes",
        "said.rendered": (
            "these files are for readers, and were rendered by postrand {version}, which words them otherwise than "
            "this version; their words are not compared: {files:list}"
        ),
        "said.earlier_words": (
            "the sentences in the certificate are those of the version that wrote it, and not compared; its claims and "
            "levels are, and postrand states them in words of its own"
        ),
        "said.earlier_levels": (
            "levels of this schema are those of the law: of numerical columns they hold where no two values are equal, "
            "and of classes for one who looks at a class alone"
        ),
        "said.averages": "that the averages are those of the true values is a fact of the run",
        "said.cut_links": (
            "that the links of keys and others were cut at random is a fact of the run, and that the key is private"
        ),
        "said.moved_ranks": "that the ranks were moved at random is a fact of the run, and that the key is private",
        "fact.drawn": "that the records were drawn by this law from the confidential file",
        "fact.key": "that the release key is private",
        "fact.order": "that their order was shuffled",
        "origin.public": "public figures",
        "origin.dp": "a differentially private histogram, and what it spent",
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
    'Released unchanged, with no guarantee: area, size.'
    """
    return fill(WORDINGS[code], **values)


def fill(template: str, /, **values: Any) -> str:
    """Return a template's words, the values in their places: of a privacy model that brings its own wording.

    >>> fill("ρ <= {level:up}", level=0.25)
    'ρ <= 0.25'
    """
    return _FORMATTER.vformat(template, (), values)


def limit(entry: Entry) -> str:
    """Return the sentence of an entry of ``not_covered``.

    >>> limit({"code": "ids"})
    'Record ids are released.'
    """
    return say(f"limit.{entry['code']}", **{name: value for name, value in entry.items() if name != "code"})


def claim(entry: Entry, otherwise: str = "") -> str:
    """Return what a claim's entry states of the law, without the names of its variables and the full stop.

    ``otherwise`` are the words for a privacy model that has none here.
    """
    privacy, figures, level = entry["privacy"], entry.get("figures", {}), entry["level"]
    model, priors = privacy["model"], figures.get("priors")
    values = {"law_level": level, **privacy, "level": level, **figures}
    if model == "recognition":
        values |= {"sets": _sets(privacy["subsets"]), "strata": _strata(figures.get("given", ()))}
    known = f"claim.{model}" in WORDINGS
    text = say(f"claim.{model}", **values) if known else otherwise or say("claim.other", **values)
    text += say("then.within") if entry.get("within") else ""
    if "law_level" in figures:
        return text + say("then.priors_counted", level=level)
    return text if priors is None else text + say("then.priors_beside", priors=priors)


def claims(certificate: Entry) -> tuple[str, ...]:
    """Return one sentence for each claim and each numerical variable of a certificate, naming its variables."""
    found = [f"{', '.join(entry['variables'])}: {claim(entry)}." for entry in certificate["claims"]]
    return (
        *found,
        *(f"{', '.join(e['variables'])}: {ranked(e, e['form'])}." for e in certificate.get("numerical", ())),
    )


def ranked(entry: Entry, form: str) -> str:
    """Return what the entry of a numerical variable states, which was moved or averaged (``form``) by rank."""
    records = entry.get("records", entry.get("values"))
    text = say(f"claim.{form}", **{"most_bits": math.log2(records or 1), **entry})
    level = entry.get("level")
    if level is None:
        return text + (say("then.no_ties") if form == "permute" else "")
    return text + say("then.kept" if form == "permute" else "then.known", shown=level["shown"])


def in_words(certificate: Entry) -> dict[str, Any]:
    """Return the plain data of a certificate with a ``sentence`` in every claim, and limits as sentences."""
    told = {**certificate, "not_covered": [limit(entry) for entry in certificate["not_covered"]]}
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


FORMATS: Mapping[str, Callable[[Any], str]] = MappingProxyType(
    {
        "up": format_upper,
        "down": format_lower,
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
