"""What the checksum and the neighbours prove about the first 17 bytes of a batch, which no checksum covers.

    field                    restored if                                                      witness
    batch_length, magic      the batch's own records or codec frame end there, and the        CHECKSUM
                             checksum holds (only magic 2: the magic, too)
    base_offset              files only; its neighbours disprove it, and the offsets          OFFSETS
                             between them are as many as the batches there have (behind
                             the last one is the next segment's name); or an .index entry
                             of this position gives it                                        INDEX
                             (which alone disproves a gap before the last batch)
    partition_leader_epoch   files only; its neighbours disprove it, and it is the same in    EPOCHS
                             both, or leader-epoch-checkpoint agrees with both and has it     EPOCH_FILE

A restored batch is checked like any other: checksum, payload, records. Used wherever damage is skipped: the Decoder
asks here for each batch that it refuses, and in files for each that does not follow the one before it, and for each
that a search found.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from kafkarec import codecs
from kafkarec._core import Decoder, Layout
from kafkarec.damage import Restored
from kafkarec.errors import KafkaRecordError
from kafkarec.format import layout
from kafkarec.format.schema import record_schema

from . import offset_order
from .offset_order import MAX_JUMP, Frames, Offsets, rises

CHECKSUM = "the checksum"
OFFSETS = "the offsets before and after it"
INDEX = "the .index entry"
EPOCHS = "the leader epochs before and after it"
EPOCH_FILE = "the leader-epoch-checkpoint"
FIELDS = ("base_offset", "batch_length", "partition_leader_epoch", "magic")
"""The fields that may be restored, in the order of the header, by the names of the batch columns."""
NO_EPOCH = -1
MOST_LENGTHS = 64
"""Damaged batches in a row that are followed by their lengths."""
MOST_PROVEN = 8
"""Batches in a row without a frame that are read ahead for their offsets."""
Changes = dict[str, tuple[int, int, str]]
"""Field -> (stored value, used value, witness)."""
_NO_COLUMNS = Layout(record_schema((), "ms"))


def _start(raw: bytes | bytearray | memoryview, values: Mapping[str, int]) -> bytes:
    """The first 17 bytes of a batch with these fields in place of the stored ones."""
    stored = zip(FIELDS, layout.start_of(raw), strict=True)
    return layout.START.pack(*[values.get(name, value) for name, value in stored])


def used_bytes(raw: bytes | memoryview, restored: Restored) -> bytes:
    """The bytes of a batch, or at least of its first 17, with the restored fields in place of the stored ones."""
    values = {name: used for name, (_, used) in restored.fields.items()}
    return _start(raw, values) + bytes(raw[layout.UP_TO_MAGIC :])


def _patched(raw: bytearray, proven: Mapping[str, tuple[int, str]]) -> Changes:
    """Writes proven fields, (value, witness), into the header of a batch; what was changed."""
    stored = dict(zip(FIELDS, layout.start_of(raw), strict=True))
    raw[: layout.UP_TO_MAGIC] = _start(raw, {name: value for name, (value, _) in proven.items()})
    return {name: (stored[name], value, witness) for name, (value, witness) in proven.items() if value != stored[name]}


def _offsets_in(raw: bytearray) -> Offsets:
    """Offsets, leader epoch and checksum as a batch has them in its header."""
    start = layout.start_of(raw)
    if start.magic < 2:
        crc, is_wrapper = start.epoch_or_crc & 0xFFFFFFFF, raw[layout.UP_TO_MAGIC] & layout.CODEC_MASK != 0
        return Offsets(start.base_offset, start.base_offset + 1, crc=crc, is_wrapper=is_wrapper)
    header = layout.v2_header(raw)
    next_offset = start.base_offset + header.last_offset_delta + 1
    return Offsets(start.base_offset, next_offset, start.epoch_or_crc, header.crc)


class LogFacts(NamedTuple):
    """What is known of a file besides its bytes.

    bounds       the offsets [first, end) that a segment of this name may hold; None: unknown
    last_offset  position of a batch, or of several that were appended at once -> last offset by the .index; None: no
                 entry
    next_name    the base offset in the next segment's name; None: there is none
    epoch_at     offset -> leader epoch by the leader-epoch-checkpoint; None: not known
    one_log      whether the offsets in it rise; False: it has pieces of several logs
    """

    bounds: tuple[int, int] | None = None
    last_offset: Callable[[int], int | None] = lambda position: None
    next_name: Callable[[], int | None] = lambda: None
    epoch_at: Callable[[int], int | None] = lambda offset: None
    one_log: bool = True


NO_FACTS = LogFacts()


def _frames(decoder: Decoder, position: int) -> Frames:
    run, anchored, end = decoder.frames_from(position)
    return Frames([Offsets(*row) for row in run], anchored, end)


def _good(decoder: Decoder) -> list[Offsets]:
    return [Offsets(*row) for row in decoder.good_batches()]


class AfterDamage(NamedTuple):
    """The rules after damage, for one Decoder. Positions are those in the whole input.

    facts    what is known of the file
    restore  False where the caller does not want it
    in_file  whether the order of offsets counts: in files of one log
    options  EngineOptions with which a restored batch is checked
    """

    facts: LogFacts
    restore: bool
    in_file: bool
    options: Any

    @property
    def first_offset(self) -> int | None:
        """The least offset in the file; None: unknown."""
        return self.facts.bounds and self.facts.bounds[0]

    # ---- what the Decoder asks

    def restores(self, decoder: Decoder, start: int, end: int, reason: str, fault: dict[str, Any]) -> bool:
        """Reads the damaged batch at `start` if it can be restored, or one that lengths lead to from there, with the
        damage before it; `end`: where reading goes on otherwise. False: there is none."""
        if not self.restore:
            return False
        at, tried = start, list[int]()
        earlier_end, earlier = decoder.tried
        if end == earlier_end and start in earlier:  # the lengths of the damaged batch before this one lead here, too
            tried = earlier[earlier.index(start) :]
            at = decoder.framed_end(tried[-1])
        while len(tried) < MOST_LENGTHS and 0 <= at < end:
            whole = self._whole(decoder, at, end)
            if whole and at + len(whole[0]) <= decoder.stop:
                if at > start:
                    decoder.add_damage(start, at, reason, fault)
                is_read = self._read_whole(decoder, at, *whole)
                if at > start and not is_read:
                    decoder.damage.pop()
                return is_read
            tried.append(at)
            at = decoder.framed_end(at)
        decoder.tried = end, tried
        return False

    def follows(self, decoder: Decoder, position: int, found: int) -> bool:
        """Whether the batch at `position`, which is cut, can be restored, or one fits that is at `found` or behind."""
        if self.restore and decoder.stop == decoder.size and self._whole(decoder, position, found):
            return True
        return self.next_that_fits(decoder, position, found)[1] < decoder.size

    def next_that_fits(self, decoder: Decoder, damage: int, found: int) -> tuple[int, int, int | None]:
        """Where the damage from `damage` on ends, with a batch at `found`, by a search; where reading goes on; the
        base offset of the first batch between, whose offsets do not fit, or None."""
        end, misfit = found, None
        while self.in_file and found < decoder.size:
            frames = _frames(decoder, found)
            following = found + 1
            if frames.run:  # there is none if it cannot be read again
                left = _good(decoder)
                if self._fits(decoder, left, frames):
                    break
                if self.restore and "base_offset" in self.proven_fields(found, left, frames.run[0], frames.run[1:]):
                    break
                misfit = frames.run[0].base if misfit is None else misfit
                following = max(following, decoder.framed_end(found))
            found = decoder.search(damage, following)
            end = found if misfit is None else end
        return end, found, misfit

    def read_doubtful(
        self,
        decoder: Decoder,
        position: int,
        end: int,
        row: tuple[int, int, int, int, bool],
        previous: tuple[int, int, int] | None,
    ) -> None:
        """Reads the framed batch [position, end) if its neighbours disprove its base offset or its leader epoch and
        prove others. row: as of good_batches; previous: the end of the batch that was read before, as such a row."""
        own, left = Offsets(*row), _good(decoder)
        if not left and previous is not None:  # the least offset of the file
            left = [Offsets(*previous)]
        behind = self._behind(decoder, end).run
        if own in left or own in behind:  # a copy: its header is right, but it is at a wrong place, or the other one
            return
        proven = self._proven_fields(decoder, position, end, left, own, behind)
        raw = decoder.bytes_at(position, end) if proven else None
        if raw is not None and decoder.is_readable(position, end):
            changes = _patched(raw, proven)
            if self.parses(raw):
                decoder.read_from(raw, position, changes)

    # ---- batches whose length, or magic, is wrong

    def _whole(self, decoder: Decoder, position: int, stop: int) -> tuple[bytearray, Changes] | None:
        """The bytes and the changes of the batch at `position` under another length or magic than its header has, if it
        is a whole one then; None: it is not."""
        header = decoder.bytes_at(position, position + layout.UP_TO_MAGIC)
        if header is None:
            return None
        stored = layout.start_of(header).magic
        for magic in (2, stored) if 0 <= stored < 2 else (2,):
            end = decoder.end_by_content(position, magic, stop)
            raw = decoder.bytes_at(position, end) if end >= 0 else None
            if raw is None or not self._is_readable(decoder, position, end, magic):
                continue
            length = len(raw) - layout.LOG_OVERHEAD
            changes = _patched(raw, {"batch_length": (length, CHECKSUM), "magic": (magic, CHECKSUM)})
            if changes and self.parses(raw):
                return raw, changes
        return None

    def _is_readable(self, decoder: Decoder, position: int, end: int, magic: int) -> bool:
        """Whether all bytes could be read but those of the length, and of magic 2 its magic."""
        length_at, magic_at = position + layout.V2_AT.batch_length, position + layout.V2_AT.magic
        spans = (position, length_at), (length_at + 4, magic_at), (magic_at + (magic == 2), end)
        return all(decoder.is_readable(*span) for span in spans)

    def _behind(self, decoder: Decoder, position: int) -> Frames:
        """The batches from `position` on; before the first frame there may be some that can be restored."""
        restored: list[Offsets] = []
        frames = _frames(decoder, position)
        while not frames.run and len(restored) < MOST_PROVEN:
            whole = self._whole(decoder, frames.end, decoder.search(frames.end, frames.end + 1, ahead=True))
            if not whole:
                break
            restored.append(_offsets_in(whole[0]))
            frames = _frames(decoder, frames.end + len(whole[0]))
        return frames._replace(run=[*restored, *frames.run])

    def _read_whole(self, decoder: Decoder, position: int, raw: bytearray, changes: Changes) -> bool:
        """Reads a batch that the checksum proves; in a file its offset and leader epoch are compared first."""
        end = position + len(raw)
        if self.in_file:
            own, left, behind = _offsets_in(raw), _good(decoder), self._behind(decoder, end)
            proven = self._proven_fields(decoder, position, end, left, own, behind.run)
            if "base_offset" not in proven and not self._fits(decoder, left, behind._replace(run=[own, *behind.run])):
                decoder.add_undecided(position, end, own.base)
                return True
            changes = changes | _patched(raw, proven)
        return decoder.read_from(raw, position, changes)

    # ---- the order of offsets, in files

    def _fits(self, decoder: Decoder, left: Sequence[Offsets], frames: Frames) -> bool:
        """Whether the first batch of the run has an offset that it may have: see offset_order."""
        behind = Frames((), False, frames.end)
        if not frames.anchored:
            found = decoder.search(frames.end, frames.end + 1, ahead=True)
            if found < decoder.size:
                behind = _frames(decoder, found)
        return offset_order.fits(left, frames, behind, self.facts.bounds)

    def _proven_fields(
        self,
        decoder: Decoder,
        position: int,
        end: int,
        left: Sequence[Offsets],
        own: Offsets,
        behind: Sequence[Offsets],
    ) -> dict[str, tuple[int, str]]:
        """As `header`, of the batch [position, end)."""
        adjoins, last = position == decoder.previous_end, end == decoder.size
        found = self.proven_fields(position, left, own, behind, adjoins, last)
        if "partition_leader_epoch" in found and behind and not decoder.is_valid(end):
            del found["partition_leader_epoch"]
        return found

    # ---- what is proven

    def proven_fields(
        self,
        position: int,
        left: Sequence[Offsets],
        own: Offsets,
        behind: Sequence[Offsets],
        adjoins: bool = False,
        last: bool = False,
    ) -> dict[str, tuple[int, str]]:
        """Field -> (value, witness) of what the neighbours prove: base offset and leader epoch. adjoins: no damage is
        between the batch and the one before it, or the file's start; last: the batch ends the file."""
        before = left[-2:]
        low = before[-1].next if before else self.facts.bounds and self.facts.bounds[0]
        # Where offsets continue, the folder, which may have thousands of segments, is not listed.
        next_name = self.facts.next_name() if last and not (adjoins and own.base == low) else None
        if next_name is not None:
            behind = [Offsets(next_name, next_name)]
        found = {}
        base = self._base_offset(position, low, before, own, behind, adjoins, last)
        if base is not None:
            found["base_offset"] = base
            own = own._replace(base=base[0], next=base[0] + own.next - own.base)
        epoch = self._epoch(before, own, behind)
        if epoch is not None:
            found["partition_leader_epoch"] = epoch
        return found

    def _base_offset(
        self,
        position: int,
        low: int | None,
        before: Sequence[Offsets],
        own: Offsets,
        behind: Sequence[Offsets],
        adjoins: bool,
        last: bool,
    ) -> tuple[int, str] | None:
        """low: the least offset that it may have; None: not known."""
        first, high = self.facts.bounds or (None, None)
        too_low = low is not None and not 0 <= own.base - low <= MAX_JUMP
        overlaps = bool(behind) and own.next > behind[0].base
        too_high = high is not None and own.next > high
        count = own.next - own.base
        if not too_low and not overlaps and not too_high:
            # A gap before it is no contradiction, but an entry without this gap is one, unless the next segment's name
            # fits: then the entry is that of a batch which is missing there.
            if low is None or not adjoins or own.base == low or (position and not before):
                return None
            disproved = self.facts.last_offset(position) == low + count - 1 and self.facts.next_name() != own.next
            return (low, INDEX) if disproved else None
        neighbour = False  # whether the one neighbour that this batch contradicts may be the wrong one
        if too_low and before and not overlaps and not too_high:
            least = before[-2].next if len(before) > 1 else first or 0
            neighbour = own.base - least >= before[-1].next - before[-1].base > 0
        elif overlaps and not too_low and not too_high and len(behind) > 1:
            neighbour = behind[1].base - own.next >= behind[0].next - behind[0].base
        if low is not None and adjoins and not neighbour:
            end, wrong = low + count, [own]
            for other in behind:
                if wrong[-1].is_wrapper or other.is_wrapper:
                    break  # of how many offsets each is, is not known
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

    def parses(self, raw: bytearray) -> bool:
        """Whether the bytes are exactly one batch that every reader accepts: checksum, payload, records."""
        decoder = Decoder(_NO_COLUMNS, self.options, codecs)
        decoder.feed(raw)
        try:
            decoder.run()
        except KafkaRecordError:
            return False
        return decoder.remaining == 0 and decoder.filled[1] == 1
