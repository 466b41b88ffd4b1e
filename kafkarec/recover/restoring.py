"""What the checksum and the neighbours prove about the first 17 bytes of a batch, which no checksum covers.

    field                    restored if                                                      witness
    batch_length, magic      the batch's own records or codec frame end there, and the        CHECKSUM
                             checksum holds (only magic 2: the magic, too)
    base_offset              files (*); its neighbours disprove it, and the offsets           OFFSETS
                             between them are as many as the batches there have (behind
                             the last one is the next segment's name), and no other batch
                             has it; or an .index entry of this position gives it             INDEX
                             (which alone disproves a gap before the last batch)
    partition_leader_epoch   files (*); its neighbours, also in the next segment, disprove
                             it, and it is the same in both,                                  EPOCHS
                             or leader-epoch-checkpoint agrees with both and has it           EPOCH_FILE

(*) and a buffer that is read with read_committed, if a transaction was aborted or is open in it, and its offsets rise
with those that are restored.

`header_proofs` has the rules of the two fields for files. A restored batch is checked like any other: checksum,
payload, records. Used wherever damage is skipped: the Decoder asks here for each batch that it refuses, and in files
for each that does not follow the one before it, and for each that a search found.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from kafkarec import codecs
from kafkarec._core import Decoder, Layout
from kafkarec.damage import Restored
from kafkarec.errors import KafkaRecordError
from kafkarec.format import layout
from kafkarec.format.schema import record_schema

from . import offset_order
from .header_proofs import FileFacts, PlacedBatch, Proof
from .offset_order import Frames, Offsets

CHECKSUM = "the checksum"
FIELDS = ("base_offset", "batch_length", "partition_leader_epoch", "magic")
"""The fields that may be restored, in the order of the header, by the names of the batch columns."""
MOST_LENGTHS = 64
"""Damaged batches in a row that are followed by their lengths."""
MOST_PROVEN = 8
"""Batches in a row without a frame that are read ahead for their offsets."""
Changes = dict[str, tuple[int, int, str]]
"""Field -> (stored value, used value, witness)."""
_NO_COLUMNS = Layout(record_schema((), "ms"))


class AfterDamage(NamedTuple):
    """The rules after damage, for one Decoder. Positions are those in the whole input.

    facts    what is known of the file
    restore  False where the caller does not want it
    in_file  whether the order of offsets counts: in files of one log
    options  EngineOptions with which a restored batch is checked
    """

    facts: FileFacts
    restore: bool
    in_file: bool
    options: Any

    @property
    def first_offset(self) -> int | None:
        """The least offset in the file; None: unknown."""
        return self.facts.bounds and self.facts.bounds[0]

    # ---- what the Decoder asks

    def try_to_restore(self, decoder: Decoder, start: int, end: int, reason: str, fault: dict[str, Any]) -> bool:
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
            whole = self._whole_batch_by_content(decoder, at, end)
            if whole and at + len(whole[0]) <= decoder.stop:
                if at == start:
                    return self._read_proven(decoder, at, *whole)
                decoder.add_damage(start, at, reason, fault)
                is_read = self._read_proven(decoder, at, *whole)
                if not is_read:
                    decoder.damage.pop()
                return is_read
            tried.append(at)
            at = decoder.framed_end(at)
        decoder.tried = end, tried
        return False

    def has_batch_behind(self, decoder: Decoder, position: int, found: int) -> bool:
        """Whether the batch at `position`, which is cut, can be restored, or one fits that is at `found` or behind."""
        if self.restore and decoder.stop == decoder.size and self._whole_batch_by_content(decoder, position, found):
            return True
        return self.next_that_fits(decoder, position, found)[1] < decoder.size

    def next_that_fits(self, decoder: Decoder, damage: int, found: int) -> tuple[int, int, int | None]:
        """Where the damage from `damage` on ends, with a batch at `found`, by a search; where reading goes on; the
        base offset of the first batch between, whose offsets do not fit, or None."""
        end, misfit = found, None
        while self.in_file and found < decoder.size:
            frames = _frames_from(decoder, found)
            following = found + 1
            if frames.run:  # there is none if it cannot be read again
                own, before = frames.run[0], _good_batches(decoder)
                if self._fits(decoder, before, frames):
                    break
                batch = PlacedBatch(self.facts, found, before, own, frames.run[1:])
                if self.restore and "base_offset" in batch.proven_fields():
                    break
                misfit = own.base if misfit is None else misfit
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
        prove others. row: as of last_good_batches; previous: the end of the batch that was read before, as such a
        row."""
        own, before = Offsets(*row), _good_batches(decoder)
        if not before and previous is not None:  # the least offset of the file
            before = [Offsets(*previous)]
        behind = self._frames_and_restored(decoder, end).run
        if own in before or own in behind:  # a copy: its header is right, but it is at a wrong place, or the other one
            return
        proven = self._proven_fields(decoder, position, end, before, own, behind)
        raw = decoder.bytes_at(position, end) if proven else None
        if raw is not None and decoder.is_readable(position, end):
            changes = _patch(raw, proven)
            if self._is_one_batch(raw):
                decoder.read_restored(raw, position, changes)

    # ---- batches whose length, or magic, is wrong

    def _whole_batch_by_content(self, decoder: Decoder, position: int, stop: int) -> tuple[bytearray, Changes] | None:
        """The bytes and the changes of the batch at `position` under another length or magic than its header has, if it
        is a whole one then; None: it is not."""
        header = decoder.bytes_at(position, position + layout.UP_TO_MAGIC)
        if header is None:
            return None
        stored = layout.first_fields(header).magic
        for magic in (2, stored) if 0 <= stored < 2 else (2,):
            end = decoder.end_by_content(position, magic, stop)
            raw = decoder.bytes_at(position, end) if end >= 0 else None
            # all bytes but those of the length, and of magic 2 its magic
            length_at, magic_at = position + layout.V2_AT.batch_length, position + layout.V2_AT.magic
            spans = (position, length_at), (length_at + 4, magic_at), (magic_at + (magic == 2), end)
            if raw is None or not all(decoder.is_readable(*span) for span in spans):
                continue
            length = len(raw) - layout.LOG_OVERHEAD
            changes = _patch(raw, {"batch_length": (length, CHECKSUM), "magic": (magic, CHECKSUM)})
            if changes and self._is_one_batch(raw):
                return raw, changes
        return None

    def _is_one_batch(self, raw: bytearray) -> bool:
        """Whether the bytes are exactly one batch that every reader accepts: checksum, payload, records."""
        decoder = Decoder(_NO_COLUMNS, self.options, codecs)
        decoder.feed(raw)
        try:
            decoder.run()
        except KafkaRecordError:
            return False
        return decoder.remaining == 0 and decoder.filled[1] == 1

    def _read_proven(self, decoder: Decoder, position: int, raw: bytearray, changes: Changes) -> bool:
        """Reads a batch that the checksum proves; in a file its offset and leader epoch are compared first."""
        end = position + len(raw)
        if self.in_file:
            own, before, behind = _offsets_in(raw), _good_batches(decoder), self._frames_and_restored(decoder, end)
            proven = self._proven_fields(decoder, position, end, before, own, behind.run)
            frames = behind._replace(run=[own, *behind.run])
            if "base_offset" not in proven and not self._fits(decoder, before, frames):
                decoder.add_undecided(position, end, own.base)
                return True
            changes = changes | _patch(raw, proven)
        return decoder.read_restored(raw, position, changes)

    # ---- the neighbours, in files

    def _frames_and_restored(self, decoder: Decoder, position: int) -> Frames:
        """The batches from `position` on; before the first frame there may be some that can be restored."""
        restored: list[Offsets] = []
        frames = _frames_from(decoder, position)
        while not frames.run and len(restored) < MOST_PROVEN:
            whole = self._whole_batch_by_content(
                decoder, frames.end, decoder.search(frames.end, frames.end + 1, ahead=True)
            )
            if not whole:
                break
            restored.append(_offsets_in(whole[0]))
            frames = _frames_from(decoder, frames.end + len(whole[0]))
        return frames._replace(run=[*restored, *frames.run])

    def _fits(self, decoder: Decoder, before: Sequence[Offsets], frames: Frames) -> bool:
        """Whether the first batch of the run has an offset that it may have: see offset_order."""
        behind = Frames((), False, frames.end)
        if not frames.anchored:
            found = decoder.search(frames.end, frames.end + 1, ahead=True)
            if found < decoder.size:
                behind = _frames_from(decoder, found)
        return offset_order.fits(before, frames, behind, self.facts.bounds)

    def _proven_fields(
        self,
        decoder: Decoder,
        position: int,
        end: int,
        before: Sequence[Offsets],
        own: Offsets,
        behind: Sequence[Offsets],
    ) -> dict[str, Proof]:
        """PlacedBatch.proven_fields of the batch [position, end)."""
        adjoins, is_last = position == decoder.previous_end, end == decoder.size
        found = PlacedBatch(self.facts, position, before, own, behind, adjoins, is_last).proven_fields()
        if behind and not decoder.is_valid(end):
            found.pop("partition_leader_epoch", None)
        return found


