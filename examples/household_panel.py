"""A household panel of two waves: what is drawn once for a household, and what two releases cost together.

python household_panel.py     needs: pip install 'postrand[frames]'
"""

from pathlib import Path

import numpy as np
import pandas as pd

import postrand as pr

PLAN = """
[source]
file = "wave{wave}.csv"
codebook = "codebook.toml"

[privacy]
model = "differential"
epsilon = 4.0                          # of a record

[unit]
household = "house"
household_variables = ["region"]
largest_household = 5                  # the questionnaire has room for five persons

[[blocks]]
variables = ["region"]                 # drawn once for all members

[[blocks]]
variables = ["sex", "work"]

[ledger]
file = "panel.ledger"
population = "persons of the panel"
limit = 10
{kind}
"""


def waves(folder, houses=600):
    """Write two waves of the same households; a tenth of the persons changes work."""
    rng = np.random.default_rng(3)
    house = np.repeat(np.arange(houses), rng.integers(1, 6, houses))
    region = rng.choice(["north", "east", "south"], houses)[house]
    sex, work = rng.choice(["f", "m"], house.size), rng.choice(["no", "part", "full"], house.size)
    for wave in (1, 2):
        people = pd.DataFrame({"house": house, "region": region, "sex": sex, "work": work})
        people.to_csv(folder / f"wave{wave}.csv", index=False)
        work = np.where(rng.random(house.size) < 0.1, rng.choice(["no", "part", "full"], house.size), work)


BOOK = pr.Codebook(
    (
        pr.Variable("house", "household", type="int64"),
        pr.Variable("region", "key", ("north", "east", "south")),
        pr.Variable("sex", "key", ("f", "m")),
        pr.Variable("work", "sensitive", ("no", "part", "full")),
    )
)


def main(folder=Path()):
    """Release both waves under one ledger, and estimate a table of the second."""
    waves(folder)
    BOOK.save(folder / "codebook.toml")
    for wave, kind in ((1, ""), (2, 'kind = "wave"')):
        plan = folder / f"plan{wave}.toml"
        plan.write_text(PLAN.format(wave=wave, kind=kind), encoding="utf-8")
        release = pr.run(pr.load_plan(plan), folder / f"release{wave}")
        print(f"wave {wave}:", *release.certificate_sentences, sep="\n  ")
        print("  verified:", pr.verify(release.path).ok)
    # Members share the draw of their region: households, not persons, are what was drawn.
    design = pr.estimate.SurveyDesign(psu="house")
    print(pr.estimate.table(release.frame(), ["region", "work"], release.mechanism, design=design))


if __name__ == "__main__":
    main()
