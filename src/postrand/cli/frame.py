"""What all sub-commands share: typed paths, names and keys; answers, errors and exit codes."""

from __future__ import annotations

import copy
import functools
import gc
import os
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import click

from postrand import __version__
from postrand.address import hidden
from postrand.cli.output import as_json_text, open_outputs, tell, write_anything
from postrand.cli.printing import fitting
from postrand.errors import PostrandError, UsageError, printable, raise_all, sentence
from postrand.support.progress import shown
from postrand.support.refusals import refused
from postrand.support.signals import Stopped, leave, say, stoppable, watch

# Arrow's own allocator keeps tens of megabytes that a short run never gives back.
os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")

Result = tuple[dict[str, Any], str] | tuple[dict[str, Any], str, int]
"""What a command returns: plain data for ``--json``, a text for people, and an exit code where it is not 0."""


class _Path(click.Path):
    """A path with a name; an empty path would mean the current folder."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, str) and (not value or "\0" in value):
            self.fail("an empty name, or a name that a file cannot have", param, ctx)
        if isinstance(value, str) and hidden(value) != value and not os.path.lexists(value):
            self.fail("this looks like the address of a database; a file name is wanted", param, ctx)
        if isinstance(value, str) and self.exists and not os.path.lexists(value):
            self.fail(f"{printable(value)}: no such file. Next: {printable(self.fix(value))}.", param, ctx)
        return super().convert(value, param, ctx)

    def fix(self, value: str) -> str:
        """Return what to do where there is no such file."""
        return "give the path of a file that is there"


class _Key(_Path):
    """The file of a release key, which a first release needs to be made."""

    def fix(self, value: str) -> str:
        """Return how a key is made."""
        from postrand.support.randomness import new_key

        return f"give the path of a key that is there; or, {new_key(value)}"


FILE = _Path(exists=True, dir_okay=False, path_type=Path)
KEY_FILE = _Key(exists=True, dir_okay=False, path_type=Path)
PLACE = _Path(exists=True, path_type=Path)
"""A file or a folder that exists."""
FOLDER = _Path(path_type=Path)
SOURCE = FOLDER
"""A file, a folder of files, or a pattern in quotes."""


class Renamed(click.Option):
    """An option that is also accepted under its former name, which the help does not show."""

    def __init__(self, *arguments: Any, formerly: str, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self.formerly = formerly

    def add_to_parser(self, parser: Any, ctx: click.Context) -> None:
        """Accept both names; errors and help show the current one."""
        super().add_to_parser(parser, ctx)
        action = "append" if self.multiple else "store"
        parser.add_option(obj=self, opts=[self.formerly], dest=self.name, action=action, nargs=self.nargs)


def keys_option(*, required: bool = False, of: str = "") -> Callable[..., Any]:
    """Return the option that names the key variables; it has the same name in every command."""
    text = f"Key variables{of}: what others can know of a person."
    return click.option("--keys", cls=Renamed, formerly="--key", required=required, metavar="A,B", help=text)


_SIGNS = ("separator", "decimal", "thousands")
"""Options that are a sign, such as a comma, and no list of names."""


def reading_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that say how a file is read; the command gets them as ``reading``, of ReadSettings."""
    helps = {
        "separator": ("SIGN", "Sign between the columns of a text file: ',' ';' '|' or tab."),
        "encoding": ("NAME", "Encoding of a text file, such as utf-8, utf-16 or windows-1252."),
        "decimal": ("SIGN", "Sign before the decimals of numbers in a text file: '.' or ','."),
        "thousands": ("SIGN", "Sign between the thousands of numbers in a text file, such as '.' or blank."),
        "sheet": ("NAME", "Sheet of an Excel workbook."),
        "catalog": ("FILE", "Value labels of a SAS data set (.sas7bcat), relative to the data set."),
    }

    @functools.wraps(function)
    def called(**given: Any) -> Any:
        from postrand.formats import ReadSettings, sign_of

        asked = {name: given.pop(name) or "" for name in helps}
        texts = {name: sign_of(text) if name in _SIGNS else text for name, text in asked.items()}
        return function(reading=ReadSettings(**texts), **given)

    for name, (metavar, text) in reversed(helps.items()):
        called = click.option(f"--{name}", metavar=metavar, help=text)(called)
    return called


