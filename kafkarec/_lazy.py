"""What is made on first use: names of packages, so that `kafkarec --help` and an import of the package are fast, and
properties."""

from __future__ import annotations

import sys
from importlib import import_module

TYPE_CHECKING = False  # as in kafkarec/__init__.py
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from functools import cached_property as cached_property
    from typing import Any
else:

    class cached_property:
        """As functools.cached_property, which in Python 3.11 holds a lock for all instances: a process that is forked
        while another thread computes the value waits for it for ever. Of threads that compute a value at the same
        time, one gives it to all.
        """

        def __init__(self, compute):
            self.func, self.__doc__ = compute, compute.__doc__

        def __set_name__(self, owner, name):
            self._name = name

        def __get__(self, instance, owner=None):
            return self if instance is None else instance.__dict__.setdefault(self._name, self.func(instance))


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
