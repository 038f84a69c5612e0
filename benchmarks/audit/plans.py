"""Plans and codebooks of the cases, in few words."""

import json


def variable(name, categories=(), role="key", **more):
    """Return the entry of a variable of a codebook."""
    told = {"name": name, "role": role, **({"categories": list(categories)} if categories else {}), **more}
    lines = [f"{option} = {json.dumps(value)}" for option, value in told.items()]
    return "\n".join(["[[variables]]", *lines, ""])


def plan(privacy, *parts, as_is=("serial",), release=""):
    """Return a plan without its source: a claim on the record, blocks or a split, and what else there is."""
    released = f"[release]\nas_is = {json.dumps(list(as_is))}\n{release}"
    return "\n".join([f"[privacy]\n{_lines(privacy)}", *parts, released])


def _lines(options):
    return "\n".join(f"{name} = {_toml(value)}" for name, value in options.items()) + "\n"


def _toml(value):
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{name} = {_toml(held)}" for name, held in value.items()) + " }"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(value)


def dp(epsilon):
    """Return ε-differential privacy as options."""
    return {"model": "differential", "epsilon": epsilon}


def block(*variables, **options):
    """Return a block of a plan."""
    return f"[[blocks]]\n{_lines({'variables': list(variables), **options})}"


def claim(**options):
    """Return one more claim of a plan."""
    return f"[[claims]]\n{_lines(options)}"


def section(name, **options):
    """Return a section of a plan."""
    return f"[{name}]\n{_lines(options)}"


def one(**values):
    """Return a unit of one record."""
    return (values,)


SEX, REGION = variable("sex", "FM"), variable("region", "abcd", missing="category")
HOUSE = variable("hid", role="household", type="int64")
