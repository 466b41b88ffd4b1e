"""The batches to convert, read one by one and validated as the reader does; the checked options, and the magic, codec
and size limit that follow from them for each batch; the counts of a conversion; which adjacent batches may be joined.

Every batch is decoded before it is converted: records that Kafka cannot read must not get a new, right checksum. Where
records are split, sizes are those of the uncompressed batch, so they do not depend on the codec, and a second
conversion splits at the same records.

Batches are joined without a change for consumers and for the broker's producer state (ProducerStateManager), which has
a producer's epoch, its last sequence and its first open offset; a consumer sees offsets, timestamps and the transaction
of a batch. Control batches and batches without records are never joined (Target.shape gives them no limit).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, NamedTuple

from kafkarec import codecs
from kafkarec._core import Source
from kafkarec.format.enums import CODEC_NAMES, Compression
from kafkarec.format.java_integers import LONG_MAX, increment_sequence
from kafkarec.format.layout import BATCH_MAGIC, LATEST_CODECS, MAGICS
from kafkarec.ops.rewrite import SourceBatch, batches_of
from kafkarec.read.decode_options import request
from kafkarec.read.passes import as_columns, read_at_once
from kafkarec.recover.restoring import with_restored_fields
from kafkarec.recover.steps import Step
from kafkarec.storage.raw_batches import reread
from kafkarec.write.encoding import record_input_of
from kafkarec.write.fields import BatchHeader


def source_batches(step: Step, source: Any) -> Iterator[SourceBatch]:
    """Yields the batches of a step. Adjacent plain messages are one, as there may be millions of them: with the header
    of the first, and the last offset of the last."""
    restored = {one.position: one for one in step.restored}
    units, span = step.rows.convert_units(step.chunk), step.rows.byte_range
    begin, whole = span(0)[0], None
    if not (step.damage or restored):
        whole = memoryview(reread(source, begin, span(len(step) - 1)[1] - begin))
    firsts, _, rows = zip(*units, strict=True)
    for batch, (first, count, _) in zip(batches_of(step, rows, firsts), units, strict=True):
        position, end = batch.position, span(first + count - 1)[1]
        if whole is not None:
            raw = whole[position - begin : end - begin]
        else:
            pieces = []
            for at, stop in map(span, range(first, first + count)):
                data = reread(source, at, stop - at)
                pieces.append(with_restored_fields(data, restored[at]) if at in restored else data)
            raw = memoryview(b"".join(pieces))
        if count > 1:
            last = step.cell("last_offset", first + count - 1)
            batch = batch._replace(last_offset=last, size_in_bytes=end - position, messages=count)
        yield batch._replace(raw=raw, file=source.path)


_COLUMNS = ("offset", "timestamp", "key", "value", "headers")
_OFFSET = _COLUMNS.index("offset")


class RowSummary(NamedTuple):
    """What some rows have in common; a timestamp of -1 is none. Without rows all is 0.

    falls               an offset is not above the one before: fall_from, fall_to are the first two such
    with_timestamp, with_headers   numbers of rows
    headers             number of headers
    """

    rows: int
    first_offset: int
    last_offset: int
    least_offset: int
    greatest_offset: int
    falls: bool
    fall_from: int
    fall_to: int
    least_timestamp: int
    greatest_timestamp: int
    with_timestamp: int
    with_headers: int
    headers: int

    def all_have_timestamp(self, time: int) -> bool:
        """Whether all rows have the timestamp `time`."""
        return self.least_timestamp == time == self.greatest_timestamp


class DecodedBatches:
    """All records of some units (SourceBatch).

    bounds: unit i has the rows [bounds[i], bounds[i + 1])
    offsets: one per row
    record_input: the writer's input
    """

    def __init__(self, units: Sequence[SourceBatch], max_decompressed_bytes: int) -> None:
        read_request = request(
            columns=_COLUMNS,
            control=True,
            check_crcs=False,
            header_keys="binary",
            timestamp_unit="int64",
            max_decompressed_bytes=max_decompressed_bytes,
        )
        part = read_at_once(
            read_request, Source(units[0].raw if len(units) == 1 else b"".join(unit.raw for unit in units))
        )
        self.units = units
        self.bounds = [0, *accumulate(unit.rows for unit in units)]
        self.offsets = [one for chunk in part.chunks for one in chunk.values(_OFFSET, 0, len(chunk))]
        self.record_input = record_input_of(as_columns(read_request, part))

    def summary(self, start: int, stop: int) -> RowSummary:
        """That of the rows [start, stop)."""
        return RowSummary(**self.record_input.summary(start, stop))

    def split_points(self, start: int, stop: int, magic: int, limit: int) -> list[int]:
        """The rows of [start, stop) that begin a batch, then `stop`. A record above `limit` is a batch of its own.

        All batches of a run have the same delete horizon or none; with one, it is stored as the base timestamp
        (KIP-534).
        """
        header = BatchHeader(magic, delete_horizon_ms=self.units[0].delete_horizon_ms)
        return [*self.record_input.batch_starts(header, start, stop, min(limit, LONG_MAX)), stop]


# What is counted as lost, with a description. The keys are public, in `ConversionStats.lost`.
LOSSES = {
    "headers": "record headers",
    "records_with_headers": "records with headers",
    "timestamps": "timestamps of records",
    "log_append_times": "batches' timestamp type LogAppendTime",
    "control_batches": "control batches",
    "control_records": "control records",
    "transactional_batches": "batches' transactional flag",
    "producer_ids": "batches' producer id, epoch and sequence",
    "leader_epochs": "batches' leader epoch",
    "delete_horizons": "batches' delete horizon",
    "empty_batches": "batches without records",
    "offset_ranges": "batches' first or last offset where no record has it",
}


@dataclass
class ConversionStats:
    """Counts of input, output and losses.

    batches_in, batches_out   each outer message of magic 0 and 1 counts as one; damaged batches are not counted
    batches_copied            copied byte for byte
    records_in, records_out   including control records
    records_converted         written with another magic (Kafka: RecordValidationStats.numRecordsConverted)
    bytes_in, bytes_out       of the batches
    lost                      key of `LOSSES` -> count, 0 if nothing was lost
    """

    batches_in: int = 0
    batches_out: int = 0
    batches_copied: int = 0
    records_in: int = 0
    records_out: int = 0
    records_converted: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    lost: dict[str, int] = field(default_factory=lambda: dict.fromkeys(LOSSES, 0))

    @property
    def losses(self) -> dict[str, int]:
        """The entries of `lost` that are not 0."""
        return {word: count for word, count in self.lost.items() if count}

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {**vars(self), "lost": dict(self.lost)}


class LossError(ValueError):
    """Raised with on_loss="raise", at the end of a conversion that loses something: its output is not to be used.

    lost: key of `LOSSES` -> count
    """

    def __init__(self, lost: Mapping[str, int]) -> None:
        self.lost = dict(lost)
        said = ", ".join(f"{LOSSES[word]}: {count}" for word, count in self.lost.items())
        super().__init__(f"the conversion would lose {said}")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.lost,)


JOINED_BYTES = 16384
"""The producer's default batch.size: the size of batches that plain messages of magic 0 and 1 are joined into."""