def _frames_from(decoder: Decoder, position: int) -> Frames:
    run, anchored, end = decoder.frames_from(position)
    return Frames([Offsets(*row) for row in run], anchored, end)


def _good_batches(decoder: Decoder) -> list[Offsets]:
    return [Offsets(*row) for row in decoder.last_good_batches()]


# ---- the bytes of headers


def _offsets_in(raw: bytearray) -> Offsets:
    """Offsets, leader epoch and checksum as a batch has them in its header."""
    start = layout.first_fields(raw)
    if start.magic < 2:
        crc, is_wrapper = start.epoch_or_crc & 0xFFFFFFFF, raw[layout.UP_TO_MAGIC] & layout.CODEC_MASK != 0
        return Offsets(start.base_offset, start.base_offset + 1, crc=crc, is_wrapper=is_wrapper)
    header = layout.v2_header(raw)
    next_offset = start.base_offset + header.last_offset_delta + 1
    return Offsets(start.base_offset, next_offset, start.epoch_or_crc, header.crc)


def _patch(raw: bytearray, proven: Mapping[str, Proof]) -> Changes:
    """Writes proven fields into the header of a batch; returns what was changed."""
    stored = dict(zip(FIELDS, layout.first_fields(raw), strict=True))
    raw[: layout.UP_TO_MAGIC] = _header_start_with(raw, {name: value for name, (value, _) in proven.items()})
    return {name: (stored[name], value, witness) for name, (value, witness) in proven.items() if value != stored[name]}


def with_restored_fields(raw: bytes | memoryview, restored: Restored) -> bytes:
    """The bytes of a batch, or at least of its first 17, with the restored fields in place of the stored ones."""
    values = {name: used for name, (_, used) in restored.fields.items()}
    return _header_start_with(raw, values) + bytes(raw[layout.UP_TO_MAGIC :])


def _header_start_with(raw: bytes | bytearray | memoryview, values: Mapping[str, int]) -> bytes:
    """The first 17 bytes of a batch with these fields in place of the stored ones."""
    stored = zip(FIELDS, layout.first_fields(raw), strict=True)
    return layout.START.pack(*[values.get(name, value) for name, value in stored])
