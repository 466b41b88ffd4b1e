"""Names of packages that are imported on first use, so that `kafkarec --help` and an import of the package are fast."""

from __future__ import annotations

import sys
from importlib import import_module

TYPE_CHECKING = False  # as in kafkarec/__init__.py
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any


def lazy_getattr(public: str, modules: Mapping[str, Sequence[str]], package: str | None = None) -> Callable[[str], Any]:
    """Return the __getattr__ (PEP 562) of the module `public`: module -> its names; none: the module itself.

    package: the one that the modules are in; None: `public`
    """
    places = {name: module for module, names in modules.items() for name in names}
    places |= {module.rpartition(".")[2]: module for module, names in modules.items() if not names}

    def __getattr__(name: str) -> Any:
        if name not in places:
            raise AttributeError(f"module {public!r} has no attribute {name!r}")
        found = import_module(f"{package or public}.{places[name]}")
        if modules[places[name]]:
            found = getattr(found, name)
        setattr(sys.modules[public], name, found)  # so that this function is called once for each
        return found

    return __getattr__
