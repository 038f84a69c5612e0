"""Cases whose unit is the record: models, structures of matrices, blocks, strata, splits, ranks."""

from benchmarks.audit.measures import (
    Differential,
    Entropy,
    Posterior,
    claimed,
    from_concentrated,
    from_renyi,
    of_distance,
    of_ranks,
    stated,
)
from benchmarks.audit.plans import REGION, SEX, block, claim, dp, one, plan, section, variable
from benchmarks.audit.runs import Case

RECORD = Differential("ε of a record", claimed())
CIRCULANT = [[0.6, 0.3, 0.1], [0.1, 0.6, 0.3], [0.3, 0.1, 0.6]]
RESPONSE = Case(
    "randomised response",
    "k-RR, several blocks, missing as a category, weight",
    SEX + REGION + variable("weight", role="weight", type="double"),
    (
        (
            plan(
                dp(3.0),
                block("sex", privacy=dp(1.0), structure="symmetric"),
                block("region", privacy=dp(2.0), structure="symmetric"),
                as_is=("serial", "weight"),
            ),
            (one(sex="F", region="a"), one(sex="M", region="b"), one(sex="M", region=None)),
        ),
    ),
    ("sex", "region"),
    (RECORD,),
    copies=100_000,
)
OWN_MATRIX = Case(
    "own matrix",
    "a curator's matrix, by the command",
    variable("work", "xyz"),
    ((plan(dp(2.0), block("work", matrix=CIRCULANT)), (one(work="x"), one(work="y"), one(work="z"))),),
    ("work",),
    (RECORD,),
    command=True,
)
OPTIMISED = Case(
    "optimised",
    "general and uniform off-diagonal structure, information; several models of one record",
    variable("age", "abcde") + variable("work", "xyz") + SEX,
    (
        (
            plan(
                dp(4.0),
                claim(model="approximate", epsilon=2.0, delta=0.6),
                claim(model="concentrated", rho=4.0),
                claim(model="renyi", level=4.0, order=4),
                block("age", privacy=dp(1.0), structure="general", objective="information"),
                block("work", privacy=dp(2.0), structure="uniform-off-diagonal", objective="information"),
                block("sex", privacy=dp(1.0)),
            ),
            tuple(one(age=a, work=w, sex=s) for a, w, s in ("axF", "byM", "czM", "dzF", "eyM")),
        ),
    ),
    ("age", "work", "sex"),
    (
        RECORD,
        Differential("(ε, δ)", claimed("approximate")),
        Differential("ρ, as (ε, δ)", from_concentrated(0.1)),
        Differential("Rényi level, as (ε, δ)", from_renyi(0.1)),
    ),
)
JOINT = Case(
    "joint block",
    "several variables in one matrix, impossible combinations",
    'rules = [{ age = "child", work = "yes" }]\n'
    + variable("age", ("child", "adult"))
    + variable("work", ("no", "yes")),
    (
        (
            plan(dp(2.0), block("age", "work", privacy=dp(2.0))),
            (one(age="child", work="no"), one(age="adult", work="no"), one(age="adult", work="yes")),
        ),
    ),
    ("age", "work"),
    (RECORD,),
)
CLOSED = Case(
    "closed blocks",
    "blocks that keep rules among variables of other blocks, among the values of one class",
    'rules = [{ age = ["5", "9"], work = ["x", "y"] }]\n'
    + variable("age", ("5", "9", "30", "50"))
    + variable("work", "nxy"),
    (
        (
            plan(dp(3.0), block("age", privacy=dp(1.5)), block("work", privacy=dp(1.5))),
            (one(age="5", work="n"), one(age="9", work="n"), one(age="30", work="n"), one(age="50", work="x")),
        ),
    ),
    ("age", "work"),
    (RECORD,),
    pairs=((0, 1), (2, 3)),
)
STRATA = Case(
    "strata",
    "a matrix for each value of an unperturbed variable",
    variable("year", ("1", "2"), role="other") + variable("happy", "nsv", role="sensitive"),
    (
        (
            plan(
                dp(1.0),
                block("happy", given=["year"], prior="file", privacy=dp(1.0), structure="general"),
                as_is=("serial", "year"),
            ),
            tuple(one(year=y, happy=h) for y, h in ("1n", "1n", "1n", "1s", "1v", "2n", "2s", "2s", "2s", "2v")),
        ),
    ),
    ("happy",),
    (RECORD,),
    pairs=((0, 3), (5, 6)),
)
METRIC = Case(
    "metric",
    "ordered categories, protected by their distance",
    variable("age", "abcd"),
    (
        (
            plan(
                dp(3.0),
                block("age", privacy={"model": "metric", "epsilon": 1.0, "distance": "ranks"}, structure="geometric"),
            ),
            tuple(one(age=a) for a in "abcd"),
        ),
    ),
    ("age",),
    (Differential("ε of a distance", of_distance), RECORD),
)
SPLIT = Case(
    "split",
    "a random subset of the variables of each record, not released ones, beside a block",
    "".join(variable(name, "xy") for name in "pqrs") + REGION,
    (
        (
            plan(dp(3.0), section("split", variables=list("pqrs"), epsilon=2.0), block("region", privacy=dp(1.0))),
            (one(p="x", q="x", r="x", s="x", region="a"), one(p="y", q="y", r="y", s="y", region="b")),
        ),
    ),
    (*"pqrs", "region"),
    (RECORD,),
    copies=100_000,
)


