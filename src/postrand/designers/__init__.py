"""Design: the matrix that keeps most, or costs least, under a privacy model, with a bound that proves it.

A new structure is a new file here: a frozen dataclass with ``name``, ``traits`` and ``solve``. It is found by
:func:`postrand.support.options.discover`; no list names it.

Public names stand in ``__init__.pyi`` and are loaded on first use: a plan without splits loads nothing of them.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
