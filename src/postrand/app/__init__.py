"""The workbench: a local web application for a curator to see risk and utility, to decide, and to release.

Values and pure functions contain all logic: ``decisions`` (the decisions), ``forms`` (families as forms), ``documents``
(decisions as codebook, plan and command line), ``computations`` (computations), ``views`` and ``charts`` (output).
``server`` and ``launch`` only connect them to the browser.
"""
