"""What runs in the workers: Arrow arrays of bytes in, Arrow arrays of array<struct> out.

Arrays are made of kafkarec's column buffers with Spark's names and nullability: record data is not copied, except where
a damaged range needs a row of its own in PERMISSIVE mode. Only `timestampType` is converted per record (int8 to Spark's
int), and `headers` where a value has any (no headers become null).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from . import arguments, bootstrap, function_options, schema
from .schema import SparkColumn

if TYPE_CHECKING:
    import kafkarec

# The fields of `_corrupt_record`, in this order; `path` comes first where there is a file.
REASON_FIELDS = ("position", "length", "lost_from", "lost_to", "next_position", "reason", "detail")


def kafka_decode(batches: Iterator[pa.Array]) -> Iterator[pa.Array]:
    """The body of `kafka_decode(value[, options])`: per input array one or more arrays, rows in order."""
    bootstrap.load()
    for values, chosen in _arguments(batches, "kafka_decode"):
        yield from decode_values(values, chosen)


def kafka_scan(batches: Iterator[pa.Array]) -> Iterator[pa.Array]:
    """The body of `kafka_scan(value[, mode])`: one struct per batch, headers only."""
    bootstrap.load()
    import kafkarec

    for values, chosen in _arguments(batches, "kafka_scan"):
        each = partial(kafkarec.scan_each, errors=chosen.errors)
        yield from _pieces(each, values, chosen, schema.BATCH_COLUMNS)


class Explode:
    """The body of `functions.kafka_explode`: batches of (kept columns..., value) to one row per record."""

    def __init__(self, literal: str, outer: bool) -> None:
        self.literal = literal
        self.outer = outer

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        bootstrap.load()
        chosen = function_options.from_literal(self.literal)
        for batch in batches:
            *kept, values = batch.columns
            names = [*batch.schema.names[:-1], *(column.name for column in schema.RECORD_COLUMNS)]
            done = 0
            for lists in decode_values(values, chosen):
                rows, parents = _outer_rows(lists) if self.outer else (None, pc.list_parent_indices(lists))
                records = [child.take(rows) if rows else child for child in lists.values.flatten()]
                around = [column.slice(done, len(lists)).take(parents) for column in kept]
                whole = pa.RecordBatch.from_arrays([*around, *records], names)
                yield from _cut(whole, chosen.max_output_bytes)
                done += len(lists)


def _cut(batch: pa.RecordBatch, most: int) -> Iterator[pa.RecordBatch]:
    """Cuts a large batch (of one large value) between records, so that Spark works on a part while the rest is sent."""
    pieces = max(1, batch.nbytes // most)
    rows = max(1, -(-batch.num_rows // pieces))
    for start in range(0, max(batch.num_rows, 1), rows):
        yield batch.slice(start, rows)


def _outer_rows(lists: pa.ListArray) -> tuple[pa.Array | None, pa.Array]:
    """(rows to take, null for a value without records; the value each row belongs to)."""
    parents = pc.list_parent_indices(lists)
    empty = pc.equal(pc.fill_null(pc.list_value_length(lists), 0), 0)
    without = pc.indices_nonzero(empty).to_pylist()
    if not without:
        return None, parents
    starts = lists.offsets.to_pylist()
    gaps = [starts[value] for value in without]
    rows = inserted(_range(len(lists.values)), gaps, pa.nulls(len(gaps), pa.int64()))
    return rows, inserted(parents, gaps, pa.array(without, parents.type))


def decode_values(
    values: pa.Array,
    chosen: function_options.FunctionOptions,
    columns: tuple[SparkColumn, ...] = schema.RECORD_COLUMNS,
) -> Iterator[pa.ListArray]:
    """`values` (binary or large_binary) to array<struct>, cut at value borders before max_output_bytes."""
    import kafkarec

    def each(some: pa.Array) -> Iterable[kafkarec.RecordLists]:
        return kafkarec.decode_each(
            some,
            columns=schema.sources(columns),
            errors=chosen.errors,
            check_crcs=chosen.check_crcs,
            max_decompressed_bytes=chosen.max_decompressed_bytes,
            timestamp_unit="us",
            control=chosen.control,
            max_output_bytes=chosen.max_output_bytes,
        )

    yield from _pieces(each, values, chosen, columns)


def _pieces(
    each: Callable[[pa.Array], Iterable[kafkarec.RecordLists]],
    values: pa.Array,
    chosen: function_options.FunctionOptions,
    columns: tuple[SparkColumn, ...],
) -> Iterator[pa.ListArray]:
    """The pieces of `each(values)` as Spark's arrays; in PERMISSIVE mode no value can make it raise."""
    import kafkarec

    if not len(values):
        yield pa.array([], schema.arrow_result(columns))
    done = 0
    while done < len(values):
        begin = done
        try:
            for piece in each(values.slice(begin)):
                done += piece.stop - piece.start
                yield reassemble(piece, columns)
        except kafkarec.KafkaRecordError as error:
            if chosen.mode != "PERMISSIVE" or error.value_index is None:
                _explain(error, values.slice(begin))
                raise
            # "skip" raises only where a whole value cannot be held: more records than one array can have
            bad = begin + error.value_index
            if bad > done:
                yield from _pieces(each, values.slice(done, bad - done), chosen, columns)
            yield _lost_value(error, _size(values, bad), columns)
            done = bad + 1


