"""Certificates against brute force: random plans, and an oracle that reads nothing but the integers of the law."""

import itertools
import json
import math
import random
from collections import Counter, defaultdict
from fractions import Fraction

import mpmath
import pytest

from postrand.certification.certificate import certify
from postrand.engines import LocalEngine
from postrand.errors import PostrandError
from postrand.plan import load_plan
from postrand.workflow.design_blocks import design_blocks
from postrand.workflow.known import Known
from postrand.workflow.planned import claims_of, mechanism_of

UNIT = 2**53
PLANS = 60
FAMILIES = {
    "differential": (
        ("model = 'differential', epsilon = %s", (0.01, 0.37, 1.0, 2.0, 8.0)),
        ("model = 'share', weight = %s", (1.0, 3.0)),
    ),
    "bistochastic": (("model = 'bistochastic', beta = %s", (0.1, 0.5, 0.9)),),
    "metric": (("model = 'metric', epsilon = %s, distance = { kind = 'ranks', missing = 1.5 }", (0.3, 2.0)),),
    "recognition": (("model = 'recognition', alpha = %s, subsets = 1", (0.1, 0.25)),),
}
RECORD = {
    "differential": "model = 'differential'\nepsilon = 60.0",
    "bistochastic": "model = 'bistochastic'\nbeta = 0.05",
    "metric": "model = 'differential'\nepsilon = 60.0",
    "recognition": "model = 'recognition'\nalpha = 0.25\nsubsets = 1",
}
DESIGN = {
    "bistochastic": "structure = 'bistochastic'\nobjective = 'changes'\n",
    "metric": "structure = 'metric'\nobjective = 'changes'\n",
}


def write_plan(rng, folder):
    """Write a codebook, records that fit it and a plan: strata, rules, joint blocks, selected records, missing values.

    Returns the number of codes of each variable, the variables that keep missing values (code -1), rules, records.
    """
    names = [*"abc"[: rng.choice((2, 3))], "g"]
    sizes = {n: rng.choice((2, 2, 3)) for n in names}
    policy = {n: rng.choice(("error", "error", "category", "keep" if rng.random() < 0.2 else "error")) for n in names}
    rules = [{n: rng.randrange(sizes[n]) for n in rng.sample(names, 2)} for _ in range(rng.random() < 0.4)]
    book = "".join(
        f'[[variables]]\nname = "{n}"\nrole = "key"\nmissing = "{policy[n]}"\n'
        f"categories = {[f'{n}{k}' for k in range(sizes[n])]}\n"
        for n in names
    )
    book += "".join("[[rules]]\n" + "".join(f'{n} = "{n}{k}"\n' for n, k in rule.items()) for rule in rules)
    (folder / "codebook.toml").write_text(book)
    total = {n: sizes[n] + (policy[n] == "category") for n in names}
    kept = {n for n in names if policy[n] == "keep"}
    cells = [x for x in records_of(total, kept) if not any(forbids(rule, x) for rule in rules)]
    records = rng.choices(cells, [rng.random() ** 2 for _ in cells], k=rng.choice((40, 200)))
    lines = [",".join("" if k in (-1, sizes[n]) else f"{n}{k}" for n, k in x.items()) for x in records]
    (folder / "survey.csv").write_text("\n".join([",".join(names), *lines, ""]))
    family = rng.choice((*FAMILIES, "differential", "differential", "differential"))
    pool = rng.sample(names[:-1], 1 if family == "metric" else len(names) - 1)
    text = f"[source]\nfile = 'survey.csv'\ncodebook = 'codebook.toml'\n[privacy]\n{RECORD[family]}\n"
    while pool:
        count = 1 if pool[0] in kept else rng.choice((1, 1, 2))
        model, levels = rng.choice(FAMILIES[family])
        text += f"[[blocks]]\nvariables = {pool[:count]}\nprivacy = {{ {model % rng.choice(levels)} }}\n"
        text += DESIGN.get(family, "")
        if family == "differential":
            text += rng.choice(("", "prior = 'file'\n", "prior = 'dp'\nprior_epsilon = 0.1\n"))
            text += rng.choice(("", "", "given = ['g']\n", f"rarer_than = {rng.choice((5, 50))}\n"))
        pool = pool[count:]
    (folder / "plan.toml").write_text(text)
    return total, kept, rules, Counter(tuple(x.items()) for x in records)


