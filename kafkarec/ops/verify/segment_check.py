"""Checks one segment: every byte is read once, in constant memory, and passed to all checks.

    good bytes + damaged bytes + tail (cut, or preallocated zeros) == size of the file

It is checked for every file that this equation holds and that no two batches overlap.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from functools import lru_cache
from itertools import pairwise
from operator import add
from typing import Any

from kafkarec._core import RowCheck
from kafkarec.damage import Damage, Restored, is_unchecked
from kafkarec.errors import KafkaRecordError, MissingCodecError
from kafkarec.read.decode_options import DecodeRequest, request
from kafkarec.read.walk import is_preallocated, walk
from kafkarec.recover.steps import Step
from kafkarec.sources.read_failures import is_gone, read_failure
from kafkarec.storage import first_bytes, names

from .batch_checks import (
    APART,
    CONTROL_COLUMNS,
    EPOCH,
    HEADER,
    FileEpochCheck,
    FileOffsetCheck,
    add_audit_findings,
    check_control_records,
    check_headers,
    ends_with_footer,
)
from .finding_kinds import ERROR, NOTE
from .findings import Findings
from .log_checks import LogCheck
from .report_data import DAMAGED, GOOD, PREALLOCATED, TAIL, UNCHECKED, UNREADABLE, ByteRange, FileReport

MOST_DAMAGE = 50_000
_STEP_BYTES = 4 << 20  # of payload, of which only control records are kept

BytesRead = Callable[[int], None]


@lru_cache
def verify_request(limit: int) -> DecodeRequest:
    """What is read for all checks. limit: max decompressed bytes of a payload."""
    found = request(
        columns=CONTROL_COLUMNS,
        control=True,
        errors="skip",
        check_crcs="all",
        max_decompressed_bytes=limit,
    )
    return found.with_options(audit=True, chunk_bytes=_STEP_BYTES)


class SegmentCheck:
    """One file, read and checked; what a FileReport has is named as there.

    base_offset   is corrected where the name of the segment is not that of its batches
    """

    def __init__(self, segment: Any, limit: int, along: LogCheck | None, progress: BytesRead, threads: int) -> None:
        """Reads the file. If it cannot be read at all, this is a finding and its bytes are unreadable.

        limit     max decompressed bytes of a payload
        along     the checks along its log; None: done by another reading
        threads   how many decode it
        """
        self.path, self.name, self.base_offset = segment.path, segment.name, segment.base_offset
        self.findings = Findings(self.path)
        self.offsets = FileOffsetCheck(self.path, self.is_log)
        self.epochs = FileEpochCheck(self.path)
        self.damage: list[Damage] = []
        self.restored: list[Restored] = []
        self.size = self.remaining = self.good_bytes = self.damaged_bytes = self.unreadable_bytes = 0
        self.damage_left_out = self.batches = self.records = self.signs_of_cleaning = self.largest_record = 0
        self.largest_record_offset: int | None = None
        self._unread = self._last_position = self._end = 0
        self._preallocated = self._has_footer = False
        if along is not None:
            along.begin_segment(segment)
        try:
            self.size = segment.size
            with segment.opened() as source:
                self.size = int(source.size)  # a broker may have written more since the folder was listed
                rows = RowCheck(self.is_log)
                try:
                    with closing(walk([segment], verify_request(limit), threads=threads)) as steps:
                        for step in steps:
                            self._check_step(step, rows, along)
                            progress(self._end)
                finally:
                    self.batches, self.records, self.good_bytes, largest, self.signs_of_cleaning = rows.totals
                if along is not None:
                    along.end_segment(largest)
                progress(self.size)
        except MissingCodecError:
            raise
        except (OSError, KafkaRecordError) as error:  # the reader reports a disk error within the file as damage
            if is_gone(error, self.path):
                self.findings.add("removed_meanwhile", "no longer there: a broker deleted or replaced it")
            else:
                failure = read_failure(error, self.path)
                self.findings.add("unreadable_file", failure.why, cause=failure.cause)
        self._check_file(segment)

    @property
    def is_log(self) -> bool:
        """Whether it is a segment with its base offset in its name. A .checkpoint has its end offset in its name."""
        return self.base_offset is not None and ".log" in self.name

    @property
    def is_unread(self) -> bool:
        """Whether the file could not be read at all, or not to its end."""
        return "unreadable_file" in self.findings or "removed_meanwhile" in self.findings

    @property
    def base_offset_or_zero(self) -> int:
        """The base offset in the name of the segment; 0: it has none."""
        return self.base_offset or 0

    @property
    def good_end(self) -> int:
        """End position of the last good batch."""
        return max((one.position + one.length for one in self.ranges if one.state == GOOD), default=0)

    @property
    def ends_in_damage(self) -> bool:
        last = self.damage[-1] if self.damage else None
        return last is not None and last.position + last.length + self.remaining >= self.size

    @property
    def first_offset(self) -> int | None:
        return self.offsets.first

    @property
    def next_offset(self) -> int | None:
        return self.offsets.next

    def report(self) -> FileReport:
        """What a report says of the file."""
        found: dict[str, Any] = {name: getattr(self, name) for name in FileReport.__slots__}
        found |= {name: tuple(found[name]) for name in ("damage", "restored", "findings")}
        return FileReport(**found)

    def _check_step(self, step: Step, rows: RowCheck, along: LogCheck | None) -> None:
        for one in step.damage:
            if one.reason == "unreadable":
                self.unreadable_bytes += one.length
            else:
                self.damaged_bytes += one.length
        listed = step.damage[: MOST_DAMAGE - len(self.damage)]
        self.damage += listed
        self.damage_left_out += len(step.damage) - len(listed)
        for restored in step.restored:  # on disk they are damaged
            self.findings.add("header_restored", str(restored), restored.position)
        self.restored += step.restored[: MOST_DAMAGE - len(self.restored)]
        flags, gap_rows = rows.check(step.rows) if len(step) else (0, [])
        if step.damage or flags & APART:
            self._end = self._check_coverage(step)
            rows.begin_at(self._end)
        else:
            self._end = rows.end
        if len(step):
            self.offsets.check(step, rows, flags, gap_rows, self.findings)
            if flags & EPOCH:
                self.epochs.check(step, self.findings)
            if flags & HEADER:
                check_headers(step, self.findings)
            largest, offset = add_audit_findings(step, self.findings)
            if largest > self.largest_record:
                self.largest_record, self.largest_record_offset = largest, offset
            check_control_records(step, self.findings)
            self._has_footer = ends_with_footer(step)
            self._last_position = step.cell("position", len(step) - 1)
        if along is not None:
            along.take(step, flags)
        self.remaining = step.part.remaining

    def _check_coverage(self, step: Step) -> int:
        """The end position of a step. Checks that its batches and damage are adjacent; a gap or an overlap would be a
        bug in kafkarec."""
        positions, sizes = step.column("position"), step.column("size_in_bytes")
        batches = zip(positions, map(add, positions, sizes), strict=True)
        ranges = sorted([*batches, *((one.position, one.position + one.length) for one in step.damage)])
        for (_, previous_end), (begin, _) in pairwise([(0, self._end), *ranges]):
            if begin != previous_end:
                detail = f"bytes {previous_end} to {begin} are counted twice or not at all"
                self.findings.add("bytes_unaccounted", detail, begin)
        return int(ranges[-1][1])

    def _check_file(self, segment: Any) -> None:
        """Adds findings about the file as a whole."""
        is_snapshot = names.unpacked_name(self.name).endswith(".checkpoint")
        counted = self.good_bytes + self.damaged_bytes + self.unreadable_bytes + self.remaining
        if counted != self.size and not self.is_unread:
            self.findings.add("bytes_unaccounted", f"{counted} bytes counted of {self.size}")
        if self.is_unread:
            self._unread = max(self.size - counted, 0)
            self.unreadable_bytes += self._unread
        if not self.size and not self.is_unread:
            self.findings.add("snapshot_incomplete" if is_snapshot else "empty_file", "no bytes")
        other = None if self.batches else first_bytes.of_segment(segment)
        if not self.batches and (self.damage or other is not None):
            detail = "no batch in the whole file"
            detail += "" if other is None else f"; it {other.sentence(self.path, 'verify')}"
            self.findings.add("no_log", detail, severity=NOTE if self.damage else ERROR)
        if self.remaining:
            at = self.size - self.remaining
            self._preallocated = is_preallocated(segment, (at, self.remaining))
            what = "zeros after the last batch" if self._preallocated else "bytes of an incomplete batch"
            detail = f"{self.remaining} {what}"
            if is_snapshot:
                detail += ", but a snapshot is never appended to"
                self.findings.add("snapshot_incomplete", detail, at)
            else:
                if self._preallocated:
                    detail += (
                        ": space reserved by the broker, or records that never reached the disk; this folder cannot "
                        "tell which"
                    )
                kind = "preallocated" if self._preallocated else "cut_tail"
                self.findings.add(kind, detail, at, self.offsets.next)
        elif is_snapshot and self.batches and not self._has_footer:
            detail = "the last record is not a SNAPSHOT_FOOTER: the end is missing"
            self.findings.add("snapshot_incomplete", detail, self._last_position)
        first = self.offsets.first
        if self.is_log and first is not None and first < self.base_offset_or_zero:
            detail = f"offset {first} in a file with base offset {self.base_offset_or_zero}"
            self.findings.add("offset_below_file_name", detail, offset=first)

    @property
    def ranges(self) -> tuple[ByteRange, ...]:
        """The ranges of the whole file. Bytes that are neither damage nor tail are good."""
        found: list[ByteRange] = []
        at = 0
        end = self.size - self.remaining - self._unread
        for one in self.damage:
            if one.position > at:
                found.append(ByteRange(GOOD, at, one.position - at))
            state = UNREADABLE if one.reason == "unreadable" else UNCHECKED if is_unchecked(one.reason) else DAMAGED
            found.append(ByteRange(state, one.position, one.length))
            at = one.position + one.length
        if self.damage_left_out:
            found.append(ByteRange(DAMAGED, at, end - at))
        elif end > at:
            found.append(ByteRange(GOOD, at, end - at))
        if self._unread:
            found.append(ByteRange(UNREADABLE, end, self._unread))
        if self.remaining:
            found.append(ByteRange(PREALLOCATED if self._preallocated else TAIL, end, self.remaining))
        return tuple(found)
