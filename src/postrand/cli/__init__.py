"""The command line: one sub-command a step; each parses, makes one library call, and prints."""

from postrand.cli import analyse as analyse
from postrand.cli import columns as columns
from postrand.cli import prepare as prepare
from postrand.cli import release as release
from postrand.cli import workbench as workbench
from postrand.cli.frame import main

__all__ = ["main"]
