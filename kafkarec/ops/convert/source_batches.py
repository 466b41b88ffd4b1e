"""Reads the batches to convert, one by one, and validates them as the reader does; decodes those that are rewritten.

Every batch is decoded before it is converted: records that Kafka cannot read must not get a new, right checksum. Where
records are split, sizes are those of the uncompressed batch, so they do not depend on the codec, and a second
conversion splits at the same records.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

from kafkarec._core import Source
from kafkarec.format.java_integers import LONG_MAX
from kafkarec.ops.rewrite import SourceBatch, batches_of
from kafkarec.read.decode_options import request
from kafkarec.read.passes import as_columns, read_part
from kafkarec.read.walk import Buffer
from kafkarec.recover.restoring import used_bytes
from kafkarec.recover.steps import Step
from kafkarec.storage import opening
from kafkarec.storage.data_folder import DataFolderFiles
from kafkarec.storage.partition_folder import PartitionFiles
from kafkarec.storage.segment_file import SegmentFile
from kafkarec.write.header import BatchHeader
from kafkarec.write.record_input import record_input_of


def source_batches(step: Step, source: Any) -> Iterator[SourceBatch]:
    """Yields the batches of a step. Adjacent plain messages are one, as there may be millions of them: with the header
    of the first, and the last offset of the last."""
    restored = {one.position: one for one in step.restored}
    units, span = step.rows.units(step.chunk), step.rows.span
    begin, whole = span(0)[0], None
    if not (step.damage or restored):
        whole = memoryview(source.raw(begin, span(len(step) - 1)[1] - begin))
    firsts, _, rows = zip(*units, strict=True)
    for batch, (first, count, _) in zip(batches_of(step, rows, firsts), units, strict=True):
        position, end = batch.position, span(first + count - 1)[1]
        if whole is not None:
            raw = whole[position - begin : end - begin]
        else:
            pieces = []
            for at, stop in map(span, range(first, first + count)):
                data = source.raw(at, stop - at)
                pieces.append(used_bytes(data, restored[at]) if at in restored else data)
            raw = memoryview(b"".join(pieces))
        if count > 1:
            last = step.cell("last_offset", first + count - 1)
            batch = batch._replace(last_offset=last, size_in_bytes=end - position, messages=count)
        yield batch._replace(raw=raw, file=source.path)


def checked_segments(data: Any) -> Sequence[Any]:
    """The segments of one partition, or of a buffer."""
    if isinstance(data, SegmentFile | PartitionFiles | DataFolderFiles):
        logs = opening.logs(data)
        if len(logs) > 1:
            raise ValueError(f"{len(logs)} partitions; convert them one by one")
        return [segment for log in logs for segment in log.segments]
    try:
        return [Buffer(data)]
    except TypeError:
        raise TypeError(f"expected a buffer, a Segment or a Log, not {type(data).__name__}") from None


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

    def all_at(self, time: int) -> bool:
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
        part = read_part(
            read_request, Source(units[0].raw if len(units) == 1 else b"".join(unit.raw for unit in units))
        )
        self.units = units
        self.bounds = [0, *accumulate(unit.rows for unit in units)]
        self.offsets = memoryview(b"".join(chunk.column(_OFFSET, 8)[1] for chunk in part.chunks)).cast("q")
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