def placed(file: Path, reading: Any) -> Any:
    """Return a file as the formats read it: as it shows, with what :func:`reading_options` gave."""
    from postrand import formats

    return formats.place_of(file, reading)


def check_reading(plan: Path | None, reading: Any) -> None:
    """Raise UsageError where a plan, which says how its file is read, has options beside it that say so too."""
    if plan is not None and reading.to_dict():
        what, fix = "the plan already says how its file is read", "set it in [source] of the plan"
        raise UsageError(sentence(what, got=", ".join(f"--{name}" for name in reading.to_dict()), fix=fix))


_OBJECTS = 20_000
"""New objects between two searches for those that only refer to each other. What is imported stays: Python's own number
of 700 means a hundred searches before a command begins, a tenth of the time until then."""


TYPED = "postrand.typed"
LISTS = ("--drop", "--other", "--keys", "--sensitive", "--as-is")
"""Options with names of columns, some of which take * for all others."""
STAR = (
    "The names of files of this folder stand where names of columns are wanted: the shell puts them in the place of *. "
    "Next: put the star in quotes: {option} '*'"
)
"""What is said where * was typed without quotes."""


def _starred(arguments: Sequence[str]) -> str:
    """Return what to say of arguments in which a shell put the files of the folder in the place of a star, else "".

    The first of them is then the value of an option, and the others are more than a command takes.
    """
    try:
        files = sorted(name for name in os.listdir() if not name.startswith("."))
    except OSError:  # the folder is gone, or not to be read: no star stood for its files
        return ""
    for place, option in enumerate(arguments, 1):
        if option in LISTS and files and sorted(arguments[place : place + len(files)]) == files:
            return STAR.format(option=option)
    return ""


class Program(click.Group):
    """The group of all commands. Called as a function it is the process, which a signal ends at any moment."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Keep what was typed: where it is refused, it shows whether a shell put files in the place of a star."""
        ctx.meta[TYPED] = list(args)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; where the files of the folder are more arguments than it takes, say why."""
        try:
            return super().invoke(ctx)
        except click.UsageError as error:
            if told := _starred(ctx.meta.get(TYPED, ())):
                raise click.UsageError(f"{error.message}. {told}.", error.ctx) from None
            raise

    def __call__(self, *arguments: Any, **options: Any) -> NoReturn:
        """Run the command line and end the process; signals are caught here while options are parsed, too."""
        gc.set_threshold(_OBJECTS)
        open_outputs()
        watch()
        try:
            with stoppable():
                super().__call__(*arguments, **options)
            leave(0)
        except Stopped as stopped:
            say(stopped)
            leave(stopped.code)
        except SystemExit as ended:
            leave(ended.code)
        except OSError as error:  # of help, version or a usage error, which click prints
            if error.filename is not None:
                raise
            _unwritten(error)
            leave(1)


@click.group(cls=Program, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="postrand")
def main() -> None:
    """Protect survey microdata by post-randomisation, with a privacy guarantee that anyone can check again.

    \b
    The usual order of work:
      postrand init survey.parquet        codebook.toml and plan.toml, to edit
      postrand assess survey.parquet ...  how identifiable are the records now?
      postrand advise survey.parquet ...  complete plans: claims, risk and worth
      postrand design --plan plan.toml    the matrices: what they keep and protect
      postrand explain plan.toml          the plan in sentences for a board
      postrand protect --plan plan.toml --out release
      postrand verify release             anyone can check it, from the release
      postrand estimate release --table sex,region
      postrand complete release --out completed   copies for all other software

    Exit codes: 0 success (verify: every check ran and passed). Errors: 2 the command line is wrong; 3 the codebook or
    plan; 4 the data do not fit the codebook, or a column not the question; 5 a privacy claim does not hold; 6 no matrix
    was found; 7 the release cannot be read or written (verify: a check failed); 8 the release cannot answer. 9 verify:
    no check failed, but a check could not run here. 10 complete, estimate: the result is there, but the model failed a
    test. 11 check, protect: the plan does not meet a rule of the policy. 128 + n: stopped by signal n; incomplete
    output was removed.
    """  # noqa: D301 -- \b is click's mark for text that keeps its lines


class Once(click.Command):
    """A command whose options are given once, unless they can be repeated: click would keep the last value alone."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse; a usage error names the options that are given again with another value."""
        known = [copy.copy(one) for one in self.get_params(ctx)]
        single = [one for one in known if isinstance(one, click.Option) and not one.multiple]
        for one in single:
            one.multiple = True  # of the copy: all values are seen
        given = click.Command(self.name, params=known, add_help_option=False).make_parser(ctx).parse_args([*args])[0]
        twice = [one.opts[-1] for one in single if any(held != given[one.name][0] for held in given.get(one.name, ()))]
        if twice:
            what = sentence(f"given more than once, with different values: {', '.join(twice)}", fix="give each once")
            raise click.UsageError(what, ctx)
        return super().parse_args(ctx, args)


