"""From a plan to a release: the main path, step by step."""

from __future__ import annotations

import dataclasses
import shutil
import warnings
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from postrand import formats, release
from postrand.certification.certificate import Claim, Facts, certify
from postrand.certification.file_claims import tie
from postrand.columns.planned import released_book
from postrand.columns.source import ranked_columns, released
from postrand.data.households import renumbered_book, renumbering
from postrand.data.table import ContingencyTable
from postrand.engines import Engine, FolderSink, Sink
from postrand.engines import engine as engine_named
from postrand.errors import UsageError, sentence
from postrand.formats import PartsSource, Source
from postrand.formats.csv import FormulaWarning, formula_warning
from postrand.mechanism import Mechanism
from postrand.plan import Plan
from postrand.ranks.column import RankWarning
from postrand.release import Release
from postrand.release.bundle import DATA
from postrand.release.ledger import Entry, Ledger
from postrand.risk.clear import ClearWarning
from postrand.risk.findings import Findings, find
from postrand.support.inputs import finite
from postrand.support.progress import reporter
from postrand.support.randomness import ReleaseKey, as_release_key
from postrand.workflow.design_blocks import DesignedBlock, check_rules
from postrand.workflow.design_blocks import design_blocks as design_blocks
from postrand.workflow.dossier import collect


def run(
    plan: Plan,
    out: str | Path,
    *,
    release_key: ReleaseKey | bytes | str | None = None,
    dossier: str | Path | None = None,
    engine: Engine | str = "local",
    resume: str | Path | None = None,
    ledger: Ledger | None = None,
    again: bool = False,
    progress: bool = False,
    sampling_fraction: float | None = None,
) -> Release:
    """Carry out a plan: design, certify, perturb, write; the release appears whole or not at all.

    With ``dossier``, risk and exact counts go to that folder, for entitled staff only, never into the release;
    ``sampling_fraction``, the share of the population that is in the file, serves it alone, in place of weights. With
    ``resume``, the same call continues an interrupted one: that folder holds what is complete, is internal, and is
    removed when the release is there; it needs the release key of the first call. With ``ledger``, another content
    under the same key is refused unless ``again``, and the release is noted there.

    What leaves unperturbed is measured, and each finding is a warning (``ClearWarning``), by names and rounded shares;
    the release that is returned has them all as ``findings``. Nothing is released while a column that singles out more
    than 1% of the records needs a decision: see :func:`findings`. Warns too where the release of a numerical variable
    shows most of its values (``RankWarning``), and where text of a CSV release would be run as a formula
    (``FormulaWarning``).

    Raises
    ------
    PostrandError
        Any of the tree; nothing is left on disk then.
    """
    release.check_targets(out, dossier)
    _check_fraction(sampling_fraction, dossier)
    if resume is not None and release_key is None:
        what = "an interrupted run continues with its own release key, and none is given"
        raise UsageError(sentence(what, fix="give the key of the first call: --key-file"))
    if isinstance(engine, str):
        engine = engine_named(engine, Path(out).parent, None if resume is None else Path(resume))
    key = as_release_key(release_key)
    source = formats.read(plan.source, plan.codebook)
    check_rules(plan.codebook, engine, source)
    blocks = design_blocks(plan, engine, source)
    mechanism = mechanism_of(plan, blocks, source)
    facts = _facts_of(plan, key)
    claims = claims_of(plan, mechanism, engine, source)
    certificate = certify(mechanism, claims, facts)
    columns = release.released_codebook(plan.codebook, facts).names
    found = findings(plan, mechanism, source)
    found.require_decisions()
    for text in found.warnings:
        warnings.warn(text, ClearWarning, stacklevel=2)
    name, suffix = data_name(plan, source, engine)
    if unsafe := formula_warning(source, columns, suffix):
        warnings.warn(unsafe, FormulaWarning, stacklevel=2)
    record_key = next((v.name for v in plan.codebook.with_role("record_key")), None)
    content = engine.content(source, mechanism, key, record_key=record_key)
    entry = Entry.of(content, mechanism.digest(), certificate.account.total, Path(out).name)
    if ledger is not None:
        ledger.check(entry, again=again)
    house = _household(plan)
    renumbers = plan.release.renumbers and house is not None
    fresh = renumbering(source, house, key, mechanism.digest(), content.tag()) if renumbers and house else None

    def write_data(path: Path) -> None:
        with reporter("perturb", source.num_rows if progress else None, quiet=not progress) as step:
            engine.perturb(
                released(source, mechanism, key, record_key, content=content.tag()),
                mechanism,
                key,
                sink_for(path, suffix, source, plan.release.shuffle),
                columns=columns,
                record_key=record_key,
                shuffle=plan.release.shuffle,
                content=content,
                fresh=fresh,
                progress=step,
            )
        if ledger is not None:  # before the release appears: what nobody has seen may be noted, never the other way
            ledger.add(entry, again=again)

    inside = None
    if dossier is not None:
        inside = collect(
            plan.codebook, engine, source, [block.to_dict() for block in blocks], certificate, found, sampling_fraction
        )
    made = release.write(
        out,
        data_writer=write_data,
        data_name=name,
        mechanism=mechanism,
        claims=claims,
        facts=facts,
        description=plan.metadata,
        dossier=dossier,
        inspect=None if inside is None else inside.files,
    )
    if resume is not None:
        shutil.rmtree(resume, ignore_errors=True)
    return dataclasses.replace(made, findings=found)


