"""The certificate: what the exact matrices guarantee and what they do not, recomputed from the mechanism alone."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from postrand.certification.account import Account, add_upper, mechanism_account, worst_laws
from postrand.certification.file_level import FileLevel, file_level, restated
from postrand.certification.limits import Facts as Facts  # a certificate holds one, and is read with it
from postrand.certification.limits import limits
from postrand.certification.reachable_rules import reachable
from postrand.certification.series import Level, Series, certified_level
from postrand.certification.units import unit_levels
from postrand.errors import PrivacyError, SpecificationError, raise_all, sentence
from postrand.mechanism import Block, Mechanism
from postrand.mechanism.matrix_classes import classes_of
from postrand.privacy import (
    MODELS,
    DifferentialPrivacy,
    Finding,
    PrivacyModel,
    needs_file,
    release_problems,
    split_problems,
)
from postrand.ranks.column import RankedColumn
from postrand.support import options, series_words, wordings
from postrand.support.exact import format_upper, within
from postrand.support.showing import unshown

SCHEMA = "postrand/certificate/3"  # 3: codes in place of sentences
SCHEMAS = ("postrand/certificate/1", "postrand/certificate/2", SCHEMA)
"""Every schema whose claims and facts are read."""
_SHOWN = 5  # sentences in a repr


@dataclass(frozen=True, slots=True)
class Claim:
    """Claim that the blocks of these variables (default: all perturbed ones) jointly meet a privacy model.

    ``within`` weakens the claim to true values of the same class: those that the matrices may exchange. Which class a
    record is in is then disclosed.
    """

    privacy: PrivacyModel
    variables: tuple[str, ...] = ()
    within: bool = False


@dataclass(frozen=True, slots=True)
class Certificate:
    """The findings for the claims of a mechanism, and the limits of what they cover.

    ``findings[k]`` belongs to ``claims[k]``; all hold. ``level`` values are rounded up. A finding that is not
    ``recomputable`` holds by the word of the curator, whose :func:`certify` checked it against the file. The digests
    bind it to the law with its origin, and to the codebook with roles, labels and the order of variables.

    It holds no sentence: ``limits`` are entries of a code and its values, and :attr:`sentences` and :attr:`not_covered`
    put what it says into today's words (:mod:`postrand.support.wordings`).

    ``file`` is the level (ε, δ) of the whole file, if the curator chose a δ: see :meth:`of_file`. ``units`` are the
    levels of persons and households: see :func:`postrand.certification.units.unit_levels`. ``series`` says which
    release of a population it is, and the total so far, by the curator's ledger.
    """

    mechanism_digest: str
    claims: tuple[Claim, ...]
    findings: tuple[Finding, ...]
    blocks: tuple[dict[str, Any], ...]
    limits: tuple[dict[str, Any], ...]
    facts: Facts = field(default_factory=Facts)
    account: Account = field(default_factory=lambda: Account((), (), 0.0))
    numerical: tuple[RankedColumn, ...] = ()
    codebook_digest: str = ""
    split: tuple[dict[str, Any], ...] = ()
    file: FileLevel | None = None
    units: Mapping[str, Any] = field(default_factory=dict)
    series: Series | None = None

    def __repr__(self) -> str:
        more = unshown(len(self.sentences), _SHOWN)
        lines = self.sentences[: len(self.sentences) - more]
        return "\n".join(["Certificate:", *lines, *([f"and {more} more statements"] if more else [])])

    @property
    def sentences(self) -> tuple[str, ...]:
        """One sentence for each claim and each numerical variable, naming its variables."""
        told = zip(self.claims, self.claim_texts, strict=True)
        claims = [f"{', '.join(claim.variables)}: {text}." for claim, text in told]
        ranked = (f"{column.variable}: {column.sentence}." for column in self.numerical)
        file = () if self.file is None else wordings.file_level(self.file.to_dict())
        series = () if self.series is None else series_words.series(self.series.to_dict())
        return (*claims, *ranked, *wordings.unit_levels(self.units), *file, *series)

    @property
    def further(self) -> int:
        """The number of sentences beside those of claims: of ranked columns, of persons and households, of the file."""
        return len(self.sentences) - len(self.claims)

    @property
    def claim_texts(self) -> tuple[str, ...]:
        """What each claim states, in words; for a model without a wording, the sentence of its finding."""
        told = zip(self._claim_entries(), self.claims, self.findings, strict=True)
        return tuple(
            wordings.claim(entry, {c.privacy.name: getattr(c.privacy, "wording", _literal(f.sentence))})
            for entry, c, f in told
        )

    @property
    def not_covered(self) -> tuple[str, ...]:
        """One sentence for each limit, most serious first."""
        fails = [] if self.file is None else wordings.no_file_level(self.file.to_dict())
        said = (wordings.limit(entry, self.units) for entry in self.limits)
        return (*said, *wordings.no_unit_levels(self.units), *fails)

    def level(self, mechanism: Mechanism) -> Level:
        """Return (ε, δ) of a record, for the total of a series; its ε is None where there is no finite one."""
        return certified_level(mechanism, self.account, zip(self.claims, self.findings, strict=True))

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return {
            "schema": SCHEMA,
            "mechanism_sha256": self.mechanism_digest,
            **({"codebook_sha256": self.codebook_digest} if self.codebook_digest else {}),
            "claims": self._claim_entries(),
            **({"numerical": [column.claim() for column in self.numerical]} if self.numerical else {}),
            "blocks": list(self.blocks),
            **({"split": list(self.split)} if self.split else {}),
            "account": {
                "blocks": [_finite(e) for e in self.account.blocks],
                "priors": list(self.account.priors),
                "total": _finite(self.account.total),
            },
            "not_covered": [dict(entry) for entry in self.limits],
            "facts": self.facts.to_dict(),
            **({} if self.file is None else {"file": self.file.to_dict()}),
            **({"units": dict(self.units)} if self.units else {}),
            **({} if self.series is None else {"series": self.series.to_dict()}),
        }

    def of_file(self, mechanism: Mechanism, records: int, delta: float) -> Certificate:
        """Return the certificate that also states the file's level at δ, or why none; raises as :func:`file_level`."""
        models = [claim.privacy for claim in self.claims]
        return dataclasses.replace(self, file=file_level(mechanism, self.facts, models, records, delta))

    def _claim_entries(self) -> list[dict[str, Any]]:
        return [
            {
                "privacy": options.to_dict(c.privacy),
                "variables": list(c.variables),
                **({"within": True} if c.within else {}),
                "level": f.level,
                **({} if f.recomputable else {"recomputable": False}),
                **({"figures": dict(f.figures)} if f.figures else {}),
            }
            for c, f in zip(self.claims, self.findings, strict=True)
        ]


