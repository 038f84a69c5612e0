"""Make docs/cli.md from the parser: `python -m tests.cli_page`. A test compares the page with what is made."""

import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import click

from postrand import errors
from postrand.cli import main

PAGE = Path(__file__).resolve().parents[1] / "docs" / "cli.md"
HEAD = """\
# Reference of the command line

Made from the program by `python -m tests.cli_page`; do not edit it. `postrand COMMAND --help` shows the same.
[On a terminal](terminal.md): width, colour, progress, completion with the Tab key.
"""
ALSO = {
    "0": "Success; `verify`: every check ran and passed.",
    "10": "`complete`, `estimate`: the result is there, but the model of the completed copies failed a test.",
    "128 + n": "Stopped by signal n; incomplete output was removed.",
}
"""Exit codes that are no error of Python."""


def told(text: str) -> str:
    """Return a text of the parser as one cell of a table."""
    plain = " ".join(text.split()).replace("``", "`").replace("|", "\\|").replace("<", "\\<").replace("*", "\\*")
    return re.sub(r"(?<![\w`'-])(--[a-z][a-z-]+)", r"`\1`", plain)


def exit_codes() -> Iterator[str]:
    """Yield the table of exit codes, from the tree of errors."""
    kinds = [one for _, one in inspect.getmembers(errors, inspect.isclass) if issubclass(one, errors.PostrandError)]
    said = {str(kind.exit_code): f"{told(kind.__doc__ or '')} In Python: `{kind.__name__}`." for kind in kinds} | ALSO
    yield "\n## Exit codes\n\n| code | meaning |\n| --- | --- |"
    yield from (f"| `{code}` | {said[code]} |" for code in sorted(said, key=lambda code: int(code.split()[0])))


def paragraphs(text: str) -> Iterator[str]:
    """Yield the paragraphs of a help text; what click keeps as it is becomes a block."""
    for one in re.split(r"\n\s*\n", inspect.cleandoc(text)):
        kept = one.startswith("\b\n")
        yield "```text\n" + one.removeprefix("\b\n") + "\n```" if kept else told(one)


def usual(option: click.Parameter, ctx: click.Context) -> str:
    """Return the default of an option, and its range, as the help says them."""
    extra = option.get_help_extra(ctx) if isinstance(option, click.Option) else {}
    if "required" in extra:
        return "required"
    shown = option.get_default(ctx) if "default" in extra else None
    return f"`{shown}`" if shown is not None else ""


def options(command: click.Command, ctx: click.Context) -> Iterator[str]:
    """Yield the table of the options of one command."""
    yield "\n| option | meaning | default |\n| --- | --- | --- |"
    for option in command.get_params(ctx):
        record = option.get_help_record(ctx)
        if not isinstance(option, click.Option) or record is None or "--help" in option.opts:
            continue
        bounds = option.get_help_extra(ctx).get("range")
        meaning = f"{option.help} ({bounds})" if bounds else option.help or ""
        yield f"| `{record[0]}` | {told(meaning)} | {usual(option, ctx)} |"


def command_lines(name: str) -> Iterator[str]:
    """Yield the section of one command."""
    command = main.commands[name]
    with click.Context(command, info_name=f"postrand {name}") as ctx:
        yield f"\n## `{name}`\n\n```text\npostrand {name} {' '.join(command.collect_usage_pieces(ctx))}\n```\n"
        yield "\n\n".join(paragraphs(command.help or ""))
        if "Exit code" in (command.help or ""):
            yield "\nErrors have the codes of [the list above](#exit-codes)."
        yield from options(command, ctx)


def page() -> str:
    """Return the whole page."""
    whole = "\n\n".join(text for text in paragraphs(main.help or "") if not text.startswith("Exit codes"))
    commands = (line for name in sorted(main.commands) for line in command_lines(name))
    return "\n".join([HEAD, whole, *exit_codes(), *commands]) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