_ATTRIBUTE_BITS = 0x7F


class Shape(NamedTuple):
    """Magic and codec of the output of one batch. limit: bytes up to which it is joined with adjacent batches and above
    which it is split; None: it is neither joined nor split."""

    magic: int
    codec: int
    limit: int | None


class Target(NamedTuple):
    """The options of `convert`. magic, codec: None keeps that of each batch."""

    magic: int | None
    codec: int | None
    level: int | None
    batch_size: int | None

    def shape(self, unit: SourceBatch) -> Shape:
        """The output of one batch. Down-conversion keeps lower magics; up-conversion is only to magic 2."""
        magic = self.magic
        if magic is None or unit.magic < magic < BATCH_MAGIC:
            magic = unit.magic
        # a batch without records, or a marker, is never compressed, as in Kafka
        is_bare = unit.magic == magic >= BATCH_MAGIC and not unit.codec and (unit.is_control or not unit.rows)
        codec = unit.codec if self.codec is None or is_bare else self.codec
        limit = None
        # attribute bits of a later Kafka apply to one batch
        is_later = unit.magic >= BATCH_MAGIC and unit.attributes & ~_ATTRIBUTE_BITS
        if unit.rows and not unit.is_control and not is_later:
            plain = unit.magic < BATCH_MAGIC and not unit.codec and not self.copies_unchanged(unit, magic, codec)
            limit = JOINED_BYTES if plain else None
            if self.batch_size and (magic >= BATCH_MAGIC or codec):
                limit = self.batch_size
        return Shape(magic, codec, limit)

    def copies_unchanged(self, unit: SourceBatch, magic: int, codec: int) -> bool:
        """Whether a batch that is neither joined nor split is copied unchanged."""
        return unit.magic == magic and unit.codec == codec and (self.level is None or not codec)


