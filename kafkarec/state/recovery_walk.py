"""Iterates over a segment's batches as a broker's recovery does: checks framing and CRCs, decodes only control batches.

Yields columns of some thousand batches at a time, in constant memory. The file is read a second time, in windows, for
the checksums; LogSegment.recover calls ensureValid, which checks nothing else.
"""

from __future__ import annotations

import binascii
from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

from crc32c import crc32c

from kafkarec.damage import Damage, sentence
from kafkarec.state.producers import Marker, read_markers
from kafkarec.tables.records import BatchTable

COLUMNS = (
    "position",
    "size_in_bytes",
    "magic",
    "crc",
    "base_offset",
    "last_offset",
    "max_timestamp",
    "partition_leader_epoch",
    "is_control",
    "is_transactional",
    "producer_id",
    "producer_epoch",
    "base_sequence",
    "last_sequence",
)
_WINDOW = 1 << 20
_LARGEST_MARKER = 1 << 20
# Magic -> where in the batch the bytes under the checksum begin, directly after the CRC field.
CHECKED_FROM = {2: 21, 1: 16, 0: 16}


class ScannableSegment(Protocol):
    """The attributes of storage.Segment that are used here."""

    @property
    def path(self) -> str: ...
    def scan_pieces(self, *, errors: str = "raise") -> Iterator[BatchTable]: ...
    def raw(self, position: int, length: int) -> bytes: ...


class GoodBatches(NamedTuple):
    """Consecutive good batches, a list per name of COLUMNS; markers: position of a control batch -> its marker (None:
    it has none); damage: before, between and after them; remaining: bytes of the tail."""

    columns: dict[str, list[Any]]
    markers: dict[int, Marker | None]
    damage: tuple[Damage, ...]
    remaining: int


class _Window:
    """Reads a file in windows of at most _WINDOW bytes, for ascending positions."""

    def __init__(self, segment: ScannableSegment) -> None:
        self._segment = segment
        self._start = 0
        self._bytes = memoryview(b"")

    def _read(self, position: int, length: int) -> bytes:
        """Reads a window; if that fails, as with a bad sector in it, only the bytes that are needed now."""
        try:
            return self._segment.raw(position, _WINDOW)
        except OSError:
            self._bytes = memoryview(b"")
            return self._segment.raw(position, min(length, _WINDOW))

    def pieces(self, position: int, length: int) -> Iterator[memoryview]:
        """The bytes [position, position + length), in one or several pieces; fewer if the file shrank."""
        while length > 0:
            at = position - self._start
            if not 0 <= at < len(self._bytes):
                self._start, at = position, 0
                self._bytes = memoryview(self._read(position, length))
            piece = self._bytes[at : at + length]
            if not piece:
                return
            yield piece
            position += len(piece)
            length -= len(piece)


def walk(segment: ScannableSegment, check_crcs: bool = True) -> Iterator[GoodBatches]:
    """Yields the good batches of a segment. Batches with a wrong checksum or unreadable bytes are damage."""
    window = _Window(segment)
    for table in segment.scan_pieces(errors="skip"):
        columns = {name: table.column(name) for name in COLUMNS}
        damage = list(table.damage)
        good = []
        if check_crcs:
            for row in range(len(table)):
                found = _crc_damage(segment, window, {name: columns[name][row] for name in COLUMNS[:6]})
                if found is None:
                    good.append(row)
                else:
                    damage.append(found)
            if len(good) < len(table):
                columns = {name: [values[row] for row in good] for name, values in columns.items()}
        yield GoodBatches(columns, _markers(segment, window, columns), tuple(damage), table.remaining)


def _crc_damage(segment: ScannableSegment, window: _Window, row: dict[str, Any]) -> Damage | None:
    """The damage of a batch with a wrong checksum or unreadable bytes; None: its checksum is right."""
    skipped = CHECKED_FROM[row["magic"]]
    checksum = crc32c if row["magic"] == 2 else binascii.crc32
    computed, left = 0, row["size_in_bytes"] - skipped
    why = "the file ends here by now"
    try:
        for piece in window.pieces(row["position"] + skipped, left):
            computed = checksum(piece, computed)
            left -= len(piece)
    except OSError as error:
        left, why = max(left, 1), error.strerror or str(error)
    if not left and computed == row["crc"]:
        return None
    fault = {
        "position": row["position"],
        "base_offset": row["base_offset"],
        "expected": row["crc"],
        "found": computed,
        "file": segment.path,
    }
    reason = "unreadable" if left else "crc_mismatch"
    text = sentence(reason, fault | {"detail": why} if left else fault)
    end = row["position"] + row["size_in_bytes"]
    return Damage(
        segment.path, row["position"], row["size_in_bytes"], row["base_offset"], row["last_offset"], end, reason, text
    )


def _markers(segment: ScannableSegment, window: _Window, columns: dict[str, list[Any]]) -> dict[int, Marker | None]:
    """The markers of the control batches with a producer id. An unreadable one is None: whether its transaction ended
    is unknown, and `verify` reports it."""
    found: dict[int, Marker | None] = {}
    positions: list[int] = []
    batches: list[bytes] = []
    gathered = 0
    rows = zip(
        columns["position"], columns["size_in_bytes"], columns["is_control"], columns["producer_id"], strict=True
    )
    for position, size, is_control, producer_id in rows:
        if not is_control or producer_id is None or producer_id < 0 or size > _LARGEST_MARKER:
            continue
        try:
            batches.append(b"".join(window.pieces(position, size)))
        except OSError:
            continue
        positions.append(position)
        gathered += size
        if gathered > _LARGEST_MARKER:
            found |= zip(positions, read_markers(batches), strict=True)
            positions, batches, gathered = [], [], 0
    return found | dict(zip(positions, read_markers(batches), strict=True))
