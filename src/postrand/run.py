"""From a plan to a release: the main path, step by step."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from postrand import formats, metadata, release
from postrand.blocks import DesignedBlock, check_rules
from postrand.blocks import design_blocks as design_blocks
from postrand.certificate import Facts, certify
from postrand.dossier import collect
from postrand.engines import Engine, LocalEngine
from postrand.formats import Source
from postrand.mechanism import Mechanism
from postrand.numerical.planned import released_book
from postrand.numerical.released import ranked_columns, released
from postrand.plan import Plan
from postrand.progress import reporter
from postrand.randomness import ReleaseKey, as_release_key
from postrand.release import Release


def run(
    plan: Plan,
    out: str | Path,
    *,
    release_key: ReleaseKey | bytes | str | None = None,
    dossier: str | Path | None = None,
    engine: Engine | None = None,
    progress: bool = False,
) -> Release:
    """Carry out a plan: design, certify, perturb, write; the release appears whole or not at all.

    With ``dossier``, risk and exact counts go to that folder, for entitled staff only, never into the release.

    Raises
    ------
    PostrandError
        Any of the tree; nothing is left on disk then.
    """
    release.check_targets(out, dossier)
    engine = engine or LocalEngine(scratch=Path(out).parent)
    key = as_release_key(release_key)
    source = formats.read(plan.source, plan.codebook)
    check_rules(plan.codebook, engine, source)
    blocks = design_blocks(plan, engine, source)
    mechanism = mechanism_of(plan, blocks, source)
    facts = Facts(key.is_private, plan.release.shuffle, plan.release.release_ids)
    certificate = certify(mechanism, plan.claims, facts)
    name = data_name(plan)
    record_key = next((v.name for v in plan.codebook.with_role("record_key")), None)

    def write_data(path: Path) -> None:
        with reporter("perturb", source.num_rows if progress else None, quiet=not progress) as step:
            engine.perturb(
                released(source, mechanism, key, record_key),
                mechanism,
                key,
                partial(formats.open_writer, path),
                columns=release.released_codebook(plan.codebook, facts).names,
                record_key=record_key,
                shuffle=plan.release.shuffle,
                progress=step,
            )

    with ExitStack() as stack:
        if dossier is not None:
            found = collect(plan.codebook, engine, source, [block.to_dict() for block in blocks], certificate)
            put = stack.enter_context(release.dossier(dossier, {"dossier.json": found.text}, release=out))

            def inspect(*made: Any) -> None:
                put("dossier.html", found.page(*made))

        return release.write(
            out,
            data_writer=write_data,
            data_name=name,
            mechanism=mechanism,
            claims=plan.claims,
            facts=facts,
            extra=partial(metadata.files, plan.metadata),
            inspect=None if dossier is None else inspect,
        )


def mechanism_of(plan: Plan, blocks: Sequence[DesignedBlock], source: Source | None = None) -> Mechanism:
    """Return the mechanism of designed blocks and numerical columns, bound to the codebook of what is released.

    Reads the file only where a law acts on the ranks of its records, whose number it depends on.
    """
    if source is None and plan.numerical:
        source = formats.read(plan.source, plan.codebook)
    ranked = () if source is None else ranked_columns(source, plan.codebook, plan.numerical)
    return Mechanism([designed.block for designed in blocks], released_book(plan.codebook, plan.numerical), ranked)


def data_name(plan: Plan) -> str:
    """Return the name of the released data file, in the plan's format or the source's."""
    suffix = plan.source.suffix.lower() if plan.release.format == "same" else f".{plan.release.format}"
    return f"data{'.xpt' if suffix == '.sas7bdat' else suffix}"  # SAS data sets can be read, not written
