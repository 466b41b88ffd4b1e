"""Where damage ends, by the rules that kafkarec/_c/resync.pxd and end_of_input.pxd state, written a second time.

Plain and slow. `read` is what `decode(..., errors="skip")` must find: the good batches, the damage between them, and
what is left at the end. Why records cannot be read is not told apart: the reason is `records`.
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
    """A framed batch: what its header says."""

    position: int
    size: int
    magic: int
    base: int
    last: int
    attributes: int
    next: int


class Frame(NamedTuple):
    """What stands at a position: ok, end, cut, or the reason of a refusal."""

    verdict: str
    base: int = -1
    next_position: int = -1
    row: Row | None = None


@dataclass
class Run:
    """A candidate and what follows it without a gap."""

    start: int
    first_end: int
    last_start: int
    end: int
    base: int
    last: int


@dataclass
class Found:
    """What was read."""

    batches: list[int] = field(default_factory=list)
    damage: list[tuple[int, int, str, int | None]] = field(default_factory=list)
    remaining: int = 0


def wrap64(value: int) -> int:
    return (value + 2**63) % 2**64 - 2**63


def far_above(offset: int, other: int) -> bool:
    return offset > OFFSET_JUMP and other < offset - OFFSET_JUMP


class Search:
    """Over `data`, of which [.., length) is looked at: the part that is read, or all."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.length = len(data)
        self.crc_left = 6 * len(data) + 4096
        self.odd_left = 2 * len(data)
        self.seen: dict[int, tuple[int, bool]] = {}
        self.barren = range(0)
        self.good_next = NEVER

    # ---- what stands at a place

    def size_at(self, at: int) -> Frame:
        """Framing alone: up to 17 bytes."""
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
        """The batch at `at`, its checksum aside."""
        found = self.size_at(at)
        if found.verdict != "ok":
            return found
        size, magic = found.next_position - at, self.data[at + 16]
        if size < LEAST_SIZES[magic]:
            return found._replace(verdict="batch_too_small")
        last, (attributes,) = found.base, struct.unpack_from(">b", self.data, at + 17)
        if magic == 2:
            attributes, delta = struct.unpack_from(">hi", self.data, at + 21)
            last = wrap64(found.base + delta)
        row = Row(at, size, magic, found.base, last, attributes, wrap64(last + 1))
        return found._replace(row=row)

    def holds(self, row: Row) -> bool:
        raw = self.data[row.position : row.position + row.size]
        if row.magic == 2:
            return crc32c.crc32c(raw[21:]) == int.from_bytes(raw[17:21], "big")
        return zlib.crc32(raw[16:]) == int.from_bytes(raw[12:16], "big")

    def looks_written(self, row: Row) -> bool:
        """As the writers of Kafka leave a header."""
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

    def frame_behind(self, at: int) -> bool:
        return at == self.length or (at < self.length and self.size_at(at).verdict == "ok")

    def checks_out(self, at: int) -> Row | None:
        row = self.frame(at).row
        if row is None:
            return None
        slot = (at ^ at >> 6) % 256
        if slot in self.seen and self.seen[slot][0] == at:
            return row if self.seen[slot][1] else None
        odd = not self.looks_written(row) or (row.size > 1 << 14 and not self.frame_behind(at + row.size))
        if row.size > (self.odd_left if odd else self.crc_left):
            return None
        if odd:
            self.odd_left -= row.size
        else:
            self.crc_left -= row.size
        self.seen[slot] = at, self.holds(row)
        return row if self.seen[slot][1] else None

    # ---- candidates

    def leads_on(self, run: Run) -> bool:
        stop = run.end + LOOK_AHEAD
        for _ in range(1024):
            if run.end == self.length or run.end > stop:
                return True
            if self.length - run.end < LOG_OVERHEAD:
                return False
            found = self.frame(run.end)
            if found.verdict == "cut":
                return found.base > run.last and not far_above(found.base, run.last)
            if found.row is None or not self.looks_written(found.row):
                return not any(self.data[run.end : run.end + LOG_OVERHEAD])
            run.last_start = run.end
            run.end += found.row.size
        return True

    def acceptable(self, at: int) -> tuple[int, Run | None]:
        row = self.frame(at).row
        if row is None or not (self.looks_written(row) or self.frame_behind(at + row.size)):
            return NO, None
        if not self.checks_out(at):
            return NO, None
        end = at + row.size
        behind = self.checks_out(end)
        alone = far_above(row.base, behind.base) if behind else self.good_next != NEVER
        if far_above(row.base, self.good_next) and alone:
            return NO, None
        if not behind and row.base < self.good_next:
            return NO, None
        run = Run(at, end, at, end, row.base, max(row.last, behind.last) if behind else row.last)
        return (FOLLOWED if self.leads_on(run) else LONE), run

    def value_end(self, run: Run) -> int:
        """Where the value ends that this run is, by the varint in front of it; 0: it is none."""
        if run.start < 5:
            return 0
        for n in range(1, 6):
            before = self.data[run.start - n : run.start]
            if before[-1] >= 0x80 or any(byte < 0x80 for byte in before[:-1]):
                continue
            raw = sum((byte & 0x7F) << 7 * place for place, byte in enumerate(before))
            if run.start + (raw >> 1 ^ -(raw & 1)) == run.end:
                whole = run.last_start == run.start or self.checks_out(run.last_start)
                return run.end if whole else run.last_start
        return 0

    def varint(self, at: int, longest: int) -> tuple[int, int] | None:
        """(value, behind it); None: too long, or cut."""
        raw = 0
        for place, byte in enumerate(self.data[at : min(at + longest, self.length)]):
            raw |= (byte & 0x7F) << 7 * place
            if byte < 0x80:
                raw &= 2**64 - 1
                return raw >> 1 ^ -(raw & 1), at + place + 1
        return None

    def records_value_end(self, batch: int, run: Run) -> int:
        """Where the value ends that begins with this candidate, by the records of the batch at `batch`."""
        at = batch + 61
        while at < run.start:
            found = self.varint(at, 5)
            if found is None or found[0] < 6 or found[1] >= self.length or self.data[found[1]] != 0:
                return 0
            end, at = found[1] + found[0], found[1] + 1
            for longest in (10, 5):
                found = self.varint(at, longest)
                if found is None:
                    return 0
                at = found[1]
            for field_ in ("key", "value"):
                found = self.varint(at, 5)
                if found is None or found[0] > end - found[1]:
                    return 0
                length, at = found
                if field_ == "key":
                    at += max(length, 0)
            if at == run.start:
                return at + length if at + length >= run.first_end else 0
            at = end
        return 0

    # ---- the search

    def claims_lead_on(self, at: int, offset: int) -> bool:
        for _ in range(64):
            if self.length - at < LOG_OVERHEAD:
                return at == self.length
            row = self.frame(at).row
            if row is None:
                return False
            verdict, run = self.acceptable(at)
            if run is not None:
                return verdict == FOLLOWED or self.value_end(run) == 0
            if row.base < offset or far_above(row.base, offset) or not self.looks_written(row):
                return False
            offset = row.base + 1 if row.base < row.last else row.last
            at += row.size
        return False

    def search_on(self, at: int) -> int:
        start, lone, witnesses, passed, within = at, None, 0, -1, -1
        if at in self.barren:
            at = self.barren.stop
        while True:
            if self.length - at < UP_TO_MAGIC or self.crc_left <= 0:
                at = self.length
                break
            if self.data[at + 16] > 2 or int.from_bytes(self.data[at + 8 : at + 12], "big", signed=True) < LEAST_CLAIM:
                at += 1
                continue
            if lone is not None and at - lone.start > LOOK_AHEAD:
                break
            verdict, run = self.acceptable(at)
            if run is None:
                at += 1
                continue
            value = self.value_end(run) if verdict == LONE else 0
            if not value:
                if at != passed or run.first_end > within:
                    within = self.records_value_end(start - 1, run)
                if within > 0:
                    value = passed = run.first_end
            if value:
                at = value
                continue
            goes_on_below = lone is not None and run.base >= max(self.good_next, 0)
            if goes_on_below and (run.base <= lone.last or lone.base < self.good_next):
                at, lone = lone.first_end, None
                continue
            if lone is None and verdict == LONE:
                lone, witnesses = run, 0
            elif verdict == FOLLOWED or witnesses == 4:
                break
            witnesses += 1
            at = run.end
        if lone is not None:
            at = lone.start
        self.barren = range(start, at)
        return at

    def damage_end(self, at: int, found: Frame) -> int:
        if found.next_position > at and self.claims_lead_on(found.next_position, found.base):
            return found.next_position
        end = self.search_on(at + 1)
        return end if end < self.length or found.next_position < 0 else found.next_position


