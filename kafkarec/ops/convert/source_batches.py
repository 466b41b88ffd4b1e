"""Reads the batches to convert, one by one, and validates them as the reader does.

Every batch is decoded before it is converted: records that Kafka cannot read must not get a new, right checksum.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat
from typing import Any

from kafkarec.damage import Damage, relocated
from kafkarec.errors import KafkaRecordError
from kafkarec.format.layout import BATCH_MAGIC
from kafkarec.ops.rewrite.batches import Progress, SourceBatch, batches_of, row_counts, steps
from kafkarec.read.decode_options import CHUNK_BYTES, checked_threads, request
from kafkarec.read.walk import Buffer
from kafkarec.recover.restoring import used_bytes
from kafkarec.storage import opening
from kafkarec.storage.data_folder import DataFolderFiles
from kafkarec.storage.partition_folder import PartitionFiles
from kafkarec.storage.segment_file import SegmentFile
from kafkarec.tables.records import RecordBatch

WIDEST = 2**30 - 1
"""Largest last - base offset of a batch that may be joined with another: the offset delta of two such fits an int32."""


class SourceBatches:
    """The batches of a buffer, a segment, a log, or of an iterable of RecordBatch; iterated once.

    .damage      what was skipped, with errors="skip"
    .remaining   bytes after the last batch: an incomplete batch
    .read        lower bound of the bytes decompressed so far

    progress: called with the path of a file and the position up to which it was read
    """

    def __init__(self, data: Any, progress: Progress, threads: int, **options: Any) -> None:
        self._segments, self._batches = _checked(data)
        self._progress, self._threads = progress, checked_threads(threads)
        self._request = request(columns=(), control=True, **options)
        self.skips = self._request.skip
        self.damage: list[Damage] = []
        self.remaining = self.read = 0

    def __iter__(self) -> Iterator[SourceBatch]:
        for source in self._segments:
            yield from self._of(source)
        for batch in self._batches:
            if not isinstance(batch, RecordBatch):
                raise TypeError(f"batches are RecordBatch, not {type(batch).__name__}")
            yield from self._of_batch(batch)

    def _of_batch(self, batch: RecordBatch) -> Iterator[SourceBatch]:
        """Reads the batch's bytes alone; positions in damage and errors are changed to those of the batch."""
        begin = len(self.damage)
        try:
            for unit in self._of(Buffer(batch.raw)):
                yield unit._replace(position=batch.position)
        except KafkaRecordError as error:
            raise relocated(error, position=batch.position, file=None) from None
        self.damage[begin:] = [
            one._replace(position=batch.position, next_position=batch.position + one.length)
            for one in self.damage[begin:]
        ]

    def _of(self, source: Any) -> Iterator[SourceBatch]:
        for number, step in enumerate(steps(source, self._request, self._progress, threads=self._threads)):
            self.read += CHUNK_BYTES if number else 0  # every step but the last decompressed at least one chunk
            self.damage += step.damage
            self.remaining += step.tail[1] if step.tail else 0
            if not len(step):
                continue
            positions, sizes = step.column("position"), step.column("size_in_bytes")
            begin, size = positions[0], sum(sizes)
            restored = {one.position: one for one in step.restored}
            if positions[-1] + sizes[-1] == begin + size and not restored:  # no damage between
                whole = memoryview(source.raw(begin, size))
                raws = [whole[at - begin : at - begin + length] for at, length in zip(positions, sizes, strict=True)]
            else:
                read = source.raw
                raws = [
                    memoryview(used_bytes(read(at, length), restored[at]) if at in restored else read(at, length))
                    for at, length in zip(positions, sizes, strict=True)
                ]
            units = batches_of(step, row_counts(step), repeat(None), raws, repeat(source.path))
            yield from _join_plain_messages(units) if min(step.column("magic")) < 2 else units


def _join_plain_messages(units: Iterable[SourceBatch]) -> Iterator[SourceBatch]:
    """Joins adjacent plain messages into one unit, as there may be millions of them."""
    first: SourceBatch | None = None
    last, size = 0, 0
    raws: list[memoryview] = []
    for unit in units:
        plain = unit.magic < BATCH_MAGIC and not unit.codec and unit.max_timestamp >= -1
        if (
            first
            and plain
            and unit.magic == first.magic
            and unit.timestamp_type == first.timestamp_type
            and unit.position == first.position + size
            and last < unit.last_offset <= first.last_offset + WIDEST
            and (not unit.timestamp_type or unit.max_timestamp == first.max_timestamp)
        ):
            last, size = unit.last_offset, size + unit.size_in_bytes
            raws.append(unit.raw)
            continue
        if first:
            yield _joined(first, last, raws)
        if plain:
            first, last, size, raws = unit, unit.last_offset, unit.size_in_bytes, [unit.raw]
        else:
            first = None
            yield unit
    if first:
        yield _joined(first, last, raws)


def _joined(first: SourceBatch, last_offset: int, raws: list[memoryview]) -> SourceBatch:
    raw = memoryview(b"".join(raws)) if len(raws) > 1 else raws[0]
    stop, count = first.start + len(raws), len(raws)
    return first._replace(last_offset=last_offset, size_in_bytes=raw.nbytes, stop=stop, raw=raw, messages=count)


def _checked(data: Any) -> tuple[Sequence[Any], Iterable[Any]]:
    """The segments of one partition or of a buffer, or else the batches."""
    if isinstance(data, SegmentFile | PartitionFiles | DataFolderFiles):
        logs = opening.logs(data)
        if len(logs) > 1:
            raise ValueError(f"{len(logs)} partitions; convert them one by one")
        return [segment for log in logs for segment in log.segments], ()
    try:
        view = memoryview(data)
    except TypeError:
        if isinstance(data, Iterable):
            return [], data
        raise TypeError(f"expected a buffer, a SegmentFile, a Log or batches, not {type(data).__name__}") from None
    return [Buffer(view.cast("B") if view.nbytes else b"")], ()
