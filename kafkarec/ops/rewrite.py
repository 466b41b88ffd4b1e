"""What the operations share that rewrite batches: their input, the header of a new batch, an empty batch, the result

segment        a file, or bytes in memory (read.walk.BytesSegment)
step           about 1 MB of one, decoded
SourceBatch    one for each batch of a step, in order, empty ones too
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import wraps
from inspect import signature
from itertools import accumulate
from typing import Any, NamedTuple, ParamSpec, Self, TypeVar

from kafkarec.errors import InvalidRecordError
from kafkarec.format.enums import TimestampType
from kafkarec.format.layout import BATCH_MAGIC
from kafkarec.read.decode_options import DecodeRequest
from kafkarec.read.walk import BytesSegment, walk
from kafkarec.recover.steps import Step
from kafkarec.storage import opening
from kafkarec.storage.log_folders import DataFolderFiles, PartitionFiles
from kafkarec.storage.segment_file import SegmentFile
from kafkarec.write.encoding import record_input_of
from kafkarec.write.fields import BatchHeader

Progress = Callable[[str, int], object]


class SourceBatch(NamedTuple):
    """A batch's header as in Kafka's RecordBatch, -1 where its accessor returns "none", or that of an outer message of
    magic 0 and 1.

    base_offset         None for a wrapper message: it is known only from the inner messages
    timestamp_type      0 create, 1 log append; None for magic 0
    delete_horizon_ms   None: not set
    start, stop         its rows, control records too, among those of its step
    control_type        (compact) raw type id of a control batch's first record; None for a data batch, a control batch
                        without records, or an unreadable record
    raw, file, messages (convert) its bytes; None if the input is not a file; number of batches or outer messages:
                        adjacent plain messages that could be one batch are one, with the header of the first and the
                        last offset of the last
    """

    position: int
    size_in_bytes: int
    magic: int
    base_offset: int | None
    last_offset: int
    next_offset: int
    max_timestamp: int
    partition_leader_epoch: int
    attributes: int
    timestamp_type: int | None
    is_transactional: bool
    is_control: bool
    delete_horizon_ms: int | None
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int | None
    start: int
    stop: int
    control_type: int | None = None
    raw: memoryview = memoryview(b"")
    file: str | None = None
    messages: int = 1

    @property
    def codec(self) -> int:
        """The codec id; 0: not compressed."""
        return self.attributes & 7

    @property
    def rows(self) -> int:
        return self.stop - self.start

    @property
    def place(self) -> dict[str, Any]:
        """Where it is, for errors."""
        end = self.position + self.size_in_bytes
        return {"position": self.position, "base_offset": self.base_offset, "next_position": end, "file": self.file}

    def error(self, reason: str, message: str) -> InvalidRecordError:
        """The error that ends an operation at this batch."""
        return InvalidRecordError(message, reason=reason, **self.place)


_HEADER = SourceBatch._fields[: SourceBatch._fields.index("start")]
_NONE_IS_MINUS_ONE = {"max_timestamp", "partition_leader_epoch", "producer_id", "producer_epoch", "base_sequence"}


def batches_of(step: Step, counts: Iterable[int], at: Sequence[int] | None = None) -> Iterator[SourceBatch]:
    """The batches of a step, or those with the indexes `at`. counts: how many rows each has"""
    if at is None or len(at) == len(step):
        columns = [step.column(name) for name in _HEADER]
    else:
        columns = [[step.cell(name, row) for row in at] for name in _HEADER]
    for number, values in enumerate(columns):
        if _HEADER[number] in _NONE_IS_MINUS_ONE and None in values:
            columns[number] = [-1 if value is None else value for value in values]
    bounds = [0, *accumulate(counts)]
    return map(SourceBatch, *columns, bounds[:-1], bounds[1:])


def segments_of(data: Any) -> Sequence[Any]:
    """The segments of one partition, in order, or of a buffer. ValueError for several partitions."""
    if isinstance(data, SegmentFile | PartitionFiles | DataFolderFiles):
        logs = opening.logs(data)
        if len(logs) > 1:
            raise ValueError(f"{len(logs)} partitions; rewrite them one by one")
        return [segment for log in logs for segment in log.segments]
    try:
        return [BytesSegment(data)]
    except TypeError:
        raise TypeError(
            f"expected a buffer, a Segment or a Log from kafkarec.open, not {type(data).__name__}"
        ) from None


def row_counts(step: Step) -> list[int]:
    """The number of records of each batch of a step."""
    rows = [0] * len(step)
    if step.chunk is not None:
        runs = step.chunk.runs().cast("q").tolist()
        for batch, count in zip(runs[::2], runs[1::2], strict=True):
            rows[batch] = count
    return rows


def steps(
    segment: Any, decode_request: DecodeRequest, progress: Progress, stop: int | None = None, **options: Any
) -> Iterator[Step]:
    """The walk over one segment. progress: called with its path and the position up to which it was decoded."""
    for step in walk([segment], decode_request, stop=stop, **options):
        if len(step) and segment.path is not None:
            progress(segment.path, step.rows.byte_range(len(step) - 1)[1])
        yield step


def new_header(batch: SourceBatch) -> BatchHeader:
    """The header of a batch of magic 2 or above with the offset range and all header fields of `batch`."""
    append_time = batch.timestamp_type == TimestampType.LOG_APPEND_TIME
    return BatchHeader(
        magic=max(batch.magic, BATCH_MAGIC),
        codec=batch.codec,
        timestamp_type=batch.timestamp_type or 0,
        base_offset=batch.last_offset if batch.base_offset is None else batch.base_offset,
        last_offset=batch.last_offset,
        partition_leader_epoch=batch.partition_leader_epoch,
        log_append_time=batch.max_timestamp if append_time else -1,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
        is_transactional=batch.is_transactional,
        is_control=batch.is_control,
        delete_horizon_ms=batch.delete_horizon_ms,
    )


def empty_batch(header: BatchHeader, max_timestamp: int) -> bytes:
    """A batch without records, as the log cleaner leaves one (DefaultRecordBatch.writeEmptyHeader)."""
    return _NO_RECORDS.write(
        header._replace(log_append_time=max_timestamp, base_timestamp=-1, max_timestamp=max_timestamp)
    )


_NO_RECORDS = record_input_of([])


class JoinedBatches(bytes):
    """All batches of an iterator, as bytes, with those of its attributes that the class annotates."""

    @classmethod
    def of(cls, batches: Iterable[bytes | memoryview]) -> Self:
        made = cls(b"".join(batches))
        for name in cls.__annotations__:
            setattr(made, name, getattr(batches, name))
        return made


Options = ParamSpec("Options")
Joined = TypeVar("Joined", bound=JoinedBatches)


def with_joined_output(
    name: str, function: Callable[Options, Iterable[bytes | memoryview]], kind: type[Joined]
) -> Callable[Options, Joined]:
    """`function` with the name `name`, which returns what it yields as a `kind`."""

    @wraps(function)
    def call(*data: Options.args, **options: Options.kwargs) -> Joined:
        return kind.of(function(*data, **options))

    call.__name__ = call.__qualname__ = name
    call.__dict__["__signature__"] = signature(function).replace(return_annotation=kind.__name__)
    return call
