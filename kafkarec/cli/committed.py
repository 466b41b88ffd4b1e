"""read_committed over a log of one or several segments: who aborted, and how far the log is stable.

A transaction may begin in one segment and end in the next, so one file's markers are not enough. All batch
headers are scanned first, and of the payloads only those of control batches are read.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import kafkarec
from kafkarec import control
from kafkarec.control import ControlRecordType
from kafkarec.errors import InvalidRecordError, KafkaRecordError

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


@dataclass
class _Transaction:
    """Its data lies between these offsets; its marker behind them, perhaps in a later segment."""

    producer_id: int
    first_offset: int
    last_offset: int


class Log:
    """What the markers of a whole log say, as options of `decode` for each of its segments."""

    def __init__(self, sources: Iterable[Source]) -> None:
        self._aborted: list[_Transaction] = []
        self._open: dict[int, _Transaction] = {}  # by producer id
        self._range: dict[str, tuple[int, int]] = {}  # path -> lowest and highest offset
        for source in sources:
            with opened(source) as view:
                self._read(source, view)

    def options(self, source: Source) -> dict[str, Any]:
        """`aborted` is what has data in the segment: any other would seem to go on all through it."""
        low, high = self._range[source.path]
        return {
            "aborted": [
                (txn.producer_id, txn.first_offset)
                for txn in self._aborted
                if txn.last_offset >= low and txn.first_offset <= high
            ],
            "last_stable_offset": min((txn.first_offset for txn in self._open.values()), default=_NEVER),
        }

    def _read(self, source: Source, view: memoryview) -> None:
        low, high = _NEVER, -1
        for chunk in arrow_c.chunks(kafkarec.scan(view, errors="skip", _file=source.name)):
            columns = [chunk.columns[name].objects() for name in _FIELDS]
            for position, size, first, last, transactional, marks, producer in zip(*columns, strict=True):
                first = last if first is None else first
                low, high = min(low, first), max(high, last)
                if marks:
                    try:
                        kind = marker_type(view[position : position + size])
                    except InvalidRecordError as error:
                        raise _located(error, source, position, first) from None
                    self._end(producer, kind)
                elif transactional:
                    self._open.setdefault(producer, _Transaction(producer, first, last)).last_offset = last
        self._range[source.path] = (low, high)

    def _end(self, producer: int, kind: int | None) -> None:
        if kind not in (ControlRecordType.ABORT, ControlRecordType.COMMIT):
            return
        ended = self._open.pop(producer, None)
        if ended is not None and kind == ControlRecordType.ABORT:
            self._aborted.append(ended)


def _located(error: InvalidRecordError, source: Source, position: int, base_offset: int) -> InvalidRecordError:
    return InvalidRecordError(
        f"read_committed cannot tell who aborted: {source.name} at byte {position} "
        f"(base offset {base_offset}): {error}; --isolation read_uncommitted does not ask",
        reason=error.reason,
        position=position,
        base_offset=base_offset,
        file=source.name,
    )


def marker_type(batch: memoryview) -> int | None:
    """The raw type of the first record of a control batch: it alone decides. None: empty, or damaged.

    InvalidRecordError where the batch is whole and the key cannot be read: nobody knows then who aborted.
    """
    try:
        records = kafkarec.decode(batch, columns=["key"], control=True)
    except KafkaRecordError:
        return None  # damage, which is told when the batch is read in its turn
    for chunk in arrow_c.chunks(records):
        if chunk.length:
            return control.type_id(chunk.columns["key"].blobs()[0])
    return None
