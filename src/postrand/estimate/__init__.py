"""Correct inference from a release: the analyst has the data, the matrices and nothing else.

Public names stand in ``__init__.pyi`` and are loaded on first use: most questions need few of them.
"""

from __future__ import annotations

import warnings
from typing import Any

import lazy_loader

_current, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

_FORMER = {"test_goodness_of_fit": "goodness_of_fit_test", "test_independence": "independence_test"}


def __getattr__(name: str) -> Any:
    """Return a public name, or what is asked for by its former name: one that pytest takes for a test of its own."""
    if name in _FORMER:
        warnings.warn(f"estimate.{name} is now estimate.{_FORMER[name]}", DeprecationWarning, stacklevel=2)
    elif name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _current(_FORMER.get(name, name))
