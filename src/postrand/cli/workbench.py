"""The commands to try postrand: the workbench in a browser, and the demonstration.

Heavy modules are imported inside the commands, so that ``postrand --help`` answers at once.
"""

from __future__ import annotations

import functools
from pathlib import Path

import click

from postrand.cli import columns as columns
from postrand.cli.frame import (
    FOLDER,
    PLACE,
    Result,
    command,
)
from postrand.cli.frame import main as main
from postrand.support.extras import require


@command
@click.argument("file", type=PLACE, required=False)
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, help="Port number on this machine; 0 chooses a free port."
)
@click.option("--browser/--no-browser", default=True, show_default=True, help="Open the workbench in a browser.")
def app(file: Path | None, port: int, browser: bool) -> Result:
    """Open the workbench in a browser, on this machine only.

    It shows risk and utility, and makes a release. FILE is a survey, a plan.toml to edit, or the folder of a
    saved project. Without FILE, it starts with a demonstration survey.
    """
    require("shiny", "the workbench needs")
    from postrand.app import framework

    with framework.uncollected():
        framework.load()
        from postrand.app.launch import serve
    serve(file, port, browser=browser, say=functools.partial(print, flush=True))
    return {"served": True}, "The workbench has ended. Its working files were removed."


@command
@click.option("--out", type=FOLDER, default="demo", show_default=True, help="Folder for the demo; it must not exist.")
@click.option(
    "--sample", type=FOLDER, help="Only write the sample survey that comes with the package to this new file."
)
def demo(out: Path, sample: Path | None) -> Result:
    """Protect and analyse real survey microdata.

    The survey has 17,137 respondents of the General Social Survey. The result is a corrected table beside the true one.
    With --sample, a part of it is written as a file to try the other commands on.
    """
    if sample is not None:
        from postrand.workflow.sample import write_sample

        return write_sample(sample)
    from postrand.workflow.demo import run_demo

    return run_demo(out)
