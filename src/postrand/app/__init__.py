"""The workbench: a local web application in which a curator sees risk and utility, decides, and releases.

Values and pure functions hold all logic: ``bench`` (what was decided), ``forms`` (families as forms), ``documents``
(decisions as codebook, plan and command line), ``studies`` (what is computed), ``views`` and ``charts`` (what is
shown). ``server`` and ``launch`` only connect them to the browser.
"""
