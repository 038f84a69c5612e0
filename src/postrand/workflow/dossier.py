"""The internal dossier: risk and exact counts for a release, for authorised staff only."""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from postrand import formats, report
from postrand.certification.certificate import Certificate
from postrand.codebook.not_released import shown_codebook
from postrand.designers.curve import Comparison, Point, compare
from postrand.engines.summary import Summary
from postrand.mechanism import Block, Mechanism
from postrand.release.bundle import InternalContent
from postrand.report.internal import DECISION, DETAILS
from postrand.report.table_worth import TABLES, TABLES_CAPTION, worth_rows
from postrand.risk.counts import RiskyCombination
from postrand.risk.findings import Findings
from postrand.risk.report import RiskReport
from postrand.risk.reveals import PairReveal
from postrand.risk.shared import Shared
from postrand.risk.singled import Singled
from postrand.support.exact import format_upper
from postrand.support.progress import Stage, stage
from postrand.support.showing import ORDERS, capital
from postrand.support.worth_basis import PRIORS
from postrand.workflow.column_ways import TITLE as HOW
from postrand.workflow.comparison import PlanFigures
from postrand.workflow.design_blocks import DesignedBlock
from postrand.workflow.dossier_decision import decision_of
from postrand.workflow.dossier_risk import (
    CAPTION,
    MEANING,
    assess,
    exposure_rows,
    measure_sections,
    report_rows,
    worded,
)
from postrand.workflow.dossier_split import CAPTIONS as SPLIT_CAPTIONS
from postrand.workflow.dossier_split import OF_MEMBERS, RISK_NOTE, split_sections
from postrand.workflow.known import Known
from postrand.workflow.plan_figures import computed
from postrand.workflow.plan_risk import PlanRisk
from postrand.workflow.policy_check import PolicyCheck, check_policy
from postrand.workflow.series import limits_of
from postrand.workflow.worth import way_rows

RISK = "Risk before and after"
AROUND = "risk_before_and_after"
"""The section of ``dossier.json`` with what :meth:`postrand.risk.report.RiskReport.exact` says of both files."""
RARE = "Rare combinations before protection"
CLEAR = "Unperturbed variables"
POLICY = "The office's policy"
NAMED = "What analysts named"
MAX_CURVE_SIZE, MAX_CURVES = 12, 12
CURVE_EPSILONS = (0.5, 1.0, 2.0, 4.0)
MAX_TOLD = 100
DESIGNS = "Designs"
GUARANTEED, NOT_GUARANTEED = "What is guaranteed, whatever an attacker knows", "What is not guaranteed"
"""All that the decision page has, and may cut."""
DESIGNS_CAPTION = (
    "Value and bound are computed under the shares of the column Under, for which the plan has its matrices designed: "
    "the same matrix has other values under other shares."
)
CURVES_CAPTION = (
    "Computed under this variable's own shares in the file, whatever shares the plan assumes: compare the rows with "
    f"one another, and not with the values of the section {DESIGNS}."
)


