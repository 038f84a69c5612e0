"""Completed files: copies of the released file with true values drawn given the released ones, for any software.

Public names stand in ``__init__.pyi`` and are loaded on first use: the model is slow to load, and few commands fit it.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
