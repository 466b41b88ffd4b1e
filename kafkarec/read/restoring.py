"""What the checksum and the neighbours prove about the first 17 bytes of a batch, which no checksum covers.

    field                    restored if                                                      witness
    batch_length, magic      the batch's own records or codec frame end there, and the        CHECKSUM
                             checksum holds (only magic 2: the magic, too)
    base_offset              files only; its neighbours disprove it, and the offsets          OFFSETS
                             between them are as many as the batches there have (behind
                             the last one is the next segment's name); or an .index entry
                             of this position gives it                                        INDEX
    partition_leader_epoch   files only; its neighbours disprove it, and it is the same in    EPOCHS
                             both, or leader-epoch-checkpoint agrees with both and has it     EPOCH_FILE

A restored batch is checked like any other: checksum, payload, records. Used wherever damage is skipped: the engine asks
here for each batch that it refuses, and in files for each that does not follow the one before it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from kafkarec import codecs
from kafkarec._core import Decoder, Layout
from kafkarec.damage import Restored
from kafkarec.errors import KafkaRecordError
from kafkarec.format import layout
from kafkarec.format.schema import record_schema

from . import offset_order
from .offset_order import MAX_JUMP, Offsets, Surroundings, rises

CHECKSUM = "the checksum"
OFFSETS = "the offsets before and behind it"
INDEX = "the .index entry"
EPOCHS = "the leader epochs before and behind it"
EPOCH_FILE = "the leader-epoch-checkpoint"
FIELDS = ("base_offset", "batch_length", "partition_leader_epoch", "magic")
"""The fields that may be restored, in the order of the header, by the names of the batch columns."""
NO_EPOCH = -1
_IN_START = dict(zip(FIELDS, layout.BatchStart._fields, strict=True))
Changes = dict[str, tuple[int, int, str]]
"""Field -> (stored value, used value, witness)."""
_Row = tuple[int, int, int, int]
_Rows = Sequence[_Row]
_NO_COLUMNS = Layout(record_schema((), "ms"))


def used_bytes(raw: bytes | memoryview, restored: Restored) -> bytes:
    """The bytes of a batch, or at least of its first 17, with the restored fields in place of the stored ones."""
    used = layout.start_of(raw)._asdict()
    fields = [restored.fields[name][1] if name in restored.fields else used[at] for name, at in _IN_START.items()]
    return layout.START.pack(*fields) + bytes(raw[layout.UP_TO_MAGIC :])


class LogFacts(NamedTuple):
    """What is known of a file besides its bytes.

    bounds       the offsets [first, end) that a segment of this name may hold; None: unknown
    last_offset  position of a batch, or of several that were appended at once -> last offset by the .index; None: no
                 entry
    next_name    the base offset in the next segment's name; None: there is none
    epoch_at     offset -> leader epoch by the leader-epoch-checkpoint; None: not known
    """

    bounds: tuple[int, int] | None = None
    last_offset: Callable[[int], int | None] = lambda position: None
    next_name: Callable[[], int | None] = lambda: None
    epoch_at: Callable[[int], int | None] = lambda offset: None


NO_FACTS = LogFacts()


def _offsets(rows: _Rows) -> list[Offsets]:
    return [Offsets(*row) for row in rows]


class AfterDamage(NamedTuple):
    """The rules after damage, for one Decoder. restore: False where the caller does not want it."""

    facts: LogFacts
    restore: bool
    options: Any

    @property
    def first_offset(self) -> int | None:
        """The least offset in the file; None: unknown."""
        return self.facts.bounds and self.facts.bounds[0]

    def surroundings(
        self, left: _Rows, run: _Rows, anchored: bool, later: _Rows = (), last: bool = False
    ) -> Surroundings:
        """From the tuples that the engine has."""
        return Surroundings(_offsets(left), _offsets(run), anchored, _offsets(later), last)

    def fits(self, around: Surroundings) -> bool:
        """Whether the batch that was found has an offset that it may have: see offset_order."""
        return offset_order.fits(around, self.facts.bounds)

    def offsets_in(self, raw: bytearray) -> Offsets:
        """Offsets, leader epoch and checksum as a batch has them in its header."""
        start = layout.start_of(raw)
        if start.magic < 2:
            return Offsets(start.base_offset, start.base_offset + 1, crc=start.epoch_or_crc & 0xFFFFFFFF)
        header = layout.v2_header(raw)
        next_offset = start.base_offset + header.last_offset_delta + 1
        return Offsets(start.base_offset, next_offset, start.epoch_or_crc, header.crc)

    def framed(self, raw: bytearray, magic: int) -> Changes:
        """Writes the length of these bytes, and the magic, into their header; what was changed."""
        values = {"batch_length": len(raw) - layout.LOG_OVERHEAD, "magic": magic}
        return self.patched(raw, {name: (value, CHECKSUM) for name, value in values.items()})

    def patched(self, raw: bytearray, proven: dict[str, tuple[int, str]]) -> Changes:
        """Writes proven fields into the header; what was changed."""
        start = layout.start_of(raw)
        stored = dict(zip(FIELDS, start, strict=True))
        changes = {
            name: (stored[name], value, witness) for name, (value, witness) in proven.items() if value != stored[name]
        }
        used = [changes[name][1] if name in changes else stored[name] for name in FIELDS]
        layout.START.pack_into(raw, 0, *used)
        return changes

    def is_copy(self, left: _Rows, own: _Row, behind: _Rows) -> bool:
        """Whether the batch is in the file twice: its header is right, but it is at a wrong place, or the other one."""
        return own in left or own in behind

    def header(
        self, position: int, left: _Rows, own: _Row, behind: _Rows, adjoins: bool = False, last: bool = False
    ) -> dict[str, tuple[int, str]]:
        """Field -> (value, witness) of what the neighbours prove: base offset and leader epoch. adjoins: no damage is
        between the batch and the one before it, or the file's start; last: the batch ends the file."""
        before, this, later = _offsets(left[-2:]), Offsets(*own), _offsets(behind)
        next_name = self.facts.next_name() if last else None
        if next_name is not None:
            later = [Offsets(next_name, next_name)]
        found = {}
        base = self._base_offset(position, before, this, later, adjoins, last)
        if base is not None:
            found["base_offset"] = base
            this = this._replace(base=base[0], next=base[0] + this.next - this.base)
        epoch = self._epoch(before, this, later)
        if epoch is not None:
            found["partition_leader_epoch"] = epoch
        return found

    def _base_offset(
        self,
        position: int,
        before: Sequence[Offsets],
        own: Offsets,
        behind: Sequence[Offsets],
        adjoins: bool,
        last: bool,
    ) -> tuple[int, str] | None:
        first, high = self.facts.bounds or (None, None)
        low = before[-1].next if before else first
        too_low = low is not None and not 0 <= own.base - low <= MAX_JUMP
        overlaps = bool(behind) and own.next > behind[0].base
        too_high = high is not None and own.next > high
        if not too_low and not overlaps and not too_high:
            return None
        neighbour = False  # whether the one neighbour that this batch contradicts may be the wrong one
        if too_low and before and not overlaps and not too_high:
            least = before[-2].next if len(before) > 1 else first or 0
            neighbour = own.base - least >= before[-1].next - before[-1].base > 0
        elif overlaps and not too_low and not too_high and len(behind) > 1:
            neighbour = behind[1].base - own.next >= behind[0].next - behind[0].base
        count = own.next - own.base
        if low is not None and adjoins and not neighbour:
            end, wrong = low + count, [own]
            for other in behind:
                if other.base == end:
                    return (low, OFFSETS) if all(one.base < low or one.next > end for one in wrong) else None
                end += other.next - other.base
                wrong.append(other)
        entry = self.facts.last_offset(position)
        if entry is None:
            return None
        base = entry + 1 - count
        # The entry may be that of several batches, appended at once: then this one ends below it.
        follows = bool(behind) and rises([Offsets(base, entry + 1), *behind[:2]])
        alone = last or follows or (adjoins and base == low)
        fits = (low is None or base >= low) and (not behind or entry < behind[0].base)
        return (base, INDEX) if alone and fits and base != own.base else None

    def _epoch(self, before: Sequence[Offsets], own: Offsets, behind: Sequence[Offsets]) -> tuple[int, str] | None:
        around = [*before[-1:], own, *behind[:1]]
        if own.epoch == NO_EPOCH or any(one.next > other.base for one, other in pairwise(around)):
            return None
        low = before[-1].epoch if before else NO_EPOCH
        high = behind[0].epoch if behind else NO_EPOCH
        if low <= own.epoch and (high == NO_EPOCH or own.epoch <= high):
            return None
        epoch_at = self.facts.epoch_at
        known = [one for one in around if one.crc is not None and one is not own]
        if known and all(epoch_at(one.base) == one.epoch for one in known):
            found = epoch_at(own.base)
            return None if found is None or found == own.epoch else (found, EPOCH_FILE)
        if own.epoch < low:  # or is the batch before the wrong one?
            neighbour = any(NO_EPOCH < one.epoch <= own.epoch for one in before[-2:-1])
        else:
            neighbour = any(one.epoch >= own.epoch for one in behind[1:2])
        return (low, EPOCHS) if low == high >= 0 and not neighbour else None

    def parses(self, raw: bytes) -> bool:
        """Whether the bytes are exactly one batch that every reader accepts: checksum, payload, records."""
        decoder = Decoder(_NO_COLUMNS, self.options, codecs)
        decoder.feed(raw)
        try:
            decoder.run()
        except KafkaRecordError:
            return False
        return decoder.remaining == 0 and decoder.filled[1] == 1
