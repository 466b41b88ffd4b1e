"""Refuses the import of a source folder that is not compiled, with what to do, at the import of the package."""

import os
from importlib.machinery import PathFinder

_PACKAGE = os.path.dirname(os.path.abspath(__file__))
_CHECKOUT = os.path.dirname(_PACKAGE)

if os.path.exists(os.path.join(_CHECKOUT, "setup.py")) and PathFinder.find_spec("kafkarec._core", [_PACKAGE]) is None:
    raise ImportError(
        f"this is kafkarec's source folder, not compiled: run `make build` in {_CHECKOUT}, or start Python elsewhere",
        name="kafkarec",  # `python -m kafkarec` prints one line, no traceback, where the package itself is not there
    )
