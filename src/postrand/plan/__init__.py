"""The plan: all decisions of a curator, in one TOML file.

Public names stand in ``__init__.pyi`` and are loaded on first use: who drafts a column needs no plan.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
