"""The plans that advice can choose from: each a way to protect the same variables, as plain data of a plan at any ε.

Blocks and shares of ε follow from the numbers of categories alone, unless the curator lets the records choose.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from postrand.codebook import Codebook
from postrand.codebook.rules import linked
from postrand.designers.split.candidates import Candidates as SplitCandidates
from postrand.designers.split.candidates import candidates_of
from postrand.designers.split.comparison import SEARCHED
from postrand.designers.split.fixed_blocks import Blocks, FixedBlocks
from postrand.designers.split.splitting import MAX_CELLS, split_design
from postrand.errors import PostrandError
from postrand.ranks.laws import usual_width
from postrand.support.column_wordings import relations_lost
from postrand.workflow.advice_needs import Needs
from postrand.workflow.advice_rare import LEAST_SHARES
from postrand.workflow.epsilon import shares
from postrand.workflow.linked import parts_of
from postrand.workflow.proposal import MAX_JOINT

Names = tuple[str, ...]
Basis = Literal["sizes", "file"]

MAX_TRIPLES = 8
"""Of so many variables at most, a split for models is designed for all tables of three."""
MAX_POINTED = 256
"""The most combinations of keys for which security against recognition is proposed."""
ALPHA = 0.1
"""The posterior that is proposed against recognition where no limit states another."""
SPLIT, POOR_FIRST, POOREST, OF_RULES, RULES_FIRST, OF_NAMED = (
    "split",
    "split, poorer tables first",
    "split for the poorest table",
    "split for the tables of the rules",
    "split for the tables of the rules first",
    "split for what is named",
)
LESS = 0.5
"""What a named table counts beside one of the rules, where these come first; and a variable alone beside a named one.
"""
MEMBERS = ", one member of each household"
OF_MEMBERS = SPLIT + MEMBERS
SPLITS = tuple(
    way + end for way in (SPLIT, POOR_FIRST, POOREST, OF_RULES, RULES_FIRST, OF_NAMED) for end in ("", MEMBERS)
)
WHOLE = ("one joint block", *SPLITS, "recognition")
"""Ways in which linked variables need no block of their own."""
SPLIT_IN_WORDS = (
    "A split release: each record shows a random subset of the variables, perturbed jointly with the whole epsilon;"
    " epsilons do not add up, but most values of a record are not released."
)


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """Hold a way: its name, what it does in a sentence, and the sections of a plan that it has at a total ε.

    ``chosen_with``: the sizes of the codebook alone, or the file. ``book``: the codebook that the plan uses;
    ``recodes``: what it recodes, as plain data. ``detail``: the natural logarithm of the number of combinations that a
    record can show. ``of_members``: one random member of each household shows something, so that a household spends
    the ε of one record.
    """

    way: str
    what: str
    sections: Callable[[float], dict[str, Any]]
    book: Codebook
    chosen_with: Basis = "sizes"
    has_epsilon: bool = True
    recodes: tuple[Mapping[str, Any], ...] = ()
    notes: tuple[str, ...] = ()
    of_members: bool = False

    @property
    def name(self) -> str:
        """The name of the way, with its recoding."""
        return f"recode, then {self.way}" if self.recodes else self.way


@dataclass(frozen=True, slots=True, eq=False)
class Subject:
    """Hold what is to be protected: the codebook, the variables to perturb, numbers to move in rank, and the needs.

    ``associations``: the weight of each table of two variables by what the file says of it; empty unless it may choose.
    ``joint`` are groups of variables that the records show to be one fact: each is one block, or a part of one.
    """

    book: Codebook
    perturbed: Names
    numbers: Names
    records: int | None
    needs: Needs
    recodes: tuple[Mapping[str, Any], ...] = ()
    associations: Mapping[Names, float] = field(default_factory=dict)
    joint: tuple[Names, ...] = ()

    @property
    def sizes(self) -> list[int]:
        """The number of codes of each perturbed variable."""
        return [self.book[name].size for name in self.perturbed]

    @property
    def basis(self) -> Basis:
        """What chooses blocks that keep linked variables together: the file, where only the records show the links."""
        return "file" if self.joint or self.rare else "sizes"

    @property
    def rare(self) -> Names:
        """The variables whose rare categories are merged: the records say which these are."""
        return tuple(str(entry["variable"]) for entry in self.recodes if "merge_rare" in entry)

    @property
    def named(self) -> set[Names]:
        """The tables of perturbed variables for which a precision is asked, and the perturbed variables of models."""
        tables = [{*wanted.table} for wanted in self.needs.precisions]
        tables = [table for table in tables if table <= {*self.perturbed}]
        models = [{*model.table} & {*self.perturbed} for model in self.needs.models]
        tables += [table for table in models if len(table) > 1]
        return {tuple(name for name in self.perturbed if name in table) for table in tables}

    def emphasis(self, named: int) -> float:
        """Return how often each of so many named tables counts as much as another one: together as all pairs."""
        return max(1.0, math.comb(len(self.perturbed), 2) / named)

    @property
    def workload(self) -> Any:
        """The tables that matter: all pairs, or triples for models; those that are named count as much as all."""
        many = len(self.perturbed)
        usual: Any = "triples" if "models" in self.needs.uses and 3 <= many <= MAX_TRIPLES else "pairs"
        named = self.named
        if not named or many < 2:
            return usual
        pairs = [(a, b) for i, a in enumerate(self.perturbed) for b in self.perturbed[i + 1 :]]
        each = self.emphasis(len(named))
        tables = dict.fromkeys([*sorted(named), *pairs])
        return [{"table": list(table), "weight": each if table in named else 1.0} for table in tables]

    @property
    def ruled(self) -> list[Names]:
        """The tables of perturbed variables that rules on worth name."""
        tables = [table for rule in self.needs.worth if not isinstance(rule.tables, str) for table in rule.tables]
        held = (tuple(name for name in self.perturbed if name in table) for table in tables)
        return list(dict.fromkeys(table for table in held if table))


def candidates(subject: Subject) -> Iterator[Candidate]:
    """Yield every way that the variables allow; a way that a plan refuses is found out when the plan is read."""
    many = len(subject.perturbed)
    if not many:
        return
    yield separate(subject)
    if many > 1:
        whole = math.prod(subject.sizes)
        if whole <= MAX_JOINT:
            yield _joint(subject)
        if 2 < many <= SEARCHED:
            yield _several(subject, "several joint blocks", "sizes", None)
            if subject.associations:
                yield _several(subject, "joint blocks by association", "file", dict(subject.associations))
        if many > 2:
            yield split_release(subject)
            yield from ruled_splits(subject)
            if subject.named and not subject.ruled and len(subject.named) < math.comb(many, 2):
                yield named_split(subject)
        bounded = any(limit.measure == "epsilon" for limit in subject.needs.limits)
        of_keys = subject.needs.attacker != "anyone" and not subject.needs.perturb_also
        if subject.needs.look and not bounded and of_keys and whole <= MAX_POINTED:
            yield _recognition(subject)


def separate(subject: Subject) -> Candidate:
    """Return a block for each variable, with the shares of ε that keep most of the tables of two variables."""
    found = _search(subject, None)
    start = [tuple(names) for names in parts_of(subject.perturbed, subject.joint)]

    def sections(epsilon: float) -> dict[str, Any]:
        if found is None or len(subject.perturbed) > SEARCHED:
            return _blocks(start, shares([epsilon / len(start)] * len(start), epsilon), epsilon)
        problem = found(epsilon)
        best = problem.improved(problem.start)
        return _blocks(best.blocks, shares(best.epsilons, epsilon), epsilon)

    what = "Each variable is perturbed by itself. Their epsilons add up; each has the part with which tables keep most."
    return _way(subject, "separate", what, sections, subject.basis)


def _joint(subject: Subject) -> Candidate:
    def sections(epsilon: float) -> dict[str, Any]:
        return _blocks([subject.perturbed], [epsilon], epsilon)

    what = "All perturbed variables are one joint block: a record keeps its whole combination, or gets another."
    return _way(subject, "one joint block", what, sections)


def _several(subject: Subject, way: str, basis: Basis, weights: dict[Names, float] | None) -> Candidate:
    found = _search(subject, weights)

    def sections(epsilon: float) -> dict[str, Any]:
        if found is None:
            return {}
        problem = found(epsilon)
        best: FixedBlocks = problem.merged(problem.start)
        if len(best.blocks) in (1, len(problem.start)):
            return {}  # another way says the same
        return _blocks(list(best.blocks), shares(best.epsilons, epsilon), epsilon)

    by = "the numbers of categories" if basis == "sizes" else "the associations in the file"
    what = f"Variables are perturbed jointly in several blocks, found by {by}; the epsilons of the blocks add up."
    return _way(subject, way, what, sections, "file" if subject.joint else basis)


def split_release(subject: Subject) -> Candidate:
    """Return a split of all variables, designed for the tables that matter."""
    what = SPLIT_IN_WORDS
    if subject.named and (each := subject.emphasis(len(subject.named))) > 1:
        tables = " and ".join(" x ".join(table) for table in sorted(subject.named))
        counts = f"counts {each:.3g} times as much as another table of two variables"
        counts += " ('weight' in the workload sets it)" * bool(subject.needs.worth)
        what += f" In its design each table for which a precision or a model is asked ({tables}) {counts}."
    return _way(subject, SPLIT, what, lambda e: _split_of(subject.perturbed, e, subject.workload))


def ruled_splits(subject: Subject) -> Iterator[Candidate]:
    """Yield splits that are designed for what rules ask of the worth of tables: by the sizes, as another one is."""
    names, rules = subject.perturbed, subject.needs.worth
    if any(rule.tables in ("two-way", "all") for rule in rules):
        what = f"{SPLIT_IN_WORDS} A table of two variables counts the more in its design, the less it is worth."
        yield _way(subject, POOR_FIRST, what, lambda epsilon: _split_of(names, epsilon, _poor_first(subject, epsilon)))
        what = f"{SPLIT_IN_WORDS} It is designed for the table of two variables that is worth least."
        yield _way(subject, POOREST, what, lambda epsilon: _split_of(names, epsilon, "worst"))
    elif tables := subject.ruled:
        models = [table for table in sorted(subject.named) if table not in tables]
        yield _of_rules(subject, OF_RULES, models, len(tables) / len(models) if models else 1.0)
        if models:
            yield _of_rules(subject, RULES_FIRST, models, LESS)


def named_split(subject: Subject) -> Candidate:
    """Return a split for what is asked by name, and each other variable by itself, half as much: nothing else."""
    tables = sorted(subject.named)
    alone = _alone(subject.perturbed, tables)
    workload: list[dict[str, Any]] = [{"table": list(table)} for table in tables]
    workload += [{"table": list(table), "weight": LESS} for table in alone]
    what = f"{SPLIT_IN_WORDS} It is designed for what is named ({' and '.join(' x '.join(table) for table in tables)})"
    what += ", and for each other variable by itself, which counts half as much" * bool(alone)
    what += ": other tables can have little or nothing left."
    return _way(subject, OF_NAMED, what, lambda epsilon: _split_of(subject.perturbed, epsilon, workload))


def _of_rules(subject: Subject, way: str, models: Sequence[Names], weight: float) -> Candidate:
    """Return a split for the tables of rules, each other variable by itself, and other named tables by a weight."""
    names, tables = subject.perturbed, subject.ruled
    alone = _alone(names, tables)
    workload: list[dict[str, Any]] = [{"table": list(table)} for table in (*tables, *alone)]
    workload += [{"table": list(table), "weight": weight} for table in models]
    listed, others = (" and ".join(" x ".join(table) for table in held) for held in (tables, models))
    what = f"{SPLIT_IN_WORDS} It is designed for the tables of the rules ({listed}), "
    if models:
        much = {LESS: "half as much", 1.0: "as much"}.get(weight, f"{weight:.3g} times as much")
        what += f"for each table for which a precision or a model is asked ({others}), which counts {much} as one of "
        what += "these, "
    what += "and for each other variable by itself: other tables can have little or nothing left."
    return _way(subject, way, what, lambda epsilon: _split_of(names, epsilon, workload))


def _alone(names: Names, tables: Sequence[Names]) -> list[Names]:
    """Return each variable that is in none of the tables, as a table of its own."""
    return [(name,) for name in names if not any(name in table for table in tables)]


def _poor_first(subject: Subject, epsilon: float) -> list[dict[str, Any]]:
    """Return all tables of two variables, each with what the poorest is worth over what it is worth."""
    tables = split_design(subject.book, subject.perturbed, epsilon).tables
    least = min(one.share for one in tables)
    return [{"table": list(one.variables), "weight": float(f"{least / one.share:.3g}")} for one in tables]


def _split_of(names: Names, epsilon: float, workload: Any) -> dict[str, Any]:
    split = {"variables": list(names), "epsilon": epsilon, "workload": workload}
    return {"privacy": {"model": "differential", "epsilon": epsilon}, "split": split}


def _recognition(subject: Subject) -> Candidate:
    alphas = [limit.bound for limit in subject.needs.limits if limit.measure == "individual_risk"]
    alpha = min(alphas, default=ALPHA)

    def sections(_: float) -> dict[str, Any]:
        privacy = {"model": "recognition", "alpha": alpha, "subsets": min(3, len(subject.perturbed))}
        return {"privacy": privacy, "blocks": [{"variables": list(subject.perturbed)}], "design": {}}

    what = (
        f"Security against recognition: no released combination of three keys points to a person with more than "
        f"{alpha:g}. Only records with rare combinations change. There is no epsilon."
    )
    return _way(subject, "recognition", what, sections, "file", has_epsilon=False)


def _way(
    subject: Subject,
    way: str,
    what: str,
    sections: Callable[[float], dict[str, Any]],
    basis: Basis = "sizes",
    has_epsilon: bool = True,
) -> Candidate:
    """Return a candidate for the subject, with its numbers moved among neighbours in rank, where there are any."""
    notes = [together_note(subject.joint)] if subject.joint and way not in WHOLE else []
    notes += [rare_note(subject.rare)] if subject.rare else []
    basis = "file" if subject.rare else basis
    made = Candidate(way, what, sections, subject.book, basis, has_epsilon, subject.recodes, tuple(notes))
    if not subject.numbers:
        return made
    width = usual_width(subject.records or 0)
    entry = {"variables": list(subject.numbers), "method": {"model": "rank-band", "width": width}}

    def moving(epsilon: float) -> dict[str, Any]:
        own = sections(epsilon)
        return {**own, "numerical": [entry]} if own else own

    note = f"{', '.join(subject.numbers)}: moved among {width} neighbours in rank, by the number of records alone, not "
    note += "by the values; no epsilon covers these values."
    return replace(made, sections=moving, notes=(*notes, note, relations_lost(subject.numbers)))


def rare_note(names: Names) -> str:
    """Return the sentence on rare categories that are merged."""
    least, most = LEAST_SHARES[0], LEAST_SHARES[-1]
    rule = f"categories of fewer than {least:.0%} of the records are merged into one"
    rule += f" (of up to {most:.0%} where those together would be rarer)"
    return f"{', '.join(names)}: {rule}. The records say which: this is confidential, and the certificate says so"


def together_note(joint: Sequence[Names]) -> str:
    """Return the sentence on variables that are one fact, and on what that they were found in the records means."""
    listed = "; ".join(", ".join(names) for names in joint)
    text = f"One fact, one block: {listed}. This was found in the records"
    fix = 'if it is so by definition, it is public: remove chosen_with = "file" from [design]'
    return f"{text}; {fix}"


def _search(subject: Subject, weights: dict[Names, float] | None) -> Callable[[float], Blocks] | None:
    """Return the search for blocks at an ε, or None where the variables do not allow it."""
    if len(subject.perturbed) < 2:
        return None
    try:
        given = candidates_of(subject.book, subject.perturbed, weights or "pairs", (), MAX_CELLS, None)
    except PostrandError:  # missing values that are kept, or a variable that does not vary
        return None
    return lambda epsilon: _Small(given, epsilon, subject.joint)


class _Small(Blocks):
    """The search for blocks that are few enough combinations to explain; ``joint`` are groups that stay together."""

    def __init__(self, given: SplitCandidates, epsilon: float, joint: Sequence[Names]) -> None:
        super().__init__(given, epsilon)
        self.start = tuple(self.ordered(group) for group in linked((), [*joint, *self.start]))

    def fits(self, blocks: tuple[Names, ...]) -> bool:
        """Tell whether every block of several variables, other than one fact, has at most ``MAX_JOINT`` cells."""
        return all(len(block) == 1 or block in self.start or self.count(block) <= MAX_JOINT for block in blocks)


def _blocks(parts: Sequence[Sequence[str]], epsilons: Sequence[float], total: float) -> dict[str, Any]:
    level = {"model": "differential", "epsilon": total}
    entries = [
        {"variables": list(names), "privacy": {"model": "differential", "epsilon": epsilon}}
        for names, epsilon in zip(parts, epsilons, strict=True)
    ]
    return {"privacy": level, "blocks": entries}
