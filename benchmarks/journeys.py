"""Nine messy files, each from the file to a verified release by commands alone: `python benchmarks/journeys.py`.

Each journey is a list of commands as a curator types them. The figures of every plan are those that the commands print
with --json; nothing is computed here. Without arguments all files are whole, and docs/journeys.md is filled.
"""

import argparse
import contextlib
import json
import os
import shlex
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import journey_files as files
from page import filled
from postrand.report.table_worth import shown

PAGE = Path(__file__).resolve().parents[1] / "docs" / "journeys.md"
WHOLE = 10**7


@dataclass(frozen=True)
class Journey:
    """Hold a file, the roles that its curator gives, a question of an analyst, and what was found before.

    ``options`` say how the file is read, or who the records belong to. ``before`` are the figures of the same kind of
    file when the tool proposed a budget of 1 for each key and no recoding. ``as_is``: unperturbed columns that all but
    settle perturbed values, and that the curator releases on purpose.
    """

    name: str
    what: str
    make: object
    roles: str
    question: str
    options: str = ""
    before: str = "–"
    as_is: tuple[str, ...] = ()


JOURNEYS = (
    Journey(
        "codes",
        "CSV with codes",
        files.codes,
        "--keys age,sex,race --sensitive employment",
        "--table sex",
        before="2.7 times the standard error for sex: 2,740 records; 32 times for education by race: 20",
    ),
    Journey(
        "semicolon",
        "semicolons, Windows-1252",
        files.semicolon,
        "--keys Alter,Kinder,Beruf --sensitive Affäre",
        "--table Kinder",
        "--record-key Person",
        "not read",
    ),
    Journey("spss", "SPSS, labels", files.spss, "--keys age,educ,income --sensitive vote", "--table educ"),
    Journey(
        "stata",
        "Stata, 67 columns",
        files.stata,
        "--keys male,married,dep,black,hispan --sensitive approve",
        "--table male",
        before="53 blocks, ε = 53, without a remark",
    ),
    Journey(
        "parquet",
        "large Parquet",
        files.parquet,
        "--keys age,sex,race,marital_status --sensitive employment",
        "--table sex,race",
        as_is=("employment",),  # that children do not work says that they are children
    ),
    Journey(
        "households",
        "household survey",
        files.households,
        "--keys relat,sex,age,hhcivil",
        "--table sex --weight sampling_weight",
        "--household ori_hid --weight sampling_weight",
        "sex 978, relation 85, age 2.6, sex by relation 39",
    ),
    Journey(
        "persons",
        "repeated persons",
        files.persons,
        "--keys black,hisp,educ,married --sensitive union",
        "--table married",
        "--household nr",
    ),
    Journey(
        "text", "free text, dates", files.free_text, "--keys female,region,workstat --sensitive happy", "--table female"
    ),
    Journey(
        "excel",
        "Excel, two sheets",
        files.excel,
        "--keys male,white,parity --sensitive smoker",
        "--table parity",
        "--sheet Births",
        "not read",
    ),
)


def commands(journey, file):
    """Return the commands of a journey, in order, as they are typed in the folder of its file."""
    return [
        f"init {file} {journey.roles} {journey.options} --drop '*' --out first",
        f"advise {file} {journey.roles} {journey.options} --out advice",
        "compare first/plan.toml advice/plan-1.toml",
        "explain advice/plan-1.toml",
        "protect --plan advice/plan-1.toml --out release --dossier internal",
        "verify release",
        f"estimate release {journey.question}",
    ]


def run(call, journey, folder, records=WHOLE):
    """Take a journey; return its figures, or None without its records. ``call(words)`` returns plain data."""
    file = journey.make(folder, records)
    if file is None:
        return None
    done = {}
    with contextlib.chdir(folder):
        for line in commands(journey, file.name):
            started = time.process_time()
            words = shlex.split(line)
            answer = call([*words, "--json"])
            done[words[0]] = (answer, time.process_time() - started)
            if words[0] == "advise" and journey.as_is:
                plan = Path("advice/plan-1.toml")
                decided = f"[release]\nas_is = {json.dumps(journey.as_is)}\n"
                plan.write_text(plan.read_text("utf-8").replace("[release]\n", decided), "utf-8")
    best = done["advise"][0]["plans"][0]
    first, figures = done["compare"][0]["plans"]
    as_is = best["figures"].get("risk_as_is", {})  # before any recoding, where the plan recodes
    risks = {one["code"]: (as_is.get(one["code"], one["before"]), one["after"]) for one in best["figures"]["risk"]}
    return {
        "name": journey.name,
        "records": figures["records"],
        "way": best["way"],
        "epsilon": figures["epsilon"],
        "claims": figures["claims"],
        "matches": risks["correct_matches"],
        "largest": risks["individual_risk_largest"],
        "first": first,
        "one_way": figures["worth"]["one_way"],
        "two_way": figures["worth"]["two_way"],
        "verified": done["verify"][0]["ok"],
        "plans": len(done["advise"][0]["plans"]),
        "seconds": {name: spent for name, (_, spent) in done.items()},
    }