def command(function: Callable[..., Result], kind: type[Once] = Once) -> Callable[..., None]:
    """Make a sub-command that prints text, or JSON with ``--json``, and turns errors into exit codes.

    A signal that stops it has an exit code too; incomplete output is removed. ``kind`` is the class of the command.
    """

    @main.command(function.__name__.rstrip("_"), cls=kind, epilog=_errors())
    @click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of text.")
    @functools.wraps(function)
    def wrapped(as_json: bool, **arguments: Any) -> None:
        held: list[str] = []
        text = ""
        try:
            write_anything()
            try:
                with stoppable(), shown(quiet=as_json), warnings.catch_warnings():
                    warnings.showwarning = _holding(held)
                    raise_all(UsageError, [*_empty(arguments), *_no_share(arguments)])
                    data, text, *code = function(**arguments)
            finally:
                _tell_warnings(held, "" if as_json else text)
        except PostrandError as error:
            _end(_with_star(error), as_json)
        except Exception as error:  # libraries have kinds of their own for what the system refused
            told = refused(error, any_call=isinstance(error, OSError | MemoryError | RuntimeError | ImportError))
            if told is None:
                raise
            _end(PostrandError(told), as_json)
        except Stopped as stopped:
            say(stopped)
            raise
        if as_json:
            _print(as_json_text(data))
        else:
            _print(fitting("\n".join(map(printable, text.split("\n"))), sys.stdout))
        if code and code[0]:
            raise SystemExit(code[0])

    return wrapped


def _errors() -> str:
    """Return what the help of each command says of errors: the same as that of the program."""
    told = " ".join((main.help or "").split()).partition("Errors: ")[2].partition(". 9")[0]
    return f"Exit codes of errors: {told}. All: postrand --help."


def _with_star(error: PostrandError) -> PostrandError:
    """Return the error, with what is wrong where the one file of a folder stands in the place of a star."""
    context = click.get_current_context(silent=True)
    told = "" if context is None or not isinstance(error, UsageError) else _starred(context.meta.get(TYPED, ()))
    return UsageError([*error.problems, told]) if told else error


def _end(error: PostrandError, as_json: bool) -> NoReturn:
    """Tell an error, and end with its exit code."""
    if as_json:
        advice = {"advice": error.advice} if error.advice else {}
        _print(as_json_text({"error": type(error).__name__, "problems": list(error.problems), **advice}))
    else:
        tell(f"postrand: {error}")
    raise SystemExit(error.exit_code) from None


def _holding(held: list[str]) -> Callable[..., None]:
    """Return what holds each warning of a command once, without its place in the code, which helps no curator."""

    def warn(message: Warning | str, *_: object, **__: object) -> None:
        if str(message) not in held:
            held.append(str(message))

    return warn


def _tell_warnings(held: Iterable[str], answer: str) -> None:
    """Print each warning as one line, but those that the answer says too."""
    for text in held:
        if text not in answer:
            tell(f"postrand: warning: {printable(text)}")


