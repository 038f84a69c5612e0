"""Files that let R reproduce a table: a short script, the categories, and one matrix for each block."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from importlib import resources

from postrand.codebook import Codebook, Variable
from postrand.estimate.split_parts import response
from postrand.formats import Format, formats
from postrand.mechanism import Block, Mechanism
from postrand.mechanism.matrix_storage import UNIT
from postrand.support import wordings

MAX_R_CATEGORIES = 1000
"""A release leaves categories and matrices out, which hold every probability as text, where a block has more."""


def fits_r(mechanism: Mechanism) -> bool:
    """Whether a release holds the matrices as text for R: each has at most ``MAX_R_CATEGORIES`` categories.

    Randomised response on all cells of a subset of a split is two numbers, at any size.
    """
    subsets = () if mechanism.split is None else mechanism.split.blocks
    written = [*mechanism.blocks, *(block for block in subsets if _pair(block) is None)]
    return all(block.matrix.size <= MAX_R_CATEGORIES for block in written)


def _pair(block: Block) -> tuple[int, int] | None:
    """Return the weights of staying and of moving to any one other cell, where a subset's matrix is these two."""
    return None if block.cells is not None else response(block.matrix)


def r_script(mechanism: Mechanism | None = None) -> dict[str, str]:
    """Return the text of ``postrand.R``, by its name: it reads the data of a release, and makes tables.

    It warns of draws that records share, and of a survey design, where the mechanism of the release has them.
    """
    text = resources.files("postrand.estimate").joinpath("postrand.R").read_text("utf-8")
    needed: dict[str, list[str]] = {}
    released = [entry for entry in formats() if entry.written]
    for entry in released:
        needed.setdefault(" or ".join(_packages(entry)), []).extend(entry.written)
    book = None if mechanism is None else mechanism.codebook
    filled = {
        "@packages@": "\n".join(f"#   {which}: {', '.join(suffixes)}" for which, suffixes in needed.items() if which),
        "@suffixes@": "|".join(s[1:] for entry in released for s in entry.written),
        "@readers@": "\n    ".join(map(_r_branch, released)),
        "@design@": "FALSE" if book is None or book.survey is None else "TRUE",
        "@shared@": _shared({} if mechanism is None else mechanism.shared),  # last: names can look like marks
    }
    for mark, code in filled.items():
        text = text.replace(mark, code)
    return {"postrand.R": text}


def _shared(shared: Mapping[str, Sequence[str]]) -> str:
    """Return the variables whose draws records share, by unit, as a list of R with the sentence that warns of them.

    >>> _shared({})
    'list()'
    """
    units = []
    for unit, names in shared.items():
        said = wordings.limit({"code": f"shared_{unit}", "variables": ["%s"]})
        units.append(f"{unit} = list(variables = c({', '.join(map(_text, names))}), said = {_text(said)})")
    return f"list({', '.join(units)})"


def _text(text: str) -> str:
    r"""Return a text as R writes it.

    >>> print(_text('the "region"'))
    "the \"region\""
    """
    return json.dumps(text, ensure_ascii=False)


def _packages(entry: Format) -> list[str]:
    """Return the packages of which R needs one to read a format; none where R itself does."""
    return [] if "" in entry.readers.r_values else list(entry.readers.r_values)


def _r_branch(entry: Format) -> str:
    """Return the branch of ``postrand_file`` that reads a format.

    >>> from postrand.formats import format_of
    >>> print(_r_branch(format_of("x.feather")))
    arrow = , feather = switch(package("arrow"),
      "arrow" = arrow::read_feather(path)),
    """
    names = " = , ".join(s[1:] for s in entry.written)
    codes = entry.readers.r_values
    if not _packages(entry):
        return f"{names} = {codes['']},"
    which = ", ".join(f'"{package}"' for package in codes)
    branches = ",\n".join(f'      "{package}" = {code}' for package, code in codes.items())
    return f"{names} = switch(package({which}),\n{branches}),"


def r_files(mechanism: Mechanism) -> dict[str, str]:
    """Return the texts of ``postrand.R``, ``r_categories.csv`` and ``r_matrix_1.csv``, ..., by file name.

    They hold nothing that the mechanism and its codebook do not: matrices with 17 significant digits (which float64
    reads back exactly), rows true and columns released. A split is in ``r_split.csv``, one row for each variable of
    each subset with the chances to stay and to move to any one other cell; where these are not the same for all cells,
    and where some combinations are not feasible, they are empty, and the matrix is in ``r_subset_k.csv``. Where one
    member of each household shows a subset, the last column names that of household numbers.

    Raises
    ------
    SpecificationError
        If the mechanism has no codebook.
    """
    book = mechanism.require_codebook()
    categories = _csv(["variable", "value", "label", "type", "missing"], _categories(book.variables))
    files = r_script(mechanism) | {"r_categories.csv": categories}
    for number, block in enumerate(mechanism.blocks, 1):
        files[f"r_matrix_{number}.csv"] = matrix_csv(block, tuple(book[name].size for name in block.variables))
    return files | _split_files(mechanism, book)


def _split_files(mechanism: Mechanism, book: Codebook) -> dict[str, str]:
    """Return ``r_split.csv`` and ``r_subset_k.csv``; none without a split."""
    if mechanism.split is None:
        return {}
    files, rows = {}, []
    for number, subset in enumerate(mechanism.split.subsets, 1):
        block, law = subset.block, ("", "")
        pair = _pair(block)
        if pair is None:
            shape = tuple(book[name].size for name in block.variables)
            files[f"r_subset_{number}.csv"] = matrix_csv(block, shape)
        else:
            law = (repr(pair[0] / UNIT), repr(pair[1] / UNIT))
        rows += [[str(number), name, repr(subset.probability), *law] for name in subset.variables]
    head = ["subset", "variable", "probability", "stays", "moves"]
    if mechanism.split.of_members and mechanism.units is not None:
        head, rows = [*head, "household"], [[*row, mechanism.units.household] for row in rows]
    return {"r_split.csv": _csv(head, rows)} | files


def matrix_csv(block: Block, shape: tuple[int, ...]) -> str:
    """Return a block's law as CSV: the codes of each true cell, then ``p1``..``pK``, the released cells in that order.

    Examples
    --------
    >>> from postrand.mechanism.matrix import TransitionMatrix
    >>> print(matrix_csv(Block(("sex",), TransitionMatrix.from_array([[0.75, 0.25], [0.5, 0.5]])), (2,)), end="")
    sex,p1,p2
    0,0.75,0.25
    1,0.5,0.5
    """
    head = [*block.variables, *(f"p{k}" for k in range(1, block.matrix.size + 1))]
    rows = zip(block.cell_table(shape).tolist(), block.matrix.array.tolist(), strict=True)
    return _csv(head, ([*map(str, codes), *map(repr, law)] for codes, law in rows))


def _categories(variables: Iterable[Variable]) -> Iterable[list[str]]:
    for v in variables:
        kinds = {type(c) for c in v.categories}
        kind = "logical" if kinds == {bool} else "number" if kinds <= {int, float} else "text"
        for value, label in zip(v.categories, v.code_labels, strict=False):
            text = str(value).lower() if isinstance(value, bool) else str(value)
            yield [v.name, text, label, kind, "no"]
        if v.missing == "category":
            yield [v.name, "", v.code_labels[-1], kind, "yes"]


def _csv(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(head)
    writer.writerows(rows)
    return text.getvalue()
