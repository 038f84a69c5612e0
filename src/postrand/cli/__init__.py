"""The command line: one sub-command a step; each parses, makes one library call, and prints."""

from postrand.cli.commands import main

__all__ = ["main"]
