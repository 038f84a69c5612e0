"""Cases whose unit is a household or a person, and the series of a population."""

from benchmarks.audit.measures import Differential, of_series, of_unit
from benchmarks.audit.plans import HOUSE, REGION, SEX, block, dp, one, plan, section, variable
from benchmarks.audit.runs import Case

HOUSEHOLD = Case(
    "household",
    "one draw for a household, one for each member; a household of two",
    HOUSE + REGION + SEX,
    (
        (
            plan(
                dp(2.5),
                section("unit", household="hid", household_variables=["region"], largest_household=2),
                block("region", privacy=dp(1.5)),
                block("sex", privacy=dp(1.0)),
            ),
            (
                ({"region": "a", "sex": "F"}, {"region": "a", "sex": "F"}),
                ({"region": "b", "sex": "M"}, {"region": "b", "sex": "M"}),
            ),
        ),
    ),
    ("region", "sex"),
    (Differential("ε of a household", of_unit("household", 2)),),
    numbers=("hid",),
)
PERSON = Case(
    "person",
    "a person with two records in one file",
    variable("pid", role="drop", type="int64") + variable("born", "abc") + SEX,
    (
        (
            plan(
                dp(2.0),
                section("unit", person="pid", person_variables=["born"], most_records=2),
                block("born", privacy=dp(1.0)),
                block("sex", privacy=dp(1.0)),
            ),
            (
                ({"born": "a", "sex": "F"}, {"born": "a", "sex": "F"}),
                ({"born": "b", "sex": "M"}, {"born": "b", "sex": "M"}),
            ),
        ),
    ),
    ("born", "sex"),
    (Differential("ε of a person", of_unit("person", 2)),),
    numbers=("pid",),
)
MEMBER = Case(
    "household split",
    "one random member of each household shows a random subset",
    HOUSE + "".join(variable(name, "xy") for name in "pqrs"),
    (
        (
            plan(
                dp(2.0),
                section("unit", household="hid", largest_household=2),
                section("split", variables=list("pqrs"), epsilon=2.0, unit="household"),
            ),
            tuple(tuple(dict.fromkeys("pqrs", v) for v in values) for values in ("xx", "yy", "xy")),
        ),
    ),
    tuple("pqrs"),
    (Differential("ε of a household", of_unit("household", 2)),),
    numbers=("hid",),
)
HEAD = Case(
    "one of each household",
    "one draw chooses who is released as head",
    HOUSE + variable("size", (1, 2, 3), role="other", type="int64") + variable("head", ("no", "yes")),
    (
        (
            plan(
                dp(2.0),
                section("unit", household="hid", largest_household=3),
                block("head", given=["size"], one_member="yes", privacy=dp(2.0)),
            ),
            tuple(tuple({"size": 3, "head": "yes" if m == h else "no"} for m in range(3)) for h in range(3)),
        ),
    ),
    ("head",),
    (Differential("ε of a household", of_unit("household", 3)),),
    numbers=("hid",),
)
COUPLE = Case(
    "head and spouse",
    "one draw of a head and at most one spouse",
    HOUSE + variable("size", (2, 3), role="other", type="int64") + variable("relat", ("head", "spouse", "other")),
    (
        (
            plan(
                dp(2.5),
                section("unit", household="hid", largest_household=3),
                block("relat", given=["size"], one_member="head", at_most_one="spouse", privacy=dp(2.5)),
            ),
            tuple(
                tuple({"size": 3, "relat": role} for role in roles)
                for roles in (("head", "spouse", "other"), ("other", "head", "spouse"), ("head", "other", "other"))
            ),
        ),
    ),
    ("relat",),
    (Differential("ε of a household", of_unit("household", 3)),),
    numbers=("hid",),
)


def wave(kind, values):
    """Return a wave of a series: its plan, and the value that it has of each unit."""
    ledger = section(
        "ledger", file="population.ledger", population="persons", limit=4, **({"kind": kind} if kind else {})
    )
    return plan(dp(1.5), block("sex", privacy=dp(1.5)), ledger), tuple(one(sex=value) for value in values)


SERIES = Case(
    "series",
    "two waves under one key, counted by a ledger",
    SEX,
    (wave("", "FFM"), wave("wave", "FMM")),
    ("sex",),
    (Differential("total ε of a record", of_series),),
)
