"""Names of `kafkarec` that are imported on first use, so that importing the package, as in a Spark worker, is fast."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

_BY_PACKAGE = {
    "ops.compact": ("Compacted", "compact"),
    "ops.convert": ("Converted", "LossError", "convert"),
    "ops.salvage": ("SalvageReport", "salvage"),
    "ops.segment_writer": ("SegmentWriter",),
    "ops.study": ("Study", "study"),
    "ops.validate": ("ValidatedRecords", "validate"),
    "ops.verify": ("Report", "verify"),
    "write": ("RecordBatchBuilder", "encode", "estimate_size", "stamp"),
}
_NAMES = {name: package for package, names in _BY_PACKAGE.items() for name in names}
_PACKAGES = {"explain": "ops.explain", "internal_topics": "internal_topics", "sidecars": "sidecars"}


def __getattr__(name: str) -> Any:
    """The module-level __getattr__ of `kafkarec` (PEP 562): called for names that it does not have, once for each."""
    if name in _PACKAGES:
        found: Any = import_module(f"kafkarec.{_PACKAGES[name]}")
    elif name in _NAMES:
        found = getattr(import_module(f"kafkarec.{_NAMES[name]}"), name)
    else:
        raise AttributeError(f"module 'kafkarec' has no attribute {name!r}")
    setattr(sys.modules["kafkarec"], name, found)
    return found
