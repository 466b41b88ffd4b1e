"""Runs in the workers: Arrow arrays of bytes in, Arrow arrays of array<struct> out.

The arrays consist of kafkarec's column buffers with Spark's names and nullability: record data is not copied, except
where a damaged range needs a separate row in PERMISSIVE mode. Only `timestampType` is converted per record (int8 to
Spark's int), and `headers` where a value has any (no headers become null).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from . import function_options
from .bootstrap import distributed, kafkarec
from .errors import report_cause_first
from .function_options import FunctionOptions
from .schema import (
    BATCH_COLUMNS,
    CORRUPT,
    NO_TIMESTAMP_TYPE,
    RECORD_COLUMNS,
    Columns,
    NamedValues,
    SparkColumn,
    arrow_struct,
    arrow_struct_list,
    arrow_type,
    kafkarec_names,
)

if TYPE_CHECKING:
    # As `RecordLists.damage`.
    DamageInValues = Sequence[tuple[int, int, kafkarec.Damage]]

# The fields of `_corrupt_record`, in this order; `path` comes first where there is a file.
REASON_FIELDS = ("position", "length", "lost_from", "lost_to", "next_position", "reason", "detail")


@report_cause_first
def kafka_decode(batches: Iterator[pa.Array]) -> Iterator[pa.Array]:
    """The implementation of `kafka_decode(value[, options])`: per input array one or more arrays, rows in order."""
    for values, chosen in _checked_arguments(batches, "kafka_decode"):
        yield from decode_values(values, chosen)


@report_cause_first
def kafka_scan(batches: Iterator[pa.Array]) -> Iterator[pa.Array]:
    """The implementation of `kafka_scan(value[, mode])`: one struct per batch, headers only."""
    for values, chosen in _checked_arguments(batches, "kafka_scan"):
        each = partial(kafkarec.scan_each, errors=chosen.errors)
        yield from _spark_arrays(each, values, chosen, BATCH_COLUMNS)


class Explode:
    """The implementation of `functions.kafka_explode`: batches of (kept columns..., value) to one row per record."""

    def __init__(self, chosen: FunctionOptions) -> None:
        self.chosen = chosen

    @report_cause_first
    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        chosen = self.chosen
        for batch in batches:
            *kept, given = batch.columns
            values = checked_array(given, "binary", "kafka_explode")
            names = [*batch.schema.names[:-1], *(column.name for column in RECORD_COLUMNS)]
            done = 0
            for lists in decode_values(values, chosen):
                parents = pc.list_parent_indices(lists)
                repeated = [column.slice(done, len(lists)).take(parents) for column in kept]
                whole = pa.RecordBatch.from_arrays([*repeated, *lists.values.flatten()], names)
                yield from split_by_size(whole, 2 * chosen.max_output_bytes)  # a piece is a little larger than that
                done += len(lists)


def split_by_size(batch: pa.RecordBatch, most_bytes: int, most_rows: int = 1 << 31) -> Iterator[pa.RecordBatch]:
    """Halves a batch until each part is small enough; a single row that is larger stays whole. Spark processes one part
    while the next is sent."""
    rows = batch.num_rows
    if rows > most_rows:
        for start in range(0, rows, most_rows):
            yield from split_by_size(batch.slice(start, most_rows), most_bytes)
    elif rows > 1 and batch.nbytes > most_bytes:
        yield from split_by_size(batch.slice(0, rows // 2), most_bytes)
        yield from split_by_size(batch.slice(rows // 2), most_bytes)
    elif rows:
        yield batch


def decode_values(values: pa.Array, chosen: FunctionOptions) -> Iterator[pa.ListArray]:
    """`values` (binary or large_binary) to array<struct>, cut between values before max_output_bytes are exceeded."""

    def each(some: pa.Array) -> Iterable[kafkarec.RecordLists]:
        return kafkarec.decode_each(
            some,
            columns=kafkarec_names(RECORD_COLUMNS),
            errors=chosen.errors,
            check_crcs=chosen.check_crcs,
            max_decompressed_bytes=chosen.max_decompressed_bytes,
            timestamp_unit="us",
            control=chosen.control,
            restore=chosen.restore,
            max_output_bytes=chosen.max_output_bytes,
        )

    yield from _spark_arrays(each, values, chosen, RECORD_COLUMNS)


def _spark_arrays(
    each: Callable[[pa.Array], Iterable[kafkarec.RecordLists]],
    values: pa.Array,
    chosen: FunctionOptions,
    columns: Columns,
) -> Iterator[pa.ListArray]:
    """The pieces of `each(values)` as Spark's arrays. ValueError for a value above max_value_bytes."""
    largest = pc.max(pc.binary_length(values)).as_py() or 0
    if largest > chosen.max_value_bytes:
        raise ValueError(
            f"a value has {largest} bytes, and max_value_bytes is {chosen.max_value_bytes}: Spark holds values in its "
            f'heap several times. For files use spark.read.format("kafkarec"), which reads them in pieces'
        )
    try:
        for piece in each(values):
            damage: DamageInValues = piece.damage
            incomplete: DamageInValues = piece.incomplete
            if chosen.end_of_log == "tail":  # then only a value that is of another type is damage
                incomplete = [each for each in incomplete if each[2].position == 0 and _other_type(values, each[0])]
            if incomplete:
                if chosen.mode == "FAILFAST":
                    value, _, first = incomplete[0]
                    failure = incomplete_batch_error(first)
                    failure.value_index = value
                    if chosen.end_of_log == "strict":
                        failure.add_note(
                            "end_of_log='tail', the default, leaves an incomplete batch at a value's end out"
                        )
                    raise failure
                damage = sorted([*damage, *incomplete], key=lambda each: each[:2])
            yield to_spark_lists(piece, columns, damage)
    except kafkarec.KafkaRecordError as error:
        _add_notes(error, values)
        raise


