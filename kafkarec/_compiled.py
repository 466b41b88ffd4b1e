"""Refuses the import of a source folder that is not compiled, with what to do, at the import of the package."""

import os

_PACKAGE = os.path.dirname(os.path.abspath(__file__))
_CHECKOUT = os.path.dirname(_PACKAGE)

if os.path.exists(os.path.join(_CHECKOUT, "setup.py")):
    from importlib.machinery import PathFinder

    if PathFinder.find_spec("kafkarec._core", [_PACKAGE]) is None:
        raise ImportError(
            "this is kafkarec's source folder, not compiled: "
            f"run `make build` in {_CHECKOUT}, or start Python elsewhere",
            name="kafkarec",  # `python -m kafkarec` prints one line, no traceback, where the package is not there
        )
