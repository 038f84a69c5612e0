"""Several privacy models at once, for one design; a certificate states them as separate claims."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy
from numpy.typing import NDArray

from postrand.errors import PrivacyError, raise_all, sentence, shown
from postrand.mechanism.matrix import TransitionMatrix
from postrand.privacy.base import Finding, LinearConstraints, ModelTraits, PrivacyModel, needs_file
from postrand.support.inputs import listed


@dataclass(frozen=True, slots=True)
class Together:
    """Ask that every one of ``models`` holds.

    Raises
    ------
    PrivacyError
        If there are no models, or one of them is not a privacy model.

    Examples
    --------
    >>> from postrand.privacy.differential import DifferentialPrivacy
    >>> M = TransitionMatrix.from_array([[0.75, 0.25], [0.25, 0.75]])
    >>> Together((DifferentialPrivacy(1.1), DifferentialPrivacy(1.0))).check([M]).holds
    False
    """

    name: ClassVar[str] = "together"
    traits: ClassVar[ModelTraits] = ModelTraits("claim.together", "Several promises at once.", "")
    models: tuple[PrivacyModel, ...]

    def __post_init__(self) -> None:
        models = listed(self.models)
        object.__setattr__(self, "models", (self.models,) if models is None else models)
        wrong = [m for m in self.models if isinstance(m, type) or not isinstance(m, PrivacyModel)]
        raise_all(PrivacyError, [sentence("not a privacy model", got=shown(m, repr)) for m in wrong])
        if not self.models:
            raise PrivacyError(sentence("no privacy model is named", fix="name at least one"))

    @property
    def needs_file(self) -> bool:
        """Whether one of the models does."""
        return any(map(needs_file, self.models))

    def on(self, file: Any) -> Together:
        """Return the models; those that need the file are bound to its frequencies."""
        return Together(tuple(m.on(file) if needs_file(m) else m for m in self.models))

    def part(self, members: NDArray[np.intp]) -> Together:
        """Return the models, those that need the file for the records of these types alone."""
        return Together(tuple(m.part(members) if needs_file(m) else m for m in self.models))

    def scaled(self, factor: float) -> Together:
        """Return the models, each scaled."""
        return Together(tuple(getattr(m, "scaled")(factor) for m in self.models))  # noqa: B009 -- an optional verb

    def check(self, matrices: Sequence[TransitionMatrix]) -> Finding:
        """Test every model; ``level`` and ``where`` are those of the first that fails, else of the first."""
        findings = [model.check(matrices) for model in self.models]
        shown = next((f for f in findings if not f.holds), findings[0])
        return Finding(
            holds=all(f.holds for f in findings),
            level=shown.level,
            sentence="; ".join(f.sentence for f in findings),
            worst=shown.worst,
            where=shown.where,
            entries=shown.entries,
        )

    def constraints(self, size: int) -> LinearConstraints:
        """Return the rows of all models, one below the other."""
        parts = [model.constraints(size) for model in self.models]
        A = scipy.sparse.csr_array(scipy.sparse.vstack([part.A for part in parts]))
        return LinearConstraints(A, np.concatenate([part.b for part in parts]))