def _empty(arguments: Mapping[str, Any]) -> Iterator[str]:
    """Report each option with an empty text: an empty list of names would protect nothing."""
    for name, value in arguments.items():
        if isinstance(value, str) and not (value if name in _SIGNS else value.strip(", \t")):
            yield sentence("no name is given", where=f"--{name.replace('_', '-')}", got=repr(value))


def _no_share(arguments: Mapping[str, Any]) -> Iterator[str]:
    """Report a sampling fraction that is no share of a population."""
    for value in (arguments.get("fraction"), arguments.get("sampling_fraction")):
        if value is not None and not 0 < value <= 1:
            what, where = "the sampling fraction is outside its range", "--sampling-fraction"
            yield sentence(what, where=where, got=value, wanted="(0, 1]", fix="for one in twenty, write 0.05")


def _print(text: str) -> None:
    """Print the answer; if standard output cannot be written, end with an error."""
    try:
        print(text, flush=True)
    except BrokenPipeError:  # the reader has seen enough; click ends quietly
        raise
    except OSError as error:
        _unwritten(error)
        raise SystemExit(1) from None


def _unwritten(error: OSError) -> None:
    """Say that standard output cannot be written, and write no more to it."""
    tell(f"postrand: the answer cannot be written; got {error.strerror}")
    sys.stdout = open(os.devnull, "w")  # noqa: SIM115 -- what is buffered fails again when the process ends


def names(value: str | None) -> tuple[str, ...]:
    """Split ``a,b,c``.

    >>> names("sex, region")
    ('sex', 'region')
    """
    return tuple(part.strip() for part in value.split(",") if part.strip()) if value else ()


def release_key(key_file: Path | None, seed: int | None) -> Any:
    """Return the release key of a file or a seed, None if neither is given; raises UsageError if both are."""
    from postrand.support.randomness import ReleaseKey

    if key_file is not None and seed is not None:
        raise UsageError(sentence("both --key-file and --seed are given", fix="give one of them, or none"))
    if seed is not None:
        return ReleaseKey.from_seed(seed)
    return None if key_file is None else ReleaseKey.from_file(key_file)


def records_of(
    file: Path | None, uri: str | None, table: str | None, query: str | None, password_from: str | None
) -> Any:
    """Return the file or the table that is named; raises UsageError if none or both are named."""
    options = {"uri": uri, "table": table, "query": query, "password_from": password_from}
    given = {name: text for name, text in options.items() if text is not None}
    if file is not None and not given:
        return file
    from postrand.engines.database import source_from

    found, problems = source_from(given | ({"file": str(file)} if file is not None else {}), Path(), "the command")
    raise_all(UsageError, problems)
    if found is None:
        raise UsageError(sentence("no records are named", fix="name FILE, or --uri and --table"))
    return found


def confidential(file: Path | None, plan: Path | None, record_key: str | None, reading: Any) -> tuple[Any, str | None]:
    """Return the auditor's confidential records and their record key; raises UsageError if two sources are named."""
    if plan is None:
        return None if file is None else placed(file, reading), record_key
    check_reading(plan, reading)
    if file is not None or record_key is not None:
        raise UsageError(sentence("--plan names the source and its record key", fix="leave the other options out"))
    from postrand.plan import load_plan

    loaded = load_plan(plan)
    return loaded.source, next((v.name for v in loaded.codebook.with_role("record_key")), None)


def unperturbed_lines(found: Any) -> list[str]:
    """Return the findings as lines; open decisions come last."""
    lines: list[str] = []
    for heading in dict.fromkeys(heading for heading, _ in found.headed):
        lines += ["", f"{heading}:", *(f"- {text}" for of, text in found.headed if of == heading)]
    return [*lines, *(["", found.refusal] if found.refusal else [])]


def in_words(claims: Iterable[str]) -> list[str]:
    """Return what claims mean as lines."""
    return ["", "In words:", *(f"- {text}" for text in claims)]