def read(
    data: bytes, start: int = 0, stop: int | None = None, *, file: bool = False, later_segment: bool = False
) -> Found:
    """Bytes [start, stop) of `data`; the search for an end of damage looks at what is behind them, too."""
    stop = len(data) if stop is None else stop
    search, out, at = Search(data), Found(), start
    while True:
        search.length = stop
        found = search.frame(at)
        reason = "crc_mismatch" if found.verdict == "ok" else found.verdict
        if found.row is not None and search.holds(found.row):
            if oracle.decode(data[at : found.next_position]).error is None:
                out.batches.append(at)
                search.good_next, at = found.row.next, found.next_position
                continue
            reason = "records"
        ends = at >= stop or (reason == "end" and not later_segment)
        if not ends and file and reason in ("end", "size_too_small"):
            ends = not any(data[at:stop])
        search.length = len(data)
        if not ends and reason == "cut":
            ends = search.search_on(at + 1) >= len(data) and not later_segment
        if ends:
            out.remaining = stop - at
            return out
        if reason in ("end", "cut"):
            reason = "length_beyond_end"
        # the checksum vouches for the claim of a batch whose records alone cannot be read
        end = found.next_position if reason == "records" else min(search.damage_end(at, found), stop)
        lost_from = None if search.good_next == NEVER else search.good_next
        out.damage.append((at, end - at, reason, lost_from))
        at = end