def typed(words):
    """Run a command in this process and return its answer; raises with what it said if it is refused."""
    from click.testing import CliRunner

    from postrand.cli import main

    found = CliRunner().invoke(main, words)
    if found.exit_code != 0:
        raise RuntimeError(f"postrand {' '.join(words)}: exit code {found.exit_code}: {found.output}")
    return json.loads(found.stdout)


def tables(results):
    """Return the lines of the page's two tables: plans with their figures, and seconds."""
    heads = (
        "file",
        "records",
        "plan",
        "correct matches of an informed attacker, before → after",
        "largest risk of a person, after",
        "worth of tables of one variable: least, harmonic mean",
        "of two variables",
        "the same of the plan that `init` writes",
        "found before",
    )
    rows = [f"| {' | '.join(heads)} |", "| --- | ---: | --- | ---: | ---: | ---: | ---: | ---: | --- |"]
    times = ["| file | init | advise | compare | explain | protect | verify | estimate | all |"]
    times.append("| --- " + "| ---: " * 8 + "|")
    claims = []
    for journey in JOURNEYS:
        got = results.get(journey.name)
        if got is None:
            rows.append(f"| {journey.what} | not on this machine |" + " – |" * 7)
            continue
        before, after = (number(value) for value in got["matches"])
        cells = [
            f"{got['way']}, ε = {got['epsilon']:.3g}",
            f"{before} → {after}",
            f"{100 * got['largest'][1]:.2g} %",
            pair(got["one_way"]),
            pair(got["two_way"]),
            of_first(got["first"]),
            journey.before,
        ]
        rows.append(f"| {journey.what} | {got['records']:,} | {' | '.join(cells)} |")
        spent = got["seconds"]
        times.append(
            f"| {journey.what} | " + " | ".join(f"{s:.1f}" for s in (*spent.values(), sum(spent.values()))) + " |"
        )
        claims += [f"- {journey.what}: {got['claims'][0]}"]
    return {"figures": rows, "claims": claims, "seconds": times}


def of_first(figures):
    """Return the level of a plan and the worth of its tables."""
    return f"{pair(figures['worth']['one_way'])}; {pair(figures['worth']['two_way'])} (ε = {figures['epsilon']:.3g})"


def number(value):
    """Return a figure of a risk as text."""
    return "not known" if value is None else f"{value:,.0f}" if value >= 100 else f"{value:.2g}"


def pair(worth):
    """Return the least worth and the harmonic mean of some tables."""
    return "–" if worth["least"] is None else f"{shown(worth['least'])}, {shown(worth['harmonic_mean'])}"


def main():
    """Take all journeys and fill the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=WHOLE, help="take at most so many records, and leave the page")
    parser.add_argument("--only", help="the names of some journeys, with commas")
    asked = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    results = {}
    for journey in JOURNEYS:
        if asked.only and journey.name not in asked.only.split(","):
            continue
        with tempfile.TemporaryDirectory() as folder:
            results[journey.name] = run(typed, journey, Path(folder), asked.records)
        print(journey.name, json.dumps(results[journey.name], ensure_ascii=False))
    if asked.records == WHOLE and not asked.only:
        made, text = tables(results), PAGE.read_text(encoding="utf-8")
        text = filled(
            text, {"seconds": made.pop("seconds")}, f"Seconds of one processor core, on {time.strftime('%F')}:"
        )
        PAGE.write_text(filled(text, made, "As `advise` prints it, for the whole files:"), encoding="utf-8")


if __name__ == "__main__":
    main()