def incomplete_batch_error(damage: kafkarec.Damage) -> kafkarec.CorruptRecordError:
    """The error for an incomplete batch at the end of a value or of a log."""
    names = ("position", "next_position", "reason", "expected", "found", "cause", "file")
    return kafkarec.CorruptRecordError(damage.detail, **{name: getattr(damage, name) for name in names})


def _add_notes(error: kafkarec.KafkaRecordError, values: pa.Array) -> None:
    """Adds notes, which are printed after the message, so that its first line is the one with byte and offset."""
    row = error.value_index
    if row is not None and row < len(values):
        size = pc.binary_length(values.slice(row, 1))[0]  # no copy of the value, since memory may have run out
        error.add_note(f"in row {row} of an input batch of {len(values)}, a value of {size} bytes")
    if is_no_batch(error):
        other = None if row is None else _other_type(values, row)
        if other is None:
            error.add_note(NO_BATCH_NOTE)
        else:
            unpack = ": unpack it first; record batches are compressed within" if other.unpack else ""
            error.add_note(f"the value looks like {other.what}{unpack}")
    elif is_damage(error):
        error.add_note("mode PERMISSIVE keeps everything else, with the reason in a separate row")


def _other_type(values: pa.Array, row: int) -> Any:
    """The type of a value by its first bytes, such as a zstd file; None: it may be batches."""
    return distributed.type_by_head(pc.binary_slice(values.slice(row, 1), 0, 8)[0].as_py())


# Reasons of damage at byte 0 of what is no batch at all.
_NO_FRAME = ("size_too_small", "size_overflow", "unsupported_magic", "batch_too_small", "length_beyond_end")
NO_BATCH_NOTE = (
    "this is not a record batch, or its first bytes are damaged. The value of a record is data already: string(value), "
    "from_avro; base64 text: unbase64(value); a damaged batch: mode PERMISSIVE keeps everything else"
)


def is_damage(error: kafkarec.KafkaRecordError) -> bool:
    """Whether the bytes are damaged. They are not where memory or a codec's library is missing here."""
    return error.reason not in ("out_of_memory", "missing_codec")


GZIP = b"\x1f\x8b"
GZIP_FILE_NOTE = "the file is compressed by gzip, and is read if its name ends in .log.gz"


def is_no_batch(error: kafkarec.KafkaRecordError) -> bool:
    return error.position == 0 and error.reason in _NO_FRAME


def _checked_arguments(batches: Iterator[Any], name: str) -> Iterator[tuple[pa.Array, FunctionOptions]]:
    """(values, options) per input batch."""
    call = f"{name}(value[, mode])"
    for values, chosen in values_and_options(batches, call, FunctionOptions(), function_options.from_literal):
        yield checked_array(values, "binary", name), chosen


def to_spark_lists(piece: kafkarec.RecordLists, columns: Columns, damage: DamageInValues = ()) -> pa.ListArray:
    """One RecordLists of kafkarec as Spark's array<struct>, with an element for each damaged range."""
    lists = pa.array(piece)
    children = [
        pa.nulls(len(lists.values), arrow_type(column.type))
        if column.source is None
        else to_spark_type(lists.values.field(column.source), column, arrow_type(column.type))
        for column in columns
    ]
    rows = pa.StructArray.from_arrays(children, fields=list(arrow_struct(columns)))
    extra = [0] * len(lists.offsets)
    if damage:
        texts = pa.array([{CORRUPT: corrupt_record_json(each)} for _, _, each in damage], rows.type)
        rows = with_rows_inserted(rows, [row for _, row, _ in damage], texts)
        for value, _, _ in damage:
            extra[value - piece.start + 1] += 1
    return pa.ListArray.from_arrays(
        pc.add(lists.offsets, pa.array(accumulate(extra), pa.int32())),
        rows,
        arrow_struct_list(columns),
        mask=lists.is_null() if lists.null_count else None,
    )


def with_rows_inserted(array: pa.Array, indices: list[int], rows: pa.Array) -> pa.Array:
    """`array` with `rows[i]` inserted before its element `indices[i]`; the indices ascend."""
    order = np.insert(np.arange(len(array)), indices, np.arange(len(array), len(array) + len(rows)))
    return pa.concat_arrays([array, rows]).take(pa.array(order))