def records_of(total, kept):
    codes = (range(-1 if n in kept else 0, size) for n, size in total.items())
    return [dict(zip(total, x, strict=True)) for x in itertools.product(*codes)]


def forbids(rule, x):
    return all(x[n] == k for n, k in rule.items())


class Law:
    """One block of ``mechanism.json``: which of its variables' codes are released, in units of 2^-53."""

    def __init__(self, entry, total):
        self.names, given = entry["variables"], entry.get("given", [])
        self.weights = entry["weights"]
        cells = entry.get("cells") or itertools.product(*(range(total[n]) for n in self.names))
        self.cells = {tuple(c): k for k, c in enumerate(cells)}
        self.own = [n for n in self.names if n not in given]
        self.prior = Fraction(entry.get("prior_epsilon", 0))
        assert len(self.cells) == len(self.weights)
        assert all(sum(row) == UNIT and min(row) >= 0 for row in self.weights)

    def has(self, x):
        cell = tuple(x[n] for n in self.names)
        return cell in self.cells or cell == (-1,)

    def released(self, x):
        cell = tuple(x[n] for n in self.names)
        if cell == (-1,):
            return {cell: UNIT}
        row = self.weights[self.cells[cell]]
        found = [(dict(zip(self.names, c, strict=True)), row[k]) for c, k in self.cells.items() if row[k]]
        assert all(z[n] == x[n] for z, _ in found for n in self.names if n not in self.own)
        return {tuple(z[n] for n in self.own): w for z, w in found}


def joint(laws, x):
    """P(release | x) of blocks that draw independently, in units of 2^-53 to the power of their number."""
    found = {(): 1}
    for law in laws:
        part = law.released(x)
        found = {z + y: p * w for z, p in found.items() for y, w in part.items()}
    return found


def largest_ratio(laws, domain, within):
    """Return max P(z|x)/P(z|x') over records that differ in what ``laws`` perturb, None where it is infinite.

    ``within``: over records that a chain of common releases joins.
    """
    own = {n for law in laws for n in law.own}
    groups: dict = {}
    for x in domain:
        rest = tuple(k == -1 if n in own else k for n, k in x.items())  # which values are missing, too
        groups.setdefault(rest, []).append(joint(laws, x))
    best = Fraction(1)
    for rows in groups.values():
        label = list(range(len(rows)))
        for i, k in itertools.combinations(range(len(rows)), 2):
            if not within or rows[i].keys() & rows[k].keys():
                label = [label[i] if c == label[k] else c for c in label]
        for c in set(label):
            members = [row for row, own_label in zip(rows, label, strict=True) if own_label == c]
            for z in set().union(*members):
                masses = [row.get(z, 0) for row in members]
                if not min(masses):
                    return None
                best = max(best, Fraction(max(masses), min(masses)))
    return best


def shortest(edges, size):
    apart = {(i, k): 0.0 if i == k else math.inf for i, k in itertools.product(range(size), repeat=2)}
    for i, k, length in edges:
        apart[i, k] = apart[k, i] = length
    for by, i, k in itertools.product(range(size), repeat=3):
        apart[i, k] = min(apart[i, k], apart[i, by] + apart[by, k])
    return apart


def ln(ratio):
    return mpmath.log(ratio.numerator) - mpmath.log(ratio.denominator)


