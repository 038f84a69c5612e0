"""The metadata files of a release."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from postrand.certification.certificate import Certificate
from postrand.engines.summary import Summary
from postrand.mechanism import Mechanism
from postrand.metadata.croissant_json import croissant
from postrand.metadata.ddi_xml import ddi
from postrand.metadata.description import CROISSANT, DDI, Description


def files(
    description: Description,
    data_path: Path,
    mechanism: Mechanism,
    certificate: Certificate,
    summary: Summary,
    completed: Mapping[str, Any] | None = None,
) -> dict[str, str]:
    """Return the metadata files of a release by name: a function of what is public, and of the description.

    ``completed`` is what ``completed.json`` says, where the release has completed files.
    """
    return {
        DDI: ddi(description, data_path, mechanism, certificate, summary.records, completed),
        CROISSANT: croissant(description, data_path, mechanism, certificate, completed),
    }
