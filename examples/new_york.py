"""Ten variables with impossible combinations: a split release that contradicts no rule.

python new_york.py PEOPLE.csv RULES.csv     needs: pip install 'postrand[frames]'

PEOPLE.csv has a row for each person and a column for each variable; RULES.csv a row for each combination that nobody
can have, empty where any value is meant. The file of ABC's section 4.2 looks like this.
"""

import sys
from dataclasses import replace

import pandas as pd

import postrand as pr
from postrand import estimate
from postrand.codebook.rule_files import read_rules


def main(people_path, rules_path):
    """Design, certify and draw a split release, and estimate a table from it."""
    people = pd.read_csv(people_path, dtype=str, keep_default_na=False).replace("", pd.NA)

    # A missing answer is a category of its own: that it is missing is protected too.
    found = {name: tuple(sorted(people[name].dropna().unique())) for name in people}
    variables = (pr.Variable(name, "key", categories, missing="category") for name, categories in found.items())
    book = pr.Codebook(tuple(variables))
    book = replace(book, rules=read_rules(rules_path, book))

    # Each record shows a random part of its variables with the whole ε. Subsets keep the rules that they show whole.
    design = pr.split_design(book, epsilon=6.0, n=len(people), max_cells=2_000)
    print(design.text())
    mechanism = pr.Mechanism([], book, split=design.split(book))
    print(pr.certify(mechanism).sentences[0])

    released = pr.perturb(people, mechanism)
    pair = list(people)[2:4]
    print(estimate.table(released, pair, mechanism).to_pandas().head(12).to_string())


if __name__ == "__main__":
    main(*sys.argv[1:3])
