"""Offsets, timestamps and codecs of a segment from its first and last batches, without reading the rest.

    first batch       the first 64 bytes, and the 64 after it, where the next batch begins
    last batches      from the last entry of the .index on (8 bytes of it; at most 4 KiB and a batch of the .log);
                      without an index the last 64 KiB, 1 MiB, 16 MiB, until a batch ends at the file's end
    latest timestamp  the last entry of the .timeindex (12 bytes), and that of the last batches

So the offsets are exact, the codecs are those of the batches read, and damage between these is not found. All headers
are read with `complete`, and where the batches read are damaged or contradict each other: then only those between them
tell which are good. So damage of a file of up to 64 KiB is always found. Of an object in a bucket, most of which that
would fetch, no offsets are given instead.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from contextlib import closing
from copy import deepcopy
from dataclasses import dataclass, field
from struct import Struct
from typing import Any

from kafkarec.format.enums import CODEC_NAMES
from kafkarec.format.java_integers import LONG_MAX
from kafkarec.format.layout import BATCH_MAGIC, CODEC_MASK, LOG_OVERHEAD, batch_length
from kafkarec.read.walk import CHECKSUMS, HEADERS, Want, is_preallocated, walk, walk_request
from kafkarec.recover.steps import Step
from kafkarec.sidecars.offset_index import OffsetIndex
from kafkarec.sidecars.time_index import TimeIndex
from kafkarec.sources.packed import Unpacked
from kafkarec.tables.records import BatchTable

from .segment_file import MAX_OFFSETS, SegmentFile
from .tiered import begins_with_batch

_HEAD = 64
_LEAST_BATCHES = 3
_NOT_AT_START = "no batch at its start"
_TAILS = (64 << 10, 1 << 20, 16 << 20)


@dataclass
class SegmentSummary:
    """The summary of a segment.

    size               bytes of the file; of a .gz or .zst the compressed size
    first_offset       of the first batch; None: no batch at byte 0
    next_offset        after the last batch; None: not found
    first_timestamp    ms, the earliest of the batches read (base timestamps; the append time for log append time)
    max_timestamp      ms, the latest of the batches read and of the time index
    codecs, magics     of the batches read, in order of appearance
    batches, records   counts if complete (a message of magic 0 or 1 counts as one record, also a wrapper), else None
    packed             whether it is a .gz or .zst
    preallocated       bytes of zeros at the end: a preallocated file
    damage             sentences about damage in the bytes read
    notes              further sentences for the listing
    complete           whether all headers were read
    """

    size: int = 0
    first_offset: int | None = None
    next_offset: int | None = None
    first_timestamp: int | None = None
    max_timestamp: int | None = None
    codecs: list[str] = field(default_factory=list)
    magics: list[int] = field(default_factory=list)
    batches: int | None = None
    records: int | None = None
    packed: bool = False
    preallocated: int = 0
    damage: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    complete: bool = False

    def take(self, step: Step) -> None:
        """Adds batches."""
        if not len(step):
            return
        for number in dict.fromkeys(attributes & CODEC_MASK for attributes in step.column("attributes")):
            codec = CODEC_NAMES[number] if number < len(CODEC_NAMES) else f"codec {number}"
            self.codecs += [codec] if codec not in self.codecs else []
        self.magics += [magic for magic in dict.fromkeys(step.column("magic")) if magic not in self.magics]
        begins = (
            base if kind == 0 and base is not None else max_timestamp
            for kind, base, max_timestamp in step.zip_columns("timestamp_type", "base_timestamp", "max_timestamp")
        )
        self.first_timestamp = least_known(self.first_timestamp, *begins)
        self.max_timestamp = largest_known(self.max_timestamp, *step.column("max_timestamp"))
        if self.first_offset is None:
            self.first_offset = _first_offset(step)
        self.next_offset = step.cell("next_offset", len(step) - 1)


def summarize(segment: SegmentFile, complete: bool = False) -> SegmentSummary:
    """Summarizes a segment; complete: reads all headers.

    OSError if it cannot be read; UnsupportedCompressionError for encoded objects of tiered storage.
    """
    with segment.opened():
        source = segment.source
        packed = source if isinstance(source, Unpacked) else None
        summary = SegmentSummary(source.size if packed is None else packed.packed.size, complete=complete)
        if packed is not None:
            summary.packed = True
            summary.notes.append(f"packed with {packed.codec}" + ("" if complete else ", --full unpacks it"))
        if not summary.size:
            summary.notes.append("empty")
        elif complete:
            return _summarize_all_headers(segment, summary)
        elif packed is not None:
            _read_first_batch(segment, summary)
        else:
            sure = _read_first_batch(segment, summary)
            if summary.preallocated != summary.size:
                sure = _read_last_batches(segment, summary) and sure
            if segment.fetch_counter is None and (not sure or source.size <= _TAILS[0]):
                whole = _summarize_all_headers(segment, SegmentSummary(summary.size))
                whole.batches = whole.records = None
                return summary if sure and not whole.damage else whole
            if not sure:
                summary.first_offset = summary.next_offset = None
                summary.notes.append("its offsets are unknown, --full reads all headers")
    return summary


def next_offset(segment: SegmentFile) -> int | None:
    """The offset after the last batch; None: there is none. From the last batches, if these tell; else from all
    headers. OSError if it cannot be read."""
    end = summarize(segment).next_offset
    last = last_batch(segment) if end is None else None
    return end if last is None else int(last["next_offset"])


def last_batch(segment: SegmentFile) -> dict[str, Any] | None:
    """The columns of the last batch, from the headers alone; None: there is none. OSError if it cannot be read."""
    last = None
    for step in _steps(segment, HEADERS):
        last = BatchTable(step.part)[-1] if len(step) else last
    return last


def start_of_last_batches(segment: SegmentFile, timestamp: int) -> int | None:
    """The position of the last indexed batch, if no record of the segment is as late as `timestamp` (ms); else None.

    Uses the last entries of both indexes and the batches from there on. The time entry is used only if one of these
    batches contains its offset and has its timestamp as max timestamp. Reads a few KiB instead of whole indexes.
    """
    entry = _last_entry(segment, ".timeindex", TimeIndex.layout)
    if entry is None or entry[0] >= timestamp or segment.base_offset is None:
        return None
    with segment.opened() as source:
        start = _last_index_position(segment, source.size)
        if start is None or isinstance(segment.source, Unpacked):
            return None
        offset, confirmed = segment.base_offset + entry[1], False
        for step in _steps(segment, HEADERS, start):
            for base, last, newest in step.zip_columns("base_offset", "last_offset", "max_timestamp"):
                if newest is not None and newest >= timestamp:
                    return None
                confirmed |= (last if base is None else base) <= offset <= last and newest == entry[0]
            if step.damage:
                return None
    return start if confirmed else None


def _summarize_all_headers(segment: SegmentFile, summary: SegmentSummary) -> SegmentSummary:
    """From all headers, added to a summary without batches; where their offsets contradict each other, from all bytes:
    then it has the headers that are restored."""
    fresh = deepcopy(summary)
    if _read_all_headers(segment, summary, HEADERS):
        return summary
    _read_all_headers(segment, fresh, CHECKSUMS)
    return fresh


def _read_all_headers(segment: SegmentFile, summary: SegmentSummary, want: Want) -> bool:
    """False: the offsets of the batches fall, or are not those of a segment of this name."""
    base = segment.base_offset
    expected, end = (0, None) if base is None else (base, base + MAX_OFFSETS)
    in_order = True
    summary.batches = summary.records = 0
    for step in _steps(segment, want):
        if summary.first_offset is None and len(step) and step.column("position")[0]:
            summary.notes.append(_NOT_AT_START)
        summary.take(step)
        summary.batches += len(step)
        summary.records += sum(1 if count is None else count for count in step.column("record_count"))
        summary.damage += [one.detail for one in step.damage]
        summary.damage += [f"{segment.path}, batch at byte {one.position}: {one}" for one in step.restored]
        for first, following in step.zip_columns("base_offset", "next_offset"):
            in_order = in_order and (first is None or first >= expected) and (end is None or following <= end)
            expected = following
    _note_tail(summary, segment, step.tail)
    return in_order


def _read_first_batch(segment: SegmentFile, summary: SegmentSummary) -> bool:
    """The first batch. False: reading the whole file may find another one."""
    source = segment.source
    head = source.read_at(0, _HEAD)
    length = batch_length(head) if len(head) >= LOG_OVERHEAD else 0
    stop = LOG_OVERHEAD + max(length, 0)
    # A packed file's size is not known before it is unpacked.
    size = stop if summary.packed else source.size
    if not any(head):
        if _last_entry(segment, ".index", OffsetIndex.layout) or any(source.read_at(max(0, size - _HEAD), _HEAD)):
            return _note_no_batch_at_start(segment, summary)
        summary.preallocated = summary.size
        summary.notes.append("begins with zeros: preallocated, or lost")
        return True
    # The header alone, as a batch that ends with it: the records are not read.
    rest = head[LOG_OVERHEAD:stop]
    header = head[:8] + len(rest).to_bytes(4, "big") + rest
    steps = list(_steps(header, HEADERS)) if stop <= size else []
    if sum(map(len, steps)) != 1 or any(step.damage for step in steps):
        return _note_no_batch_at_start(segment, summary)
    for step in steps:
        summary.take(step)
    next_offset, summary.next_offset = summary.next_offset or 0, None
    if segment.fetch_counter is not None or summary.packed:
        return True
    follows = begins_with_batch(source.read_at(stop, _HEAD), next_offset)
    return follows or not any(step.damage or step.restored for step in _steps(segment, CHECKSUMS, 0, stop))


def _note_no_batch_at_start(segment: SegmentFile, summary: SegmentSummary) -> bool:
    summary.notes.append(_NOT_AT_START)
    summary.damage.append(f"no batch begins at byte 0 of {segment.path}")
    return False


def _read_last_batches(segment: SegmentFile, summary: SegmentSummary) -> bool:
    """The last batches and the latest timestamp. False: reading the whole file may find others."""
    size = segment.source.size
    indexed = _last_index_position(segment, size)
    starts = [] if indexed is None else [indexed]
    # A message of magic 0 or 1 may end with a value that is a batch itself, so its log is read from the start.
    has_messages = any(magic < BATCH_MAGIC for magic in summary.magics)
    starts += [0] if has_messages else [max(0, size - tail) for tail in _TAILS]
    sure = True
    for start in dict.fromkeys(starts):
        # After damage a batch counts only with a right checksum, and damage may be before the index's last batch.
        want = CHECKSUMS if start == indexed and segment.fetch_counter is None else HEADERS
        steps = list(_steps(segment, want, start))
        batches, tail = list(filter(len, steps)), steps[-1].tail
        is_whole = tail is None or is_preallocated(segment, tail)
        # If no batch begins at `start`, it may be inside a value that contains batches itself. In a batch of magic 2
        # these never end at the file's end, as a record ends with its headers.
        at_border = start == 0 or (bool(batches) and batches[0].column("position")[0] == start)
        if not (batches and (at_border or is_whole)):
            continue
        # Damage before the last batches may reach into the first ones of them.
        if not at_border and sum(map(len, batches)) < _LEAST_BATCHES and start != starts[-1]:
            continue
        for step in batches:
            summary.take(step)
        damage = [one for step in steps for one in step.damage if at_border or one.position > start]
        summary.damage += [one.detail for one in damage]
        sure = not damage and not any(step.restored for step in steps)
        if start:
            first, end, base = _first_offset(batches[0]), summary.next_offset or 0, segment.base_offset
            low, high = (0, None) if base is None else (base, base + MAX_OFFSETS)
            fits = max(low, summary.first_offset or 0) <= first < end and (high is None or end <= high)
            sure = sure and indexed in (None, start) and fits
        _note_tail(summary, segment, tail)
        break
    else:
        summary.notes.append("the last batch was not found, --full reads all headers")
    entry = _last_entry(segment, ".timeindex", TimeIndex.layout)
    if entry is not None and summary.next_offset is not None and entry[0] >= 0:
        summary.max_timestamp = largest_known(summary.max_timestamp, entry[0])
    return sure


def _first_offset(step: Step) -> int:
    """As it is stored, even below 0; of a wrapper message its last one."""
    return step.first_offsets(LONG_MAX)[0]


def _note_tail(summary: SegmentSummary, segment: SegmentFile, tail: tuple[int, int] | None) -> None:
    """tail: of the last step"""
    if tail is None:
        return
    remaining = tail[1]
    if is_preallocated(segment, tail):
        summary.preallocated = remaining
        summary.notes.append(f"{remaining} bytes of preallocated zeros at its end")
    else:
        summary.notes.append(f"ends inside a batch: {remaining} bytes after the last complete one")


def _last_index_position(segment: SegmentFile, size: int) -> int | None:
    """The position in the last entry of the .index; None: no entry, not inside the file, or too far from its end."""
    entry = _last_entry(segment, ".index", OffsetIndex.layout)
    if entry is None or not 0 < entry[1] < size:
        return None
    return entry[1] if size - entry[1] <= _TAILS[-1] else None


def _last_entry(segment: SegmentFile, suffix: str, layout: Struct) -> tuple[int, ...] | None:
    """The last entry of an index, before the zeros at its end if it is that of a running broker."""
    try:
        source = segment.open_sidecar(suffix)
    except OSError:
        return None
    if source is None:
        return None
    with closing(source):

        def entry(number: int) -> tuple[int, ...]:
            data = source.read_at(number * layout.size, layout.size)
            return layout.unpack(data) if len(data) == layout.size else (0,)

        count = source.size // layout.size
        if count and not any(entry(count - 1)):
            count = bisect_left(range(count), True, key=lambda number: not any(entry(number)))
        return entry(count - 1) if count else None


def _steps(segment: Any, want: Want, start: int = 0, stop: int | None = None) -> Iterator[Step]:
    return walk([segment], walk_request(want, errors="skip"), start=start, stop=stop)


def least_known(*values: Any) -> int | None:
    """The least value; None is unknown."""
    return min((value for value in values if value is not None), default=None)


def largest_known(*values: Any) -> int | None:
    return max((value for value in values if value is not None), default=None)