def checked_target(magic: Any, compression: Any, level: Any, batch_size: Any) -> Target:
    """The checked options; ValueError or TypeError for invalid ones."""
    if magic is not None and (type(magic) is not int or magic not in MAGICS):
        raise ValueError(f"magic {magic!r}: {', '.join(map(str, MAGICS))}, or None for that of each batch")
    codec = None if compression is None else int(Compression.of(compression))
    if codec is None and level is not None:
        raise ValueError("level needs compression=, the codec of the level")
    if codec is not None:
        codecs.checked_level(codec, level)
    if codec is not None and magic is not None and codec > LATEST_CODECS[magic]:
        raise ValueError(f"{CODEC_NAMES[codec]} is not supported in magic {magic}")
    if batch_size is not None and (not isinstance(batch_size, int) or isinstance(batch_size, bool)):
        raise TypeError(f"batch_size is an int, not {type(batch_size).__name__}")
    if batch_size is not None and batch_size < 1:
        raise ValueError(f"batch_size {batch_size}: bytes, 1 or more")
    return Target(magic, codec, level, batch_size)


LOG_APPEND = 1
WIDEST = 2**30 - 1
"""Largest last - base offset of a batch that may be joined with another: the offset delta of two such fits an int32."""


def may_follow(first: SourceBatch, last: SourceBatch, unit: SourceBatch, shape: Shape) -> bool:
    """Whether the headers allow `unit` to be joined to a run of batches from `first` to `last` of the same shape."""
    if _fields_that_must_agree(last, shape) != _fields_that_must_agree(unit, shape):
        return False
    begin = unit.last_offset if unit.base_offset is None else unit.base_offset
    whole = first.last_offset if first.base_offset is None else first.base_offset
    if begin <= last.last_offset or unit.last_offset - whole > WIDEST:
        return False
    if shape.magic < BATCH_MAGIC or last.base_sequence == unit.base_sequence == -1:
        return True
    if -1 in (last.base_sequence, unit.base_sequence) or last.base_offset is None:
        return False
    # offsets and sequences both continue: a record's sequence is base sequence + offset delta
    step = 1 + last.last_offset - last.base_offset
    follows = unit.base_offset == last.last_offset + 1
    return follows and unit.base_sequence == increment_sequence(last.base_sequence, step)


def _fields_that_must_agree(unit: SourceBatch, shape: Shape) -> tuple[object, ...]:
    """The header fields that apply to all records of a batch, as far as the target's magic has them."""
    stamped = unit.timestamp_type == LOG_APPEND
    if shape.magic < BATCH_MAGIC:
        return (stamped, unit.max_timestamp if stamped else None) if shape.magic else ()
    return (
        stamped,
        unit.max_timestamp if stamped else None,
        unit.partition_leader_epoch,
        unit.producer_id,
        unit.producer_epoch,
        unit.is_transactional,
        unit.delete_horizon_ms,
    )


def is_splittable(decoded: DecodedBatches, number: int, shape: Shape) -> bool:
    """Whether unit `number` can be split and joined: its offsets ascend and its header agrees with its records."""
    unit, rows = decoded.units[number], decoded.summary(decoded.bounds[number], decoded.bounds[number + 1])
    if rows.falls or rows.last_offset - rows.first_offset > WIDEST:
        return False
    latest = unit.max_timestamp
    if unit.magic < BATCH_MAGIC and unit.timestamp_type == LOG_APPEND and not rows.all_have_timestamp(latest):
        return False
    if shape.magic < BATCH_MAGIC:
        return min(latest, rows.least_timestamp) >= -1
    if unit.magic < BATCH_MAGIC:
        return True
    if unit.timestamp_type != LOG_APPEND and max(-1, rows.greatest_timestamp) != latest:
        return False
    if unit.base_sequence < -1:
        return False
    first = unit.base_offset
    return first is not None and first <= rows.first_offset and rows.last_offset <= unit.last_offset
