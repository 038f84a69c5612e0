"""The perturbation of a plan's file: the draws, their content, and the file or folder that is written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from postrand import formats, release
from postrand.certification.certificate import Claim, Facts
from postrand.columns.source import released
from postrand.data.households import renumbering
from postrand.engines import Engine, FolderSink, Sink, engines
from postrand.engines.content import Content
from postrand.engines.database import Table
from postrand.formats import PartsSource, Source
from postrand.formats.csv import FormulaWarning, formula_warning
from postrand.mechanism import Mechanism
from postrand.plan import Plan
from postrand.release import Release
from postrand.release.bundle import DATA
from postrand.support.progress import reporter
from postrand.support.randomness import ReleaseKey
from postrand.workflow.dossier import Dossier
from postrand.workflow.planned import facts_of, household_of


@dataclass(frozen=True, slots=True)
class Perturbation:
    """Hold everything that decides the released bytes; made in one pass over the file that digests its ``content``."""

    plan: Plan
    engine: Engine
    source: Source
    mechanism: Mechanism
    key: ReleaseKey
    content: Content
    progress: bool = False

    @classmethod
    def of(
        cls,
        plan: Plan,
        engine: Engine,
        source: Source,
        mechanism: Mechanism,
        key: ReleaseKey,
        progress: bool = False,
    ) -> Perturbation:
        """Read the file once for its content; raises DataError if its record keys are not unique."""
        content = engine.content(source, mechanism, key, record_key=_record_key(plan))
        return cls(plan, engine, source, mechanism, key, content, progress)

    @property
    def columns(self) -> tuple[str, ...]:
        """The released columns, in order."""
        return release.released_codebook(self.plan.codebook, facts_of(self.plan, self.key)).names

    @property
    def name(self) -> str:
        """The name of the released data, a file or a folder."""
        return data_name(self.plan, self.source, self.engine)[0]

    @property
    def suffix(self) -> str:
        """The suffix of the released data's files."""
        return data_name(self.plan, self.source, self.engine)[1]

    def warnings(self) -> Iterator[tuple[str, type[UserWarning]]]:
        """Yield each message to the curator about the released file, with its kind."""
        if unsafe := formula_warning(self.source, self.columns, self.suffix):
            yield unsafe, FormulaWarning

    def release(
        self,
        out: str | Path,
        writer: Callable[[Path], None],
        claims: Iterable[Claim],
        facts: Facts,
        dossier: str | Path | None,
        inside: Dossier | None,
    ) -> Release:
        """Write the release, with its data by ``writer``, and the dossier; each is complete or does not exist."""
        return release.write(
            out,
            data_writer=writer,
            data_name=self.name,
            mechanism=self.mechanism,
            claims=claims,
            facts=facts,
            description=self.plan.metadata,
            dossier=dossier,
            inspect=None if inside is None else inside.files,
            target=self.plan.release.target,
            delta=None if self.plan.file is None else self.plan.file.delta,
            file_epsilon=None if self.plan.file is None else self.plan.file.epsilon,
        )

    def write(self, path: Path) -> None:
        """Draw the release and write it to ``path``, which ends in :attr:`name`."""
        tag, record_key = self.content.tag(), _record_key(self.plan)
        house = household_of(self.plan) if self.plan.release.renumbers else None
        fresh = renumbering(self.source, house, self.key, self.mechanism.digest(), tag) if house else None
        with reporter("perturb", self.source.num_rows if self.progress else None, quiet=not self.progress) as step:
            self.engine.perturb(
                released(self.source, self.mechanism, self.key, record_key, content=tag),
                self.mechanism,
                self.key,
                sink_for(path, self.suffix, self.source, self.plan.release.shuffle),
                columns=self.columns,
                record_key=record_key,
                shuffle=self.plan.release.shuffle,
                content=self.content,
                fresh=fresh,
                progress=step,
            )


def _record_key(plan: Plan) -> str | None:
    return next((v.name for v in plan.codebook.with_role("record_key")), None)


def data_name(plan: Plan, source: Source, engine: Engine) -> tuple[str, str]:
    """Return the name of the released data and the suffix of its files, in the plan's format or the source's.

    It is a folder if the source has several files, or if a cluster writes.
    """
    if plan.release.target is not None:
        return f"{DATA}.parquet", ".parquet"  # which becomes the table, and is gone
    read = "table.parquet" if isinstance(plan.source, Table) else plan.source
    path = source.files[0] if isinstance(source, PartsSource) else Path(read)
    suffix = formats.written_as(path) if plan.release.format == "same" else f".{plan.release.format}"
    kind = engines().get(engine.name)
    several = isinstance(source, PartsSource) or (kind is not None and kind.writes_folder)
    return (DATA if several else f"{DATA}{suffix}"), suffix


def sink_for(path: Path, suffix: str, source: Source, shuffle: bool) -> Sink:
    """Return the destination of the released data; a folder has as many files as the source.

    Files of shuffled records have the same size: different sizes would reveal how many records each source file has.
    """
    if path.suffix:
        return partial(formats.open_writer, path)
    sizes = source.sizes() if isinstance(source, PartsSource) else (0,)
    each = -(-sum(sizes) // len(sizes))
    return FolderSink(path, suffix, (each,) * len(sizes) if shuffle else sizes)
