"""Names of the package that are imported when they are asked for: who only decodes, in a Spark worker say, need not
wait for them."""

from __future__ import annotations

from importlib import import_module
from typing import Any

_BY_PACKAGE = {
    "appending": ("SegmentWriter",),
    "checks": ("Report", "verify"),
    "compaction": ("Compacted", "compact"),
    "conversion": ("Converted", "LossError", "convert"),
    "rescue": ("SalvageReport", "salvage"),
    "studying": ("Study", "study"),
    "validation": ("ValidatedRecords", "validate"),
    "writing": ("RecordBatchBuilder", "encode", "estimate_size", "stamp"),
}
_NAMES = {name: package for package, names in _BY_PACKAGE.items() for name in names}
_PACKAGES = ("explain", "indexes", "messages")


def __getattr__(name: str) -> Any:
    """Python asks this of `kafkarec` for every name that it does not have (PEP 562)."""
    if name in _PACKAGES:
        return import_module(f"{__package__}.{name}")
    if name not in _NAMES:
        raise AttributeError(f"module {__package__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__package__}.{_NAMES[name]}"), name)
