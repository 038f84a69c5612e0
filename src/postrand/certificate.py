"""The certificate: what the exact law guarantees, what it does not, recomputed from the mechanism alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from postrand import options
from postrand.errors import PrivacyError, SpecificationError, raise_all, sentence
from postrand.exact import format_upper, log_upper
from postrand.mechanism import Block, Mechanism
from postrand.privacy import MODELS, DifferentialPrivacy, Finding, PrivacyModel

SCHEMA = "postrand/certificate/1"


@dataclass(frozen=True, slots=True)
class Claim:
    """Claim that the blocks of these variables (default: all perturbed ones) jointly meet a privacy model."""

    privacy: PrivacyModel
    variables: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Facts:
    """What the certificate cannot recompute from the law, and takes from the run that made the release."""

    key_is_private: bool = True
    order_is_shuffled: bool = True
    ids_are_released: bool = False


@dataclass(frozen=True, slots=True)
class Certificate:
    """Hold the findings of a mechanism's claims, and the limits of what they cover.

    ``findings[k]`` belongs to ``claims[k]``; all hold. ``level`` values are rounded up.
    """

    mechanism_digest: str
    claims: tuple[Claim, ...]
    findings: tuple[Finding, ...]
    blocks: tuple[dict[str, Any], ...]
    not_covered: tuple[str, ...]
    facts: Facts = field(default_factory=Facts)

    @property
    def sentences(self) -> tuple[str, ...]:
        """One sentence for each claim, naming its variables."""
        return tuple(
            f"{', '.join(claim.variables)}: {finding.sentence}."
            for claim, finding in zip(self.claims, self.findings, strict=True)
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        claims = [
            {
                "privacy": options.to_dict(c.privacy),
                "variables": list(c.variables),
                "level": f.level,
                "sentence": f.sentence,
            }
            for c, f in zip(self.claims, self.findings, strict=True)
        ]
        return {
            "schema": SCHEMA,
            "mechanism_sha256": self.mechanism_digest,
            "claims": claims,
            "blocks": list(self.blocks),
            "not_covered": list(self.not_covered),
            "facts": {name: getattr(self.facts, name) for name in Facts.__slots__},
        }


def certify(
    mechanism: Mechanism, claims: Iterable[Claim | PrivacyModel] = (), facts: Facts | None = None
) -> Certificate:
    """Recompute every claim from the exact law, and refuse the mechanism where one fails.

    With no claims, the record-level ε that the law attains is certified. Levels are rounded up; whether a claim holds
    is decided in exact arithmetic. This module never sees a designer.

    Raises
    ------
    PrivacyError
        Naming each claim that fails, with the block, column and pair of rows that exceed it most.

    Examples
    --------
    >>> from postrand.matrix import randomised_response
    >>> certificate = certify(Mechanism({"sex": randomised_response(2, 1.0)}), [DifferentialPrivacy(1.0)])
    >>> certificate.findings[0].holds, certificate.findings[0].level <= 1.0
    (True, True)
    """
    facts = facts or Facts()
    stated = [_complete(claim, mechanism) for claim in claims] or [_attained(mechanism)]
    tested = [(claim, _blocks_of(claim, mechanism)) for claim in stated]
    findings = [claim.privacy.check([b.matrix for b in blocks]) for claim, blocks in tested]
    failures = (
        _failure(claim, blocks, finding)
        for (claim, blocks), finding in zip(tested, findings, strict=True)
        if not finding.holds
    )
    raise_all(PrivacyError, failures)
    return Certificate(
        mechanism_digest=mechanism.digest(),
        claims=tuple(stated),
        findings=tuple(findings),
        blocks=tuple(_describe(block) for block in mechanism.blocks),
        not_covered=tuple(_limits(mechanism, facts)),
        facts=facts,
    )


def claims_from_dict(data: Mapping[str, Any]) -> tuple[tuple[Claim, ...], Facts]:
    """Read the claims and facts of a certificate's plain data, to certify them again.

    Raises
    ------
    SpecificationError
        If the schema, a model or an option is unknown.
    """
    if data.get("schema") != SCHEMA:
        raise SpecificationError(sentence("unknown certificate schema", got=data.get("schema"), wanted=SCHEMA))
    claims = tuple(
        Claim(options.from_dict(MODELS, c["privacy"], "certificate"), tuple(c["variables"])) for c in data["claims"]
    )
    return claims, options.build(Facts, data["facts"], "certificate facts")


def _complete(claim: Claim | PrivacyModel, mechanism: Mechanism) -> Claim:
    if not isinstance(claim, Claim):
        claim = Claim(claim)
    return claim if claim.variables else Claim(claim.privacy, mechanism.variables)


def _attained(mechanism: Mechanism) -> Claim:
    """Return the claim of the smallest ε that the whole law attains."""
    product = Fraction(1)
    for block in mechanism.blocks:
        ratio = block.matrix.ratio
        if ratio is None:
            raise PrivacyError(
                sentence(
                    "a matrix with zeros has no finite epsilon",
                    where=f"block {block.name!r}",
                    fix="state the claim it should meet, certify(mechanism, [claim])",
                )
            )
        product *= ratio
    return Claim(DifferentialPrivacy(log_upper(product)), mechanism.variables)


def _blocks_of(claim: Claim, mechanism: Mechanism) -> list[Block]:
    """Return the blocks that the claim's variables touch; a claim covers whole blocks only."""
    blocks = []
    for block in mechanism.blocks:
        touched = [name in claim.variables for name in block.variables]
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
        mechanism[name]  # raises, naming the nearest, for a variable that is not perturbed
    return blocks


