"""The run over all files: each is read by its suffix, mismatches are printed at the end; the files beside a log as text

Kafka's tool ends with a stack trace at the first thing that it cannot read, without the later files and without the
mismatches found so far. KafkaRecordError or OSError is raised at the same point here.

Kafka maps a whole index and reads every slot as an entry, including the zeros that a broker preallocates, up to the
first later slot with the segment's base offset; an incomplete last slot is ignored (AbstractIndex). Of a .txnindex
entry's version only the first byte is read (AbortedTxn), bytes after the last whole entry are ignored, and a snapshot
is read as by Kafka's generated class (ProducerStateManager.readSnapshot). The layouts are in `kafkarec.sidecars`, whose
readers are stricter.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from functools import partial
from itertools import chain
from struct import Struct
from typing import NamedTuple, NoReturn

from kafkarec.errors import InvalidRecordError
from kafkarec.format.checksum import crc32c
from kafkarec.format.java_integers import INT_MAX, decrement_sequence, wrapped
from kafkarec.format.layout import UP_TO_MAGIC, V2Header
from kafkarec.format.single_fields import FieldFault
from kafkarec.sidecars import producer_snapshot, txn_index
from kafkarec.sidecars.offset_index import OffsetIndex
from kafkarec.sidecars.time_index import TimeIndex
from kafkarec.sources.files import ByteSource
from kafkarec.storage import names
from kafkarec.storage.output_rules import STANDARD_INPUT

from .batch_lines import (
    DumpedBatch,
    checked_codec,
    dumped_batches,
    java_absolute_path,
    java_path,
    optional_long,
    parse_long,
    refuse,
)
from .log_text import log_text, records_of
from .record_lines import ConsecutiveCheck, DumpOptions, Mismatches, messages

_WARM_BYTES = 8192
_INDEXED_BYTES = 16 << 10  # read at once behind an entry of an .index


Open = Callable[[str], ByteSource]
Say = Callable[[str], None]


class DumpedFile(NamedTuple):
    """A file of the command line. mismatches: of the run"""

    display_path: str
    name: str
    options: DumpOptions
    mismatches: Mismatches
    opened: Open
    say: Say
    note: Say
    progress: Callable[[str, int], object]

    @property
    def absolute(self) -> str:
        return java_absolute_path(self.display_path)

    @property
    def base_offset(self) -> int:
        return parse_long(self.stem)

    @property
    def stem(self) -> str:
        """The part of the name before the first dot, as in Kafka."""
        return self.name.split(".")[0]


def _index_slots(source: ByteSource, layout: Struct) -> list[tuple[int, ...]]:
    size = min(source.size, INT_MAX) // layout.size * layout.size
    return list(layout.iter_unpack(source.read_at(0, size)))


def offset_index_text(file: DumpedFile, index: ByteSource, log: ByteSource) -> Iterator[str]:
    """The lines of an .index file."""
    base, slots = file.base_offset, _index_slots(index, OffsetIndex.layout)
    if not slots:
        yield f"{file.display_path} is empty.\n"
        return
    if file.options.index_sanity_check:
        yield _sanity_line(file, index, OffsetIndex.layout.size, slots[-1][0])
        return
    for number, (relative, position) in enumerate(slots):
        if number and not relative:
            return
        offset = base + relative
        _demand_inside(index, log, offset, position)
        max_message_size = file.options.max_message_size
        end = min(log.size, position + max_message_size)
        batch = next(chain.from_iterable(dumped_batches(log, position, end, UP_TO_MAGIC)), None)
        if batch is None:
            _refuse_index(
                index,
                f"offset {offset} points at byte {position} of the log, where no batch of up to {max_message_size} "
                "bytes begins (--max-message-size)",
            )
        found = _last_offset(batch)
        if found != offset:
            file.mismatches.add("index_mismatch", file.absolute, offset, found)
        if not file.options.verify_index_only:
            yield f"offset: {offset} position: {position}\n"


def time_index_text(file: DumpedFile, index: ByteSource, log: ByteSource, offset_index: ByteSource) -> Iterator[str]:
    """The lines of a .timeindex file; `offset_index`: the .index file of the same segment."""
    base, path, limit = file.base_offset, file.absolute, file.options.max_decompressed_bytes
    add_mismatch = file.mismatches.add
    offsets, times = _index_slots(offset_index, OffsetIndex.layout), _index_slots(index, TimeIndex.layout)
    if file.options.index_sanity_check:
        first, last = (times[0], times[-1]) if times else ((0, 0), (0, 0))
        if last[0] < first[0]:
            _refuse_index(index, f"the last timestamp {last[0]} is below the first, {first[0]}")
        yield _sanity_line(file, index, TimeIndex.layout.size, last[1])
        return
    previous = -1
    for number, (timestamp, relative) in enumerate(times):
        if number and not relative:
            return
        offset, position = base + relative, _position_for(offsets, relative)
        _demand_inside(index, log, offset, position)
        for batch in chain.from_iterable(dumped_batches(log, position, log.size, _INDEXED_BYTES)):
            found = _last_offset(batch)
            if found < offset:
                continue
            if found != offset:
                add_mismatch("offset_missing", path, offset, found)
                break
            is_batch = isinstance(batch.header, V2Header)
            if not is_batch or batch.header.record_count:
                checked_codec(batch)  # of a batch without records Kafka does not read the payload
            of_batch = (-1 if stamp is None else stamp for _, stamp, *_ in records_of(batch, limit))
            latest = max([-1, *(of_batch if is_batch else (one.timestamp for one in messages(batch, limit)))])
            if latest != timestamp:
                add_mismatch("time_mismatch", path, timestamp, latest)
            if previous >= timestamp:
                add_mismatch("time_order", path, timestamp, previous)
            break
        else:
            add_mismatch("offset_missing", path, offset, -1)
        if not file.options.verify_index_only:
            yield f"timestamp: {timestamp} offset: {offset}\n"
        previous = timestamp


def _position_for(slots: list[tuple[int, ...]], relative: int) -> int:
    """OffsetIndex.lookup: searches the last 8 KiB first, which changes the result if zeros follow the entries."""
    if not slots:
        return 0
    low, high = max(0, len(slots) - 1 - _WARM_BYTES // OffsetIndex.layout.size), len(slots) - 1
    if slots[low][0] >= relative:
        if slots[0][0] > relative:
            return 0
        low, high = 0, low
    while low < high:
        middle = (low + high + 1) >> 1
        if slots[middle][0] == relative:
            return slots[middle][1]
        if slots[middle][0] > relative:
            high = middle - 1
        else:
            low = middle
    return slots[low][1]


def _last_offset(batch: DumpedBatch) -> int:
    """The last offset by the header."""
    delta = batch.header.last_offset_delta if isinstance(batch.header, V2Header) else 0
    return wrapped(batch.stored_offset + delta, 64)


def _demand_inside(index: ByteSource, log: ByteSource, offset: int, position: int) -> None:
    if not 0 <= position <= log.size:
        _refuse_index(index, f"offset {offset} points at byte {position}, but the log has {log.size} bytes")


def _sanity_line(file: DumpedFile, index: ByteSource, entry_size: int, last: int) -> str:
    """The line of an index that is sane. `last`: the relative offset of its last entry."""
    base = file.base_offset
    if last < 0:
        _refuse_index(index, f"the last entry's offset {base + last} is below the base offset {base}")
    if index.size % entry_size:
        _refuse_index(index, f"its size, {index.size} bytes, is not a multiple of the entry size, {entry_size}")
    return f"{file.display_path} passed sanity check.\n"


def _refuse_index(index: ByteSource, detail: str) -> NoReturn:
    refuse(index, 0, FieldFault("index_invalid", detail=detail))


_LARGEST = 256 << 20


def _whole_entries(source: ByteSource, unit: int) -> bytes:
    if source.size > _LARGEST:
        refuse(
            source, 0, FieldFault("limit_exceeded", detail=f"{source.size} bytes, more than {_LARGEST} are not read")
        )
    return source.read_at(0, source.size - source.size % unit)


def _snapshot_complaint(data: bytes) -> str:
    """What Kafka's tool prints about a snapshot before it continues with the next file; empty if it can be read."""
    schema, left = "Snapshot failed schema validation: ", len(data) - producer_snapshot.HEAD.size
    version = int.from_bytes(data[:2], "big", signed=True)
    if len(data) >= 2 and version != 1:
        return f"{schema}Snapshot contained an unknown file version {version}"
    if left < 0:
        return f"{schema}null"
    _, stored, count = producer_snapshot.HEAD.unpack_from(data)
    if count < 0:
        return f"{schema}non-nullable field producerEntries was serialized as null"
    if count > left:
        return f"{schema}Tried to allocate a collection of size {count}, but there are only {left} bytes remaining."
    if count * producer_snapshot.ENTRY.size > left:
        return f"{schema}null"
    computed = crc32c(data[producer_snapshot.CHECKED_FROM :])
    if stored != computed:
        return f"Snapshot is corrupt (CRC is no longer valid). Stored crc: {stored}. Computed crc: {computed}"
    return ""


