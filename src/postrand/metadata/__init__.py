"""Metadata that catalogues read: DDI-Codebook 2.5 and Croissant with RAI, written with a release; labels from DDI.

Public names stand in ``__init__.pyi`` and are loaded on first use: only writing and verifying a release need files.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
