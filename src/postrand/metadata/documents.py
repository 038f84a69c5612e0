"""The metadata files of a release."""

from __future__ import annotations

from pathlib import Path

from postrand.certification.certificate import Certificate
from postrand.engines.summary import Summary
from postrand.mechanism import Mechanism
from postrand.metadata.croissant_json import croissant
from postrand.metadata.ddi_xml import ddi
from postrand.metadata.description import CROISSANT, DDI, Description


def files(
    description: Description, data_path: Path, mechanism: Mechanism, certificate: Certificate, summary: Summary
) -> dict[str, str]:
    """Return the metadata files of a release by name: a function of what is public, and of the description."""
    return {
        DDI: ddi(description, data_path, mechanism, certificate, summary.records),
        CROISSANT: croissant(description, data_path, mechanism, certificate),
    }
