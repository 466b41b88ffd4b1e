"""In a task: splits a batch of rows into one table per topic and partition; rows keep their order

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
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from spark_udfs.schema import CORRUPT, NamedValues

from .staging import WriteJob


class PartitionSplitter:
    """Splits the batches of one task."""

    def __init__(self, job: WriteJob, task: int) -> None:
        self._job = job
        self._next = task  # the partition of the next record without a key

    def by_partition(self, batch: Any) -> Iterator[tuple[str, int, Any, bool]]:
        """(topic, partition, table, whether it has offsets) for each partition in a RecordBatch."""
        if not batch.num_rows:
            return
        columns = {name: batch.column(name) for name in self._job.columns}
        corrupt = columns.pop(CORRUPT, None)
        if corrupt is not None and corrupt.null_count < len(corrupt):
            raise ValueError(f"a row with {CORRUPT} is damage, not a record: keep only rows with {CORRUPT} IS NULL")
        table = pa.table(_record_columns(columns))
        one = self._job.options.topic
        for topic, rows in _rows_by_label(
            columns["topic"] if one is None else pa.repeat(pa.scalar(one), batch.num_rows)
        ):
            own = table if rows is None else table.take(rows)
            given = columns.get("partition")
            if given is not None and rows is not None:
                given = given.take(rows)
            for partition, within in _rows_by_label(self._partitions(topic, own, given)):
                part = own if within is None else own.take(within)
                if "offset" not in part.column_names:
                    yield topic, partition, part, False
                    continue
                missing = part.column("offset").null_count
                if 0 < missing < part.num_rows:
                    raise ValueError(f"{topic}-{partition}: either all records must have an offset, or none")
                yield topic, partition, part.drop_columns(["offset"]) if missing else part, not missing

    def _partitions(self, topic: str, table: Any, given: Any) -> Any:
        """The partition of each row: from the column `given`, and from the partitioner where that is null."""
        if given is not None and not given.null_count:
            return given
        keys = table.column("key").combine_chunks().cast(pa.large_binary())
        unassigned = None if given is None else pc.indices_nonzero(given.is_null())
        if unassigned is not None:
            keys = keys.take(unassigned)
        count = self._job.options.numPartitions or self._job.existing.get(topic, 1)
        assigned = assign_partitions(keys, self._next, count)
        self._next += len(keys)
        if unassigned is None:
            return pa.array(assigned)
        whole = pc.fill_null(given.cast(pa.int64()), -1).to_numpy(zero_copy_only=False).copy()
        whole[unassigned.to_numpy(zero_copy_only=False)] = assigned
        return pa.array(whole)


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
    order = np.argsort(codes, kind="stable")
    unique_codes, starts = np.unique(codes[order], return_index=True)
    for code, rows in zip(unique_codes, np.split(order, starts[1:]), strict=True):
        yield None if code < 0 else coded.dictionary[int(code)].as_py(), pa.array(rows)


# ---- the partition of a record without one: Kafka's default partitioner ----------------------------------


_SEED, _M, _R = 0x9747B28C, np.uint32(0x5BD1E995), np.uint32(24)


def murmur2(keys: Any) -> Any:
    """The 32-bit hashes of a BinaryArray without nulls, as numpy.uint32 (org.apache.kafka.common.utils.Utils)."""
    keys = keys.cast(pa.large_binary())
    hashes = np.empty(len(keys), np.uint32)
    if not len(keys):
        return hashes
    _, offsets, content = keys.buffers()
    offsets = np.frombuffer(offsets, np.int64)[keys.offset : keys.offset + len(keys) + 1]
    data = np.frombuffer(content, np.uint8) if content is not None and content.size else np.empty(0, np.uint8)
    lengths = np.diff(offsets)
    order = np.argsort(lengths, kind="stable")
    sizes, starts = np.unique(lengths[order], return_index=True)
    for size, rows in zip(sizes, np.split(order, starts[1:]), strict=True):
        hashes[rows] = _hash_keys_of_size(data, offsets[rows], int(size))
    return hashes


def _hash_keys_of_size(data: Any, starts: Any, size: int) -> Any:
    """All keys of one length together, four bytes at a time."""
    with np.errstate(over="ignore"):
        hashes = np.full(len(starts), (_SEED ^ size) & 0xFFFFFFFF, np.uint32)
        whole = size & ~3
        for at in range(0, whole, 4):
            word = _little_endian(data, starts + at, 4) * _M
            word = (word ^ (word >> _R)) * _M
            hashes = (hashes * _M) ^ word
        if size > whole:
            hashes = (hashes ^ _little_endian(data, starts + whole, size - whole)) * _M
        hashes = (hashes ^ (hashes >> np.uint32(13))) * _M
        return hashes ^ (hashes >> np.uint32(15))


def _little_endian(data: Any, starts: Any, count: int) -> Any:
    """A little-endian number of one to four bytes from each start."""
    words = np.zeros(len(starts), np.uint32)
    for number in range(count):
        words |= data[starts + number].astype(np.uint32) << np.uint32(8 * number)
    return words


def assign_partitions(keys: Any, first: int, count: int) -> Any:
    """The partition of each row of a topic with `count` partitions, as numpy.int64. keys: a BinaryArray; first: that of
    the first row, if it has no key."""
    assigned = (first + np.arange(len(keys))) % count
    has_key = keys.is_valid()
    assigned[np.asarray(has_key)] = (murmur2(keys.filter(has_key)) & np.uint32(0x7FFFFFFF)) % np.uint32(count)
    return assigned