def structure(name, privacy, *more):
    """Return the case of one structure of a matrix of five categories; ``more`` are claims beside that of a record."""
    return Case(
        f"structure {name}",
        f"a matrix of the structure {name}",
        variable("age", "abcde"),
        ((plan(dp(4.0), block("age", privacy=privacy, structure=name)), tuple(one(age=a) for a in "abcde")),),
        ("age",),
        (RECORD, *more),
        copies=40_000,
    )


STEPS = {"model": "metric", "epsilon": 1.0, "distance": "ranks"}
STRUCTURES = (
    *(structure(name, dp(1.5)) for name in ("uniform-off-diagonal", "circulant", "general")),
    *(structure(name, STEPS, Differential("ε of a distance", of_distance)) for name in ("metric", "exponential")),
)
PRODUCT = Case(
    "structure product",
    "variables of a joint block that are drawn one by one",
    variable("age", "abc") + variable("work", "xy"),
    (
        (
            plan(dp(2.0), block("age", "work", privacy=dp(2.0), structure="product")),
            (one(age="a", work="x"), one(age="b", work="y"), one(age="c", work="y")),
        ),
    ),
    ("age", "work"),
    (RECORD,),
)
BETA = {"model": "bistochastic", "beta": 0.8}
BISTOCHASTIC = Case(
    "bistochastic",
    "columns that sum to 1",
    variable("job", "abcd"),
    (
        (
            plan(BETA, block("job", privacy=BETA, structure="bistochastic")),
            tuple(one(job=j) for j in "abcd"),
        ),
    ),
    ("job",),
    (Entropy("β, at least", 4, stated("bistochastic")),),
)
FAMILY = Case(
    "structure parameterised",
    "a family of bistochastic matrices",
    BISTOCHASTIC.book,
    (
        (
            plan(
                BETA, block("job", privacy=BETA, structure={"model": "parameterised", "family": "randomised-response"})
            ),
            BISTOCHASTIC.waves[0][1],
        ),
    ),
    ("job",),
    BISTOCHASTIC.claims,
)
ALPHA = {"model": "recognition", "alpha": 0.25}
TYPES = {"Fax": 1, "Fay": 6, "Fbx": 6, "Fby": 8, "Max": 6, "May": 8, "Mbx": 8, "Mby": 9}
RECOGNITION = Case(
    "recognition",
    "the posterior of a person whose keys are unique, over many releases of one file",
    variable("sex", "FM") + variable("area", "ab") + variable("job", "xy"),
    (
        (
            plan(ALPHA, block("sex", "area", "job", privacy=ALPHA, structure="least-loss")),
            tuple(one(sex=t[0], area=t[1], job=t[2]) for t, many in TYPES.items() for _ in range(many)),
        ),
    ),
    ("sex", "area", "job"),
    (Posterior("posterior of recognition", 0, {"sex": 0, "area": 0, "job": 0}, stated("recognition")),),
    copies=1,
    runs=100,
)
MANY = Case(
    "many categories",
    "matrices that are drawn without tables",
    variable("place", [f"p{number}" for number in range(1_100)]),
    (
        (
            plan(dp(5.0), block("place", privacy=dp(5.0), structure="symmetric")),
            tuple(one(place=f"p{p}") for p in (0, 7)),
        ),
    ),
    ("place",),
    (RECORD,),
)
RANKS = Case(
    "ranks",
    "values exchanged within blocks of neighbours in rank",
    variable("income", role="sensitive", type="double") + SEX,
    (
        (
            plan(
                dp(1.0),
                block("sex", privacy=dp(1.0)),
                '[[numerical]]\nvariables = ["income"]\nmethod = { model = "rank-blocks", k = 5 }\n',
            ),
            tuple(one(sex=s) for s in "FMFMF"),
        ),
    ),
    ("income",),
    (Entropy("bits of a rank, over log2 5, at least", 5, of_ranks),),
    ranked="income",
)
