"""The perturbation of a plan's file: the draws, their content, and the file or folder that is written."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from postrand import formats, release
from postrand.certification.certificate import Claim, Facts
from postrand.codebook.perturbed_labels import labelled, published_labels
from postrand.columns.source import released
from postrand.data.households import renumbering_of
from postrand.engines import Engine, FolderSink, Sink
from postrand.engines.content import Content
from postrand.formats import PartsSource, Source
from postrand.mechanism import Mechanism
from postrand.plan import Plan
from postrand.release import Release, rendering
from postrand.release.bundle import InternalContent
from postrand.release.completed_files import putting
from postrand.release.ledger import Charge, series_of
from postrand.support.progress import Stage, stage
from postrand.support.randomness import ReleaseKey
from postrand.workflow.facts import data_name, record_key_of, released_names
from postrand.workflow.known import Known

if TYPE_CHECKING:  # a run without a dossier does not load it
    from postrand.workflow.dossier import Dossier


@dataclass(frozen=True, slots=True)
class Perturbation:
    """Hold everything that decides the released bytes; made in one pass over the file that digests its ``content``."""

    plan: Plan
    engine: Engine
    source: Source
    mechanism: Mechanism
    key: ReleaseKey
    content: Content
    known: Known

    @classmethod
    def of(cls, known: Known, mechanism: Mechanism, key: ReleaseKey) -> Perturbation:
        """Take what is known of the file; raises DataError if a record does not fit the mechanism."""
        assert known.digest is not None  # what is known for a release key has one
        content = known.answers[known.digest]
        return cls(known.plan, known.engine, known.source, mechanism, key, content, known)

    @property
    def columns(self) -> tuple[str, ...]:
        """The released columns, in order."""
        return released_names(self.plan, self.key)

    @property
    def name(self) -> str:
        """The name of the released data, a file or a folder."""
        return data_name(self.plan, self.source, self.engine)[0]

    @property
    def suffix(self) -> str:
        """The suffix of the released data's files."""
        return data_name(self.plan, self.source, self.engine)[1]

    def release(
        self,
        out: str | Path,
        charges: Sequence[Charge],
        claims: Iterable[Claim],
        facts: Facts,
        dossier: str | Path | None,
        inside: Callable[[], Dossier] | None,
    ) -> Release:
        """Write the release and the dossier; each is complete or does not exist. The ledgers of ``charges`` note it.

        ``inside`` gives the facts of the dossier, which can still be on their way; it is asked when the records are
        written.
        """

        def internal(data: Path, mechanism: Mechanism, *about: Any) -> Mapping[str, InternalContent]:
            from postrand.workflow.dossier_decision import address  # only for a dossier

            assert inside is not None
            assert dossier is not None
            rendering.digest()  # for the manifest, which gets it from memory then: the risk can still be on its way
            found = dataclasses.replace(inside(), public=address(dossier, out))
            return found.files(data, mechanism, *about)

        def note(manifest: str) -> None:
            for charge in charges:
                charge.note(manifest)

        return release.write(
            out,
            data_writer=self.write,
            data_name=self.name,
            mechanism=self.mechanism,
            claims=claims,
            facts=facts,
            description=self.plan.metadata,
            dossier=dossier,
            inspect=None if inside is None or dossier is None else internal,
            target=self.plan.release.target,
            delta=None if self.plan.file is None else self.plan.file.delta,
            file_epsilon=None if self.plan.file is None else self.plan.file.epsilon,
            complete=None if self.plan.release.completed is None else putting(self.plan.release.completed),
            series=series_of(charges),
            note=note,
        )

    def write(self, path: Path) -> None:
        """Draw the release and write it to ``path``, which ends in :attr:`name`."""
        tag, record_key = self.content.tag(), record_key_of(self.plan)
        house, fresh = self.known.households, None
        if house is not None:
            found = self.known.answers[house]
            fresh = renumbering_of(found, house.name, self.key, self.mechanism.digest(), tag)
        room = formats.format_of(f"x{self.suffix}").label_room
        shown = self.plan.codebook, self.mechanism.variables, room
        labels = published_labels(*shown) if formats.has_limits(self.suffix) else {}
        self.engine.perturb(
            released(self.source, self.mechanism, self.key, record_key, content=tag, held=self.known.held),
            self.mechanism,
            self.key,
            sink_for(path, self.suffix, self.source, self.plan.release.shuffle, labels),
            columns=self.columns,
            record_key=record_key,
            shuffle=self.plan.release.shuffle,
            content=self.content,
            fresh=fresh,
            progress=stage(Stage.PERTURBING, self.source.num_rows),
        )


def file_warnings(known: Known) -> Iterator[tuple[str, type[UserWarning]]]:
    """Yield each message to the curator about the released file, with its kind."""
    if known.formulas is None:
        return
    from postrand.formats.csv import FormulaWarning, formulas_said  # only for a release as text

    if unsafe := formulas_said(known.answers[known.formulas]):
        yield unsafe, FormulaWarning


def sink_for(
    path: Path, suffix: str, source: Source, shuffle: bool, labels: Mapping[str, Mapping[bytes, bytes]]
) -> Sink:
    """Return the destination of the released data, with these labels; a folder has as many files as the source.

    Files of shuffled records have the same size: different sizes would reveal how many records each source file has.
    """
    if path.suffix:
        return lambda schema: formats.open_writer(path, labelled(schema, labels))
    sizes = source.sizes() if isinstance(source, PartsSource) else (0,)
    each = -(-sum(sizes) // len(sizes))
    return FolderSink(path, suffix, (each,) * len(sizes) if shuffle else sizes, labels)
