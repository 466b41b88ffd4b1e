"""The records of batches that are rewritten: the writer's input, what rows have in common, and where they are split.

Sizes are those of the uncompressed batch, so they do not depend on the codec, and a second conversion splits at the
same records.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

from kafkarec._core import Source
from kafkarec.format.java_integers import LONG_MAX
from kafkarec.ops.rewrite.batches import SourceBatch
from kafkarec.read.decode_options import request
from kafkarec.read.passes import as_columns, read_part
from kafkarec.write.encoding import record_input_of
from kafkarec.write.fields import BatchHeader

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
