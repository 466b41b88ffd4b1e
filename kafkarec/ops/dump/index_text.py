"""An .index or .timeindex file as text, compared with its log

Kafka maps the whole file and reads every slot as an entry, including the zeros that a broker preallocates, up to the
first later slot with the segment's base offset; an incomplete last slot is ignored (AbstractIndex). The layouts are in
`kafkarec.sidecars.offset_index` and `time_index`.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple, NoReturn

from kafkarec.format.java_integers import INT_MAX, wrapped
from kafkarec.format.layout import BATCH_MAGIC, UP_TO_MAGIC, V2_AT, V2_OVERHEAD, v2_header
from kafkarec.sidecars.offset_index import OffsetEntry, OffsetIndex
from kafkarec.sidecars.time_index import TimeEntry, TimeIndex
from kafkarec.sources.files import ByteSource

from .batch_lines import DumpedBatch, batch_line
from .batch_reader import FilePiece, Frame, WalkToEnd, pieces, refuse
from .messages01 import messages, timestamp_of
from .mismatches import Mismatches
from .record_columns import whole_batch

_KEPT = 16 << 20
_WARM_BYTES = 8192


class Slots:
    """The slots of an index file. A file of up to 16 MiB is held in memory; of a larger one each slot is read."""

    def __init__(self, source: ByteSource, layout: Struct, base_offset: int) -> None:
        self._source, self._layout = source, layout
        self.base_offset = base_offset
        self.count = min(source.size, INT_MAX) // layout.size
        self._kept = source.read_at(0, source.size) if source.size <= _KEPT else b""

    def __getitem__(self, slot: int) -> tuple[int, ...]:
        size = self._layout.size
        if self._kept:
            return self._layout.unpack_from(self._kept, slot * size)
        return self._layout.unpack(self._source.read_at(slot * size, size))


class OffsetSlots(Slots):
    """The slots of an .index file."""

    def __init__(self, source: ByteSource, base_offset: int) -> None:
        super().__init__(source, OffsetIndex.layout, base_offset)

    def entry(self, slot: int) -> OffsetEntry:
        relative, position = self[slot]
        return OffsetEntry(self.base_offset + relative, position)

    def position_for(self, offset: int) -> int:
        """OffsetIndex.lookup: searches the last 8 KiB first, which changes the result if zeros follow the entries."""
        if not self.count:
            return 0
        last = self.count - 1
        hot = max(0, last - _WARM_BYTES // OffsetIndex.layout.size)
        if self.entry(hot).offset < offset:
            return self._search(offset, hot, last)
        if self.entry(0).offset > offset:
            return 0
        return self._search(offset, 0, hot)

    def _search(self, offset: int, low: int, high: int) -> int:
        while low < high:
            middle = (low + high + 1) >> 1
            entry = self.entry(middle)
            if entry.offset == offset:
                return entry.position
            if entry.offset > offset:
                high = middle - 1
            else:
                low = middle
        return self.entry(low).position


class TimeSlots(Slots):
    """The slots of a .timeindex file."""

    def __init__(self, source: ByteSource, base_offset: int) -> None:
        super().__init__(source, TimeIndex.layout, base_offset)

    def entry(self, slot: int) -> TimeEntry:
        timestamp, relative = self[slot]
        return TimeEntry(timestamp, self.base_offset + relative)


class Checked(NamedTuple):
    """An index file with its log and the options that apply.

    display_path, path   the file's path as printed in a line, and the absolute one printed above mismatches
    sanity        only the check that a broker makes when it starts (--index-sanity-check)
    verify        prints mismatches only (--verify-index-only)
    """

    file: ByteSource
    log: ByteSource
    display_path: str
    path: str
    base_offset: int
    sanity: bool
    verify: bool


def offset_index_text(checked: Checked, max_message_size: int, mismatches: Mismatches) -> Iterator[str]:
    """The lines of an .index file."""
    slots = OffsetSlots(checked.file, checked.base_offset)
    if not slots.count:
        yield f"{checked.display_path} is empty.\n"
        return
    if checked.sanity:
        _sane(checked, OffsetIndex.layout.size, slots.entry(slots.count - 1).offset)
        yield f"{checked.display_path} passed sanity check.\n"
        return
    for number in range(slots.count):
        entry = slots.entry(number)
        if number and entry.offset == checked.base_offset:
            return
        found = _batch_at(checked, entry, max_message_size)
        if found != entry.offset:
            mismatches.add("index_mismatch", checked.path, entry.offset, found)
        if not checked.verify:
            yield f"offset: {entry.offset} position: {entry.position}\n"


def time_index_text(checked: Checked, index: ByteSource, mismatches: Mismatches, limit: int) -> Iterator[str]:
    """The lines of a .timeindex file; `index`: the .index file of the same segment."""
    offsets = OffsetSlots(index, checked.base_offset)
    times = TimeSlots(checked.file, checked.base_offset)
    last = times.entry(times.count - 1) if times.count else None
    if checked.sanity:
        if last is not None and last.timestamp < times.entry(0).timestamp:
            _broken(checked, f"the last timestamp {last.timestamp} is below the first, {times.entry(0).timestamp}")
        _sane(checked, TimeIndex.layout.size, checked.base_offset if last is None else last.offset)
        yield f"{checked.display_path} passed sanity check.\n"
        return
    ends = WalkToEnd(checked.log)
    previous = -1
    for number in range(times.count):
        entry = times.entry(number)
        if number and entry.offset == checked.base_offset:
            return
        _compare(checked, entry, offsets.position_for(entry.offset), previous, mismatches, ends, limit)
        if not checked.verify:
            yield f"timestamp: {entry.timestamp} offset: {entry.offset}\n"
        previous = entry.timestamp


def _compare(
    checked: Checked,
    entry: TimeEntry,
    position: int,
    previous: int,
    mismatches: Mismatches,
    ends: WalkToEnd,
    limit: int,
) -> None:
    log = checked.log
    _inside(checked, entry.offset, position)
    ends.walk(position)
    for piece in pieces(log, position, log.size, 1 << 16):
        for frame in piece.frames:
            found = _last_offset(log, piece, frame)
            if found < entry.offset:
                continue
            if found != entry.offset:
                mismatches.add("offset_missing", checked.path, entry.offset, found)
                return
            latest = _latest(log, piece, frame, limit)
            if latest != entry.timestamp:
                mismatches.add("time_mismatch", checked.path, entry.timestamp, latest)
            if previous >= entry.timestamp:
                mismatches.add("time_order", checked.path, entry.timestamp, previous)
            return
    mismatches.add("offset_missing", checked.path, entry.offset, -1)


def _latest(log: ByteSource, piece: FilePiece, frame: Frame, limit: int) -> int:
    """The largest timestamp of a batch's records; -1 without records."""
    if frame.magic >= BATCH_MAGIC:
        if frame.size < V2_OVERHEAD:
            _too_small(log, piece, frame)
        if not any(piece.data[frame.at + V2_AT.record_count : frame.at + V2_OVERHEAD]):
            return -1
    batches: list[DumpedBatch] = []
    for _ in batch_line(log, piece, frame, batches):
        pass
    batch = batches[0]
    if batch.magic < BATCH_MAGIC:
        return max(-1, *(timestamp_of(log, batch, message) for message in messages(log, batch, limit)))
    return max(-1, *(max(rows.timestamps) for rows in whole_batch(log, batch, limit)))