def certify(
    mechanism: Mechanism, claims: Iterable[Claim | PrivacyModel] = (), facts: Facts | None = None
) -> Certificate:
    """Recompute every claim from the exact matrices; refuse the mechanism if one fails.

    Without claims, the record's ε of the matrices is certified. Levels are rounded up; whether a claim holds
    is decided in exact arithmetic. This module never sees a designer.

    A claim on a split is tested with each subset in turn, ``P(T, y | x) = π_T M_T[x_T, y]`` and π_T the same for every
    x; the worst subset counts.

    Claims that rest on the file's confidential frequencies must be bound to them
    (:func:`postrand.certification.file_claims.tie`). They are checked exactly here; the certificate
    states them, and says that the release does not suffice to recompute them.

    Raises
    ------
    PrivacyError
        Naming each claim that fails, with the block, column and pair of rows that exceed it most; each rule of the
        codebook that the mechanism could contradict; or a claim that needs the file and is not bound to it.

    Examples
    --------
    >>> from postrand.mechanism.matrix import randomised_response
    >>> certificate = certify(Mechanism({"sex": randomised_response(2, 1.0)}), [DifferentialPrivacy(1.0)])
    >>> certificate.findings[0].holds, certificate.findings[0].level <= 1.0
    (True, True)
    """
    return _certify(mechanism, claims, facts or Facts(), _find)


def recertify(
    mechanism: Mechanism, claims: Iterable[Claim | PrivacyModel], facts: Facts, file: FileLevel | None = None
) -> Certificate:
    """Certify again from the released matrices; claims that need the file are stated, and not recomputed.

    The result is that of :func:`certify`, byte for byte, where those claims do hold. Their findings are marked:
    ``recomputable`` is false. A level of the ``file`` that the law proves is stated again; of any other, the true one.

    Raises
    ------
    PrivacyError
        As :func:`certify`, for all other claims; or if a claim that needs the file cannot be about these variables.
    """
    certificate = _certify(mechanism, claims, facts, _restate)
    if file is None:
        return certificate
    models = [claim.privacy for claim in certificate.claims]
    return dataclasses.replace(certificate, file=restated(mechanism, facts, models, file))


