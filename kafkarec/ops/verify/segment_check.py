"""Checks one segment: every byte is read once, in constant memory, and passed to all checks.

    good bytes + damaged bytes + tail (cut, or preallocated zeros) == size of the file

It is checked for every file that this equation holds and that no two batches overlap.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import pairwise
from operator import add
from typing import Any

from kafkarec.damage import Damage, Restored, why_unreadable
from kafkarec.errors import KafkaRecordError, MissingCodecError
from kafkarec.read.decode_options import request
from kafkarec.read.passes import as_columns
from kafkarec.read.walk import is_preallocated, walk
from kafkarec.recover.steps import Step
from kafkarec.sources.read_failures import is_gone, read_failure

from . import audit_findings, header_checks, marker_checks
from .epoch_checks import FileEpochs
from .findings import FindingCollector, FindingPlace
from .offset_checks import FileOffsets
from .report_data import DAMAGED, GOOD, PREALLOCATED, TAIL, UNREADABLE, ByteRange, FileReport

MOST_DAMAGE = 50_000
_PIECE_BYTES = 4 << 20  # of payload, of which only control records are kept
_BLOCK = 1 << 20
_PAGE = 4096
_MAX_ZERO_CHECKS = 1000
_MIN_ZEROS = 17  # bytes up to the magic; no batch begins with so many zeros

BytesRead = Callable[[int], None]
LogCheck = Callable[[str, Step], None]
"""A check that needs all good batches of a log, in order: called with the path of the segment."""


@dataclass(slots=True)
class FileResult:
    """The results for one file, updated while the file and its log are checked."""

    path: str
    name: str
    base_offset: int | None
    findings: FindingCollector
    offsets: FileOffsets
    epochs: FileEpochs
    size: int = 0
    good_bytes: int = 0
    batches: int = 0
    records: int = 0
    remaining: int = 0
    preallocated: bool = False
    damage: list[Damage] = field(default_factory=list)
    damage_left_out: int = 0
    restored: list[Restored] = field(default_factory=list)
    damaged_bytes: int = 0
    unreadable_bytes: int = 0
    unread: int = 0
    transactional: bool = False
    last_position: int | None = None
    has_footer: bool = False
    zeros: list[tuple[int, int]] = field(default_factory=list)

    @property
    def is_log(self) -> bool:
        """Whether it is a segment with its base offset in its name. A .checkpoint has its end offset in its name."""
        return self.base_offset is not None and ".log" in self.name

    @property
    def is_unread(self) -> bool:
        """Whether the file could not be read at all, or not to its end."""
        return "unreadable_file" in self.findings or "removed_meanwhile" in self.findings

    @property
    def is_shorter_now(self) -> bool:
        """Whether the file was truncated while it was read: a broker cuts the preallocated zeros of a segment that it
        completes, and the batches that the leader does not have."""
        try:
            shorter = any(one.cause == why_unreadable(0) for one in self.damage)
            return shorter and "://" not in self.path and os.stat(self.path).st_size < self.size
        except OSError:
            return False

    @property
    def begin(self) -> int:
        """The base offset in the name of the segment; 0: it has none."""
        return self.base_offset or 0

    @property
    def good_end(self) -> int:
        """End position of the last good batch."""
        return max((one.position + one.length for one in self._ranges() if one.state == GOOD), default=0)

    def add_damage(self, found: Iterable[Damage]) -> None:
        """Adds damage, and counts its bytes as damaged or unreadable."""
        for one in found:
            if one.reason == "unreadable":
                self.unreadable_bytes += one.length
            else:
                self.damaged_bytes += one.length
            if len(self.damage) < MOST_DAMAGE:
                self.damage.append(one)
            else:
                self.damage_left_out += 1

    def add_restored(self, found: Iterable[Restored]) -> None:
        """Adds restored batches, each with a finding: on disk they are damaged."""
        for one in found:
            self.findings.add("header_restored", str(one), FindingPlace(one.position))
            if len(self.restored) < MOST_DAMAGE:
                self.restored.append(one)

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
            restored=tuple(self.restored),
            zeros=tuple(self.zeros),
            findings=tuple(self.findings),
        )

    def _ranges(self) -> tuple[ByteRange, ...]:
        """The ranges of the whole file. Bytes that are neither damage nor tail are good."""
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


def check_segment(
    segment: Any,
    limit: int,
    log_checks: Iterable[LogCheck] = (),
    progress: BytesRead | None = None,
    threads: int = 1,
) -> FileResult:
    """Checks a whole segment. If it cannot be read at all, this is a finding and its bytes are unreadable.

    limit: max decompressed bytes of a payload
    threads: how many decode it
    """
    path, base = segment.path, segment.base_offset
    result = FileResult(path, segment.name, base, FindingCollector(path), FileOffsets(path), FileEpochs(path))
    result.offsets.rising = result.is_log
    try:
        result.size = segment.size
        with segment.opened() as source:
            result.size = int(source.size)  # a broker may have written more since the folder was listed
            _read(segment, result, limit, list(log_checks), progress or (lambda done: None), threads)
    except MissingCodecError:
        raise
    except (OSError, KafkaRecordError) as error:  # the reader reports a disk error within the file as damage
        if is_gone(error, path):
            result.findings.add("removed_meanwhile", "no longer there: a broker deleted or replaced it")
        else:
            failure = read_failure(error, path)
            result.findings.add("unreadable_file", failure.why, cause=failure.cause)
    _check_file(result, segment)
    return result


def _read(
    segment: Any, result: FileResult, limit: int, log_checks: list[LogCheck], progress: BytesRead, threads: int
) -> None:
    wanted = request(
        columns=marker_checks.COLUMNS, control=True, errors="skip", check_crcs="all", max_decompressed_bytes=limit
    )
    wanted = wanted._replace(options=replace(wanted.options, audit=True, chunk_bytes=_PIECE_BYTES))
    end = 0
    with closing(walk([segment], wanted, threads=threads)) as steps:
        for step in steps:
            end = _check_coverage(result, step, end)
            result.add_restored(step.restored)
            if len(step):
                result.offsets.check(step, {one.position + one.length for one in step.damage}, result.findings)
                result.epochs.check(step, result.findings)
                header_checks.check(step, result.findings)
                audit_findings.add(step, result.findings)
                control_records = as_columns(wanted, step.part)
                marker_checks.check(control_records, step, result.findings)
                for log_check in log_checks:
                    log_check(result.path, step)
                _add_counts(result, step)
                result.has_footer = marker_checks.ends_with_footer(control_records, step)
            result.remaining = step.part.remaining
            progress(end)
    progress(result.size)


def _check_coverage(result: FileResult, step: Step, end: int) -> int:
    """The end position of a step. Checks that its batches and damage are adjacent; a gap or an overlap would be a bug
    in kafkarec."""
    result.add_damage(step.damage)
    positions, sizes = step.column("position"), step.column("size_in_bytes")
    result.good_bytes += sum(sizes)
    ends = list(map(add, positions, sizes))
    if not step.damage and (not ends or (positions[0] == end and positions[1:] == ends[:-1])):
        return ends[-1] if ends else end
    ranges = sorted([*zip(positions, ends, strict=True), *((d.position, d.position + d.length) for d in step.damage)])
    for (_, previous_end), (begin, _) in pairwise([(0, end), *ranges]):
        if begin != previous_end:
            detail = f"bytes {previous_end} to {begin} are counted twice or not at all"
            result.findings.add("bytes_unaccounted", detail, FindingPlace(begin))
    return int(ranges[-1][1])


def _add_counts(result: FileResult, step: Step) -> None:
    result.batches += len(step)
    counts = step.column("record_count")
    result.records += sum(1 if count is None else count for count in counts) if None in counts else sum(counts)
    result.transactional = result.transactional or any(step.column("is_transactional"))
    result.last_position = step.column("position")[-1]


def _check_file(result: FileResult, segment: Any) -> None:
    """Adds findings about the file as a whole."""
    findings, size = result.findings, result.size
    counted = result.good_bytes + result.damaged_bytes + result.unreadable_bytes + result.remaining
    if counted != size and not result.is_unread:
        findings.add("bytes_unaccounted", f"{counted} bytes counted of {size}")
    if result.is_unread:
        result.unread = max(size - counted, 0)
        result.unreadable_bytes += result.unread
    if not size and not result.is_unread:
        findings.add("snapshot_incomplete" if marker_checks.is_snapshot(result.name) else "empty_file", "no bytes")
    if result.damage and not result.batches:
        findings.add("no_log", f"no batch in the whole file{_looks_like(segment)}")
    result.zeros = list(_zeros(segment, result.damage[:_MAX_ZERO_CHECKS]))
    if result.remaining:
        at = size - result.remaining
        result.preallocated = is_preallocated(segment, (at, result.remaining))
        kind = "preallocated" if result.preallocated else "cut_tail"
        what = "zeros after the last batch" if result.preallocated else "bytes of an incomplete batch"
        detail = f"{result.remaining} {what}"
        if result.preallocated and not marker_checks.is_snapshot(result.name):
            detail += ": preallocated, or lost; no file here says which"
        if marker_checks.is_snapshot(result.name):
            findings.add("snapshot_incomplete", f"{detail}, but a snapshot is never appended to", FindingPlace(at))
        else:
            findings.add(kind, detail, FindingPlace(at, result.offsets.next))
    elif marker_checks.is_snapshot(result.name) and result.last_position is not None and not result.has_footer:
        place = FindingPlace(result.last_position)
        findings.add("snapshot_incomplete", "the last record is not a SNAPSHOT_FOOTER: the end is missing", place)
    first, base = result.offsets.first, result.begin
    if result.is_log and first is not None and first < base:
        detail = f"offset {first} in a file with base offset {base}"
        findings.add("offset_below_file_name", detail, FindingPlace(offset=first))


# First bytes of other file types that users may take for a log.
_OTHER_FILE_TYPES = {
    b"\x1f\x8b": "a gzip file: rename it to .log.gz",
    b"\x28\xb5\x2f\xfd": "a zstd file: rename it to .log.zst",
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
    return next((f"; it looks like {what}" for start, what in _OTHER_FILE_TYPES.items() if head.startswith(start)), "")


def _zeros(segment: Any, damage: Iterable[Damage]) -> Iterator[tuple[int, int]]:
    """Yields (position, length) of the zeros at the start of damage: a page that was never written, or wiped."""
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
        if at - one.position >= _MIN_ZEROS:
            yield one.position, at - one.position
