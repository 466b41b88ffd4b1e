"""Loads a file of the repository that is in no package, such as a benchmark."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from paths import ROOT


def loaded(path: str) -> ModuleType:
    """The file's module, with the modules beside it, and `sys.path` as it was."""
    spec = importlib.util.spec_from_file_location(Path(path).stem, ROOT / path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    before, sys.modules[spec.name] = list(sys.path), module
    sys.path.insert(0, str((ROOT / path).parent))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path[:] = before
    return module