def check_claim(claim, laws, domain, records):
    """Hold one entry of a certificate against the definition of its model."""
    touched = [law for law in laws if set(law.own) & set(claim["variables"])]
    options, level = claim["privacy"], claim["level"]
    if options["model"] == "differential":
        ratio = largest_ratio(touched, domain, claim.get("within", False))
        assert ratio is not None
        spent = ln(ratio) + sum(mpmath.mpf(law.prior.numerator) / law.prior.denominator for law in touched)
        assert spent <= level <= spent * (1 + mpmath.mpf(10) ** -12) + mpmath.mpf(10) ** -15
        assert spent <= options["epsilon"]
    elif options["model"] == "bistochastic":
        assert all(sum(column) == UNIT for law in touched for column in zip(*law.weights, strict=True))
        shares = [(mpmath.mpf(w) / UNIT, len(law.weights)) for law in touched for row in law.weights for w in row if w]
        entropy = -sum(p * mpmath.log(p) / size for p, size in shares)
        assert max(level, options["beta"]) <= entropy / sum(mpmath.log(len(law.weights)) for law in touched)
    elif options["model"] == "metric":
        (law,) = touched
        apart = shortest(options["edges"], len(law.weights))
        for i, k in itertools.permutations(range(len(law.weights)), 2):
            ratio = max(Fraction(a, b) for a, b in zip(law.weights[i], law.weights[k], strict=True) if a)
            assert ln(ratio) <= min(level, options["epsilon"]) * apart[i, k]
    else:
        assert options["model"] == "recognition"
        own = [n for law in touched for n in law.own]
        strata = [n for law in touched for n in law.names if n not in law.own]
        for name in own:
            shown: dict = defaultdict(Counter)  # by what is seen together: how likely a record of each type shows it
            for key in records:
                x = dict(key)
                for z, p in joint(touched, x).items():
                    shown[z[own.index(name)], *(x[n] for n in strata)][key] += p
            for found in shown.values():
                everyone = sum(records[key] * p for key, p in found.items())
                assert Fraction(max(found.values()), everyone) <= Fraction(str(options["alpha"]))
    return options["model"] + " within" * claim.get("within", False)


@pytest.mark.filterwarnings("ignore::postrand.designers.DesignWarning")
def test_no_certificate_claims_more_than_its_integers_give(tmp_path):
    """Every claim, the account and the rules of 60 random plans; ε is not only a bound, but what is attained."""
    rng, certified, seen = random.Random(20), 0, Counter[str]()
    for number in range(PLANS):
        folder = tmp_path / str(number)
        folder.mkdir()
        total, kept, rules, records = write_plan(rng, folder)
        try:
            plan = load_plan(folder / "plan.toml")
            known = Known.of(plan, LocalEngine(threads=1))
            mechanism = mechanism_of(plan, design_blocks(plan, known), known)
            found = certify(mechanism, claims_of(plan, mechanism, known)).to_dict()
        except PostrandError:
            continue
        certified += 1
        laws = [Law(entry, total) for entry in json.loads(json.dumps(mechanism.to_dict()))["blocks"]]
        feasible = [x for x in records_of(total, kept) if not any(forbids(rule, x) for rule in rules)]
        domain = [x for x in feasible if all(law.has(x) for law in laws)]
        with mpmath.workdps(40):
            for claim in found["claims"]:
                seen[check_claim(claim, laws, domain, records)] += 1
            if found["account"]["total"] is not None:
                priors = sum(law.prior for law in laws)
                ratio = largest_ratio(laws, domain, within=True)
                assert ln(ratio) + mpmath.mpf(priors.numerator) / priors.denominator <= found["account"]["total"]
        for x in domain:
            own = [n for law in laws for n in law.own]
            assert not any(forbids(rule, x | dict(zip(own, z, strict=True))) for rule in rules for z in joint(laws, x))
    assert certified >= PLANS // 3
    models = ("differential", "differential within", "bistochastic", "metric", "recognition")
    assert min(seen[name] for name in models) >= 2
