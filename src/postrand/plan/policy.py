"""The office's thresholds: rules on what a plan may risk and must be worth, read from ``policy.toml``."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from postrand.codebook import Codebook
from postrand.errors import SpecificationError, nearest, raise_all, sentence, shown
from postrand.support.inputs import finite, is_names, is_whole, read_toml
from postrand.support.measure_names import measure_named
from postrand.support.showing import few

MISTYPED = 0.8
"""So alike is a mistyped name, of six letters with one wrong; another word is less so."""
Kind = Literal["most", "risk", "class", "worth", "never"]

CLASS_SIZES = tuple(range(2, 51))
TABLES = ("one-way", "two-way", "all")

MEASURES: Mapping[str, Kind] = {
    "correct_matches": "most",
    "correct_matches_share": "most",
    "correct_matches_uniques": "most",
    "right_guesses": "most",
    "guess_gain": "most",
    "sure_guesses": "most",
    "register_matches": "most",
    "tau1": "most",
    "tau2": "most",
    "epsilon": "most",
    "total_epsilon": "most",
    "household_epsilon": "most",
    "person_epsilon": "most",
    "individual_risk": "risk",
    "household_risk": "risk",
    "household_risk_mean": "most",
    "register_risk": "risk",
    "register_household_risk": "risk",
    "joint_household_risk": "risk",
    "register_joint_household_risk": "risk",
    "k": "class",
    "effective_records": "worth",
    "unperturbed": "never",
}
"""What a rule can be about; of each measure, the options that it has."""

GUESSES = ("right_guesses", "guess_gain", "sure_guesses")
"""The measures of what is guessed of confidential variables."""
MEANS = ("correct_matches_share", "household_risk_mean", *GUESSES)
"""The measures that are one share of a whole file, from 0 to 1."""

OPTIONS: Mapping[Kind, tuple[str, ...]] = {
    "most": ("at_most",),
    "risk": ("at_most", "share_above"),
    "class": ("at_least", "share_below"),
    "worth": ("at_least", "tables", "share_below"),
    "never": ("never",),
}


@dataclass(frozen=True, slots=True)
class Rule:
    """One threshold: the ``measure`` after the plan is at most, or at least, ``limit``.

    ``share`` of the records, households or tables may be beyond it. ``tables``: for ``effective_records`` the tables
    that the rule is about, by kind or named. ``never``: variables that must not be released unperturbed.
    """

    measure: str
    limit: float = 0.0
    share: float = 0.0
    tables: str | tuple[tuple[str, ...], ...] = "one-way"
    never: tuple[str, ...] = ()

    @property
    def kind(self) -> Kind:
        """Which options the rule has."""
        return MEASURES[self.measure]


@dataclass(frozen=True, slots=True)
class Policy:
    """Hold the rules of an office, which a plan meets or not. ``enforce``: a plan that does not is not released."""

    rules: tuple[Rule, ...]
    title: str = ""
    enforce: bool = True

    @property
    def named(self) -> str:
        """The title in quotes, or what stands for it."""
        return f"'{self.title}'" if self.title else "the policy"


def load_policy(path: str | Path, columns: Collection[str] | None = None) -> Policy:
    """Read ``policy.toml``; ``columns`` are those that its rules can name, None where they are not known.

    Raises
    ------
    SpecificationError
        With all problems of the file together: syntax, unknown measures and options (with the nearest known name),
        limits outside their range, columns that are not there.
    """
    path = Path(path)
    return policy_from_dict(read_toml(path, "the policy"), str(path), columns)


def policy_from_dict(data: Mapping[str, Any], where: str = "policy", columns: Collection[str] | None = None) -> Policy:
    """Check plain data and return its policy; raises SpecificationError with all problems together.

    Where ``columns`` are known, a rule that names another is a problem, but one that forbids a column which is absent.

    >>> policy_from_dict({"rules": [{"measure": "tau2", "at_most": 5}]}).rules[0].limit
    5.0
    """
    if "rules" not in data and {"source", "variables"} & {*data}:
        what = f"this is a {'plan' if 'source' in data else 'codebook'}, and no policy"
        raise SpecificationError(sentence(what, where=where, fix="name the file with [[rules]] of the office"))
    known = ("title", "enforce", "rules")
    problems = [_unknown("option", name, known, where) for name in data if name not in known]
    title, enforce, entries = data.get("title", ""), data.get("enforce", True), data.get("rules", [])
    if not isinstance(title, str):
        problems.append(sentence("'title' is not a text", where=where, got=shown(title, repr)))
    if not isinstance(enforce, bool):
        problems.append(sentence("'enforce' is not true or false", where=where, got=shown(enforce, repr)))
    if not isinstance(entries, list) or not all(isinstance(entry, Mapping) for entry in entries) or not entries:
        problems.append(sentence("the policy has no rules", where=where, fix="write [[rules]] with a measure"))
        entries = []
    rules = []
    for number, entry in enumerate(entries, 1):
        place = f"{where} [[rules]] {number}"
        if wrong := list(_rule_problems(entry, place)):
            problems += wrong
            continue
        rules.append(_rule(entry))
        problems += () if columns is None else _unknown_columns(rules[-1], columns, place)
    raise_all(SpecificationError, problems)
    return Policy(tuple(rules), title, enforce)


def policy_of(section: Any, folder: Path, where: str, columns: Collection[str] | None = None) -> Policy | None:
    """Return the policy that ``[policy]`` of a plan names, relative to its folder; None without the section.

    ``columns`` as in :func:`load_policy`.

    Raises
    ------
    SpecificationError
        With all problems of the section, or of the file.
    """
    if section is None:
        return None
    if not isinstance(section, Mapping):
        raise SpecificationError(sentence("expected a table", where=where, fix='write file = "policy.toml"'))
    raise_all(SpecificationError, [_unknown("option", n, ("file",), where) for n in section if n != "file"])
    file = section.get("file")
    if not isinstance(file, str) or not file:
        raise SpecificationError(sentence("'file' is missing", where=where, fix='set file = "policy.toml"'))
    return load_policy(folder / file, columns)


def _unknown_columns(rule: Rule, known: Collection[str], where: str) -> Iterator[str]:
    """Yield a sentence for each column that a rule names and that is none of those ``known``.

    One policy serves many files, so a column that must never be released may be absent; a name that is nearly that of
    a column is a mistake all the same: another letter or two, not another word.
    """
    for name in dict.fromkeys(_columns(rule)):
        if name not in known and (name not in rule.never or nearest(shown(name), known, MISTYPED)):
            what = f"no column {shown(name, repr)}{nearest(shown(name), known)}"
            yield sentence(what, where=where, wanted=few(list(known)))


def columns_of(codebook: Codebook) -> tuple[str, ...]:
    """Return the columns that rules can name: the variables, and what they are recoded from."""
    return tuple(dict.fromkeys((*codebook.names, *(recode.source for recode in codebook.recodes))))


def _columns(rule: Rule) -> tuple[str, ...]:
    """Return the columns that a rule names."""
    tables = () if isinstance(rule.tables, str) else rule.tables
    return (*rule.never, *(name for names in tables for name in names))


def _unknown(what: str, name: str, known: Any, where: str) -> str:
    return sentence(
        f"unknown {what} {shown(name, repr)}{nearest(shown(name), known)}", where=where, wanted=", ".join(known)
    )


def _rule_problems(entry: Mapping[str, Any], where: str) -> Iterator[str]:
    measure = _measure(entry)
    if not isinstance(measure, str) or measure not in MEASURES:
        what = "'measure' is missing" if measure is None else f"unknown measure {shown(measure, repr)}"
        hint = "" if measure is None else nearest(shown(measure), MEASURES)
        yield sentence(f"{what}{hint}", where=where, wanted=", ".join(MEASURES))
        return
    options = OPTIONS[MEASURES[measure]]
    yield from (_unknown(f"option of {measure!r}", n, options, where) for n in entry if n not in ("measure", *options))
    first = options[0]
    if first not in entry:
        yield sentence(f"{first!r} is missing", where=where, fix=f"say {first} for {measure!r}")
        return
    yield from _limit_problems({**entry, "measure": measure}, MEASURES[measure], where)
    for name in ("share_above", "share_below"):
        if name in entry and not 0 <= finite(entry[name]) <= 1:
            yield sentence(f"{name!r} is not a share", where=where, got=shown(entry[name], repr), wanted="0 to 1")


def _limit_problems(entry: Mapping[str, Any], kind: Kind, where: str) -> Iterator[str]:
    from postrand.risk.informed import LEVELS  # only for a policy: the plan of a release mostly has none

    value = entry[OPTIONS[kind][0]]
    got = shown(value, repr)
    if kind == "never" and (not is_names(value) or not value):
        yield sentence("'never' is not a list of names", where=where, got=got, wanted='["income"]')
    elif kind == "risk" and value not in LEVELS:
        wanted = f"{LEVELS[0]:g} to {LEVELS[-1]:g}, with three decimals at most"
        yield sentence("'at_most' is not one of the risks that are counted", where=where, got=got, wanted=wanted)
    elif kind == "class" and not (is_whole(value, 2) and value in CLASS_SIZES):
        wanted = f"a whole number from 2 to {CLASS_SIZES[-1]}"
        yield sentence("'at_least' is not a number of records in a class", where=where, got=got, wanted=wanted)
    elif entry["measure"] in MEANS and not 0 <= finite(value) < 1:
        what = "a share of 1 is met by everything" if finite(value) == 1 else "'at_most' is not a share"
        yield sentence(what, where=where, got=got, wanted="0 to below 1, such as 0.01 for 1%")
    elif kind in ("most", "worth") and not finite(value) >= 0:
        yield sentence(f"{OPTIONS[kind][0]!r} is not a number >= 0", where=where, got=got)
    if kind == "worth":
        tables = entry.get("tables", TABLES[0])
        named = isinstance(tables, list) and tables and all(is_names(t) and 1 <= len(t) <= 2 for t in tables)
        if named and any(len(set(names)) < len(names) for names in tables):
            yield sentence("a table names a variable twice", where=where, got=shown(tables, repr), fix="name it once")
        elif not named and tables not in TABLES:
            wanted = f'{", ".join(map(repr, TABLES))}, or a list such as [["sex", "age"]]'
            yield sentence("'tables' are not known", where=where, got=shown(tables, repr), wanted=wanted)


def _measure(entry: Mapping[str, Any]) -> Any:
    """Return the measure that an entry names, by its one name; anything else as it is."""
    measure = entry.get("measure")
    return measure_named(measure, MEASURES) if isinstance(measure, str) else measure


def _rule(entry: Mapping[str, Any]) -> Rule:
    measure = _measure(entry)
    kind = MEASURES[measure]
    limit = entry[OPTIONS[kind][0]]
    share = float(entry.get("share_above", entry.get("share_below", 0.0)))
    tables = entry.get("tables", TABLES[0])
    if not isinstance(tables, str):
        tables = tuple(tuple(names) for names in tables)
    if kind == "never":
        return Rule(measure, never=tuple(limit))
    return Rule(measure, float(limit), share, tables)
