"""Names of packages that are imported on first use, so that `kafkarec --help` and an import of the package are fast."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any


def names_of(package: str, modules: Mapping[str, Sequence[str]]) -> Callable[[str], Any]:
    """Return the module-level __getattr__ (PEP 562) of a package: module -> its names; none: the module itself."""
    places = {name: module for module, names in modules.items() for name in names}
    places |= {module.rpartition(".")[2]: module for module, names in modules.items() if not names}

    def __getattr__(name: str) -> Any:
        if name not in places:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        found: Any = import_module(f"{package}.{places[name]}")
        if modules[places[name]]:
            found = getattr(found, name)
        setattr(sys.modules[package], name, found)  # so that this function is called once for each
        return found

    return __getattr__
