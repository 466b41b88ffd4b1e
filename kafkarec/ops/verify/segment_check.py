"""Checks of one segment: every byte is read once, in constant memory, and passed to all checks.

    good bytes + damaged bytes + tail (cut, or preallocated zeros) == size of the file

This equation is asserted for every file, and that no two batches overlap.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Protocol

from kafkarec.damage import Damage
from kafkarec.tables.records import RecordColumns

from . import header_checks, marker_checks, payload_checks, record_checks
from .batch_columns import BatchColumns
from .epoch_checks import EpochTrack
from .findings import FindingNotes, FindingPlace
from .offset_checks import OffsetTrack
from .recent_windows import with_cache
from .report_data import DAMAGED, GOOD, PREALLOCATED, TAIL, UNREADABLE, ByteRange, FileReport

MOST_DAMAGE = 50_000
_BLOCK = 1 << 20
_PAGE = 4096
_LOOKED_AT = 1000
_FEWEST_ZEROS = 17  # up to the magic: no batch begins with that many

Progress = Callable[[int], None]


class Follower(Protocol):
    """A check that needs all good batches of a log in order."""

    def follow(self, file: str, rows: BatchColumns) -> None: ...


@dataclass(slots=True)
class FileFacts:
    """The results for one file while it and its log are checked."""

    path: str
    name: str
    base_offset: int | None
    notes: FindingNotes
    offsets: OffsetTrack
    epochs: EpochTrack
    size: int = 0
    good_bytes: int = 0
    batches: int = 0
    records: int = 0
    remaining: int = 0
    preallocated: bool = False
    damage: list[Damage] = field(default_factory=list)
    damage_left_out: int = 0
    damaged_bytes: int = 0
    unreadable_bytes: int = 0
    unread: int = 0
    transactional: bool = False
    last_batch: tuple[int, int] | None = None
    zeros: list[tuple[int, int]] = field(default_factory=list)

    @property
    def is_log(self) -> bool:
        """Whether its name has its base offset (a .checkpoint's has the end offset)."""
        return self.base_offset is not None and ".log" in self.name

    @property
    def begin(self) -> int:
        """The base offset in the name of a log's segment."""
        return self.base_offset or 0

    def add_damage(self, found: Iterable[Damage]) -> None:
        """Adds damage; counts each range as damaged or as unreadable bytes."""
        for one in found:
            if one.reason == "unreadable":
                self.unreadable_bytes += one.length
            else:
                self.damaged_bytes += one.length
            if len(self.damage) < MOST_DAMAGE:
                self.damage.append(one)
            else:
                self.damage_left_out += 1

    def report(self) -> FileReport:
        """The FileReport."""
        return FileReport(
            path=self.path,
            name=self.name,
            size=self.size,
            good_bytes=self.good_bytes,
            damaged_bytes=self.damaged_bytes,
            unreadable_bytes=self.unreadable_bytes,
            remaining=self.remaining,
            batches=self.batches,
            records=self.records,
            base_offset=self.base_offset,
            first_offset=self.offsets.first,
            next_offset=self.offsets.next,
            ranges=self._ranges(),
            damage=tuple(self.damage),
            damage_left_out=self.damage_left_out,
            zeros=tuple(self.zeros),
            findings=tuple(self.notes),
        )

    def _ranges(self) -> tuple[ByteRange, ...]:
        """The ranges of the whole file: what is neither damage nor tail is good."""
        found: list[ByteRange] = []
        at = 0
        end = self.size - self.remaining - self.unread
        for one in self.damage:
            if one.position > at:
                found.append(ByteRange(GOOD, at, one.position - at))
            found.append(ByteRange(UNREADABLE if one.reason == "unreadable" else DAMAGED, one.position, one.length))
            at = one.position + one.length
        if self.damage_left_out:
            found.append(ByteRange(DAMAGED, at, end - at))
        elif end > at:
            found.append(ByteRange(GOOD, at, end - at))
        if self.unread:
            found.append(ByteRange(UNREADABLE, end, self.unread))
        if self.remaining:
            found.append(ByteRange(PREALLOCATED if self.preallocated else TAIL, end, self.remaining))
        return tuple(found)


def examine(
    segment: Any,
    options: payload_checks.PayloadCheckOptions,
    followers: Iterable[Follower] = (),
    progress: Progress | None = None,
) -> FileFacts:
    """Checks a whole segment. If the file cannot be read at all, this is a finding and its bytes are unreadable."""
    path, base = segment.path, segment.base_offset
    facts = FileFacts(path, segment.name, base, FindingNotes(path), OffsetTrack(path), EpochTrack(path))
    facts.offsets.rising = facts.is_log
    try:
        facts.size = segment.size
        with with_cache(segment) as reading:
            _read(reading, facts, options, list(followers), progress or (lambda done: None))
    except OSError as error:
        # Permissions, network, a deleted file. Disk errors are reported as damage by the reader.
        facts.notes.add("unreadable_file", (error.strerror or str(error)).lower())
    _check_file(facts, segment)
    return facts


def _read(
    segment: Any,
    facts: FileFacts,
    options: payload_checks.PayloadCheckOptions,
    followers: list[Follower],
    progress: Progress,
) -> None:
    raw = payload_checks.ReadAhead(segment.raw)
    end = 0
    pieces = segment.stream(
        columns=list(record_checks.COLUMNS),
        control=True,
        errors="skip",
        check_crcs="all",
        max_decompressed_bytes=options.limit,
    )
    for piece in pieces:
        rows = BatchColumns(piece.batches)
        end = raw.until = _tile(facts, rows, piece, end)
        if len(rows):
            facts.offsets.follow(rows, {one.position + one.length for one in piece.damage}, facts.notes)
            facts.epochs.follow(rows, facts.notes)
            header_checks.check(rows, facts.notes)
            record_checks.check_offsets(piece, rows, facts.notes)
            record_checks.check_header_keys(piece, rows, raw, facts.notes)
            payload_checks.check(rows, raw, options, facts.notes)
            for follower in followers:
                follower.follow(facts.path, rows)
            _sum_up(facts, rows)
        facts.remaining = piece.remaining
        progress(end)
    progress(facts.size)


def _tile(facts: FileFacts, rows: BatchColumns, piece: RecordColumns, end: int) -> int:
    """Checks that batches and damage of a piece are adjacent; returns their end. A gap or overlap is a bug here."""
    facts.add_damage(piece.damage)
    positions, sizes = rows["position"], rows["size_in_bytes"]
    facts.good_bytes += sum(sizes)
    ends = [position + size for position, size in zip(positions, sizes, strict=True)]
    if not piece.damage and (not ends or (positions[0] == end and list(positions[1:]) == ends[:-1])):
        return ends[-1] if ends else end
    tiles = sorted([*zip(positions, ends, strict=True), *((d.position, d.position + d.length) for d in piece.damage)])
    for (_, before), (begin, _) in pairwise([(0, end), *tiles]):
        if begin != before:
            detail = f"bytes {before} to {begin} are counted twice or not at all"
            facts.notes.add("tiling_broken", detail, FindingPlace(begin))
    return int(tiles[-1][1])


def _sum_up(facts: FileFacts, rows: BatchColumns) -> None:
    facts.batches += len(rows)
    facts.records += sum(1 if count is None else count for count in rows["record_count"])
    facts.transactional = facts.transactional or any(rows["is_transactional"])
    facts.last_batch = rows["position"][-1], rows["size_in_bytes"][-1]


def _check_file(facts: FileFacts, segment: Any) -> None:
    """Adds findings about the file as a whole."""
    notes, size = facts.notes, facts.size
    counted = facts.good_bytes + facts.damaged_bytes + facts.unreadable_bytes + facts.remaining
    if counted != size and "unreadable_file" not in notes:
        notes.add("tiling_broken", f"{counted} bytes counted of {size}")
    if "unreadable_file" in notes:
        facts.unread = max(size - counted, 0)
        facts.unreadable_bytes += facts.unread
    if not size and "unreadable_file" not in notes:
        notes.add("snapshot_incomplete" if marker_checks.is_snapshot(facts.name) else "empty_file", "no bytes")
    if facts.damage and not facts.batches:
        notes.add("no_log", f"no batch in the whole file{_looks_like(segment)}")
    facts.zeros = list(_zeros(segment, facts.damage[:_LOOKED_AT]))
    if facts.remaining:
        at = size - facts.remaining
        facts.preallocated = _is_zero(segment, at, facts.remaining)
        kind = "preallocated" if facts.preallocated else "cut_tail"
        what = "zeros behind the last batch" if facts.preallocated else "bytes of a batch that was cut"
        detail = f"{facts.remaining} {what}"
        if marker_checks.is_snapshot(facts.name):
            notes.add("snapshot_incomplete", f"{detail}, and nothing is ever appended to such a file", FindingPlace(at))
        else:
            notes.add(kind, detail, FindingPlace(at, facts.offsets.next))
    elif marker_checks.is_snapshot(facts.name) and facts.last_batch and not _has_footer(segment, *facts.last_batch):
        place = FindingPlace(facts.last_batch[0])
        notes.add("snapshot_incomplete", "the last record is no SNAPSHOT_FOOTER: the end is missing", place)
    first, base = facts.offsets.first, facts.begin
    if facts.is_log and first is not None and first < base:
        detail = f"offset {first} in a file of base offset {base}"
        notes.add("offset_below_file_name", detail, FindingPlace(offset=first))


# First bytes of file types that are given instead of a log.
_OTHERS = {
    b"\x1f\x8b": "a gzip file: name it .log.gz",
    b"\x28\xb5\x2f\xfd": "a zstd file: name it .log.zst",
    b"\x04\x22\x4d\x18": "an lz4 file: decompress it first",
    b"PK\x03\x04": "a zip archive: unpack it first",
    b"PAR1": "a Parquet file",
    b"ARROW1": "an Arrow file",
}


def _looks_like(segment: Any) -> str:
    try:
        head = bytes(segment.raw(0, 8))
    except OSError:
        return ""
    return next((f"; it looks like {what}" for start, what in _OTHERS.items() if head.startswith(start)), "")


def _has_footer(segment: Any, position: int, size: int) -> bool:
    try:
        return marker_checks.ends_with_footer(segment.raw(position, size))
    except OSError:
        return True  # reported as unreadable


def _zeros(segment: Any, damage: Iterable[Damage]) -> Iterator[tuple[int, int]]:
    """(position, length) of the zeros at the start of damage: a page that was never written, or wiped."""
    for one in damage:
        if one.reason == "unreadable":
            continue
        at, left = one.position, one.length
        try:
            while left > 0 and (block := bytes(segment.raw(at, min(left, _PAGE if at == one.position else _BLOCK)))):
                zeros = len(block) - len(block.lstrip(b"\0"))
                at, left = at + zeros, left - zeros
                if zeros < len(block):
                    break
        except OSError:
            continue
        if at - one.position >= _FEWEST_ZEROS:
            yield one.position, at - one.position


def _is_zero(segment: Any, position: int, length: int) -> bool:
    """Whether all bytes of a range are zero."""
    while length > 0:
        try:
            block = segment.raw(position, min(length, _BLOCK))
        except OSError:
            return False
        if not block or any(block):
            return False
        position, length = position + len(block), length - len(block)
    return True
