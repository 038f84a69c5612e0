"""The command line: one sub-command a step; each parses, makes one library call, and prints.

Heavy modules are imported inside the commands, so that ``postrand --help`` answers at once.
"""

from __future__ import annotations

import functools
import json
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from postrand import __version__
from postrand.cli_estimate import answer, estimate_options
from postrand.errors import PostrandError, UsageError, printable, raise_all, sentence
from postrand.stopping import Stopped, stoppable

# Arrow's own allocator keeps tens of megabytes that a short run never gives back.
os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")

Result = tuple[dict[str, Any], str]
"""What a command gives: plain data for ``--json``, and a text for people."""


class _Path(click.Path):
    """A path that has a name: an empty one would be the current folder."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, str) and (not value or "\0" in value):
            self.fail("an empty name, or one that no file can have", param, ctx)
        return super().convert(value, param, ctx)


FILE = _Path(exists=True, dir_okay=False, path_type=Path)
FOLDER = _Path(path_type=Path)
SOURCE = FOLDER
"""A file, a folder of files, or a pattern in quotes."""


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="postrand")
def main() -> None:
    """Protect survey microdata by post-randomisation, with a privacy guarantee that anyone can re-check.

    \b
    The usual order of work:
      postrand init survey.parquet        write codebook.toml and plan.toml, and edit them
      postrand assess survey.parquet ...  how identifiable are the records now?
      postrand design --plan plan.toml    the matrices, and what they keep and protect
      postrand protect --plan plan.toml --out release
      postrand verify release             anyone can; needs the release only
      postrand estimate release --table sex,region

    Exit codes: 0 done; 2 usage; 3 codebook or plan; 4 data; 5 privacy; 6 design; 7 release; 8 estimation; 128 and the
    number of the signal that stopped it, nothing half done being left.
    """  # noqa: D301 -- \b is click's mark for text that keeps its lines


def command(function: Callable[..., Result]) -> Callable[..., None]:
    """Make a sub-command that prints a text, or JSON with ``--json``, and turns our errors into exit codes.

    A signal that ends it is one too; what was half done is removed.
    """

    @main.command(function.__name__.rstrip("_"))
    @click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of text.")
    @functools.wraps(function)
    def wrapped(as_json: bool, **arguments: Any) -> None:
        try:
            with stoppable(), warnings.catch_warnings():
                warnings.showwarning = _warn
                raise_all(UsageError, _empty(arguments))
                data, text = function(**arguments)
        except PostrandError as error:
            kind = type(error).__name__
            if as_json:
                _say(json.dumps({"error": kind, "problems": list(error.problems)}, indent=2, ensure_ascii=False))
            else:
                print(f"postrand: {error}", file=sys.stderr)
            raise SystemExit(error.exit_code) from None
        except Stopped as stopped:
            print(f"postrand: stopped by {stopped.name}", file=sys.stderr)
            raise SystemExit(stopped.code) from None
        _say(json.dumps(data, indent=2, ensure_ascii=False) if as_json else "\n".join(map(printable, text.split("\n"))))

    return wrapped


def _warn(message: Warning | str, *_: object, **__: object) -> None:
    """Print a warning as any other line: where in the code it was given tells a curator nothing."""
    print(f"postrand: warning: {printable(str(message))}", file=sys.stderr)


def _empty(arguments: Mapping[str, Any]) -> Iterator[str]:
    """Name each text that is given and says nothing: an empty list of names would stand for none, and protect none."""
    for name, value in arguments.items():
        if isinstance(value, str) and not value.strip(", \t"):
            yield sentence("nothing is named", where=f"--{name.replace('_', '-')}", got=repr(value))


def _say(text: str) -> None:
    """Print the answer; a full disk behind standard output is an error like any other."""
    try:
        print(text, flush=True)
    except BrokenPipeError:  # the reader has seen enough; click ends quietly
        raise
    except OSError as error:
        print(f"postrand: the answer cannot be written; got {error.strerror}", file=sys.stderr)
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 -- what is buffered fails again when the process ends
        raise SystemExit(1) from None


def names(value: str | None) -> tuple[str, ...]:
    """Split ``a,b,c``.

    >>> names("sex, region")
    ('sex', 'region')
    """
    return tuple(part.strip() for part in value.split(",") if part.strip()) if value else ()


@command
@click.argument("file", type=SOURCE)
@click.option("--out", type=FOLDER, default=".", show_default=True, help="Folder for codebook.toml and plan.toml.")
@click.option("--key", "key", metavar="A,B", help="Identifying variables.")
@click.option("--sensitive", metavar="A,B", help="Sensitive variables.")
@click.option("--other", metavar="A,B", help="Variables released without perturbation; '*' for all not named.")
@click.option("--drop", metavar="A,B", help="Variables that are not released; '*' for all not named.")
@click.option("--record-key", metavar="ID", help="Unique record id (else the row number serves).")
@click.option("--weight", metavar="W", help="Sampling weight.")
@click.option("--household", metavar="H", help="Household id.")
@click.option("--ddi", type=FILE, help="DDI-Codebook XML with labels and missing codes of the variables.")
def init(file: Path, out: Path, ddi: Path | None, **roles: str | None) -> Result:
    """Write a codebook and a plan for FILE, to edit.

    Roles that you do not give stay empty, and must be filled in before anything is protected.
    """
    from postrand import start

    given = {role: names(value) for role, value in roles.items() if value}
    book, plan = start.initialise(file, out, given, ddi=ddi)
    empty = start.without_role(book)
    text = f"wrote {book}\nwrote {plan}\n"
    text += f"Next: set the role of {', '.join(empty)}" if empty else "Next: read both, then run 'postrand design'"
    return {"codebook": str(book), "plan": str(plan), "without_role": list(empty)}, text


@command
@click.argument("file", type=SOURCE)
@click.option("--keys", required=True, metavar="A,B", help="Identifying variables.")
@click.option("--codebook", type=FILE, help="codebook.toml; inferred from FILE where it is not given.")
@click.option("--sampling-fraction", type=float, help="Share of the population that is in the file.")
@click.option("--weight", metavar="W", help="Sampling weight, in place of the fraction.")
@click.option("--model", default="two-way", show_default=True, help="independence, two-way, three-way or search.")
@click.option("--sensitive", metavar="S", help="Sensitive variable, for l-diversity.")
def assess(file: Path, keys: str, codebook: Path | None, **choices: Any) -> Result:
    """Measure how identifiable FILE is, as it is.

    Sample uniques, k-anonymity and the expected number of correct matches; nothing is written.
    """
    from postrand import start

    report = start.assess(file, names(keys), codebook, **choices)
    return report.to_dict(), str(report)


@command
@click.option("--plan", "plan", type=FILE, required=True, help="plan.toml")
def design(plan: Path) -> Result:
    """Show the matrices of a plan, and their claims.

    What each keeps, how far it is from the best possible, and the privacy it guarantees; nothing is written. The file
    is read only where a prior, or a selection of records, needs it.
    """
    from postrand.certificate import certify
    from postrand.expected import expected
    from postrand.plan import load_plan
    from postrand.run import claims_of, design_blocks, mechanism_of

    loaded = load_plan(plan)
    blocks = design_blocks(loaded)
    mechanism = mechanism_of(loaded, blocks)
    certificate = certify(mechanism, claims_of(loaded, mechanism))
    worth = [expected(block, loaded.codebook) for block in blocks]
    told = [block.to_dict() | found for block, (found, _) in zip(blocks, worth, strict=True)]
    data = {"blocks": told, "claims": list(certificate.sentences)}
    data["advice"] = list(loaded.advice)
    lines = [line for block, (_, text) in zip(blocks, worth, strict=True) for line in (str(block), text) if line]
    return data, "\n".join([*lines, *loaded.advice, "", *certificate.sentences])


@command
@click.option("--prior", required=True, metavar="P,Q", help="Category probabilities, or 'uniform:S' for S categories.")
@click.option("--epsilons", default="0.25,0.5,1,2,4", show_default=True, metavar="E,F", help="Privacy budgets.")
@click.option("--plot", type=FOLDER, help="Write the curves to this new SVG file.")
def compare(prior: str, epsilons: str, plot: Path | None) -> Result:
    """Show the privacy-utility curve of every structure.

    Information kept and variance of the analyst's estimates, at each epsilon, with proven bounds.
    """
    from postrand.design import compare as compared

    curve = compared(_prior(prior), _numbers(epsilons, "--epsilons"))
    if plot is not None:
        _write_new(plot, curve.svg())
    return curve.to_dict(), curve.text()


@command
@click.argument("file", type=FILE, required=False)
@click.option("--keys", metavar="A,B", help="Identifying variables of FILE.")
@click.option("--plan", type=FILE, help="plan.toml, in place of FILE: its budgets are scaled together.")
@click.option("--limit", required=True, metavar="LIMIT", help="For example 'tau2 <= 10'.")
@click.option("--sampling-fraction", type=float, help="Share of the population that is in the file.")
@click.option("--weight", metavar="W", help="Sampling weight, in place of the fraction.")
@click.option("--model", default="two-way", show_default=True, help="independence, two-way, three-way or search.")
@click.option("--draws", type=int, default=10, show_default=True, help="Releases that the risk is averaged over.")
@click.option("--codebook", type=FILE, help="codebook.toml of FILE; inferred where it is not given.")
def tune(file: Path | None, keys: str | None, codebook: Path | None, plan: Path | None, **choices: Any) -> Result:
    """Search for the largest epsilon that surely meets a risk limit.

    Of FILE and --keys: one epsilon, shared equally. Of --plan: its budgets in their ratios, its structures and blocks.
    The answer may be that no perturbation is needed for the limit, or that the draws cannot decide. The table is the
    risk-utility map.
    """
    from postrand import start

    found = start.tune(file, names(keys), codebook, plan=plan, **choices)
    return found.to_dict(), str(found)


def _prior(text: str) -> Any:
    from postrand.design import Prior

    kind, _, size = text.partition(":")
    if kind == "uniform" and size.isdecimal():
        return Prior.uniform(int(size))
    return _numbers(text, "--prior")


def _numbers(text: str, where: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise UsageError(sentence("not a list of numbers", where=where, fix="separate them by commas")) from None


def _write_new(path: Path, text: str) -> None:
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise UsageError(sentence("the file cannot be written", where=str(path), got=error.strerror)) from None


@command
@click.option("--plan", type=FILE, required=True, help="plan.toml")
@click.option("--out", type=FOLDER, required=True, help="Folder of the release; it must not exist.")
@click.option("--dossier", type=FOLDER, help="Folder for the internal dossier (risk, exact counts); kept apart.")
@click.option(
    "--key-file", type=FILE, help="Release key, 32 bytes or 64 hexadecimal digits; else one is drawn and forgotten."
)
@click.option("--seed", type=int, help="For tests only: the certificate will say that the release is not private.")
@click.option("--engine", default="local", show_default=True, help="local, duckdb or spark; the values are the same.")
@click.option("--resume", type=FOLDER, help="Folder to continue an interrupted run from; needs --key-file.")
@click.option("--sampling-fraction", type=float, help="Share of the population in the file, for the dossier alone.")
def protect(
    plan: Path, out: Path, dossier: Path | None, key_file: Path | None, seed: int | None, **choices: Any
) -> Result:
    """Write the release of a plan, whole or not at all."""
    from postrand.plan import load_plan
    from postrand.run import run

    key = _release_key(key_file, seed)
    release = run(load_plan(plan), out, release_key=key, dossier=dossier, progress=True, **choices)
    claims = list(release.certificate_sentences)
    return {"release": str(release.path), "claims": claims}, "\n".join([f"release: {release.path}", *claims])


def _release_key(key_file: Path | None, seed: int | None) -> Any:
    from postrand.randomness import ReleaseKey

    if key_file is not None and seed is not None:
        raise UsageError(sentence("both --key-file and --seed are given", fix="give one of them, or none"))
    if seed is not None:
        return ReleaseKey.from_seed(seed)
    return None if key_file is None else ReleaseKey.from_file(key_file)


def on_ranks(function: Callable[..., Result]) -> Callable[..., Result]:
    """Add what a law on ranks takes; the function is given ``law`` in place of ``--band`` or ``--blocks``."""

    @click.argument("file", type=FILE)
    @click.option("--columns", required=True, metavar="A,B", help="Numerical columns.")
    @click.option("--band", type=int, metavar="W", help="Over about W neighbours in rank, wherever the rank is.")
    @click.option("--blocks", type=int, metavar="K", help="Over fixed blocks of K neighbours in rank.")
    @click.option("--out", type=FOLDER, required=True, help="Folder of the release; it must not exist.")
    @functools.wraps(function)
    def wrapped(columns: str, band: int | None, blocks: int | None, **arguments: Any) -> Result:
        from postrand.numerical import RankBand, RankBlocks

        if (band is None) == (blocks is None):
            raise UsageError(sentence("give one of --band and --blocks, not both"))
        law = RankBlocks(blocks) if blocks is not None else RankBand(band or 0)
        return function(columns=names(columns), law=law, **arguments)

    return wrapped


@command
@on_ranks
@click.option(
    "--key-file", type=FILE, help="Release key, 32 bytes or 64 hexadecimal digits; else one is drawn and forgotten."
)
@click.option("--seed", type=int, help="For tests only: the release is then not private.")
def permute(
    file: Path, columns: tuple[str, ...], law: Any, out: Path, key_file: Path | None, seed: int | None
) -> Result:
    """Permute numerical columns among neighbours in rank.

    Every value of FILE is kept, and with them each column's totals, means and quantiles.
    """
    from postrand.files import permute_columns

    return _columns_result(out, permute_columns(file, out, columns, law, _release_key(key_file, seed)))


@command
@on_ranks
def average(file: Path, columns: tuple[str, ...], law: Any, out: Path) -> Result:
    """Average numerical columns over neighbours in rank.

    The mean of each column of FILE is kept; with --blocks this is microaggregation. Nothing is drawn at random.
    """
    from postrand.files import average_columns

    return _columns_result(out, average_columns(file, out, columns, law))


@command
@click.argument("original", type=FILE)
@click.argument("released", type=FILE)
@click.option("--columns", required=True, metavar="A,B", help="Numerical columns that both files have.")
@click.option("--record-key", metavar="ID", help="Column that tells records apart (else both are in one order).")
def distances(original: Path, released: Path, columns: str, record_key: str | None) -> Result:
    """Measure how far any method moved each value in rank.

    The permutation model: RELEASED as a permutation of ORIGINAL and noise that keeps ranks. Nothing is written.
    """
    from postrand.files import column_distances

    found = column_distances(original, released, names(columns), record_key)
    return {n: model.to_dict() for n, model in found.items()}, "\n".join(f"{n}: {m}" for n, m in found.items())


@command
@click.argument("file", type=FILE)
@click.option("--keys", required=True, metavar="A,B", help="Identifying variables.")
@click.option("--k", type=int, required=True, help="Least number of records in a class.")
@click.option("--out", type=FOLDER, required=True, help="Folder of the release; it must not exist.")
@click.option(
    "--key-file", type=FILE, help="Release key, 32 bytes or 64 hexadecimal digits; else one is drawn and forgotten."
)
@click.option("--seed", type=int, help="For tests only: the release is then not private.")
def anatomise(file: Path, keys: str, k: int, out: Path, key_file: Path | None, seed: int | None) -> Result:
    """Release keys and the rest as two tables.

    They are linked by classes of at least K records of FILE that are near in their keys (Anatomy).
    """
    from postrand.files import anatomise_file

    return _columns_result(out, anatomise_file(file, out, names(keys), k, _release_key(key_file, seed)))


def _columns_result(out: Path, certificate: dict[str, Any]) -> Result:
    claims = [claim["sentence"] for claim in certificate["claims"]]
    limits = [f"- {text}" for text in certificate["not_covered"]]
    following = f"Next: read {out / 'report.html'}; postrand verify {out}"
    lines = [f"release: {out}", *claims, "Not covered:", *limits, following]
    return certificate, "\n".join(lines)


@command
@click.argument("directory", type=FOLDER)
@click.option("--file", type=SOURCE, help="The confidential file, for an auditor who has it.")
def verify(directory: Path, file: Path | None) -> Result:
    """Re-check a release from its bytes alone.

    Digests, exact laws, privacy claims, data and report are all recomputed; any change fails. Claims that rest on the
    confidential frequencies are said, unless --file recomputes them.
    """
    from postrand.release import verify as check

    verification = check(directory, file=file)
    return verification.to_dict(), str(verification)


@command
@click.argument("directory", type=FOLDER)
@click.option("--out", type=FOLDER, help="Write the page to this new file, and leave the release as it is.")
def report(directory: Path, out: Path | None) -> Result:
    """Make the report of a release anew.

    The page is a function of the release's other files; without --out it takes its place there again.
    """
    from postrand.release import rebuild_report

    path = rebuild_report(directory, out)
    return {"report": str(path)}, f"report: {path}"


@command
@click.argument("directory", type=FOLDER)
@estimate_options
@click.option("--excel", type=FOLDER, metavar="FILE", help="Write the result to this new Excel file too.")
def estimate(directory: Path, excel: Path | None, **choices: str | None) -> Result:
    """Answer one question about the true records from a release.

    Name one of --table, --mean, --total, --ratio, --quantile and --regression. Everything is corrected for the
    perturbation, and standard errors include it.
    """
    return answer(directory, excel, choices)


@command
@click.argument("file", type=FILE, required=False)
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, help="Port of the loopback address; 0 for a free one."
)
@click.option("--browser/--no-browser", default=True, show_default=True, help="Open the address in a browser.")
def app(file: Path | None, port: int, browser: bool) -> Result:
    """Open the workbench in a browser, on this machine only.

    See risk and utility, decide, release; without FILE it begins with a demonstration survey.
    """
    try:
        from postrand.app.launch import serve
    except ImportError:
        fix = "pip install 'postrand[app]'"
        raise UsageError(sentence("the workbench needs the package shiny", fix=fix)) from None
    serve(file, port, browser=browser, say=functools.partial(print, flush=True))
    return {"served": True}, "The workbench has ended; its working files are removed."


@command
@click.option("--out", type=FOLDER, default="demo", show_default=True, help="Folder for the demo; it must not exist.")
def demo(out: Path) -> Result:
    """Protect and analyse real survey microdata.

    17,137 respondents of the General Social Survey; ends with a corrected table beside the true one.
    """
    from postrand.demo import run_demo

    return run_demo(out)
