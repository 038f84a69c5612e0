"""Releases of earlier schemas: statements in earlier forms, read so that they can always be verified.

Schema 1 and 2 hold sentences beside codes and levels. The sentences are the words of the version that wrote them: they
are neither compared nor shown. Claims, levels and everything else that is not prose is compared with what the law
gives.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from typing import Any

from postrand.columns.source import numbers, whole_column
from postrand.errors import SpecificationError, sentence, shown
from postrand.formats import Source
from postrand.mechanism import Mechanism
from postrand.ranks.column import RankedColumn
from postrand.ranks.values import released_level

MECHANISMS = {1: "postrand/mechanism/1", 2: "postrand/mechanism/2", 3: "postrand/mechanism/2"}
CERTIFICATES = {number: f"postrand/certificate/{number}" for number in MECHANISMS}
"""The schemas of mechanism and certificate by that of the release."""
WITH_SENTENCES = 2
"""The last schema of releases and of folders of columns whose certificates hold sentences."""


def todays_mechanism(data: Mapping[str, Any], number: int) -> dict[str, Any]:
    """Return the plain data of the mechanism of a release in today's form: only the name of the schema differs.

    Raises
    ------
    SpecificationError
        If the mechanism's schema is not the one that releases of this number have.
    """
    found, wanted = data.get("schema"), MECHANISMS[number]
    if found != wanted:
        raise SpecificationError(sentence("unknown mechanism schema", got=shown(found), wanted=wanted))
    return {**data, "schema": MECHANISMS[max(MECHANISMS)]}


def mechanism_as_written(mechanism: Mechanism, number: int) -> dict[str, Any]:
    """Return the plain data of a mechanism as the schema of the release writes it."""
    return {**mechanism.to_dict(), "schema": MECHANISMS[number]}


def stated(certificate: Mapping[str, Any], number: int) -> dict[str, Any]:
    """Return what a certificate of this schema states, without its prose.

    >>> stated({"claims": [{"level": 1.0, "sentence": "Safe."}], "not_covered": ["All else."]}, 2)
    {'claims': [{'level': 1.0}]}
    """
    if number > WITH_SENTENCES:
        return dict(certificate)
    found = {name: value for name, value in certificate.items() if name != "not_covered"}
    for name in {"claims", "numerical"} & found.keys():
        found[name] = [_without(entry, "sentence") for entry in found[name]]
    return found


def as_written(certificate: Mapping[str, Any], number: int, mechanism: Mechanism) -> dict[str, Any]:
    """Return what a certificate of today states in the fields of this schema, without its prose.

    Schema 1 named the law by a digest that did not cover what it was made from.
    """
    if number > WITH_SENTENCES:
        return dict(certificate)
    found = {name: value for name, value in certificate.items() if name != "not_covered"}
    found |= {"schema": CERTIFICATES[number]}
    found["claims"] = [_without(entry, "figures") for entry in found["claims"]]
    if "numerical" in found:
        found["numerical"] = [_without(entry, "bits", "shared") for entry in found["numerical"]]
    if number == 1:
        found["mechanism_sha256"] = _first_digest(mechanism)
        found.pop("codebook_sha256")
        found["blocks"] = [_without(entry, "prior_epsilon", "budget") for entry in found["blocks"]]
    return found


def columns_as_written(certificate: Mapping[str, Any], number: int, said: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the certificate of a folder of columns states in the fields of this schema, without its prose.

    Schema 1 was written before levels of values and link rates were; late folders of it have them.
    """
    if number > WITH_SENTENCES:
        return dict(certificate)
    found = {name: value for name, value in certificate.items() if name != "not_covered"}
    found |= {"schema": f"postrand/columns/{number}"}
    found["claims"] = [_without(entry, "shared") for entry in found["claims"]]
    if number == 1 and "link_rates" not in said["details"]:
        found["details"] = _without(found["details"], "link_rates")
    return found


def is_of_law_alone(certificate: Mapping[str, Any]) -> bool:
    """Whether the certificate of a folder of columns was written before levels of values and link rates existed."""
    first = certificate["schema"] == "postrand/columns/1" and "link_rates" not in certificate["details"]
    return first and not any("level" in entry for entry in certificate["claims"])


def with_levels(mechanism: Mechanism, source: Source) -> Mechanism:
    """Return the mechanism of a release of the first schema with the levels of values that its data have.

    That schema did not state them; what its certificate says of numerical variables holds where no values are equal.
    """

    def level(column: RankedColumn) -> RankedColumn:
        values = numbers(whole_column(source, column.variable), column.variable)
        return dataclasses.replace(column, level=released_level(values, column.law, column.form))

    return Mechanism(mechanism.blocks, mechanism.codebook, [c if c.level else level(c) for c in mechanism.numerical])


def with_facts(found: Mapping[str, Any], said: Mapping[str, Any]) -> dict[str, Any]:
    """Return the findings without false facts that did not exist when the certificate was written."""
    names = said["facts"]
    return {**found, "facts": {n: fact for n, fact in found["facts"].items() if fact or n in names}}


def _without(entry: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in entry.items() if name not in names}


def _first_digest(mechanism: Mechanism) -> str:
    law = mechanism_as_written(mechanism, 1)
    law["blocks"] = [_without(block, "provenance", "prior_epsilon") for block in law["blocks"]]
    return hashlib.sha256(json.dumps(law, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
