"""The sub-commands on whole columns: permute, average, anatomise, distances."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from postrand.cli.frame import (
    FILE,
    FOLDER,
    KEY_FILE,
    Result,
    command,
    keys_option,
    names,
    placed,
    reading_options,
    release_key,
)
from postrand.errors import UsageError, sentence


def on_ranks(function: Callable[..., Result]) -> Callable[..., Result]:
    """Add the options of a rank law; the function gets ``law`` instead of ``--band`` or ``--blocks``."""

    @click.argument("file", type=FILE)
    @click.option("--columns", required=True, metavar="A,B", help="Numerical columns.")
    @click.option(
        "--band",
        type=int,
        metavar="W",
        help="Exchange with about W neighbours around each rank. Not for 'average'.",
    )
    @click.option("--blocks", type=int, metavar="K", help="Use fixed blocks of K neighbours in rank.")
    @click.option("--out", type=FOLDER, required=True, help="Folder of the release; it must not exist.")
    @functools.wraps(function)
    def wrapped(columns: str, band: int | None, blocks: int | None, **arguments: Any) -> Result:
        from postrand.ranks import RankBand, RankBlocks

        if (band is None) == (blocks is None):
            raise UsageError(sentence("give exactly one of --band and --blocks"))
        for option, many in (("--band", band), ("--blocks", blocks)):
            if many is not None and many < 1:
                what = "not a number of neighbours in rank"
                raise UsageError(sentence(what, where=option, got=many, wanted="2 or more", fix=f"try {option} 10"))
        law = RankBlocks(blocks) if blocks is not None else RankBand(band or 0)
        return function(columns=names(columns), law=law, **arguments)

    return wrapped


def left_options(function: Callable[..., Result]) -> Callable[..., Result]:
    """Add the options on columns that are not changed; the function gets ``left``, the lists ``drop`` and ``as_is``."""

    @click.option(
        "--drop", metavar="A,B", help="Columns that are not in the result, for example names; '*' means all others."
    )
    @click.option(
        "--as-is", metavar="A,B", help="Columns that are released as they are, although they tell of persons."
    )
    @functools.wraps(function)
    def wrapped(drop: str | None, as_is: str | None, **arguments: Any) -> Result:
        return function(left={"drop": names(drop), "as_is": names(as_is)}, **arguments)

    return wrapped


_ORDER = click.option(
    "--keep-order", is_flag=True, help="Leave the records in the order of FILE, in which row numbers match."
)


@command
@on_ranks
@left_options
@_ORDER
@click.option(
    "--key-file",
    type=KEY_FILE,
    help="Release key: 32 bytes, or 64 hexadecimal digits. Without it, a key is drawn and not stored.",
)
@click.option("--seed", type=int, help="For tests only: the release is then not private.")
@reading_options
def permute(
    file: Path,
    columns: tuple[str, ...],
    law: Any,
    left: Any,
    out: Path,
    key_file: Path | None,
    seed: int | None,
    keep_order: bool,
    reading: Any,
) -> Result:
    """Permute numerical columns among neighbours in rank.

    Each column keeps all its values, so its total, mean and quantiles do not change. Columns that stay as they are and
    single out records, or tell permuted values, need a decision: --drop or --as-is. Records are in a new random order.
    """
    from postrand.workflow.whole_columns import permute_columns

    key = release_key(key_file, seed)
    return _columns_result(
        out, permute_columns(placed(file, reading), out, columns, law, key, keep_order=keep_order, **left)
    )


@command
@on_ranks
@left_options
@_ORDER
@reading_options
def average(
    file: Path, columns: tuple[str, ...], law: Any, left: Any, out: Path, keep_order: bool, reading: Any
) -> Result:
    """Average numerical columns over neighbours in rank.

    The mean of each column does not change (microaggregation over blocks). Nothing is random but the order of the
    records. Averages that reveal the true values are refused: averages over a --band, and averages of blocks whose
    values are equal or too near. Columns that stay as they are and single out records, or tell averaged values, need a
    decision: --drop or --as-is.
    """
    from postrand.workflow.whole_columns import average_columns

    made = average_columns(placed(file, reading), out, columns, law, keep_order=keep_order, **left)
    return _columns_result(out, made)


@command
@click.argument("original", type=FILE)
@click.argument("released", type=FILE)
@click.option("--columns", required=True, metavar="A,B", help="Numerical columns that both files have.")
@click.option(
    "--record-key",
    metavar="ID",
    help="Column with a unique number of each record. Without it, both files must have the same order.",
)
@reading_options
def distances(original: Path, released: Path, columns: str, record_key: str | None, reading: Any) -> Result:
    """Measure how far each value moved in rank, for any method.

    Permutation model: RELEASED is ORIGINAL after a permutation, plus noise that does not change ranks. Nothing is
    written. The options on how a text file is read are those of ORIGINAL.
    """
    from postrand.workflow.whole_columns import column_distances

    found = column_distances(placed(original, reading), released, names(columns), record_key)
    return {n: model.to_dict() for n, model in found.items()}, "\n".join(f"{n}: {m}" for n, m in found.items())


@command
@click.argument("file", type=FILE)
@keys_option(required=True)
@click.option("--k", type=int, required=True, help="Smallest number of records in a class.")
@click.option("--out", type=FOLDER, required=True, help="Folder of the release; it must not exist.")
@click.option(
    "--key-file",
    type=KEY_FILE,
    help="Release key: 32 bytes, or 64 hexadecimal digits. Without it, a key is drawn and not stored.",
)
@click.option("--seed", type=int, help="For tests only: the release is then not private.")
@left_options
@reading_options
def anatomise(
    file: Path, keys: str, k: int, left: Any, out: Path, key_file: Path | None, seed: int | None, reading: Any
) -> Result:
    """Release the key variables and the rest as two tables (Anatomy).

    The tables are linked by classes of at least K records with similar key variables, and not record by record. Both
    have true values: other columns that single out records, or tell key variables, need a decision: --drop or --as-is.
    """
    from postrand.workflow.whole_columns import anatomise_file

    made = anatomise_file(placed(file, reading), out, names(keys), k, release_key(key_file, seed), **left)
    return _columns_result(out, made)


def _columns_result(out: Path, certificate: dict[str, Any]) -> Result:
    claims = [claim["sentence"] for claim in certificate["claims"]]
    limits = [f"- {text}" for text in certificate["not_covered"]]
    following = f"Next: read {out / 'report.html'}; postrand verify {out}"
    lines = [f"release: {out}", *claims, "Not covered:", *limits, following]
    return certificate, "\n".join(lines)
