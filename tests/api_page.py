"""Make docs/api.md from the docstrings: `python -m tests.api_page`. A test compares the page with what is made."""

import importlib
import inspect
import re
from pathlib import Path

PAGE = Path(__file__).resolve().parents[1] / "docs" / "api.md"
ROOMS = (
    "postrand",
    "postrand.estimate",
    "postrand.risk",
    "postrand.completion",
    "postrand.engines",
    "postrand.formats",
)
HEAD = """\
# Reference of the Python interface

Made from the docstrings by `python -m tests.api_page`; do not edit it. `help(name)` in Python shows the whole text of
each name: arguments, formulas, errors and examples. `import postrand as pr` has the names of the first table;
[the analyst's guide](analyst.md) and [how to choose](choosing.md) show them at work. Values such as `Mechanism`,
`Codebook`, `Plan` and `Release` are frozen: functions read them and return new ones.
"""


def first_line(value):
    """Return the first sentence of a docstring, on one line."""
    text = inspect.cleandoc(value.__doc__ or "").split("\n\n")[0]
    text = re.sub(r":[a-z]+:`~?([^`]+)`", r"`\1`", " ".join(text.split()).replace("``", "`"))
    return text.replace("|", "\\|")


def arguments(value):
    """Return the names of the arguments, those with a default in brackets."""
    try:
        held = inspect.signature(value).parameters.values()
    except (TypeError, ValueError):
        return ""
    names: list[str] = []
    for one in held:
        if one.name in ("self", "cls") or one.name.startswith("_"):
            continue
        star = "*" * ((one.kind is one.VAR_POSITIONAL) + 2 * (one.kind is one.VAR_KEYWORD))
        required = one.default is one.empty and not star
        names.append(one.name if required else f"[{star}{one.name}]")
    return ", ".join(names)


def methods(value):
    """Return the public methods and properties that a class itself has."""
    fields = getattr(value, "__dataclass_fields__", {})
    return [name for name in vars(value) if not name.startswith("_") and name not in fields and name != "name"]


def lines_of(room):
    """Yield the lines of one room."""
    module = importlib.import_module(room)
    yield f"\n## `{room}`\n"
    yield first_line(module) + "\n"
    yield "| name | what it is |"
    yield "| --- | --- |"
    for name in sorted(n for n in module.__all__ if not n.startswith("_")):
        value = getattr(module, name)
        if inspect.ismodule(value) or not callable(value) or not getattr(value, "__doc__", None):
            continue
        if getattr(value, "__module__", "").split(".")[0] != "postrand":
            continue
        own = methods(value) if inspect.isclass(value) else []
        more = f" Has {', '.join(f'`{m}`' for m in own)}." if own else ""
        yield f"| `{name}({arguments(value)})` | {first_line(value)}{more} |"


def page():
    """Return the whole page."""
    return HEAD + "\n".join(line for room in ROOMS for line in lines_of(room)) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