def _failure(claim: Claim, blocks: Sequence[Block], finding: Finding) -> str:
    return sentence(
        f"the exact law does not meet {options.describe(claim.privacy)}",
        where=", ".join(claim.variables),
        got=f"level {format_upper(finding.level)}, most of it in block {blocks[finding.worst].name!r}, {finding.where}",
        fix="design the matrix with a smaller budget; design() rounds inward",
    )


def _describe(block: Block) -> dict[str, Any]:
    epsilon = block.matrix.epsilon
    return {
        "variables": list(block.variables),
        "matrix_sha256": block.matrix.digest(),
        "epsilon": epsilon if epsilon != float("inf") else None,
        "prior": block.provenance,
    }


def _limits(mechanism: Mechanism, facts: Facts) -> Iterable[str]:
    """Say what the guarantee does not cover, most serious first."""
    if not facts.key_is_private:
        yield "The release key was made from a seed for tests: THE RELEASE IS NOT PRIVATE to whoever knows the seed."
    yield "The guarantee is per record and covers only the values of: " + ", ".join(mechanism.variables) + "."
    if mechanism.codebook is not None:
        released = mechanism.codebook.with_role("key", "sensitive", "other", "weight", "household")
        clear = [v.name for v in released if v.name not in mechanism.variables]
        if clear:
            yield "Released unchanged, with no guarantee: " + ", ".join(clear) + "."
        kept = [v.name for v in released if v.missing == "keep" and v.name in mechanism.variables]
        if kept:
            yield "Which records have a missing value is disclosed for: " + ", ".join(kept) + "."
    yield from _provenance_limits(mechanism)
    if not facts.order_is_shuffled:
        yield "Records stand in their original order."
    if facts.ids_are_released:
        yield "Record ids are released."
    yield "Not covered: that a person is in the file, and what several records of one person or household say together."


def _provenance_limits(mechanism: Mechanism) -> Iterable[str]:
    texts = {
        "confidential": "The guarantee does not cover the choice of the matrix, tuned on confidential frequencies: ",
        "unstated": "The guarantee does not cover the choice of the matrix, whose origin was not stated: ",
    }
    for provenance, text in texts.items():
        names = [block.name for block in mechanism.blocks if block.provenance == provenance]
        if names:
            yield text + ", ".join(names) + "."