def _lost_value(error: kafkarec.KafkaRecordError, size: int, columns: tuple[SparkColumn, ...]) -> pa.ListArray:
    """The result for a value that could not be decoded at all: a list of one element, the reason."""
    reason = dict.fromkeys(REASON_FIELDS) | {"position": 0, "length": size, "next_position": size}
    reason |= {"reason": error.reason, "detail": str(error)}
    return pa.array([[{schema.CORRUPT: json.dumps(reason)}]], schema.arrow_result(columns))


def _explain(error: kafkarec.KafkaRecordError, values: pa.Array) -> None:
    """Adds notes, which come below the message: its first line stays the one with byte and offset."""
    row = error.value_index
    if row is not None and row < len(values):
        error.add_note(f"in row {row} of an input batch of {len(values)}, a value of {_size(values, row)} bytes")
    error.add_note("mode PERMISSIVE keeps everything else, with the reason in a row of its own")


def _size(values: pa.Array, row: int) -> int:
    """The size of one value in bytes, without a copy as a pyarrow scalar: memory may have run out."""
    return int(pc.binary_length(values.slice(row, 1))[0].as_py() or 0)


def _arguments(batches: Iterator[Any], name: str) -> Iterator[tuple[pa.Array, function_options.FunctionOptions]]:
    """(values, options) per input batch."""
    mode = arguments.LiteralArgument(
        f"the mode of {name}", function_options.FunctionOptions(), function_options.from_literal
    )
    for batch in batches:
        values, *rest = arguments.given(batch, f"{name}(value[, mode])", 1, 2)
        yield arguments.binary(values, name), mode.of(*rest or [None])


def reassemble(piece: kafkarec.RecordLists, columns: tuple[SparkColumn, ...]) -> pa.ListArray:
    """One RecordLists of kafkarec as Spark's array<struct>."""
    lists = pa.array(piece)
    records = lists.values
    count = len(records)
    damage = piece.damage
    layout = _DamageRows(count, damage) if damage else None
    by_name = {field.name: index for index, field in enumerate(lists.type.value_type)}
    children = []
    for column in columns:
        wanted = schema.arrow_type(column.type)
        if column.source is not None:
            child = convert(records.field(by_name[column.source]), column, wanted)
            child = child.take(layout.rows) if layout else child
        elif layout and column.name == schema.CORRUPT:
            child = layout.texts
        else:
            child = pa.nulls(layout.count if layout else count, wanted)
        children.append(child)
    struct = pa.StructArray.from_arrays(children, fields=list(schema.arrow_struct(columns)))
    validity, offsets = lists.buffers()[:2]
    if layout:
        offsets = _shifted(lists.offsets, [value - piece.start for value, _, _ in damage])
    return pa.ListArray.from_buffers(
        schema.arrow_result(columns),
        len(lists),
        [_realigned(validity, lists) if layout else validity, offsets],
        offset=0 if layout else lists.offset,
        children=[struct],
    )


