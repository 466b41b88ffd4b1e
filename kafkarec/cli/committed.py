"""read_committed over a log of several segments: who aborted, and how far the log is stable.

A transaction may begin in one segment and end in the next, so one file's markers are not enough. All batch
headers are scanned first, and of the payloads only those of control batches are read.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import kafkarec
from kafkarec.control import ControlRecordType
from kafkarec.errors import KafkaRecordError

from . import arrow_c
from .inputs import Source, opened

_NEVER = (1 << 63) - 1
_FIELDS = (
    "position",
    "size_in_bytes",
    "base_offset",
    "last_offset",
    "is_transactional",
    "is_control",
    "producer_id",
)


class _Aborted(NamedTuple):
    producer_id: int
    first_offset: int
    marker_offset: int


class Log:
    """What the markers of a whole log say, as options of `decode` for each of its segments."""

    def __init__(self, sources: Iterable[Source]) -> None:
        self._aborted: list[_Aborted] = []
        self._open: dict[int, int] = {}  # producer id -> first offset of its transaction
        self._range: dict[str, tuple[int, int]] = {}  # path -> lowest and highest offset
        for source in sources:
            with opened(source) as view:
                self._read(source, view)

    def options(self, source: Source) -> dict[str, Any]:
        """`aborted` is what overlaps the segment: one that ended before it would seem to go on in it."""
        low, high = self._range[source.path]
        return {
            "aborted": [
                (txn.producer_id, txn.first_offset)
                for txn in self._aborted
                if txn.marker_offset >= low and txn.first_offset <= high
            ],
            "last_stable_offset": min(self._open.values(), default=_NEVER),
        }

    def _read(self, source: Source, view: memoryview) -> None:
        low, high = _NEVER, -1
        for chunk in arrow_c.chunks(kafkarec.scan(view, errors="skip", _file=source.name)):
            columns = [chunk.columns[name].objects() for name in _FIELDS]
            for position, size, first, last, transactional, control, producer in zip(*columns, strict=True):
                first = last if first is None else first
                low, high = min(low, first), max(high, last)
                if not transactional:
                    continue
                if not control:
                    self._open.setdefault(producer, first)
                else:
                    self._end(producer, last, marker_type(view[position : position + size]))
        self._range[source.path] = (low, high)

    def _end(self, producer: int, marker_offset: int, kind: int | None) -> None:
        if kind not in (ControlRecordType.ABORT, ControlRecordType.COMMIT):
            return
        first = self._open.pop(producer, None)
        if first is not None and kind == ControlRecordType.ABORT:
            self._aborted.append(_Aborted(producer, first, marker_offset))


def marker_type(batch: memoryview) -> int | None:
    """The raw type of the first record of a control batch: it alone decides. None: empty or unreadable."""
    try:
        records = kafkarec.decode(batch, columns=["control_type"], control=True)
    except KafkaRecordError:
        return None
    for chunk in arrow_c.chunks(records):
        if chunk.length:
            kind: int | None = chunk.columns["control_type"].numbers()[0]
            return kind
    return None