@dataclass(frozen=True, slots=True)
class Dossier:
    """Hold the facts that are known before the release is written; ``page`` adds those of the released file."""

    data: Mapping[str, Any]
    risk: PlanRisk
    figures: PlanFigures
    findings: Findings = field(default_factory=Findings)
    fraction: float | None = None
    split: Mapping[str, Sequence[Mapping[str, object]]] = field(default_factory=dict)
    policy: PolicyCheck | None = None
    public: str = ""
    """The address of the public report, for links from the pages of the dossier."""
    beside: Beside = field(default_factory=lambda: Beside())

    def text(self, after: RiskReport | None) -> str:
        """Return the dossier as JSON, with the exact figures of the file and of the released one."""
        sides = {"before": self.risk.report, "after": after}
        exact = {AROUND: {when: None if one is None else one.exact() for when, one in sides.items()}}
        return json.dumps({**self.data, **exact}, indent=2, ensure_ascii=False) + "\n"

    def released(self, data_path: Path, mechanism: Mechanism) -> tuple[RiskReport | None, str]:
        """Return the risk of the released file, and the reason for missing parts."""
        if self.risk.report is None:
            return None, ""
        if mechanism.split is not None and mechanism.split.of_members:
            return None, OF_MEMBERS
        stage(Stage.RISK)
        book = mechanism.require_codebook()
        released = formats.read(data_path, shown_codebook(book, mechanism.partly))
        return assess(released, book, mechanism, self.fraction)

    def page(
        self,
        data_path: Path,
        mechanism: Mechanism,
        certificate: Certificate,
        summary: Summary,
        measured: tuple[RiskReport | None, str],
    ) -> str:
        """Return the internal report: tables of risk first, then worst combinations, designs and counts.

        ``measured`` is what :meth:`released` returns.
        """
        (after, note), before, said = measured, self.risk.report, str(self.data.get("risk_note", ""))
        words = self.figures.words
        sections: dict[str, Sequence[Mapping[str, object]]] = {
            RISK: [] if before is None else worded([*self.exposed(), *report_rows(before, after, (said, note))], words),
            **({} if self.policy is None else {POLICY: self.policy.rows()}),
            HOW: [one.row() for one in self.figures.ways],
            RARE: [_combination(c) for c in self.risk.combinations[:50]],
            CLEAR: [{"Finding": text} for text in self.findings.inside],
            GUARANTEED: [{"Claim": text} for text in self.figures.claims],
            NOT_GUARANTEED: [{"Limit": text} for text in limits_of(certificate)],
            "Records that unperturbed columns single out": [singled_row(one) for one in self.findings.singled],
            "What unperturbed variables reveal": [_told(pair) for pair in self.findings.worst[:MAX_TOLD]],
            "Variables of households": [_shared(one) for one in self.findings.shared],
            **({DESIGNS: list(map(_design, self.data["designs"]))} if self.data["designs"] else {}),
            **({NAMED: [{"Finding": text} for text in self.figures.named]} if self.figures.named else {}),
            TABLES: worth_rows(self.figures.tables, self.figures.own),
            **(self.split or {"What the same level buys": self.beside.ways}),
            "Exact counts before protection": list(_counts(self.data["counts"])),
        }
        compared = {f"Privacy and utility: {name}": found for name, found in self.beside.curves.items()}
        curves = {title: curve for title, (_, curve) in compared.items()}
        tables = {title: [_point(point) for point in curve.points] for title, curve in curves.items()}
        pictures = {title: curve.svg(epsilon) for title, (epsilon, curve) in compared.items()}
        captions: dict[str, tuple[str, ...]] = {RISK: CAPTION, TABLES: TABLES_CAPTION, **SPLIT_CAPTIONS}
        captions |= {DESIGNS: (DESIGNS_CAPTION,), **dict.fromkeys(curves, (CURVES_CAPTION,))}
        said = f"Before: {self.figures.before_is}."
        about = () if self.policy is None else self.policy.beside
        captions |= {POLICY: (said, *about), RARE: (said,)}
        captions[RISK] = (
            said,
            *self.figures.only_keys,
            *self.figures.known_too,
            *self.figures.guessed,
            *CAPTION,
            *self.figures.knowledge,
        )
        captions[HOW] = (f"Records leave in {ORDERS[certificate.facts.order_is_shuffled]}.",)
        captions[RISK] += (RISK_NOTE,) if mechanism.split is not None else ()
        captions[RISK] += tuple(f"{capital(text).removesuffix('.')}." for text in self.figures.warnings)
        whole = self.risk.measured
        for title, rows, drawn, told in () if whole is None else measure_sections(whole, words):
            sections[title] = rows
            pictures |= {title: drawn} if drawn else {}
            captions |= {title: told} if told else {}
        stage(Stage.REPORTS)
        made = (mechanism, certificate, summary, data_path.name)
        return report.internal_report(*made, {**sections, **tables}, pictures, captions, public=self.public)

    def exposed(self) -> list[dict[str, object]]:
        """Return the rows of the informed attacker, of persons and of households, before and after."""
        truth, attacks = self.risk.truth, self.risk.attacks
        if truth is None:
            return []
        if attacks is None:
            return [{"Measure": "Informed attacker", "Before": "not computed: no records", "After": "", MEANING: ""}]
        return [*exposure_rows(attacks.before, attacks.why if attacks.after is None else attacks.after, truth)]

    def files(
        self, data_path: Path, mechanism: Mechanism, certificate: Certificate, summary: Summary
    ) -> dict[str, InternalContent]:
        """Return the files of the dossier by name; the page to sign is made when the release has a manifest."""
        after = self.released(data_path, mechanism)
        page = self.page(data_path, mechanism, certificate, summary, after)
        files: dict[str, InternalContent] = {"dossier.json": self.text(after[0]), DETAILS: page}
        about = decision_of(self.figures, self.policy, certificate, self.findings)
        return {**files, DECISION: partial(report.decision_page, about, self.public)}


@dataclass(frozen=True, slots=True)
class Beside:
    """What the dossier shows that no risk is measured for: curves, with the ε of their block, and what the ε buys."""

    curves: Mapping[str, tuple[float, Comparison]] = field(default_factory=dict)
    ways: Sequence[Mapping[str, object]] = ()

    @classmethod
    def of(cls, known: Known, mechanism: Mechanism) -> Beside:
        """Compare structures and ways of a release; a curve is for each small variable that is perturbed alone."""
        stage(Stage.CURVES)
        curves = {block.name: (block.epsilon, curve) for block, curve in _curves(known, mechanism)}
        return cls(curves, way_rows(mechanism) if mechanism.split is None else ())


def _curves(known: Known, mechanism: Mechanism) -> Iterator[tuple[Block, Comparison]]:
    """Yield the privacy-utility curves, for the variables' own frequencies."""
    alone = [b for b in mechanism.blocks if len(b.variables) == 1 and 2 <= b.matrix.size <= MAX_CURVE_SIZE]
    for block in alone[:MAX_CURVES]:
        counts = known.table(block.variables).dense().astype(np.float64)
        if counts.size == block.matrix.size and counts.any():
            yield block, _compared(counts.tobytes())


