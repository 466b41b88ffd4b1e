"""The checked conversion options, the magic, codec and size limit that follow from them for each batch, the counts of a
conversion, and which adjacent batches may be joined without a change for consumers and the broker's producer state.

The producer state (ProducerStateManager) has a producer's epoch, its last sequence and its first open offset; a
consumer sees offsets, timestamps and the transaction of a batch. Control batches and batches without records are never
joined (Target.shape gives them no limit).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kafkarec import codecs
from kafkarec.format.enums import CODEC_NAMES, Compression
from kafkarec.format.java_integers import increment_sequence
from kafkarec.format.layout import BATCH_MAGIC, LATEST_CODECS, MAGICS
from kafkarec.ops.rewrite import SourceBatch

from .source_batches import DecodedBatches

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
        counts = {name: value for name, value in vars(self).items() if isinstance(value, int)}
        return {**counts, "lost": dict(self.lost)}


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
            plain = unit.magic < BATCH_MAGIC and not unit.codec and not self.keeps(unit, magic, codec)
            limit = JOINED_BYTES if plain else None
            if self.batch_size and (magic >= BATCH_MAGIC or codec):
                limit = self.batch_size
        return Shape(magic, codec, limit)

    def keeps(self, unit: SourceBatch, magic: int, codec: int) -> bool:
        """Whether a batch that is neither joined nor split is copied unchanged."""
        return unit.magic == magic and unit.codec == codec and (self.level is None or not codec)


def target(magic: Any, compression: Any, level: Any, batch_size: Any) -> Target:
    """The checked options; ValueError or TypeError for invalid ones."""
    if magic is not None and (magic not in MAGICS or isinstance(magic, bool)):
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
    if _shared_fields(last, shape) != _shared_fields(unit, shape):
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


def _shared_fields(unit: SourceBatch, shape: Shape) -> tuple[object, ...]:
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


def is_regular(decoded: DecodedBatches, number: int, shape: Shape) -> bool:
    """Whether unit `number` can be split and joined: its offsets ascend and its header agrees with its records."""
    unit, rows = decoded.units[number], decoded.summary(decoded.bounds[number], decoded.bounds[number + 1])
    if rows.falls or rows.last_offset - rows.first_offset > WIDEST:
        return False
    latest = unit.max_timestamp
    if unit.magic < BATCH_MAGIC and unit.timestamp_type == LOG_APPEND and not rows.all_at(latest):
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
