"""The sub-commands on whole columns: permute, average, anatomise, distances."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from postrand.cli.frame import FILE, FOLDER, Result, command, keys_option, names, placed, reading_options, release_key
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
    @reading_options
    @functools.wraps(function)
    def wrapped(
        file: Path, columns: str, band: int | None, blocks: int | None, reading: Any, **arguments: Any
    ) -> Result:
        from postrand.ranks import RankBand, RankBlocks

        if (band is None) == (blocks is None):
            raise UsageError(sentence("give exactly one of --band and --blocks"))
        for option, many in (("--band", band), ("--blocks", blocks)):
            if many is not None and many < 1:
                what = "not a number of neighbours in rank"
                raise UsageError(sentence(what, where=option, got=many, wanted="2 or more", fix=f"try {option} 10"))
        law = RankBlocks(blocks) if blocks is not None else RankBand(band or 0)
        return function(file=placed(file, reading), columns=names(columns), law=law, **arguments)

    return wrapped


def left_options(function: Callable[..., Result]) -> Callable[..., Result]:
    """Add the options on columns that are not changed; the function gets ``left``, the lists ``drop`` and ``as_is``."""

    @click.option("--drop", metavar="A,B", help="Columns that are not in the result, for example names and numbers.")
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
    type=FILE,
    help="Release key: 32 bytes, or 64 hexadecimal digits. Without it, a key is drawn and not stored.",
)
@click.option("--seed", type=int, help="For tests only: the release is then not private.")
def permute(
    file: Any,
    columns: tuple[str, ...],
    law: Any,
    left: Any,
    out: Path,
    key_file: Path | None,
    seed: int | None,
    keep_order: bool,
) -> Result:
    """Permute numerical columns among neighbours in rank.

    Each column keeps all its values, so its total, mean and quantiles do not change. Columns that stay as they are and
    single out records, or tell permuted values, need a decision: --drop or --as-is. Records are in a new random order.
    A text file is written with commas between columns and decimal points.
    """
    from postrand.workflow.whole_columns import permute_columns

    key = release_key(key_file, seed)
    return _columns_result(out, permute_columns(file, out, columns, law, key, keep_order=keep_order, **left))


@command
@on_ranks
@left_options
@_ORDER
def average(file: Any, columns: tuple[str, ...], law: Any, left: Any, out: Path, keep_order: bool) -> Result:
    """Average numerical columns over neighbours in rank.

    The mean of each column does not change (microaggregation over blocks). Nothing is random but the order of the
    records. Averages that reveal the true values are refused: averages over a --band, and averages of blocks whose
    values are equal or too near. Columns that stay as they are and single out records, or tell averaged values, need a
    decision: --drop or --as-is.
    """
    from postrand.workflow.whole_columns import average_columns

    return _columns_result(out, average_columns(file, out, columns, law, keep_order=keep_order, **left))


@command
@click.argument("original", type=FILE)
@click.argument("released", type=FILE)
@click.option("--columns", required=True, metavar="A,B", help="Numerical columns that both files have.")
@click.option(
    "--record-key",
    metavar="ID",
    help="Column with a unique number of each record. Without it, both files must have the same order.",
)
def distances(original: Path, released: Path, columns: str, record_key: str | None) -> Result:
    """Measure how far each value moved in rank, for any method.

    Permutation model: RELEASED is ORIGINAL after a permutation, plus noise that does not change ranks. Nothing is
    written.
    """
    from postrand import formats
    from postrand.workflow.whole_columns import column_distances

    one, other = (formats.place_of(file) for file in (original, released))
    found = column_distances(one, other, names(columns), record_key)
    return {n: model.to_dict() for n, model in found.items()}, "\n".join(f"{n}: {m}" for n, m in found.items())


@command
@click.argument("file", type=FILE)
@keys_option(required=True)
@click.option("--k", type=int, required=True, help="Smallest number of records in a class.")
@click.option("--out", type=FOLDER, required=True, help="Folder of the release; it must not exist.")
@click.option(
    "--key-file",
    type=FILE,
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

    key = release_key(key_file, seed)
    return _columns_result(out, anatomise_file(placed(file, reading), out, names(keys), k, key, **left))


def _columns_result(out: Path, certificate: dict[str, Any]) -> Result:
    claims = [claim["sentence"] for claim in certificate["claims"]]
    limits = [f"- {text}" for text in certificate["not_covered"]]
    following = f"Next: read {out / 'report.html'}; postrand verify {out}"
    lines = [f"release: {out}", *claims, "Not covered:", *limits, following]
    return certificate, "\n".join(lines)