_CHECKPOINT = re.compile(r"([0-9]{20})-([0-9]{10})\.checkpoint", re.ASCII)
_BOOTSTRAP = "bootstrap.checkpoint"


def dump(
    paths: list[str],
    options: DumpOptions,
    opened: Open,
    say: Say,
    note: Say,
    progress: Callable[[str, int], object] = lambda path, end: None,
) -> Iterator[str]:
    """The text of files as Kafka 4.3's DumpLogSegments prints it, in pieces of any size.

    opened     opens a path; raises OSError
    say        called with each line that Kafka's tool prints to standard error
    note       called with each remark that Kafka's tool does not have
    progress   called with the path of a log and the position up to which it is printed

    KafkaRecordError and OSError where Kafka's tool ends with an exception, after the text that it prints before.
    """
    mismatches = Mismatches()
    for path in paths:
        display_path = path if "://" in path else java_path(path)
        yield f"Dumping {display_path}\n"
        name = names.unpacked_name(display_path.rsplit("/", 1)[-1])
        kind = _log_lines if name == STANDARD_INPUT else _KINDS.get(name[name.rindex(".") :] if "." in name else "")
        if kind is None:
            say(f"Ignoring unknown file {display_path}")
            continue
        yield from kind(DumpedFile(display_path, name, options, mismatches, opened, say, note, progress))
    for line in mismatches.lines():
        say(line)


