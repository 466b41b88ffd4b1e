"""Runs in the workers of kafka_encode: arrays of structs in, values of raw batches out.

    element of array<struct>           record
    offset, timestamp, key, ...        the Arrow child columns, sliced; no Python object per record
    topic, partition                   ignored: raw batches have neither
    _corrupt_record                    must be null: a damaged range is not a record

One call of kafkarec.encode per value. The options are one literal: the name of a codec, or a JSON object.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from . import decoding, function_options
from .bootstrap import kafkarec
from .errors import report_cause_first
from .schema import CORRUPT, NamedValues

# The options, under their names in kafkarec.encode.
OPTIONS = (
    "compression",
    "level",
    "magic",
    "batch_size",
    "base_offset",
)
_LEFT_OUT = ("topic", "partition", CORRUPT)
_DEFAULTS = {"compression": "none", "magic": 2}
# A piece of output ends with the value that reaches this size: Spark then processes it while the next one is encoded.
_OUTPUT_BYTES = 8 << 20


def checked_options(given: NamedValues) -> NamedValues:
    """The options without those that are None. ValueError for a wrong one, with kafkarec's message."""
    chosen = {name: value for name, value in given.items() if value is not None}
    for name in chosen:
        if name not in OPTIONS:
            hint = function_options.did_you_mean(name, OPTIONS)
            raise ValueError(f"kafka_encode has no option {name!r}; {hint}")
    kafkarec.encode([(0, None, None, b"", [])], **chosen)
    return chosen


def to_literal(given: NamedValues) -> str | None:
    """The literal for a Column call: the name of the codec if that is the only option, else JSON. None: all options
    have their defaults."""
    return function_options.literal_of_changes(checked_options(given), _DEFAULTS, "compression")


def from_literal(text: str | None) -> NamedValues:
    """The inverse of `to_literal`; in SQL a user may have written the text."""
    example = '{"compression": "zstd", "level": 3}'
    return checked_options(function_options.parsed_literal(text, "kafka_encode", "compression", example))


@report_cause_first
def kafka_encode(batches: Iterator[pa.Array]) -> Iterator[pa.Array]:
    """The implementation of `kafka_encode(records[, options])`: per input array one or more binary arrays, in order."""
    call = "kafka_encode(records[, options])"
    for lists, chosen in decoding.values_and_options(batches, call, NamedValues(), from_literal):
        yield from encode_values(lists, chosen)


def encode_values(lists: pa.Array, chosen: NamedValues) -> Iterator[pa.Array]:
    """array<struct<...>> to binary: null stays null, an empty array becomes b""; ValueError names row and record,
    TypeError another type."""
    kind = lists.type
    if not (pa.types.is_list(kind) or pa.types.is_large_list(kind)) or not pa.types.is_struct(kind.value_type):
        raise TypeError(
            f"kafka_encode takes array<struct<offset, timestamp, key, value, headers>>, not {decoding.sql_type(kind)}"
        )
    records = pa.RecordBatch.from_struct_array(lists.values)
    starts = lists.offsets.to_pylist()
    done: list[bytes | None] = []
    size = 0
    for row, count in enumerate(pc.list_value_length(lists).to_pylist()):
        value = None if count is None else b""
        if count:
            start, stop = starts[row], starts[row] + count
            try:
                value = kafkarec.encode(_record_columns(lists.values, records, start, stop), **chosen)
            except (TypeError, ValueError) as error:
                where = f"row {row} of an input batch of {len(lists)}, {count} records"
                if "offset" in records.schema.names:
                    first, last = (records.column("offset")[at].as_py() for at in (start, stop - 1))
                    where += f" with offsets {first} to {last}"
                if isinstance(error, kafkarec.KafkaRecordError):
                    error.add_note(where)
                    raise
                raise type(error)(f"kafka_encode, {where}: {error}") from None
        done.append(value)
        size += len(value or b"")
        if size >= _OUTPUT_BYTES:
            yield pa.array(done, pa.binary())
            done, size = [], 0
    if done or not len(lists):
        yield pa.array(done, pa.binary())


def _record_columns(structs: pa.Array, records: pa.RecordBatch, start: int, stop: int) -> pa.RecordBatch:
    """The records of one value as columns for kafkarec.encode. ValueError for a null record, and for damage."""
    if structs.null_count and (null := pc.index(structs.slice(start, stop - start).is_null(), True).as_py()) >= 0:
        raise ValueError(f"record {null}: it is null; leave it out: filter(records, r -> r IS NOT NULL)")
    part = records.slice(start, stop - start)
    corrupt = part.column(CORRUPT) if CORRUPT in part.schema.names else None
    if corrupt is not None and corrupt.null_count < len(corrupt):
        raise ValueError(
            f"record {pc.index(corrupt.is_valid(), True)}: {CORRUPT} is set, so it is damage, not a record; "
            f"leave it out: filter(records, r -> r.{CORRUPT} IS NULL)"
        )
    return part.drop_columns([name for name in _LEFT_OUT if name in part.schema.names])
