"""Protection of whole columns from file to folder: numerical columns by a rank law, or Anatomy's two tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from postrand import formats
from postrand.alternatives.frames import warn_of_codes
from postrand.codebook.perturbed_labels import label_alone
from postrand.columns.anatomy import anatomise, content_of
from postrand.columns.source import numbers, order_problems
from postrand.errors import DataError, UsageError, nearest, raise_all, sentence
from postrand.ranks import PermutationModel, RankLaw, average, permutation, permutation_model
from postrand.ranks.apply import not_averaged
from postrand.ranks.column import Form, RankedColumn, RankWarning
from postrand.ranks.values import value_level, value_problem
from postrand.release import whole_columns as proofs
from postrand.release.atomic import appearing
from postrand.support import options
from postrand.support.progress import Stage, stage
from postrand.support.randomness import ReleaseKey, as_release_key, derive, words
from postrand.support.warned import warn
from postrand.support.wordings import in_words
from postrand.workflow.copies import check_fits, copied_as, warn_of_formulas
from postrand.workflow.left_columns import decided, warned, without
from postrand.workflow.same_order import check_order


def permute_columns(
    file: str | Path | formats.File,
    out: str | Path,
    columns: Sequence[str],
    law: RankLaw,
    release_key: ReleaseKey | None = None,
    *,
    drop: Sequence[str] = (),
    as_is: Sequence[str] = (),
    keep_order: bool = False,
) -> dict[str, Any]:
    """Write FILE with numerical columns permuted among neighbours in rank, and the guarantee, to a new folder.

    The records are in a random order, drawn with the release key, unless ``keep_order``: in that of the file, its row
    numbers match, and members of a household stand together. Values are copied as they are written, also numbers in CSV
    text; missing values stay with their records. All other columns are released unchanged, but those in ``drop``.
    :func:`postrand.verify` recomputes the guarantee.

    Raises
    ------
    UsageError
        If a column is unknown or repeated, or has fewer values than the rank law's smallest run; or if a column that
        stays as it is singles out records or tells true values, and is not named in ``as_is``.
    DataError
        If a value is not a finite number, the release of a column would protect nothing, or two columns rank the
        records alike.
    """
    left = (drop, as_is, keep_order)
    return _by_ranks(_place(file), Path(out), columns, law, "permute", as_release_key(release_key), *left)


def average_columns(
    file: str | Path | formats.File,
    out: str | Path,
    columns: Sequence[str],
    law: RankLaw,
    *,
    drop: Sequence[str] = (),
    as_is: Sequence[str] = (),
    keep_order: bool = False,
) -> dict[str, Any]:
    """Write FILE with numerical columns averaged over neighbours in rank to a new folder; raises as permute_columns.

    The mean of each column is kept: microaggregation over blocks. A band is refused, because true values can be
    computed from its averages; so is a column with averages that reveal true values. Averages are floating-point
    numbers; nothing is drawn but the order of the records.
    """
    return _by_ranks(_place(file), Path(out), columns, law, "average", None, drop, as_is, keep_order)


def anatomise_file(
    file: str | Path | formats.File,
    out: str | Path,
    key_variables: Sequence[str],
    k: int,
    release_key: ReleaseKey | None = None,
    *,
    drop: Sequence[str] = (),
    as_is: Sequence[str] = (),
) -> dict[str, Any]:
    """Write the two tables of FILE's Anatomy release, and the guarantee, to a new folder.

    Raises as anatomise, and as permute_columns for a column beside the key variables: both tables have true values.
    """
    place, out, key = _place(file), Path(out), as_release_key(release_key)
    source = formats.read(place)
    suffix = copied_as(place, source, out)
    table = without(proofs.numbered(source), key_variables, drop, as_is)
    check_fits(table, suffix)
    stage(Stage.GROUPING)
    release = anatomise(table, key_variables, k, key)
    warned(decided(table, source, key_variables, as_is))
    method = {"model": proofs.ANATOMY, "k": k}
    warn_of_formulas(place, [*key_variables, *release.others.column_names[1:]], suffix)
    return _write(
        out, [release.keys, release.others], suffix, method, key_variables, {"key_is_private": key.is_private}
    )


def _by_ranks(
    file: Path | formats.File,
    out: Path,
    columns: Sequence[str],
    law: RankLaw,
    form: Form,
    key: ReleaseKey | None,
    drop: Sequence[str],
    as_is: Sequence[str],
    keep_order: bool,
) -> dict[str, Any]:
    source, path = formats.read(file), formats.path_of(file)
    suffix, table = copied_as(file, source, out), proofs.numbered(source)
    problems = _problems(columns, table.column_names, path.name)
    if law.least < 2:
        problems.append(sentence("runs of one rank protect nothing", got=options.describe(law), wanted=">= 2"))
    if form == "average" and law.cuts > 1:
        problems.append(not_averaged())
    raise_all(UsageError, problems)
    held = {name: numbers(table[name], name) for name in columns}
    few = [name for name in columns if held[name].size < law.least]
    text = f"{options.describe(law)} is larger than the number of records with a value"
    raise_all(UsageError, [sentence(text, where=f"column {name!r}", fix="choose a smaller one") for name in few])
    orders: dict[bytes, str] = {}
    levels = {name: value_level(held[name], law, form) for name in columns}
    shown = [value_problem(held[name], law, form, f"column {name!r}", levels[name]) for name in columns]
    alike = [problem for name in columns for problem in order_problems(name, table[name], held[name], orders)]
    raise_all(DataError, [*filter(None, shown), *alike])
    table = without(table, columns, drop, as_is)
    check_fits(table, suffix)
    warned(decided(table, source, columns, as_is))
    warn_of_codes(table, columns)
    stage(Stage.GROUPING if form == "average" else Stage.PERTURBING)
    for name in columns:
        ranked = RankedColumn(name, law, form, held[name].size, levels[name])
        if ranked.warning:
            warn(ranked.warning, RankWarning, stacklevel=3)
        column, field = table[name], table.field(name)
        present = np.flatnonzero(pc.is_valid(column).to_numpy())
        values = held[name]
        if form == "average":
            made = np.full(table.num_rows, np.nan)
            made[present] = average(values, law)
            column, field = (
                pa.array(made, mask=pc.is_null(column).to_numpy()),
                label_alone(field).with_type(pa.float64()),
            )
        else:
            positions = np.arange(table.num_rows)
            positions[present] = present[permutation(values, law, key, name=name)]
            column = column.take(positions)
        table = table.set_column(table.column_names.index(name), field, column)
    warn_of_formulas(file, table.column_names, suffix)
    facts = {} if form == "average" else {"key_is_private": key is None or key.is_private}
    if not keep_order:
        table, facts = _shuffled(table, as_release_key(key)), {**facts, "order_is_shuffled": True}
    return _write(out, [table], suffix, proofs.law_method(law, form), columns, facts)


def _place(file: str | Path | formats.File) -> Path | formats.File:
    return file if isinstance(file, formats.File) else Path(file)


def _shuffled(table: pa.Table, key: ReleaseKey) -> pa.Table:
    """Return the records in a random order; another table, or another key, has another one."""
    order = derive(key, "order of whole columns", content_of(table)).order
    return table.take(np.argsort(words(order, np.arange(table.num_rows, dtype=np.uint64), 0)[:, 0]))


def column_distances(
    original: str | Path | formats.File,
    released: str | Path | formats.File,
    columns: Sequence[str],
    record_key: str | None = None,
) -> dict[str, PermutationModel]:
    """Return the permutation model of each column of any method's release, over the records with a value in both files.

    Records are identified by ``record_key``; without it, both files must contain them in the same order, as a release
    made with ``keep_order`` does.

    Raises
    ------
    UsageError
        If a column is in one file only, or is repeated.
    DataError
        If the files do not contain the same records, or not in the same order; a column has no value in common; or a
        value is not a finite number.

    Warns
    -----
    OrderWarning
        If other columns show that the order differs.
    """
    places = [_place(path) for path in (original, released)]
    tables = [proofs.numbered(formats.read(place)) for place in places]
    pair = [
        _in_order(table, columns, record_key, formats.path_of(place).name)
        for table, place in zip(tables, places, strict=True)
    ]
    keys = [None if record_key is None else table[record_key] for table in pair]
    if pair[0].num_rows != pair[1].num_rows or keys[0] != keys[1]:
        fix = "" if record_key else "name a record key"
        raise DataError(sentence("the files do not contain the same records", fix=fix))
    if record_key is None:
        check_order(places, tables, columns)
    found = {}
    for name in columns:
        both = pc.and_(*(pc.is_valid(table[name]) for table in pair))
        found[name] = permutation_model(*(numbers(table[name].filter(both), name) for table in pair))
    return found


def _in_order(table: pa.Table, columns: Sequence[str], record_key: str | None, where: str) -> pa.Table:
    """Return the columns of a file, sorted by the text of the record key if there is one."""
    if record_key is None:
        raise_all(UsageError, _problems(columns, table.column_names, where))
        return table.select(columns)
    raise_all(UsageError, _problems([*columns, record_key], table.column_names, where))
    keys = table[record_key].cast(pa.string())
    if pc.count_distinct(keys, mode="all").as_py() < table.num_rows or keys.null_count:
        raise DataError(sentence(f"record key {record_key!r} is missing or repeated", where=where))
    table = table.select(columns).append_column(record_key, keys)
    return table.take(pc.sort_indices(keys))


def _problems(columns: Sequence[str], known: Sequence[str], where: str) -> list[str]:
    if not columns:
        return [sentence("no column is given, so nothing would be protected", where=where, wanted=", ".join(known))]
    missing = [
        sentence(f"no column {n!r}{nearest(n, known)}", where=where, wanted=", ".join(known))
        for n in columns
        if n not in known
    ]
    return missing + [
        sentence(f"column {n!r} is named twice") for n in sorted({n for n in columns if columns.count(n) > 1})
    ]


def _write(
    out: Path,
    tables: Sequence[pa.Table],
    suffix: str,
    method: Mapping[str, Any],
    columns: Sequence[str],
    facts: Mapping[str, bool],
) -> dict[str, Any]:
    """Write tables, and the proofs made of them as they are on the disk; return the certificate in words."""
    stage(Stage.WRITING)
    with appearing(out) as folder:
        for name, table in zip(proofs.names_of(method, suffix), tables, strict=True):
            plain = proofs.written(table, suffix, method, columns)
            with formats.open_writer(folder / name, plain.schema) as writer:
                proofs.write_table(plain, writer)
        certificate = proofs.write_proofs(folder, suffix, method, columns, facts)
    return in_words(certificate)
