"""One pass over the input: each batch is copied, left out, recompressed, or added to a run of adjacent batches, which
is then split into new batches."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

from kafkarec import codecs
from kafkarec.damage import Damage, Restored
from kafkarec.errors import KafkaRecordError, MissingCodecError
from kafkarec.format.enums import CODEC_NAMES, Compression
from kafkarec.format.layout import BATCH_MAGIC, LATEST_CODECS
from kafkarec.ops.rewrite import JoinedBatches, Progress, SourceBatch, segments_of, steps, with_joined_output
from kafkarec.read.decode_options import CHUNK_BYTES, DecodeRequest, checked_threads, request
from kafkarec.support.threads import run_in_threads

from .new_batches import (
    RowGroup,
    count_batch_header_losses,
    count_losses,
    header_of,
    recompressed_batch,
    refusal_of,
)
from .target import (
    ConversionStats,
    DecodedBatches,
    LossError,
    Shape,
    Target,
    checked_target,
    is_splittable,
    may_follow,
    source_batches,
)

_RUN_BYTES = 256 << 10
_TASK_BYTES = 256 << 10


class NewBatch(NamedTuple):
    """A batch of the output that is not yet written: `write` is called in any thread.

    unit: the first input batch, for errors; size: about its bytes; messages, rows: as in SourceBatch, of the output
    """

    write: Callable[[], bytes]
    unit: SourceBatch
    size: int
    messages: int
    rows: int


Written = tuple[NewBatch, bytes | KafkaRecordError]


def _write_batches(batches: Sequence[NewBatch]) -> list[Written]:
    written: list[Written] = []
    for batch in batches:
        try:
            written.append((batch, batch.write()))
        except codecs.MissingCodec as missing:
            written.append((batch, refusal_of(batch.unit, "missing_codec", detail=str(missing))))
        except KafkaRecordError as refusal:
            written.append((batch, refusal))
    return written


class Conversion(Iterator[bytes]):
    """An iterator over the converted batches, in constant memory.

    .stats       ConversionStats: what was done, what was lost; updated as it runs
    .damage      tuple of Damage: batches that errors="skip" left out; complete at the end
    .restored    tuple of Restored: batches that errors="skip" read with restored header fields; complete at the end
    .remaining   bytes of the input after its last batch: an incomplete batch, which is left out; known at the end
    """

    stats: ConversionStats

    def __init__(
        self,
        segments: Sequence[Any],
        read_request: DecodeRequest,
        progress: Progress,
        target: Target,
        max_decompressed_bytes: int,
        *,
        refuses_loss: bool,
        threads: int,
    ) -> None:
        self.stats, self.remaining = ConversionStats(), 0
        self._segments, self._request, self._progress = segments, read_request, progress
        self._target, self._limit, self._refuses_loss = target, max_decompressed_bytes, refuses_loss
        self._damage: list[Damage] = []
        self._restored: list[Restored] = []
        self._run: list[SourceBatch] = []
        self._shape = Shape(2, 0, None)
        self._shapes: dict[tuple[int, int, bool], Shape] = {}
        self._rows_written = 0  # rows of the run's first unit that are written
        self._added = 0  # stored bytes since the last flush
        self._decompressed = self._read = 0  # bytes decompressed so far, at least; those up to the last flush
        self._threads = threads
        self._written_batches = self._output_batches()

    @property
    def damage(self) -> tuple[Damage, ...]:
        return tuple(sorted(self._damage, key=lambda one: (one.file or "", one.position)))

    @property
    def restored(self) -> tuple[Restored, ...]:
        return tuple(self._restored)

    def __next__(self) -> bytes:
        return next(self._written_batches)

    def close(self) -> None:
        """Stop early and close the file."""
        self._written_batches.close()

    def _output_batches(self) -> Generator[bytes]:
        with closing(run_in_threads(self._tasks(), self._threads)) as tasks:
            for written in tasks:
                for batch, data in written:
                    if isinstance(data, KafkaRecordError):
                        self._raise_or_add_damage(batch.unit, data)
                        continue
                    self.stats.batches_out += batch.messages
                    self.stats.records_out += batch.rows
                    self.stats.bytes_out += len(data)
                    yield data
        if self._refuses_loss and self.stats.losses:
            raise LossError(self.stats.losses)

    def _tasks(self) -> Iterator[Callable[[], list[Written]]]:
        """Some batches each, so that a thread does not wait for each batch."""
        batches: list[NewBatch] = []
        size = 0
        try:
            for batch in self._new_batches():
                batches.append(batch)
                size += batch.size
                if size >= _TASK_BYTES:
                    yield partial(_write_batches, batches)
                    batches, size = [], 0
        except KafkaRecordError:
            yield partial(_write_batches, batches)
            raise
        yield partial(_write_batches, batches)

    def _input_batches(self) -> Iterator[SourceBatch]:
        for source in self._segments:
            for number, step in enumerate(steps(source, self._request, self._progress, threads=self._threads)):
                # every step but the last decompressed at least one chunk
                self._decompressed += CHUNK_BYTES if number else 0
                self._damage += step.damage
                self._restored += step.restored
                self.remaining += step.tail[1] if step.tail else 0
                if len(step):
                    yield from source_batches(step, source)

    def _new_batches(self) -> Iterator[NewBatch]:
        for unit in self._input_batches():
            self.stats.batches_in += unit.messages
            self.stats.records_in += unit.rows
            self.stats.bytes_in += unit.size_in_bytes
            kind = unit.magic, unit.attributes, unit.rows == 0
            shape = self._shapes.get(kind) or self._shapes.setdefault(kind, self._target.shape(unit))
            # without a limit a run is only decoded together
            if self._run and (
                shape != self._shape
                or (shape.limit is not None and not may_follow(self._run[0], self._run[-1], unit, shape))
            ):
                yield from self._flush_run()
            if shape.magic < BATCH_MAGIC and self._leave_out_if_unsupported(unit, shape):
                continue
            if shape.limit is None and self._keeps_records(unit, shape):
                yield from self._flush_run()
                yield from self._copied_or_recompressed(unit, shape)
                continue
            self._run.append(unit)
            self._shape = shape
            self._added += unit.size_in_bytes
            enough = 4 * (shape.limit or 0)
            if self._added > max(_RUN_BYTES, enough) or self._decompressed - self._read > max(CHUNK_BYTES, enough):
                yield from self._flush_run(final=False)
        yield from self._flush_run()

    def _keeps_records(self, unit: SourceBatch, shape: Shape) -> bool:
        """Whether no record of the batch is rewritten: it is copied, or its payload is recompressed."""
        is_batch = unit.magic >= BATCH_MAGIC
        return unit.magic == shape.magic and (is_batch or self._target.copies_unchanged(unit, shape.magic, shape.codec))

    def _leave_out_if_unsupported(self, unit: SourceBatch, shape: Shape) -> bool:
        """Checks in the order of RecordsUtil.downConvert: control batches, then zstd, then batches without records."""
        goes_down = shape.magic < unit.magic
        if goes_down and unit.is_control:
            self.stats.lost["control_batches"] += 1
            self.stats.lost["control_records"] += unit.rows
            return True
        if shape.codec > LATEST_CODECS[shape.magic]:
            # RecordsUtil.downConvert throws an UnsupportedCompressionTypeException, also for a batch without records
            detail = f"magic {shape.magic} does not support {CODEC_NAMES[shape.codec]}; choose another compression"
            sides = {"expected": LATEST_CODECS[shape.magic], "found": shape.codec, "detail": detail}
            self._raise_or_add_damage(unit, refusal_of(unit, "unsupported_codec", **sides))
            return True
        if goes_down and not unit.rows:
            self.stats.lost["empty_batches"] += 1
            count_batch_header_losses(unit, shape, self.stats)
            return True
        return False

    def _raise_or_add_damage(self, unit: SourceBatch, refusal: KafkaRecordError) -> None:
        if not self._request.skip or isinstance(refusal, MissingCodecError):
            raise refusal
        first = unit.base_offset if unit.base_offset is not None else unit.last_offset
        end = unit.position + unit.size_in_bytes
        reason, text = str(refusal.reason), str(refusal)
        damage = Damage(unit.file, unit.position, unit.size_in_bytes, first, unit.last_offset, end, reason, text)
        self._damage.append(damage.with_values(refusal.expected, refusal.found, refusal.cause))

    def _copied_or_recompressed(self, unit: SourceBatch, shape: Shape) -> Iterator[NewBatch]:
        """The same bytes, or the same records with another codec."""
        if self._target.copies_unchanged(unit, shape.magic, shape.codec):
            self.stats.batches_copied += unit.messages
            yield NewBatch(partial(bytes, unit.raw), unit, unit.size_in_bytes, unit.messages, unit.rows)
        else:
            write = partial(recompressed_batch, unit, shape.codec, self._target.level, self._limit)
            yield NewBatch(write, unit, unit.size_in_bytes, 1, unit.rows)

    def _new_batch_of_group(self, group: RowGroup, shape: Shape) -> Iterator[NewBatch]:
        """Yield rows as one batch; if they are exactly those of an input batch, that batch unchanged if possible."""
        unit, first = group.whole_unit, group.decoded.units[group.first_unit]
        if unit and self._keeps_records(unit, shape):
            yield from self._copied_or_recompressed(unit, shape)
            return
        try:
            header = header_of(group, shape, self._target)
        except KafkaRecordError as refusal:
            self._raise_or_add_damage(first, refusal)
            return
        rows = group.stop - group.start
        if shape.magic != first.magic:
            self.stats.records_converted += rows
        if shape.magic < BATCH_MAGIC:
            count_losses(group, shape, self.stats)
        size = shape.limit or first.size_in_bytes
        write = partial(group.decoded.record_input.write, header, group.start, group.stop)
        messages = 1 if shape.magic >= BATCH_MAGIC or shape.codec else rows
        yield NewBatch(write, first, size, messages, rows)

    def _flush_run(self, *, final: bool = True) -> Iterator[NewBatch]:
        """Write the run; unless `final`, without its last batch, to which more may be joined."""
        run, shape, done = self._run, self._shape, self._rows_written
        self._run, self._rows_written, self._added, self._read = [], 0, 0, self._decompressed
        if not run:
            return
        decoded = DecodedBatches(run, self._limit)
        for start, stop, regular in _splittable_ranges(decoded, shape):
            first, last = max(decoded.bounds[start], done), decoded.bounds[stop]
            if shape.limit is None or not regular:
                rows = decoded.bounds[start : stop + 1]
            else:
                rows = decoded.split_points(first, last, shape.magic, shape.limit)
                if not final and stop == len(run):
                    rows.pop()
                    number = RowGroup(decoded, rows[-1], rows[-1] + 1).first_unit  # the next run begins at this row
                    self._run = list(decoded.units[number:])
                    self._rows_written = rows[-1] - decoded.bounds[number]
            for begin, end in pairwise(rows):
                yield from self._new_batch_of_group(RowGroup(decoded, begin, end), shape)


def _splittable_ranges(decoded: DecodedBatches, shape: Shape) -> Iterator[tuple[int, int, bool]]:
    """Yield (start, stop, regular): units [start, stop) that can be split together, or one that cannot be split."""
    start = 0
    count = len(decoded.units)
    if shape.limit is None:
        yield start, count, False
        return
    for number in range(count):
        regular = is_splittable(decoded, number, shape)
        row = decoded.bounds[number]
        follows = number == start or decoded.offsets[row - 1] < decoded.offsets[row]
        if not (regular and follows) and start < number:
            yield start, number, True
            start = number
        if not regular:
            yield number, number + 1, False
            start = number + 1
    if start < count:
        yield start, count, True


def converted_batches(
    data: Any,
    *,
    magic: int | None = 2,
    compression: Compression | str | None = None,
    level: int | None = None,
    batch_size: int | None = None,
    on_loss: str = "count",
    check_crcs: bool | str = "all",
    errors: str = "raise",
    max_decompressed_bytes: int = 128 << 20,
    threads: int = 1,
    progress: Callable[[str, int], object] = lambda path, end: None,
) -> Conversion:
    """Converts record batches to another magic, codec, level or size. Unchanged batches are copied byte for byte.
    `kafkarec.convert` returns all output, `kafkarec.ops.convert.converted_batches` an iterator over its batches, in
    constant memory.

    data: a buffer of batches of any magic, a SegmentFile or a PartitionFiles
    magic: 2 converts 0 and 1 up. 1 and 0 convert down as RecordsUtil.downConvert of Kafka 3.9 does: headers and
        producer fields are lost, control batches and batches without records are left out (so what was aborted looks
        committed), zstd is refused (UnsupportedCompressionError) unless `compression` names another codec, batches of a
        lower magic keep it. None: every batch keeps its magic
    compression: the name of a codec (`Compression`); None: every batch keeps its codec. Uncompressed markers stay
        uncompressed
    level: of `compression`; None is Kafka's default. With a level, batches that already have the codec are compressed
        again
    batch_size: bytes before compression. Adjacent batches are joined up to it and split above it if they have the same
        producer, epoch, consecutive sequences, transaction, leader epoch, timestamp type and delete horizon, so that
        readers see no difference. None: batches are neither joined nor split, except that uncompressed messages of
        magic 0 and 1 are joined into batches of 16384 bytes when they are converted or compressed
    on_loss: "count" counts losses in `.stats.lost`; "raise" raises a LossError that says what is lost and where, after
        the last batch: only then is it known, so what was yielded must not be used before the end
    threads: how many threads decode and compress, the calling one included, with the same result
    check_crcs, errors, max_decompressed_bytes: as for `decode`; under errors="raise" all batches before the damage are
        yielded first. Every batch is validated, so what Kafka cannot read is not converted; with check_crcs="all" inner
        messages of magic 0 and 1 too, since they get a new checksum
    progress: called with the path of a file and the position up to which it was read

    InvalidRecordError for what Kafka's builder refuses: in down-conversion offsets_out_of_order and timestamp_negative;
    offsets that are too far apart for one batch. `errors="skip"` leaves such batches out and lists them in `.damage`.
    """
    output = checked_target(magic, compression, level, batch_size)
    if on_loss not in ("count", "raise"):
        raise ValueError(f"on_loss {on_loss!r}: one of count, raise")
    segments = segments_of(data)
    checked_threads(threads)
    limit = max_decompressed_bytes
    read_request = request(columns=(), control=True, check_crcs=check_crcs, errors=errors, max_decompressed_bytes=limit)
    refuses_loss = on_loss == "raise"
    return Conversion(segments, read_request, progress, output, limit, refuses_loss=refuses_loss, threads=threads)


class Converted(JoinedBatches):
    """The converted batches, as bytes.

    .stats       ConversionStats: what was done, what was lost
    .damage      tuple of Damage: batches that errors="skip" left out
    .restored    tuple of Restored: batches that errors="skip" read with restored header fields
    .remaining   bytes of the input after its last batch: an incomplete batch, which is left out
    """

    stats: ConversionStats
    damage: tuple[Damage, ...]
    restored: tuple[Restored, ...]
    remaining: int

    def __repr__(self) -> str:
        lost = ", ".join(f"{count} {word}" for word, count in self.stats.losses.items())
        return (
            f"<Converted: {len(self)} bytes, {self.stats.records_out} records in {self.stats.batches_out} "
            f"batches, lost: {lost or 'nothing'}>"
        )

    __str__ = __repr__


convert = with_joined_output("convert", converted_batches, Converted)