def corrupt_record_json(damage: kafkarec.Damage) -> str:
    """The JSON of `_corrupt_record`: which bytes were not decoded, and why."""
    path = {"path": damage.file} if damage.file else {}
    return json.dumps(path | reason_values(damage))


def reason_values(damage: kafkarec.Damage) -> NamedValues:
    """REASON_FIELDS of a damaged range."""
    return {name: getattr(damage, name) for name in REASON_FIELDS}


def to_spark_type(child: pa.Array, column: SparkColumn, target: pa.DataType) -> pa.Array:
    """Converts kafkarec's array to Spark's type; CONVERSIONS lists the columns that need more than a cast."""
    conversion = CONVERSIONS.get(column.name)
    if conversion is not None:
        return conversion(child, target)
    return child if child.type == target else child.cast(target)


def _headers(child: pa.ListArray, target: pa.ListType) -> pa.Array:
    """Null where a record has no headers, as in Spark's Kafka source; no keys and values are copied."""
    pairs = child.values
    if not len(pairs):
        return pa.nulls(len(child), target)
    struct = pa.StructArray.from_arrays([pairs.field(0), pairs.field(1)], fields=list(target.value_type))
    offsets = (
        pc.add(child.offsets, pa.scalar(0, pa.int32())) if child.offset else child.offsets
    )  # with a mask a slice is refused
    return pa.ListArray.from_arrays(offsets, struct, target, mask=pc.equal(pc.list_value_length(child), 0))


def _microseconds(child: pa.Array, target: pa.DataType) -> pa.Array:
    """Milliseconds to microseconds; a value that does not fit becomes null, as kafkarec does for records."""
    limit = (2**63 - 1) // 1000
    raw = child.cast(pa.int64())
    fits = pc.and_(pc.less_equal(raw, limit), pc.greater_equal(raw, -limit))
    return pc.if_else(fits, raw, pa.scalar(None, pa.int64())).cast(child.type).cast(target)


CONVERSIONS: dict[str, Callable[[pa.Array, pa.DataType], pa.Array]] = {
    "timestampType": lambda child, target: pc.fill_null(child.cast(target), NO_TIMESTAMP_TYPE),
    "headers": _headers,
    "base_timestamp": _microseconds,
    "max_timestamp": _microseconds,
}


# ---- the arguments of a SQL function ---------------------------------------------------------------------
#
# As Spark passes them, an array for each argument and batch of rows:
#
#     f(a)       an array, or a tuple of one
#     f(a, b)    a tuple of two; a literal is an array that repeats it for each row
#     f()        an empty tuple for each batch
#
# Spark does not check the arguments of an Arrow function, so their number and types are checked here. A wrong call
# fails the query at the first batch, so the message shows how the function is called.


T = TypeVar("T")
FROM_TEXT = ". Bytes as text: unbase64(...) or unhex(...)"


def values_and_options(
    batches: Iterator[Any], call: str, default: T, parse: Callable[[str | None], T]
) -> Iterator[tuple[pa.Array, T]]:
    """(first argument, options) of each batch. The options are an optional last argument, parsed once; ValueError if
    they are not the same in all rows. default: if they are missing"""
    seen: list[str | None] = []
    for values, *rest in argument_arrays(batches, call, 1, 2):
        for column in rest:
            if pa.types.is_nested(column.type):
                raise TypeError(f"the last argument of {call} must be a text, not {sql_type(column.type)}")
            distinct = pc.unique(column).to_pylist()
            if len(distinct) > 1 or (seen and distinct and distinct != seen):
                raise ValueError(f"the last argument of {call} must be a literal, the same in every row")
            if distinct and not seen:
                default, seen = parse(distinct[0]), distinct
        yield values, default


def argument_arrays(batches: Iterator[Any], call: str, least: int, most: int) -> Iterator[tuple[pa.Array, ...]]:
    """The argument arrays of each batch. TypeError unless there are `least` to `most`; its message shows `call`, such
    as kafka_decode(value[, mode])."""
    for batch in batches:
        arrays = batch if isinstance(batch, tuple) else (batch,)
        if not least <= len(arrays) <= most:
            number = "1 argument was" if len(arrays) == 1 else f"{len(arrays)} arguments were"
            raise TypeError(f"the call is {call}, and {number} given")
        yield arrays


def checked_array(array: pa.Array, kind: str, name: str, what: str = "column") -> pa.Array:
    """The array itself, or nulls for untyped NULLs. TypeError, with Spark's type, if it is not of the kind: binary or
    string."""
    types = {"binary": (pa.binary(), pa.large_binary()), "string": (pa.string(), pa.large_string())}[kind]
    if pa.types.is_null(array.type):
        return array.cast(types[0])
    if array.type not in types:
        advice = FROM_TEXT if array.type == pa.string() else ""
        raise TypeError(f"{name} takes a {kind} {what}, not {sql_type(array.type)}{advice}")
    return array


def sql_type(kind: pa.DataType) -> str:
    """An Arrow type in the words of Spark SQL."""
    from pyspark.sql.pandas.types import from_arrow_type

    return str(from_arrow_type(kind).simpleString())
