"""The risk by group: which regions, or which ages, the risky records are in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from postrand.errors import PostrandError, UsageError, sentence
from postrand.risk.file import RiskFile
from postrand.risk.groups import split
from postrand.risk.measures.base import Cost, Count, Fact, Measured, require
from postrand.support.measure_names import BY_WEIGHTS


@dataclass(frozen=True, slots=True)
class Groups:
    """Split sample uniques and expected correct matches by the categories of ``by`` or the first sensitive variable."""

    by: str = ""

    name: ClassVar[str] = "groups"
    title: ClassVar[str] = "Risk by group"
    meaning: ClassVar[str] = "Which groups of records, such as regions, have most of the risk."
    cost: ClassVar[Cost] = "counts"
    tolerance: ClassVar[float] = 1e-9

    def __post_init__(self) -> None:
        if not isinstance(self.by, str):
            raise UsageError(sentence("the option by is not the name of a variable", got=repr(self.by)))

    def supports(self, file: RiskFile) -> str | None:
        """Return a sentence where the variable is not named, or cannot be read."""
        by, fix = self._variable(file), f"name one: --set {self.name}.by=region"
        if not by:
            return sentence("neither a variable to group by nor a sensitive variable is named", fix=fix)
        try:
            file.columns[by]
        except KeyError:
            return sentence(f"no column {by!r}", fix=fix)
        except PostrandError as error:
            return error.problems[0]
        return None

    def measure(self, file: RiskFile) -> Measured:
        """Sum over the records of each group; the group with most sample uniques for its size comes first."""
        require(self, file)
        by = self._variable(file)
        risk = file.individual() if file.has_inclusion and not file.keys.has_wildcards else None
        found = split(file.columns[by], file.frequency(), weights=risk)
        order = sorted(found, key=lambda g: (-found[g].sample_uniques / found[g].records, str(g)))
        table = []
        for group in order:
            one = found[group]
            row: dict[str, object] = {by: "(missing)" if group is None else str(group)}
            row |= {"Records": Count(one.records), "Sample uniques": Count(one.sample_uniques)}
            row["Share"] = one.sample_uniques / one.records if one.records >= 20 else None
            if one.expected_reidentifications is not None:
                row[f"Expected correct matches, register attacker, {BY_WEIGHTS}"] = one.expected_reidentifications
            table.append(row)
        facts = (Fact("groups", f"Groups of {by}", len(table)),)
        chosen = f"no variable to group by was named: {by} is the first sensitive one"
        return Measured(self.name, self.title, facts, tuple(table), notes=() if self.by else (chosen,))

    def _variable(self, file: RiskFile) -> str:
        return self.by or next(iter(file.sensitive), "")


MEASURE = Groups
