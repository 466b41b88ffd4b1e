"""A .log or .checkpoint file as text"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from kafkarec.errors import KafkaRecordError
from kafkarec.format import layout
from kafkarec.format.java_integers import INT_MAX
from kafkarec.sources.files import ByteSource

from .batch_lines import DumpedBatch, batch_line
from .batch_reader import FilePiece, Frame, pieces, refuse
from .messages01 import message_lines
from .mismatches import Consecutive
from .record_columns import RecordReader, records_of
from .record_lines import LineOptions, RecordTexts, record_lines


class LogTextOptions(NamedTuple):
    """The options of a log's text.

    style       None: batches without their records
    max_bytes   reads only batches that end within this many bytes
    limit       max decompressed bytes of a batch
    """

    style: LineOptions | None
    max_bytes: int
    limit: int


def log_text(
    source: ByteSource,
    name: str,
    options: LogTextOptions,
    consecutive: Consecutive,
    progress: Callable[[int], object] = lambda end: None,
) -> Iterator[str]:
    """The text after the file's heading. Raises KafkaRecordError where Kafka's tool ends with an exception, after
    yielding everything before. `progress`: called with the position up to which the text is complete."""
    whole = options.max_bytes == INT_MAX  # the whole file, even above 2 GiB, which Kafka's tool refuses
    end = source.size if whole else min(source.size, options.max_bytes)
    position = 0
    for piece in pieces(source, 0, end):
        yield from _PieceText(source, piece, options, consecutive).text()
        last = piece.frames[-1]
        position = piece.position + last.at + last.size
        progress(position)
    if whole and end > position:
        yield f"Found {end - position} invalid bytes at the end of {name}\n"


class _PieceText:
    """The text of one piece. Consecutive batches of magic 2 are decoded together."""

    def __init__(self, source: ByteSource, piece: FilePiece, options: LogTextOptions, consecutive: Consecutive) -> None:
        self._source, self._piece, self._options, self._consecutive = source, piece, options, consecutive
        self._engine: RecordReader | None = None
        self._engine_ends = 0

    def text(self) -> Iterator[str]:
        for number, frame in enumerate(self._piece.frames):
            batches: list[DumpedBatch] = []
            yield from batch_line(self._source, self._piece, frame, batches)
            if self._options.style is not None:
                yield from self._records(number, batches[0], self._options.style)

    def _records(self, number: int, batch: DumpedBatch, style: LineOptions) -> Iterator[str]:
        if batch.magic < layout.BATCH_MAGIC:
            yield from message_lines(self._source, batch, style, self._consecutive, self._options.limit)
            return
        size = len(batch.raw)
        if size < layout.V2_OVERHEAD:
            refuse(
                "batch_too_small",
                self._source,
                batch.position,
                offset=batch.offset,
                expected=layout.V2_OVERHEAD,
                found=size,
            )
        if batch.record_count == 0:
            return  # Kafka ignores the payload
        for rows in self._rows(number, batch, style):
            self._consecutive.note(rows.offsets)
            yield from record_lines(batch, rows, style)

    def _rows(self, number: int, batch: DumpedBatch, style: LineOptions) -> Iterator[RecordTexts]:
        if batch.magic in layout.BATCH_MAGICS and batch.record_count > 0:
            if self._engine is None or number >= self._engine_ends:
                self._start(number, style)
            assert self._engine is not None
            try:
                yield from self._engine.take(batch.record_count)
            except KafkaRecordError:
                self._engine = None
            else:
                return
        yield from records_of(self._source, batch, self._options.limit)

    def _start(self, number: int, style: LineOptions) -> None:
        """Starts decoding at a frame, up to the first one that Kafka's tool reads differently or that is not of the
        same kind (data or control): only control batches need keys and values as bytes."""
        data = self._piece.data
        frames = self._piece.frames
        kind = layout.v2_header(data, frames[number].at).attributes & layout.CONTROL
        stop = number + 1
        while stop < len(frames) and _is_plain(data, frames[stop], kind):
            stop += 1
        last = frames[stop - 1]
        span = data[frames[number].at : last.at + last.size]
        texts = style.content and style.decode is None and not kind
        self._engine = RecordReader(span, self._options.limit, texts, raw=bool(kind or style.decode))
        self._engine_ends = stop


def _is_plain(data: bytes, frame: Frame, kind: int) -> bool:
    """Whether a batch has records and a known codec, and its control bit is `kind`."""
    if frame.magic not in layout.BATCH_MAGICS or frame.size < layout.V2_OVERHEAD:
        return False
    header = layout.v2_header(data, frame.at)
    is_known = header.attributes & layout.CODEC_MASK <= layout.LATEST_CODEC
    return is_known and header.attributes & layout.CONTROL == kind and header.record_count > 0