def _certify(
    mechanism: Mechanism,
    claims: Iterable[Claim | PrivacyModel],
    facts: Facts,
    find: Callable[[Claim, Sequence[Block]], Finding],
) -> Certificate:
    stated = [_complete(claim, mechanism) for claim in claims] or [_attained(mechanism)]
    raise_all(PrivacyError, (p for claim in stated for p in _split_problems(claim, mechanism)))
    tested = [(claim, *_worst(claim, mechanism, find)) for claim in stated]
    findings = [finding for *_, finding in tested]
    failures = (_failure(claim, blocks, finding, mechanism) for claim, blocks, finding in tested if not finding.holds)
    unfit = (p for c in stated for p in release_problems(c.privacy, mechanism, c.variables, facts))
    raise_all(PrivacyError, [*unfit, *failures, *_rule_problems(mechanism)])
    return Certificate(
        mechanism_digest=mechanism.digest(),
        claims=tuple(stated),
        findings=tuple(findings),
        blocks=tuple(_describe(block) for block in mechanism.blocks),
        limits=tuple(limits(mechanism, facts, stated)),
        facts=facts,
        account=mechanism_account(mechanism),
        numerical=mechanism.numerical,
        codebook_digest="" if mechanism.codebook is None else mechanism.codebook.digest(),
        split=_describe_split(mechanism),
        units=unit_levels(mechanism),
    )


def claims_from_dict(data: Mapping[str, Any]) -> tuple[tuple[Claim, ...], Facts]:
    """Read the claims and facts of a certificate's plain data, to certify them again.

    Raises
    ------
    SpecificationError
        If the schema, a model or an option is unknown.
    """
    if data.get("schema") not in SCHEMAS:
        raise SpecificationError(sentence("unknown certificate schema", got=data.get("schema"), wanted=SCHEMA))
    claims = tuple(
        Claim(options.from_dict(MODELS, c["privacy"], "certificate"), tuple(c["variables"]), bool(c.get("within")))
        for c in data["claims"]
    )
    return claims, options.build(Facts, data["facts"], "certificate facts")


def _literal(text: str) -> str:
    """Return a template that gives the text."""
    return text.replace("{", "{{").replace("}", "}}")


def templates() -> dict[str, str]:
    """Return the wordings that privacy models bring, by name: a class variable ``wording``.

    It is a template of :mod:`postrand.support.wordings`; its values are the model's options, ``level`` and the
    ``figures`` of the finding.
    """
    return {model.name: model.wording for model in MODELS if hasattr(model, "wording")}


def _complete(claim: Claim | PrivacyModel, mechanism: Mechanism) -> Claim:
    if not isinstance(claim, Claim):
        claim = Claim(claim)
    return claim if claim.variables else dataclasses.replace(claim, variables=mechanism.listed)


def _attained(mechanism: Mechanism) -> Claim:
    """Return the claim of the smallest ε that the whole law attains, within its classes where it has several."""
    spent = mechanism_account(mechanism)
    for block, epsilon in zip(mechanism.every_block, (*spent.blocks, *spent.split), strict=True):
        if epsilon == math.inf:
            raise PrivacyError(
                sentence(
                    "a matrix with zeros has no finite epsilon",
                    where=f"block {block.name!r}",
                    fix="give the claim that it should meet: certify(mechanism, [claim])",
                )
            )
    within_classes = any(classes_of(block.matrix).any() for block in mechanism.every_block)
    return Claim(DifferentialPrivacy(spent.total), mechanism.listed, within_classes)


def _restate(claim: Claim, blocks: Sequence[Block]) -> Finding:
    if not needs_file(claim.privacy):
        return _find(claim, blocks)
    if claim.within:
        raise _not_within(claim)
    names = [name for block in blocks for name in block.variables]
    return claim.privacy.stated(names, [name for block in blocks for name in block.given])


def _not_within(claim: Claim) -> SpecificationError:
    what = f"{claim.privacy.name!r} is not defined within classes"
    return SpecificationError(sentence(what, where=", ".join(claim.variables), wanted="'differential'"))


def _find(claim: Claim, blocks: Sequence[Block]) -> Finding:
    """Test a claim on the blocks' matrices; differential privacy includes what private priors spent."""
    if claim.within and not claim.privacy.traits.within_classes:
        raise _not_within(claim)
    idle = [b for b, block in enumerate(blocks) if math.isinf(block.epsilon)] if claim.within else []
    if idle:  # alone in its class, every value is released as it is: a claim within classes would be empty
        return Finding(False, math.inf, "a block changes no value: it has no finite ε", idle[0], "every column")
    laws = worst_laws(blocks) if claim.within else [block.matrix for block in blocks]
    finding = claim.privacy.check(laws)
    priors = [block.prior_epsilon for block in blocks]
    if not any(priors):
        return finding
    if isinstance(claim.privacy, DifferentialPrivacy) and math.isfinite(finding.level):
        left = Fraction(claim.privacy.epsilon) - sum(map(Fraction, priors))
        ratio = math.prod((law.ratio or Fraction(1) for law in laws), start=Fraction(1))
        holds, level = within(ratio, left), add_upper(finding.level, *priors)
        return dataclasses.replace(finding, holds=holds, level=level, figures={"law_level": finding.level})
    # The claim of another model is about the values; what the choice of the matrix reveals comes in addition.
    return dataclasses.replace(finding, figures={**finding.figures, "priors": add_upper(*priors)})