def findings(plan: Plan, mechanism: Mechanism | None = None, source: Source | None = None) -> Findings:
    """Return what leaves the release in clear: which records it singles out, and what it says of perturbed variables.

    One pass over the file; nothing is released. ``mechanism`` and ``source``, the plan's own, save designing and
    opening the file again. Sentences hold no counts; ``figures`` are confidential.

    Raises
    ------
    PostrandError
        If the plan cannot be designed, or the file cannot be read.
    """
    source = formats.read(plan.source, plan.codebook) if source is None else source
    if mechanism is None:
        mechanism = mechanism_of(plan, design_blocks(plan, source=source), source)
    house = _household(plan)
    decided = [
        *plan.release.as_is,
        *(v.name for v in plan.codebook.with_role("record_key") if plan.release.release_ids),
    ]
    decided += [house] if house and not plan.release.renumbers else []
    exempt = [house] if house and plan.release.renumbers else []
    released = release.released_codebook(plan.codebook, _facts_of(plan)).names
    return find(source, plan.codebook, mechanism, released, as_is=decided, exempt=exempt)


def _household(plan: Plan) -> str | None:
    return next((v.name for v in plan.codebook.with_role("household")), None)


def _facts_of(plan: Plan, key: ReleaseKey | None = None) -> Facts:
    renumbered = plan.release.renumbers and _household(plan) is not None
    private = key is None or key.is_private
    return Facts(private, plan.release.shuffle, plan.release.release_ids, renumbered)


def _check_fraction(fraction: float | None, dossier: str | Path | None) -> None:
    if fraction is None:
        return
    if not 0 < finite(fraction) <= 1:
        raise UsageError(sentence("the sampling fraction is outside its range", got=fraction, wanted="(0, 1]"))
    if dossier is None:
        raise UsageError(
            sentence("the sampling fraction serves the dossier alone", fix="ask for a dossier, or leave it out")
        )


def mechanism_of(plan: Plan, blocks: Sequence[DesignedBlock], source: Source | None = None) -> Mechanism:
    """Return the mechanism of designed blocks and numerical columns, bound to the codebook of what is released.

    Reads the file only where a law acts on the ranks of its records, whose number and ties it depends on; warns
    (``RankWarning``) of variables most of whose values would be shown.
    """
    if source is None and plan.numerical:
        source = formats.read(plan.source, plan.codebook)
    ranked = () if source is None else ranked_columns(source, plan.codebook, plan.numerical)
    for column in ranked:
        if column.warning:
            warnings.warn(column.warning, RankWarning, stacklevel=3)
    book = released_book(plan.codebook, plan.numerical)
    book = renumbered_book(book) if plan.release.renumbers else book
    return Mechanism([designed.block for designed in blocks], book, ranked)


def claims_of(
    plan: Plan, mechanism: Mechanism, engine: Engine | None = None, source: Source | None = None
) -> tuple[Claim, ...]:
    """Return the plan's claims, those that rest on the file's frequencies tied to it; reads the file only for them."""
    engine, codebook = engine or engine_named("local"), plan.codebook

    def count(names: Sequence[str]) -> ContingencyTable:
        return engine.count(formats.read(plan.source, codebook) if source is None else source, codebook, names)

    return tie(plan.claims, mechanism, count)


def data_name(plan: Plan, source: Source, engine: Engine) -> tuple[str, str]:
    """Return the name of the released data and the suffix of its files, in the plan's format or the source's.

    It is a folder where the source has several files, or a cluster writes.
    """
    path = source.files[0] if isinstance(source, PartsSource) else plan.source
    suffix = path.suffix.lower() if plan.release.format == "same" else f".{plan.release.format}"
    suffix = ".xpt" if suffix == ".sas7bdat" else suffix  # SAS data sets can be read, not written
    several = isinstance(source, PartsSource) or engine.name == "spark"
    return (DATA if several else f"{DATA}{suffix}"), suffix


def sink_for(path: Path, suffix: str, source: Source, shuffle: bool) -> Sink:
    """Return the sink of the released data; a folder has as many files as the source.

    Files of shuffled records are of one size: the sizes of the source's would tell how many records each had.
    """
    if path.suffix:
        return partial(formats.open_writer, path)
    sizes = source.sizes() if isinstance(source, PartsSource) else (0,)
    each = -(-sum(sizes) // len(sizes))
    return FolderSink(path, suffix, (each,) * len(sizes) if shuffle else sizes)
