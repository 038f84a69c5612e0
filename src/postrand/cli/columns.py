"""The sub-commands on whole columns: permute, average, anatomise, distances."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from postrand.cli.frame import FILE, FOLDER, Result, command, keys_option, names, release_key
from postrand.errors import UsageError, sentence


def on_ranks(function: Callable[..., Result]) -> Callable[..., Result]:
    """Add what a law on ranks takes; the function is given ``law`` in place of ``--band`` or ``--blocks``."""

    @click.argument("file", type=FILE)
    @click.option("--columns", required=True, metavar="A,B", help="Numerical columns.")
    @click.option(
        "--band",
        type=int,
        metavar="W",
        help="Over about W neighbours in rank, wherever the rank is; never for averages.",
    )
    @click.option("--blocks", type=int, metavar="K", help="Over fixed blocks of K neighbours in rank.")
    @click.option("--out", type=FOLDER, required=True, help="Folder of the release; it must not exist.")
    @functools.wraps(function)
    def wrapped(columns: str, band: int | None, blocks: int | None, **arguments: Any) -> Result:
        from postrand.ranks import RankBand, RankBlocks

        if (band is None) == (blocks is None):
            raise UsageError(sentence("give one of --band and --blocks, not both"))
        law = RankBlocks(blocks) if blocks is not None else RankBand(band or 0)
        return function(columns=names(columns), law=law, **arguments)

    return wrapped


@command
@on_ranks
@click.option(
    "--key-file", type=FILE, help="Release key, 32 bytes or 64 hexadecimal digits; else one is drawn and forgotten."
)
@click.option("--seed", type=int, help="For tests only: the release is then not private.")
def permute(
    file: Path, columns: tuple[str, ...], law: Any, out: Path, key_file: Path | None, seed: int | None
) -> Result:
    """Permute numerical columns among neighbours in rank.

    Every value of FILE is kept, and with them each column's totals, means and quantiles.
    """
    from postrand.workflow.whole_columns import permute_columns

    return _columns_result(out, permute_columns(file, out, columns, law, release_key(key_file, seed)))


@command
@on_ranks
def average(file: Path, columns: tuple[str, ...], law: Any, out: Path) -> Result:
    """Average numerical columns over neighbours in rank.

    The mean of each column of FILE is kept: microaggregation over blocks. Nothing is drawn at random. Averages that can
    be solved for are refused: those over a --band, and those of blocks of equal or too near values.
    """
    from postrand.workflow.whole_columns import average_columns

    return _columns_result(out, average_columns(file, out, columns, law))


@command
@click.argument("original", type=FILE)
@click.argument("released", type=FILE)
@click.option("--columns", required=True, metavar="A,B", help="Numerical columns that both files have.")
@click.option("--record-key", metavar="ID", help="Column that tells records apart (else both are in one order).")
def distances(original: Path, released: Path, columns: str, record_key: str | None) -> Result:
    """Measure how far any method moved each value in rank.

    The permutation model: RELEASED as a permutation of ORIGINAL and noise that keeps ranks. Nothing is written.
    """
    from postrand.workflow.whole_columns import column_distances

    found = column_distances(original, released, names(columns), record_key)
    return {n: model.to_dict() for n, model in found.items()}, "\n".join(f"{n}: {m}" for n, m in found.items())


@command
@click.argument("file", type=FILE)
@keys_option(required=True)
@click.option("--k", type=int, required=True, help="Least number of records in a class.")
@click.option("--out", type=FOLDER, required=True, help="Folder of the release; it must not exist.")
@click.option(
    "--key-file", type=FILE, help="Release key, 32 bytes or 64 hexadecimal digits; else one is drawn and forgotten."
)
@click.option("--seed", type=int, help="For tests only: the release is then not private.")
def anatomise(file: Path, keys: str, k: int, out: Path, key_file: Path | None, seed: int | None) -> Result:
    """Release keys and the rest as two tables.

    They are linked by classes of at least K records of FILE that are near in their keys (Anatomy).
    """
    from postrand.workflow.whole_columns import anatomise_file

    return _columns_result(out, anatomise_file(file, out, names(keys), k, release_key(key_file, seed)))


def _columns_result(out: Path, certificate: dict[str, Any]) -> Result:
    claims = [claim["sentence"] for claim in certificate["claims"]]
    limits = [f"- {text}" for text in certificate["not_covered"]]
    following = f"Next: read {out / 'report.html'}; postrand verify {out}"
    lines = [f"release: {out}", *claims, "Not covered:", *limits, following]
    return certificate, "\n".join(lines)
