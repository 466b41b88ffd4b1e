"""A second, slow implementation of the rules in kafkarec/_c/resync.pxd and end_of_input.pxd: where damage ends.

`read` returns what `decode(..., errors="skip")` must find: the good batches, the damage between them, and the bytes
that remain at the end. If a batch's records cannot be read, the reason is always `records`.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass, field
from typing import NamedTuple

import crc32c
import oracle

LOG_OVERHEAD, UP_TO_MAGIC, LEAST_CLAIM, INT_MAX = 12, 17, 14, 2**31 - 1
LEAST_SIZES = {0: 26, 1: 34, 2: 61}
NEVER = -(2**63)
OFFSET_JUMP = 2**31
LOOK_AHEAD = 1 << 22
NO, LONE, FOLLOWED = range(3)


class Row(NamedTuple):
    """A batch by its framing: the fields of its header."""

    position: int
    size: int
    magic: int
    base: int
    last: int
    attributes: int
    next: int


class Frame(NamedTuple):
    """The framing at a position. `verdict`: ok, end, cut, or the reason of an error."""

    verdict: str
    base: int = -1
    next_position: int = -1
    row: Row | None = None


@dataclass
class Run:
    """A candidate batch and the batches that follow it without a gap."""

    start: int
    first_end: int
    last_start: int
    end: int
    last: int


@dataclass
class ReadResult:
    """Positions of good batches, the damage as (position, length, reason, lost_from), and the remaining bytes."""

    batches: list[int] = field(default_factory=list)
    damage: list[tuple[int, int, str, int | None]] = field(default_factory=list)
    remaining: int = 0


def wrap64(value: int) -> int:
    return (value + 2**63) % 2**64 - 2**63


def far_above(offset: int, other: int) -> bool:
    return offset > OFFSET_JUMP and other < offset - OFFSET_JUMP


class Search:
    """The search in `data` up to `length`: the end of the part that is read, or of all."""

    def __init__(self, data: bytes):
        self.data = data
        self.length = len(data)
        self.crc_left = 6 * len(data) + 4096
        self.odd_left = 2 * len(data)
        self.limited = False
        self.seen = {}
        self.without_candidates = range(0)
        self.good_next = NEVER

    # ---- the framing at a position

    def size_at(self, at: int) -> Frame:
        """Return the framing by offset, size and magic alone: up to 17 bytes."""
        left = self.length - at
        if left < LOG_OVERHEAD:
            return Frame("end")
        base, claimed = struct.unpack_from(">qi", self.data, at)
        if claimed < LEAST_CLAIM:
            return Frame("size_too_small", base)
        if claimed > INT_MAX - LOG_OVERHEAD:
            return Frame("size_overflow", base)
        if left < UP_TO_MAGIC:
            return Frame("end", base)
        if self.data[at + 16] > 2:
            return Frame("unsupported_magic", base)
        if left < LOG_OVERHEAD + claimed:
            return Frame("cut", base)
        return Frame("ok", base, at + LOG_OVERHEAD + claimed)

    def frame(self, at: int) -> Frame:
        """Return the framing of the batch at `at`, its checksum not checked."""
        frame = self.size_at(at)
        if frame.verdict != "ok":
            return frame
        size, magic = frame.next_position - at, self.data[at + 16]
        if size < LEAST_SIZES[magic]:
            return frame._replace(verdict="batch_too_small")
        last, (attributes,) = frame.base, struct.unpack_from(">b", self.data, at + 17)
        if magic == 2:
            attributes, delta = struct.unpack_from(">hi", self.data, at + 21)
            last = wrap64(frame.base + delta)
        row = Row(at, size, magic, frame.base, last, attributes, wrap64(last + 1))
        return frame._replace(row=row)

    def crc_matches(self, row: Row) -> bool:
        raw = self.data[row.position : row.position + row.size]
        if row.magic == 2:
            return crc32c.crc32c(raw[21:]) == int.from_bytes(raw[17:21], "big")
        return zlib.crc32(raw[16:]) == int.from_bytes(raw[12:16], "big")

    def header_plausible(self, row: Row) -> bool:
        """Return whether the header's fields are as Kafka's writers write them."""
        data, at, end = self.data, row.position, row.position + row.size
        if row.magic == 2:
            producer_id, epoch, sequence, count = struct.unpack_from(">qhii", data, at + 43)
            plain = 0 <= row.attributes < 128 and row.attributes & 7 <= 4
            return plain and row.last >= row.base and count >= 0 and min(producer_id, epoch, sequence) >= -1
        if row.attributes & 0xF0:
            return False
        at += 18 if row.magic == 0 else 26
        for _ in ("key", "value"):
            if end - at < 4:
                return False
            (length,) = struct.unpack_from(">i", data, at)
            at += 4 + max(length, 0)
            if at > end:
                return False
        return at == end

    def framed_at(self, at: int) -> bool:
        return at == self.length or (at < self.length and self.size_at(at).verdict == "ok")

    def checked_row(self, at: int) -> Row | None:
        row = self.frame(at).row
        if row is None:
            return None
        slot = (at ^ at >> 6) % 256
        if slot in self.seen and self.seen[slot][0] == at:
            return row if self.seen[slot][1] else None
        plausible = self.header_plausible(row)
        odd = not plausible or (row.size > 1 << 14 and not self.framed_at(at + row.size))
        if row.size > (self.odd_left if odd else self.crc_left):
            self.limited |= plausible and row.base >> 48 == 0
            return None
        if odd:
            self.odd_left -= row.size
        else:
            self.crc_left -= row.size
        self.seen[slot] = at, self.crc_matches(row)
        return row if self.seen[slot][1] else None

    # ---- candidates

    def chain_continues(self, run: Run) -> bool:
        stop = run.end + LOOK_AHEAD
        for _ in range(1024):
            if run.end == self.length or run.end > stop:
                return True
            if self.length - run.end < LOG_OVERHEAD:
                return False
            frame = self.frame(run.end)
            if frame.verdict == "cut":  # or bytes behind a value that look like one
                follows = run.last < frame.base and not far_above(frame.base, run.last)
                return follows and not self.has_varint_length_before(run)
            if frame.row is None or not self.header_plausible(frame.row):
                return not any(self.data[run.end : run.end + LOG_OVERHEAD])
            run.last_start = run.end
            run.end += frame.row.size
        return True

    def candidate(self, at: int) -> tuple[int, Run | None]:
        row = self.frame(at).row
        if row is None or not (self.header_plausible(row) or self.framed_at(at + row.size)):
            return NO, None
        if not self.checked_row(at):
            return NO, None
        end = at + row.size
        following = self.checked_row(end)
        run = Run(at, end, at, end, max(row.last, following.last) if following else row.last)
        return (FOLLOWED if self.chain_continues(run) else LONE), run

    def value_end(self, run: Run) -> int:
        """Return where the record value ends that this run is, by the varint before it; 0 if it is not a value."""
        if not self.has_varint_length_before(run):
            return 0
        whole = run.last_start == run.start or self.checked_row(run.last_start)
        return run.end if whole else run.last_start

    def has_varint_length_before(self, run: Run) -> bool:
        starts = [run.start]
        if self.data[max(run.start - 5, 0) : run.start][:1] == b"\0" and run.start >= 5:
            starts.append(run.start - 5)
        return any(self.length_before(start, run.end) for start in starts)

    def length_before(self, start: int, end: int) -> bool:
        if start < 5:
            return False
        for n in range(1, 6):
            before = self.data[start - n : start]
            if before[-1] >= 0x80 or any(byte < 0x80 for byte in before[:-1]):
                continue
            raw = sum((byte & 0x7F) << 7 * place for place, byte in enumerate(before))
            if start + (raw >> 1 ^ -(raw & 1)) == end:
                return True
        return False

    def varint(self, at: int, longest: int) -> tuple[int, int] | None:
        """Return (value, position after it); None: too long, or cut."""
        raw = 0
        for place, byte in enumerate(self.data[at : min(at + longest, self.length)]):
            raw |= (byte & 0x7F) << 7 * place
            if byte < 0x80:
                raw &= 2**64 - 1
                return raw >> 1 ^ -(raw & 1), at + place + 1
        return None

    def records_value_end(self, batch: int, run: Run) -> int:
        """Return the end of the value that begins with this candidate, by the records of the batch at `batch`; or 0."""
        at = batch + 61
        while at < run.start:
            number = self.varint(at, 5)
            if number is None or number[0] < 6 or number[1] >= self.length or self.data[number[1]] != 0:
                return 0
            end, at = number[1] + number[0], number[1] + 1
            for longest in (10, 5):
                number = self.varint(at, longest)
                if number is None:
                    return 0
                at = number[1]
            for field_ in ("key", "value"):
                number = self.varint(at, 5)
                if number is None or number[0] > end - number[1]:
                    return 0
                length, at = number
                if field_ == "key":
                    at += max(length, 0)
            if at == run.start:
                following = self.checked_row(run.first_end) if at + length > run.first_end else None
                straddles = following is not None and following.position + following.size > at + length
                return 0 if at + length < run.first_end or straddles else at + length
            at = end
        return 0

    # ---- the search

    def chain_after_claim(self, at: int, offset: int) -> bool:
        for _ in range(64):
            if self.length - at < LOG_OVERHEAD:
                return at == self.length
            row = self.frame(at).row
            if row is None:
                return False
            verdict, run = self.candidate(at)
            if run is not None:
                return verdict == FOLLOWED or self.value_end(run) == 0
            if row.base < offset or far_above(row.base, offset) or not self.header_plausible(row):
                return False
            offset = row.base + 1 if row.base < row.last else row.last
            at += row.size
        return False

    def search_on(self, at: int) -> int:
        start, passed, within = at, -1, -1
        if at in self.without_candidates:
            at = self.without_candidates.stop
        while True:
            if self.length - at < UP_TO_MAGIC or self.crc_left <= 0:
                self.limited |= self.crc_left <= 0
                at = self.length
                break
            if self.data[at + 16] > 2 or int.from_bytes(self.data[at + 8 : at + 12], "big", signed=True) < LEAST_CLAIM:
                at += 1
                continue
            verdict, run = self.candidate(at)
            if run is None:
                at += 1
                continue
            value = self.value_end(run) if verdict == LONE else 0
            if not value:
                if at != passed or run.first_end > within:
                    within = self.records_value_end(start - 1, run)
                if within > 0:
                    value = passed = run.first_end
            if not value:
                break
            at = value
        self.without_candidates = range(start, at)
        return at

    def damage_end(self, at: int, frame: Frame) -> int:
        if frame.next_position > at and self.chain_after_claim(frame.next_position, frame.base):
            return frame.next_position
        end = self.search_on(at + 1)
        return end if end < self.length or frame.next_position < 0 else frame.next_position


def read(
    data: bytes, start: int = 0, stop: int | None = None, *, file: bool = False, later_segment: bool = False
) -> ReadResult:
    """Read bytes [start, stop) of `data`; the search for the end of damage also looks at the bytes after them."""
    stop = len(data) if stop is None else stop
    search, out, at = Search(data), ReadResult(), start
    while True:
        search.length = stop
        frame = search.frame(at)
        reason = "crc_mismatch" if frame.verdict == "ok" else frame.verdict
        if frame.row is not None and search.crc_matches(frame.row):
            if oracle.decode(data[at : frame.next_position]).error is None:
                out.batches.append(at)
                search.good_next, at = frame.row.next, frame.next_position
                continue
            reason = "records"
        ends = at >= stop or (reason == "end" and not later_segment)
        if not ends and file and not later_segment and reason in ("end", "size_too_small"):
            ends = not any(data[at:stop])
        search.length = len(data)
        if not ends and reason == "cut":
            ends = search.search_on(at + 1) >= len(data) and not later_segment
        if ends:
            out.remaining = stop - at
            return out
        if reason in ("end", "cut"):
            reason = "length_beyond_end"
        # a right checksum confirms the length of a batch whose records cannot be read
        end = frame.next_position if reason == "records" else min(search.damage_end(at, frame), stop)
        lost_from = None if search.good_next == NEVER else search.good_next
        out.damage.append((at, end - at, "search_limit" if search.limited else reason, lost_from))
        search.limited = False
        at = end