Kind = Callable[[DumpedFile], Iterator[str]]


def _log_lines(file: DumpedFile) -> Iterator[str]:
    heading = missing = ""  # missing: what the file's name lacks
    if file.name == _BOOTSTRAP:
        heading = "KRaft bootstrap snapshot\n"
    elif file.name.endswith(".checkpoint"):
        named = _CHECKPOINT.fullmatch(file.name)
        if named is None:
            missing = "offset and epoch"
        else:
            heading = f"Snapshot end offset: {int(named[1])}, epoch: {int(named[2])}\n"
    elif file.name != STANDARD_INPUT:
        try:
            heading = f"Log starting offset: {file.base_offset}\n"
        except InvalidRecordError:
            missing = "offset"
    yield heading
    with closing(file.opened(file.display_path)) as source:
        if missing:
            file.note(f"{file.display_path}: its name has no {missing}; Kafka's tool would refuse it")
        progress = partial(file.progress, file.display_path)
        yield from log_text(source, file.name, file.options, ConsecutiveCheck(file.mismatches, file.absolute), progress)


def _index_dumper(text: Callable[..., Iterator[str]], *suffixes: str) -> Kind:
    """An index whose text needs these files of its segment, the .log first."""

    def lines(file: DumpedFile) -> Iterator[str]:
        parse_long(file.stem)
        with ExitStack() as files:
            folder = os.path.dirname(file.display_path)
            paths = *(os.path.join(folder, file.stem + suffix) for suffix in suffixes), file.display_path
            *others, index = (files.enter_context(closing(file.opened(path))) for path in paths)
            yield from text(file, index, *others)

    return lines


def _snapshot_lines(file: DumpedFile) -> Iterator[str]:
    """The lines of a .snapshot, if the file is one."""
    lines = []
    with closing(file.opened(file.display_path)) as source:
        data = _whole_entries(source, 1)
    if complaint := _snapshot_complaint(data):
        file.say(complaint)
        return
    start, (_, _, count) = producer_snapshot.HEAD.size, producer_snapshot.HEAD.unpack_from(data)
    entries = producer_snapshot.ENTRY.iter_unpack(data[start : start + count * producer_snapshot.ENTRY.size])
    for producer_id, epoch, sequence, offset, delta, timestamp, coordinator_epoch, transaction in entries:
        line = (
            f"producerId: {producer_id} producerEpoch: {epoch} coordinatorEpoch: {coordinator_epoch} "
            f"currentTxnFirstOffset: {optional_long(transaction if transaction >= 0 else None)} "
            f"lastTimestamp: {timestamp}"
        )
        if offset >= 0:
            line += (
                f" firstSequence: {decrement_sequence(sequence, delta)} lastSequence: {sequence} "
                f"lastOffset: {offset} offsetDelta: {delta} timestamp: {timestamp}"
            )
        lines.append(f"{line}\n")
    yield "".join(lines)


def _txn_index_lines(file: DumpedFile) -> Iterator[str]:
    parse_long(file.stem)
    lines = []  # Kafka reads all entries before it prints the first
    with closing(file.opened(file.display_path)) as source:
        for number, entry in enumerate(txn_index.LAYOUT.iter_unpack(_whole_entries(source, txn_index.ENTRY_SIZE))):
            version, producer_id, first, last, stable = entry
            version >>= 8  # AbortedTxn.version reads the first byte only
            if version > 0:
                fault = FieldFault("index_invalid", detail=f"version {version} of entry {number} is above 0")
                refuse(source, number * txn_index.ENTRY_SIZE, fault)
            lines.append(
                f"version: {version} producerId: {producer_id} firstOffset: {first} lastOffset: {last} "
                f"lastStableOffset: {stable}\n"
            )
    yield "".join(lines)


_KINDS: dict[str, Kind] = {
    ".log": _log_lines,
    ".checkpoint": _log_lines,
    ".index": _index_dumper(offset_index_text, ".log"),
    ".timeindex": _index_dumper(time_index_text, ".log", ".index"),
    ".snapshot": _snapshot_lines,
    ".txnindex": _txn_index_lines,
}