class _DamageRows:
    """Inserts rows for damaged ranges: `rows` are indices for `take`, null for such a row."""

    def __init__(self, count: int, damage: Iterable[tuple[int, int, kafkarec.Damage]]) -> None:
        places = [row for _, row, _ in damage]
        texts = pa.array([corrupt_text(what) for _, _, what in damage], pa.string())
        self.rows = inserted(_range(count), places, pa.nulls(len(places), pa.int64()))
        self.texts = inserted(pa.nulls(count, pa.string()), places, texts)
        self.count = len(self.rows)


def inserted(array: pa.Array, places: list[int], more: pa.Array) -> pa.Array:
    """`array` with `more[i]` inserted in front of its element `places[i]`; places ascend."""
    parts = []
    done = 0
    for index, place in enumerate(places):
        parts += [array.slice(done, place - done), more.slice(index, 1)]
        done = place
    return pa.concat_arrays([*parts, array.slice(done)])


def _range(count: int) -> pa.Array:
    return pa.array(range(count), pa.int64())


def corrupt_text(damage: kafkarec.Damage) -> str:
    """The JSON of `_corrupt_record`: which bytes gave no records, and why."""
    reason = {"path": damage.file} if damage.file else {}
    for name in REASON_FIELDS:
        reason[name] = getattr(damage, name)
    return json.dumps(reason)


def _shifted(offsets: pa.Array, damaged: Iterable[int]) -> pa.Buffer:
    """List offsets after the insertion of damage rows: each value begins later by the number of rows before it."""
    extra = [0] * len(offsets)
    for value in damaged:
        extra[value + 1] += 1
    total = 0
    for index, more in enumerate(extra):
        total += more
        extra[index] = total
    return pc.add(offsets, pa.array(extra, pa.int32())).buffers()[1]


def _realigned(validity: pa.Buffer | None, lists: pa.ListArray) -> pa.Buffer | None:
    """The validity bitmap from bit 0 on."""
    if validity is None or not lists.offset:
        return validity
    return _bitmap(lists.is_valid())


def _bitmap(flags: pa.BooleanArray) -> pa.Buffer:
    """A boolean array's data is a validity bitmap, if it begins at bit 0."""
    if flags.offset:
        flags = pa.concat_arrays([flags, pa.array([], pa.bool_())])
    return flags.buffers()[1]


def convert(child: pa.Array, column: SparkColumn, wanted: pa.DataType) -> pa.Array:
    """kafkarec's array as Spark's type; CONVERSIONS has the columns for which a cast is not enough."""
    convert = CONVERSIONS.get(column.name)
    if convert is not None:
        return convert(child, wanted)
    return child if child.type == wanted else child.cast(wanted)


def _timestamp_type(child: pa.Array, wanted: pa.DataType) -> pa.Array:
    return pc.fill_null(child.cast(wanted), schema.NO_TIMESTAMP_TYPE)


def _headers(child: pa.ListArray, wanted: pa.ListType) -> pa.Array:
    """Null where a record has no headers, as in Spark's Kafka source; the buffers stay as they are."""
    pairs = child.values
    if not len(pairs):
        return pa.nulls(len(child), wanted)
    fields = list(wanted.value_type)
    struct = pa.StructArray.from_arrays([pairs.field(0), pairs.field(1)], fields=fields)
    if child.offset:
        return pa.ListArray.from_arrays(child.offsets, struct, type=wanted)
    present = _bitmap(pc.greater(pc.list_value_length(child), 0))
    return pa.ListArray.from_buffers(wanted, len(child), [present, child.buffers()[1]], children=[struct])


def _microseconds(child: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Milliseconds to microseconds; a value that does not fit becomes null (kafkarec does so for records)."""
    limit = (2**63 - 1) // 1000
    raw = child.cast(pa.int64())
    fits = pc.and_(pc.less_equal(raw, limit), pc.greater_equal(raw, -limit))
    return pc.if_else(fits, raw, pa.scalar(None, pa.int64())).cast(child.type).cast(wanted)


CONVERSIONS: dict[str, Callable[[pa.Array, pa.DataType], pa.Array]] = {
    "timestampType": _timestamp_type,
    "headers": _headers,
    "base_timestamp": _microseconds,
    "max_timestamp": _microseconds,
}
