"""Disclosure risk of microdata before and after perturbation, one file for each measure.

>>> from postrand import risk
>>> risk.assess({"sex": ["F", "M", "M"]}, ["sex"], sampling_fraction=0.1, model="independence").sample_uniques
1

Public names stand in ``__init__.pyi`` and are loaded on first use: most commands need few of them.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