def _rule_problems(mechanism: Mechanism) -> Iterable[str]:
    if mechanism.codebook is None or not mechanism.codebook.rules:
        return
    found = reachable(mechanism)
    for rule in found[:10]:
        fix = "perturb these variables in one block on its feasible cells, or plan treatment = 'closed'"
        yield sentence("a combination that cannot occur could be released", where=str(rule), fix=fix)
    if len(found) > 10:
        yield f"... and {len(found) - 10} more rules that a release could contradict."


def _split_problems(claim: Claim, mechanism: Mechanism) -> Iterable[str]:
    """Yield why the claim cannot be made of the split, where it is about variables of one."""
    covered = [name for name in mechanism.partly if name in claim.variables]
    if covered and len(covered) < len(mechanism.partly):
        left = ", ".join(name for name in mechanism.partly if name not in covered)
        yield sentence("a claim covers part of the split", where=", ".join(covered), fix=f"name {left} too")
    elif covered:
        yield from split_problems(claim.privacy, claim.variables)


def _worst(
    claim: Claim, mechanism: Mechanism, find: Callable[[Claim, Sequence[Block]], Finding]
) -> tuple[list[Block], Finding]:
    """Return the finding with the subset of the split for which it is worst, and the blocks that it is about."""
    blocks = blocks_of(claim, mechanism)
    if mechanism.split is None or mechanism.partly[0] not in claim.variables:
        return blocks, find(claim, blocks)
    found = [([*blocks, block], find(claim, [*blocks, block])) for block in mechanism.split.blocks]
    return max(found, key=lambda entry: (not entry[1].holds, entry[1].level))  # what mixes promises less at more


def blocks_of(claim: Claim, mechanism: Mechanism) -> list[Block]:
    """Return the blocks that the claim's variables touch, beside a split; a claim covers whole blocks only."""
    blocks = []
    for block in mechanism.blocks:
        touched = [name in claim.variables for name in block.perturbed]
        if any(touched) and not all(touched):
            raise SpecificationError(
                sentence(
                    "a claim covers part of a joint block",
                    where=f"block {block.name!r}",
                    fix="name all its variables",
                )
            )
        blocks += [block] * any(touched)
    for name in claim.variables:
        if name in mechanism.partly:
            continue
        mechanism[name]  # raises, naming the nearest, for a variable that is not perturbed
    return blocks


def _failure(claim: Claim, blocks: Sequence[Block], finding: Finding, mechanism: Mechanism) -> str:
    block, level = blocks[finding.worst], format_upper(finding.level)
    is_subset = mechanism.split is not None and any(block is one for one in mechanism.split.blocks)
    place = f"the subset {block.name!r} of the split" if is_subset else f"block {block.name!r}"
    entries = finding.where if finding.entries is None or claim.within else _entries(block, finding.entries, mechanism)
    return sentence(
        f"the exact matrix does not meet {options.describe(claim.privacy)}",
        where=", ".join(claim.variables),
        got=f"level {level}, most of it in {place}" + (f", {entries}" if entries else ""),
        fix="give its blocks more protection (in a claim on several blocks, ε adds up, and so do bits), or claim less",
    )


def _entries(block: Block, entries: tuple[int, int, int], mechanism: Mechanism) -> str:
    """Return a column and two rows of a block in words: by their categories, where these are known."""
    book = mechanism.codebook
    if book is None:
        return "column {}, rows {} and {}".format(*entries)
    cells = block.cell_table(tuple(book[name].size for name in block.variables))[list(entries)].tolist()
    texts = [" × ".join(book[n].code_labels[c] for n, c in zip(block.variables, row, strict=True)) for row in cells]
    return "released {!r}, true {!r} and {!r}".format(*texts)


def _describe(block: Block) -> dict[str, Any]:
    classes = int(classes_of(block.matrix).max()) + 1
    return {
        "variables": list(block.variables),
        **({"given": list(block.given)} if block.given else {}),
        **({"classes": classes} if classes > 1 else {}),
        "matrix_sha256": block.matrix.digest(),
        "epsilon": _finite(block.epsilon),
        "prior": block.provenance,
        **({"prior_epsilon": block.prior_epsilon} if block.prior_epsilon else {}),
        "budget": block.budget,
        **({"unit": block.unit} if block.unit != "record" else {}),
    }


def _describe_split(mechanism: Mechanism) -> tuple[dict[str, Any], ...]:
    """Return what is said of each subset: that of a block, and its weight in units of 2^-53."""
    subsets = () if mechanism.split is None else mechanism.split.subsets
    return tuple({"weight": subset.weight, **_describe(subset.block)} for subset in subsets)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
