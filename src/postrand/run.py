"""From a plan to a release: the main path, step by step."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from postrand import formats, metadata, release
from postrand.blocks import DesignedBlock, check_rules
from postrand.blocks import design_blocks as design_blocks
from postrand.certificate import Facts, certify
from postrand.dossier import collect
from postrand.engines import Engine, LocalEngine
from postrand.mechanism import Mechanism
from postrand.plan import Plan
from postrand.progress import reporter
from postrand.randomness import ReleaseKey, as_release_key
from postrand.release import Release


@dataclass(frozen=True, slots=True)
class DesignedBlock:
    """A planned block with its matrix, and the design that made it (None where the plan gives the matrix)."""

    plan: BlockPlan
    matrix: TransitionMatrix
    design: Design | None

    @property
    def block(self) -> Block:
        """The block of the mechanism."""
        provenance = "unstated" if self.design is None else self.design.provenance
        return Block(self.plan.variables, self.matrix, provenance=provenance)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON: internal, since value and bound follow from the prior."""
        diagonal = self.matrix.array.diagonal()
        data = {
            "variables": list(self.plan.variables),
            "categories": self.matrix.size,
            "epsilon": self.matrix.epsilon if math.isfinite(self.matrix.epsilon) else None,
            "unchanged": [float(diagonal.min()), float(diagonal.max())],
            "condition": self.matrix.condition if math.isfinite(self.matrix.condition) else None,
        }
        if self.design is not None:
            d = self.design
            data |= {"objective": self.plan.objective.name, "value": d.value, "bound": d.bound, "gap": d.gap}
            data |= {"status": d.status, "message": d.message, "prior": self.plan.prior}
        return data

    def __str__(self) -> str:
        low, high = (float(f(self.matrix.array.diagonal())) for f in (np.min, np.max))
        text = f"{self.block.name}: {self.matrix.size} categories, ε <= {format_upper(self.matrix.epsilon)}, "
        text += f"unchanged with probability {low:.3f}" + (f" to {high:.3f}" if high - low > 5e-4 else "")
        if self.design is not None:
            d = self.design
            text += f"\n  {self.plan.objective.name} {d.value:.6g} (bound {d.bound:.6g}), {d.status}: {d.message}"
        return text


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
    blocks = design_blocks(plan, engine, source)
    mechanism = mechanism_of(plan, blocks)
    facts = Facts(key.is_private, plan.release.shuffle, plan.release.release_ids)
    certificate = certify(mechanism, plan.claims, facts)
    name = data_name(plan)

    def write_data(path: Path) -> None:
        with reporter("perturb", source.num_rows if progress else None, quiet=not progress) as step:
            engine.perturb(
                source,
                mechanism,
                key,
                partial(formats.open_writer, path),
                columns=release.released_codebook(plan.codebook, facts).names,
                record_key=next((v.name for v in plan.codebook.with_role("record_key")), None),
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


def design_blocks(plan: Plan, engine: Engine | None = None, source: Source | None = None) -> tuple[DesignedBlock, ...]:
    """Design the matrix of every block; reads the file only where a prior comes from it."""
    engine = engine or LocalEngine()
    if source is None and any(block.prior == "file" for block in plan.blocks):
        source = formats.read(plan.source, plan.codebook)
    return tuple(_design_block(block, plan.codebook, engine, source) for block in plan.blocks)


def mechanism_of(plan: Plan, blocks: Sequence[DesignedBlock]) -> Mechanism:
    """Return the mechanism of designed blocks, bound to the plan's codebook."""
    return Mechanism([designed.block for designed in blocks], plan.codebook)


def data_name(plan: Plan) -> str:
    """Return the name of the released data file, in the plan's format or the source's."""
    suffix = plan.source.suffix.lower() if plan.release.format == "same" else f".{plan.release.format}"
    return f"data{'.xpt' if suffix == '.sas7bdat' else suffix}"  # SAS data sets can be read, not written


def _design_block(block: BlockPlan, codebook: Codebook, engine: Engine, source: Source | None) -> DesignedBlock:
    if block.matrix is not None:
        return DesignedBlock(block, TransitionMatrix.from_array(np.array(block.matrix)), None)
    size = math.prod(codebook[name].size for name in block.variables)
    if block.prior == "uniform" or source is None:
        prior = Prior.uniform(size)
    else:
        counts = engine.count(source, codebook, block.variables).dense().ravel()
        prior = Prior(counts / counts.sum(), provenance="confidential")
    try:
        made = solve(prior, block.privacy, block.objective, block.structure)
    except PostrandError as error:
        where = f"block {'*'.join(block.variables)!r}"
        raise type(error)(f"{where}: {problem}" for problem in error.problems) from None
    return DesignedBlock(block, made.matrix, made)