@functools.lru_cache(maxsize=2 * MAX_CURVES)
def _compared(counts: bytes) -> Comparison:
    """Return the curves of a variable with these counts, the bytes of its floats; those of the last ones are kept."""
    found = np.frombuffer(counts)
    return compare(found / found.sum(), CURVE_EPSILONS)


def collect(
    risk: Callable[[], PlanRisk] | None,
    known: Known,
    blocks: Iterable[DesignedBlock],
    certificate: Certificate,
    findings: Findings,
    mechanism: Mechanism,
    fraction: float | None = None,
) -> Dossier:
    """Assess the unperturbed file and count its variables exactly; ``fraction`` is the sampling fraction, if known.

    ``risk`` gives the risk of the plan where it is measured apart; it is asked last, and can still be on its way.
    """
    beside = Beside.of(known, mechanism)
    found = PlanRisk.of(known, mechanism, fraction) if risk is None else risk()
    before, counts = found.report, {}
    for variable in known.plan.codebook.variables:
        if variable.is_categorical and variable.role != "drop":
            table = known.table([variable.name])
            counts[variable.name] = dict(zip(variable.code_labels, table.dense().tolist(), strict=True))
    data = {
        "notice": "INTERNAL: risk and exact counts; never part of a release",
        "risk": {} if before is None else before.to_dict(),
        **({"risk_note": found.note} if found.note else {}),
        "clear": findings.internal(),
        "designs": [block.to_dict() for block in blocks],
        "claims": list(certificate.sentences),
        "counts": counts,
    }
    split = split_sections(known, max(certificate.account.split, default=0.0))
    if split:
        data["split"] = split
    data["measures"] = {} if found.measured is None else found.measured.to_dict()["measures"]
    figures = computed(known, mechanism, certificate, found.figures, found.as_is, told=findings)
    if known.plan.analyses:
        from postrand.workflow.named_uses import with_named  # estimators, only where something is named

        figures = with_named(figures, known, mechanism, known.plan.analyses)
    data["figures"] = figures.to_dict()
    policy = None if known.plan.policy is None else check_policy(figures, known.plan.policy)
    data |= {} if policy is None else {"policy": policy.to_dict()}
    return Dossier(data, found, figures, findings, fraction, split, policy, beside=beside)


def _combination(found: RiskyCombination) -> dict[str, object]:
    return {"Keys": ", ".join(found.variables), "Cells below 3 records": found.cells, "Records in them": found.records}


def singled_row(found: Singled) -> dict[str, object]:
    """Return what one unperturbed column singles out, as a row of a page: internal."""
    return {
        "Column": found.name,
        "Alone": _percent(found.alone),
        "With one other": _percent(found.pair),
        "which": ", ".join(found.one),
        "With two others": _percent(found.triple),
        "which two": ", ".join(found.two),
    }


def _shared(found: Shared) -> dict[str, object]:
    return {
        "Perturbed": found.name,
        "Households with the same value for all members": _percent(found.constant),
        "The most frequent released value, or the best guess from a split, is the true one": _percent(found.majority),
        "A member's own released value, or the best guess from it, is the true one": _percent(found.single),
        "The best guess without the release is the true one": _percent(found.blind),
    }


def _percent(share: float | None) -> str:
    return "not tried" if share is None else f"{100 * share:.3g}%"


def _told(found: PairReveal) -> dict[str, object]:
    return {
        "Perturbed": found.perturbed,
        "Unperturbed variable": found.clear,
        "Wrong guesses it corrects (λ)": found.guessed,
        "Records whose value it all but reveals": found.settled,
        "Right guesses with it": found.right,
        "Right guesses without it": found.blind,
        "Largest correlation of two values": found.same,
    }


def _point(point: Point) -> dict[str, object]:
    return {
        "Structure": point.structure,
        "ε": f"{point.epsilon:g}",
        "Information, nats": point.information,
        "Proven bound": point.bound,
        "Estimator variance × n": point.variance if math.isfinite(point.variance) else "not estimable",
    }


def _design(entry: Mapping[str, Any]) -> dict[str, object]:
    low, high = entry["unchanged"]
    unknown = "–"
    return {
        "Block": " × ".join(entry["variables"]),
        "ε, at most": unknown if entry["epsilon"] is None else format_upper(entry["epsilon"]),
        "Unchanged, least": low,
        "Unchanged, most": high,
        "Objective": entry.get("objective", "matrix given"),
        "Under": PRIORS[entry["prior"]] if "prior" in entry else unknown,
        "Value": entry.get("value", unknown),
        "Bound": entry.get("bound", unknown),
        "Status": entry.get("status", unknown),
    }


def _counts(counts: Mapping[str, Mapping[str, int]]) -> Iterable[dict[str, object]]:
    for name, table in counts.items():
        for label, count in table.items():
            yield {"Variable": name, "Category": label, "Records": count}