def _last_offset(log: ByteSource, piece: FilePiece, frame: Frame) -> int:
    """The last offset by the header, which includes bytes after the batch if the batch is too small."""
    if frame.magic < BATCH_MAGIC:
        return frame.offset
    position = piece.position + frame.at
    whole = frame.size >= V2_OVERHEAD
    header = piece.data[frame.at : frame.at + V2_OVERHEAD] if whole else log.read_at(position, V2_OVERHEAD)
    if len(header) < V2_OVERHEAD:
        _too_small(log, piece, frame)
    return wrapped(frame.offset + v2_header(header).last_offset_delta, 64)


def _batch_at(checked: Checked, entry: OffsetEntry, max_message_size: int) -> int:
    """The last offset of the batch to which an entry points."""
    log, position = checked.log, entry.position
    _inside(checked, entry.offset, position)
    end = min(log.size, position + max_message_size)
    for piece in pieces(log, position, end, UP_TO_MAGIC):
        return _last_offset(log, piece, piece.frames[0])
    _broken(
        checked,
        f"offset {entry.offset} points at byte {position} of the log, where no batch of up to {max_message_size} bytes "
        "begins (--max-message-size)",
    )


def _inside(checked: Checked, offset: int, position: int) -> None:
    if not 0 <= position <= checked.log.size:
        _broken(checked, f"offset {offset} points at byte {position}, but the log has {checked.log.size} bytes")


def _sane(checked: Checked, entry_size: int, last_offset: int) -> None:
    if last_offset < checked.base_offset:
        _broken(checked, f"the last entry's offset {last_offset} is below the base offset {checked.base_offset}")
    if checked.file.size % entry_size:
        _broken(checked, f"its size, {checked.file.size} bytes, is not a multiple of the entry size, {entry_size}")


def _broken(checked: Checked, detail: str) -> NoReturn:
    refuse("index_invalid", checked.file, 0, detail)


def _too_small(log: ByteSource, piece: FilePiece, frame: Frame) -> NoReturn:
    position = piece.position + frame.at
    refuse("batch_too_small", log, position, offset=frame.offset, expected=V2_OVERHEAD, found=frame.size)
