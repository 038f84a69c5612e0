"""The HTML report of a release: one self-contained page, a pure function of the release's other files.

Public names stand in ``__init__.pyi`` and are loaded on first use: the library of the templates is slow to load.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
