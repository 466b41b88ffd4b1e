"""In a task: splits batches of rows into one table per topic and partition; rows keep their order

value, key   binary (a string becomes its UTF-8 bytes)
topic        from the option, else from the column
partition    from the column; where that is null, from the partitioner
timestamp    null becomes the current time, as in a producer
offset       either all rows of a partition have one, or none

Kafka's default partitioner:

    with a key      murmur2(key), its sign bit cleared, modulo the number of partitions (BuiltInPartitioner)
    without         one partition after the other, each task beginning with another one

Kafka fills a batch of one partition before it goes on to another one; here batches of all partitions are filled anyway.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from spark_udfs.schema import CORRUPT, NamedValues

from .staging import WriteJob


def rows_by_partition(job: WriteJob, task: int, batches: Iterable[Any]) -> Iterator[tuple[str, int, Any]]:
    """(topic, partition, table) for each partition in each RecordBatch of a task; with the column offset, if they are
    given."""
    first = task  # the partition of the next record without a key
    for batch in batches:
        if not batch.num_rows:
            continue
        columns = {name: batch.column(name) for name in job.columns}
        corrupt = columns.pop(CORRUPT, None)
        if corrupt is not None and corrupt.null_count < len(corrupt):
            raise ValueError(f"a row with {CORRUPT} is damage, not a record: keep only rows with {CORRUPT} IS NULL")
        table = pa.table(_record_columns(columns))
        given = columns.get("partition", pa.nulls(batch.num_rows, pa.int64())).cast(pa.int64())
        one = job.options.topic
        topics = columns["topic"] if one is None else pa.repeat(pa.scalar(one), batch.num_rows)
        for topic, rows in _rows_by_label(topics):
            own, partitions = (table, given) if rows is None else (table.take(rows), given.take(rows))
            if partitions.null_count:
                missing = partitions.is_null()
                keys = own.column("key").combine_chunks().cast(pa.large_binary()).filter(missing)
                assigned = assign_partitions(keys, first, job.options.numPartitions or job.existing.get(topic, 1))
                partitions = pc.replace_with_mask(partitions, missing, pa.array(assigned))
                first += len(keys)
            for partition, within in _rows_by_label(partitions):
                part = own if within is None else own.take(within)
                lacking = part.column("offset").null_count if "offset" in part.column_names else 0
                if 0 < lacking < part.num_rows:
                    raise ValueError(f"{topic}-{partition}: either all records must have an offset, or none")
                yield topic, partition, part.drop_columns(["offset"]) if lacking else part


def _record_columns(columns: NamedValues) -> NamedValues:
    """The columns for kafkarec.encode."""
    value = columns["value"]
    count = len(value)
    records = {"value": _as_binary(value), "key": _as_binary(columns.get("key", pa.nulls(count, pa.binary())))}
    now = time.time_ns() // 1_000_000
    times = columns.get("timestamp", pa.nulls(count, pa.int64()))
    if times.null_count:
        filling = pa.scalar(now, pa.int64())
        if times.type != pa.int64():
            filling = filling.cast(pa.timestamp("ms", "UTC")).cast(times.type)
        times = pc.fill_null(times, filling)
    records["timestamp"] = times
    for name in ("headers", "offset"):
        if name in columns:
            records[name] = columns[name]
    return records


def _as_binary(column: Any) -> Any:
    kinds = {pa.string(): pa.binary(), pa.large_string(): pa.large_binary()}
    return column.cast(kinds[column.type]) if column.type in kinds else column


def _rows_by_label(labels: Any) -> Iterator[tuple[Any, Any]]:
    """(label, indices of its rows in their order) for each label; indices None: all rows."""
    labels = labels.combine_chunks() if isinstance(labels, pa.ChunkedArray) else labels
    coded = labels.dictionary_encode()
    if len(coded.dictionary) == 1 and not coded.null_count:
        yield coded.dictionary[0].as_py(), None
        return
    codes = pc.fill_null(coded.indices, -1).to_numpy(zero_copy_only=False)
    for code, rows in _rows_by_number(codes):
        yield None if code < 0 else coded.dictionary[code].as_py(), pa.array(rows)


def _rows_by_number(numbers: Any) -> Iterator[tuple[int, Any]]:
    """(number, indices of its rows in their order) for each number of an array."""
    order = np.argsort(numbers, kind="stable")
    distinct, starts = np.unique(numbers[order], return_index=True)
    yield from zip(distinct.tolist(), np.split(order, starts[1:]), strict=True)


# ---- the partition of a record without one: Kafka's default partitioner ----------------------------------


_SEED, _M, _R = 0x9747B28C, np.uint32(0x5BD1E995), np.uint32(24)


def murmur2(keys: Any) -> Any:
    """The 32-bit hashes of a LargeBinaryArray without nulls, as numpy.uint32 (org.apache.kafka.common.utils.Utils). All
    keys of one length are hashed together, four bytes at a time."""
    hashes = np.empty(len(keys), np.uint32)
    if not len(keys):
        return hashes
    _, offsets, content = keys.buffers()
    offsets = np.frombuffer(offsets, np.int64)[keys.offset : keys.offset + len(keys) + 1]
    data = np.frombuffer(b"".join((content or b"", bytes(4))), np.uint8)  # a window of the last key may end there
    for size, rows in _rows_by_number(np.diff(offsets)):
        padded = np.lib.stride_tricks.sliding_window_view(data, size // 4 * 4 + 4)[offsets[rows]]
        padded[:, size:] = 0
        *words, rest = padded.view("<u4").T
        hashed: Any = np.full(len(rows), _SEED ^ size, np.uint32)
        for word in words:
            word = word * _M
            hashed = hashed * _M ^ (word ^ word >> _R) * _M
        if size % 4:
            hashed = (hashed ^ rest) * _M
        hashed = (hashed ^ hashed >> 13) * _M
        hashes[rows] = hashed ^ hashed >> 15
    return hashes


def assign_partitions(keys: Any, first: int, count: int) -> Any:
    """The partition of each row of a topic with `count` partitions, as numpy.int64. keys: a LargeBinaryArray; first:
    that of the first row, if it has no key."""
    assigned = (first + np.arange(len(keys))) % count
    has_key = keys.is_valid()
    assigned[np.asarray(has_key)] = (murmur2(keys.filter(has_key)) & np.uint32(0x7FFFFFFF)) % np.uint32(count)
    return assigned
