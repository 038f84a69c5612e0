"""postrand: post-randomised microdata with a proven privacy guarantee and the most information kept.

Public names stand in ``__init__.pyi`` and are loaded on first use, so that ``import postrand`` stays quick.
"""

import lazy_loader

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
