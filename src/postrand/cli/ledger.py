"""The command of a ledger: what the releases of a population cost together.

Heavy modules are imported inside the command, so that ``postrand --help`` answers at once.
"""

from __future__ import annotations

from pathlib import Path

import click

from postrand.cli.frame import FILE, FOLDER, Result, command
from postrand.errors import UsageError, sentence


@command
@click.argument("what", type=click.Choice(["show", "verify"]))
@click.argument("file", type=FILE)
@click.option("--delta", type=float, help="show: also the total at this δ, which many small releases lower.")
@click.option("--head", "heads", multiple=True, metavar="DIGEST", help="verify: a head that was published.")
@click.option("--release", "releases", type=FOLDER, multiple=True, help="verify: a release of the series.")
def ledger(what: str, file: Path, delta: float | None, heads: tuple[str, ...], releases: tuple[Path, ...]) -> Result:
    """Show or verify the ledger of a population or of a release key.

    'show' prints each release with its level, the running total, and what another wave, a corrected file or a
    supplement would cost. 'verify' checks the chain of digests and the totals; lines removed at the end are found only
    with --head or --release: each release of a series has the head of the ledger before it.

    \b
    postrand ledger show population.ledger
    postrand ledger verify population.ledger --release wave2
    """  # noqa: D301 -- \b is click's mark for text that keeps its lines
    from postrand.release.ledger import Ledger
    from postrand.release.ledger_report import LIMITS, LedgerPage, verify_ledger

    if delta is not None and not 0 < delta < 1:
        raise UsageError(sentence("the delta is outside its range", where="--delta", got=delta, wanted="(0, 1)"))
    if what == "show":
        if heads or releases:
            raise UsageError(sentence("--head and --release are for 'postrand ledger verify'", fix="use verify"))
        page = LedgerPage(Ledger(file).read(), delta)
        return page.to_dict(), str(page)
    if delta is not None:
        raise UsageError(sentence("--delta is for 'postrand ledger show'", fix="use show"))
    book = verify_ledger(Ledger(file), heads, releases)
    many, given = len(book.lines), len(heads) + len(releases)
    lines = [f"{many} release{'s' * (many != 1)}; chain and totals are right", f"head: {book.head or 'none'}"]
    agree = "1 head or release agrees" if given == 1 else f"{given} heads and releases agree"
    lines += [agree] * bool(given)
    return {"releases": len(book.lines), "head": book.head}, "\n".join([*lines, "", LIMITS])
