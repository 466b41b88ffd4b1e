"""Checks of the payloads of good batches for anomalies that Kafka accepts without an error.

Batches are decoded before; here the bytes of some are read again: of compressed ones, messages of magic 0 and 1,
control batches, and batches with a record count of 0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from kafkarec.codecs import CodecError, decompress
from kafkarec.codecs.anomalies import oddities

from . import marker_checks, message_checks, record_checks
from .batch_columns import BatchColumns
from .findings import FindingNotes, FindingPlace
from .header_checks import HEADER_BYTES

Raw = Callable[[int, int], Any]
_AHEAD = 1 << 20


class PayloadCheckOptions(NamedTuple):
    """deep: check every record of magic 2 byte by byte; limit: max decompressed bytes of a payload."""

    deep: bool
    limit: int


class ReadAhead:
    """Reads ranges of a file about 1 MiB ahead, as batches are adjacent. `until`: end of reading ahead."""

    def __init__(self, read: Raw) -> None:
        self._read = read
        self._start = 0
        self.until = 0
        self._block = memoryview(b"")

    def __call__(self, position: int, length: int) -> memoryview:
        """The bytes of a range; fewer only if the file ends or cannot be read."""
        at = position - self._start
        if at < 0 or at + length > len(self._block):
            self._start, at = position, 0
            try:
                self._block = memoryview(self._read(position, max(length, min(_AHEAD, self.until - position))))
            except OSError:
                # Reading ahead may reach a bad sector after the batch.
                self._block = memoryview(self._read(position, length))
        return self._block[at : at + length]


def check(rows: BatchColumns, raw: Raw, options: PayloadCheckOptions, notes: FindingNotes) -> None:
    """Checks all good batches of one piece. Skips a batch that cannot be read a second time."""
    if not len(rows):
        return
    codecs, magics = rows.codec_ids(), rows["magic"]
    counts, controls = rows["record_count"], rows["is_control"]
    if not (options.deep or any(codecs) or any(controls) or 0 in counts or min(magics) < 2):
        return
    controls_here: list[tuple[memoryview, FindingPlace]] = []
    columns = zip(rows["position"], rows["size_in_bytes"], codecs, magics, counts, controls, strict=True)
    for row, (position, size, codec, magic, count, is_control) in enumerate(columns):
        empty = magic == 2 and size == HEADER_BYTES
        if empty or not (options.deep or codec or is_control or count == 0 or magic < 2):
            continue
        try:
            batch = raw(position, size)
        except OSError:
            continue
        if len(batch) < size:
            continue
        place = rows.place(row)
        if magic < 2:
            _legacy(batch, magic, codec, options, notes, place)
        else:
            _modern(batch, codec, count, options, notes, place)
        if is_control and count:
            controls_here.append((batch, place))
    marker_checks.check(controls_here, notes)


def _modern(
    batch: memoryview, codec: int, count: int, options: PayloadCheckOptions, notes: FindingNotes, place: FindingPlace
) -> None:
    payload: Any = bytes(batch[HEADER_BYTES:]) if codec else batch[HEADER_BYTES:]
    if count == 0:
        _check_ignored_payload(payload, codec, options, notes, place)
        return
    for kind, detail in oddities(codec, payload, options.limit):
        notes.add(kind, detail, place)
    if not options.deep:
        return
    try:
        content = decompress(codec, payload, options.limit) if codec else payload
        kinds = record_checks.walk(content, count)
    except (CodecError, IndexError):
        return  # not what the engine accepted: the file changes while it is read
    for kind in sorted(kinds):
        notes.add(kind, f"in a record of the batch at offset {place.offset}", place)


def _check_ignored_payload(
    payload: Any, codec: int, options: PayloadCheckOptions, notes: FindingNotes, place: FindingPlace
) -> None:
    """Checks the payload of a batch with record count 0, which readers ignore."""
    try:
        size = len(decompress(codec, payload, options.limit))
    except CodecError as error:
        notes.add("count_zero_with_payload", f"no records declared, and a payload that is no stream: {error}", place)
        return
    if size:
        notes.add("count_zero_with_payload", f"no records declared, and {size} bytes of records are there", place)


def _legacy(
    batch: memoryview, magic: int, codec: int, options: PayloadCheckOptions, notes: FindingNotes, place: FindingPlace
) -> None:
    message_checks.check_message(batch, magic, notes, place)
    if not codec:
        return
    payload = bytes(message_checks.value_of(batch, magic))
    for kind, detail in oddities(codec, payload, options.limit):
        notes.add(kind, detail, place)
    try:
        content = decompress(codec, payload, options.limit, magic=magic)
    except CodecError:
        return
    message_checks.check_inner(content, magic, notes, place)
