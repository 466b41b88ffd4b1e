"""One pass over one input: decodes bytes to chunks of columns, batch tables and damage.

Used by decode, stream and scan, of buffers and of files.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

from kafkarec._core import BatchRows, Decoder, Decoders, PassResult, Source
from kafkarec.damage import Damage, UndecidedTransaction, damage_from_fault
from kafkarec.errors import KafkaRecordError
from kafkarec.format.layout import LOG_OVERHEAD, V2_AT, batch_length
from kafkarec.recover.offset_order import WINDOW
from kafkarec.support.threads import run_in_threads
from kafkarec.tables.records import RecordColumns, join_results

from .decode_options import ALL_CHECKS, CHUNK_BYTES, MOST_OF_STRETCH, NO_COLUMNS, DecodeRequest

_LEAST_BYTES = CHUNK_BYTES // 2  # of a stretch
_EACH = 8  # stretches for each thread, so that all end at about the same time
_CHUNK_OF_STRETCH = 4 << 20  # so that a stretch is decoded to one chunk, nearly always

Span = tuple[int, int, int]


class WrongOffset(NamedTuple):
    """A batch whose base offset is proven to be wrong: which transaction it is part of is known by the right one only.

    error: for a reading that restores none
    places: the (first, last) offsets by which a range may have it: the right ones, and perhaps those of the stored one
    """

    error: KafkaRecordError
    places: list[tuple[int, int]]

    def is_within(self, first: int | None, *ends: int | None) -> bool:
        """Whether offsets from `first` on, below all of `ends`, have it."""
        stops = [end for end in ends if end is not None]
        return any((first is None or high >= first) and all(low < stop for stop in stops) for low, high in self.places)


class Excluded(NamedTuple):
    """What read_committed leaves out.

    aborted: (producer id, first offset, marker's offset) of each aborted transaction
    stable_offset: the offset at which reading stops; None: at the end
    last_stable_offset: as returned to the caller
    undecided: transactions whose marker may be lost in damage, left out
    highest_base: the highest base offset when the markers were read: what a log that grows got since then is left out,
        as its markers are not known; None: nothing is left out for that
    damaged: whether there was damage then, of which a reading that checks less may take batches
    wrong_offsets: the batches whose base offset is proven to be wrong
    falls: whether offsets fall somewhere, or would, but for batches that were left out as misplaced
    """

    aborted: tuple[Span, ...]
    stable_offset: int | None
    last_stable_offset: int | None
    undecided: tuple[UndecidedTransaction, ...] = ()
    highest_base: int | None = None
    damaged: bool = False
    wrong_offsets: tuple[WrongOffset, ...] = ()
    falls: bool = False

    def applied_to(self, decode_request: DecodeRequest) -> DecodeRequest:
        for one in () if decode_request.skip else self.wrong_offsets:
            if one.is_within(*decode_request.options.within[:2], self.stable_offset):
                raise one.error
        left_out: dict[str, Any] = {"aborted": self.aborted, "stable_offset": self.stable_offset}
        if decode_request.options.check_crc == ALL_CHECKS or not self.damaged:
            left_out["highest_base"] = self.highest_base
        return decode_request.with_options(**left_out)


def as_columns(decode_request: DecodeRequest, part: PassResult, left_out: Excluded | None = None) -> RecordColumns:
    """left_out: by read_committed; None: not read so."""
    if left_out is None:
        return RecordColumns(decode_request.layout, part)
    return RecordColumns(decode_request.layout, part, left_out.last_stable_offset, left_out.undecided)


def _read_chunks(decoder: Decoder) -> Iterator[PassResult]:
    """Yields one part per chunk; before it raises an error, the good batches that precede it."""
    while True:
        try:
            more = decoder.run()
        except KafkaRecordError:
            part = decoder.take()
            yield PassResult(part.chunks, part.tables, part.damage, 0, part.restored)
            raise
        yield decoder.take(more)
        if not more:
            return


def worth_sharing(decode_request: DecodeRequest, size: int) -> bool:
    """Whether `size` bytes of input are enough for threads. A limit for a whole input is counted by one thread."""
    return size > CHUNK_BYTES and decode_request.options.input_limit is None


def read_chunks(
    decode_request: DecodeRequest, source: Source, start: int = 0, stop: int | None = None, threads: int = 1
) -> Iterator[PassResult]:
    """Decodes bytes [start, stop) of the input; yields one part per chunk, in constant memory. The parts are the same
    however many threads read ahead."""
    asked = decode_request.for_chunks
    may_share = threads > 1 and source.is_shareable and asked.options.stretch_bytes is not None
    if may_share and worth_sharing(asked, (source.size if stop is None else stop) - start):
        return _read_stretches(asked, source, start, stop, threads, asked.for_read_ahead.decoders)
    decoder = asked.decoder()
    decoder.feed(source, start, stop)
    return _read_chunks(decoder)


class ReadPosition(NamedTuple):
    """How far an input was read, and what the next decoder has to know to go on as the last one would.

    position  where reading goes on
    border    see Decoder.continue_after; None: nothing is known of what is before the position
    before    the last batches before it
    """

    position: int = 0
    border: Any = None
    before: Sequence[BatchRows] = ()


def read_chunks_from(
    decode_request: DecodeRequest, source: Source, at: ReadPosition
) -> Iterator[tuple[PassResult, ReadPosition]]:
    """As read_chunks, from where the input was read to; each part with how far it was read then."""
    decoder = decode_request.for_chunks.decoder()
    decoder.feed(source, at.position)
    if at.border is not None:
        decoder.continue_after(at.border, at.before)
    before, parts = deque(at.before), list[PassResult]()
    for part in _read_chunks(decoder):
        parts.append(_keep_window(before, part))
        if decoder.border is not None:  # else the next part has damage that is before it
            yield join_results(parts), ReadPosition(decoder.border[0], decoder.border, tuple(before))
            parts.clear()


def read_to_position(
    decode_request: DecodeRequest, source: Source, at: ReadPosition, end: int
) -> tuple[PassResult, ReadPosition]:
    """The parts of read_chunks_from up to the byte `end`, where a batch or damage begins, as one. What is behind it
    counts for damage before it, as it does there."""
    by_batch = decode_request.with_options(stretch_bytes=1)
    parts = []
    for part, after in read_chunks_from(by_batch, source, at):
        if after.position > end:
            break
        parts.append(part)
        at = after
    return join_results(parts), at


def _keep_window(before: deque[BatchRows], part: PassResult) -> PassResult:
    """Adds the batches of a part, which it returns, and drops those that a decoder does not compare with what it finds
    next."""
    before.extend(part.tables)
    while sum(map(len, before)) - len(before[0]) >= WINDOW:
        before.popleft()
    return part


def _read_stretches(
    asked: DecodeRequest,
    source: Source,
    start: int,
    stop: int | None,
    threads: int,
    decoders: Decoders,
    each: int = 2,
) -> Generator[PassResult]:
    """As read_chunks, of stretches that end where a chunk ends for its stored bytes. Undamaged ones are read ahead by
    `decoders`, `each` for each thread; the others, and the end, by one decoder from the border before to the next
    border that it reaches without damage."""
    walker = asked._replace(layout=NO_COLUMNS).decoder()
    walker.feed(source, start, stop)
    borders, before = deque[Any]([walker.border]), deque[BatchRows]()

    def calls() -> Iterator[Callable[[], PassResult | None]]:
        begin = start
        while (end := walker.next_border()) is not None:
            borders.append(end)
            yield partial(_read_stretch, decoders, source, begin, end[0])
            begin = end[0]

    with closing(run_in_threads(calls(), threads, each)) as found:
        for stretch in chain(found, [None]):
            border = borders.popleft()
            if stretch is not None:
                for rows in filter(len, stretch.tables):
                    chunks = [chunk for chunk in stretch.chunks if chunk.rows is rows]
                    yield _keep_window(before, PassResult(chunks, [rows], []))
                continue
            decoder = asked.decoder()
            decoder.feed(source, border[0], stop)
            decoder.continue_after(border, before)
            undamaged = True
            for part in _read_chunks(decoder):
                yield _keep_window(before, part)
                undamaged = undamaged and not part.damage and not part.restored
                if undamaged and borders and decoder.border == borders[0]:
                    break
            else:
                return


def _read_stretch(decoders: Decoders, source: Source, start: int, end: int) -> PassResult | None:
    """Bytes [start, end); None: they have anything but undamaged batches, or would take much memory."""
    try:
        part = decoders.read(source, start, end) if end - start <= MOST_OF_STRETCH else None
    except KafkaRecordError:  # found again by the decoder that reads it in place of this one
        return None
    return None if part is None or part.remaining else part


def read_at_once(
    decode_request: DecodeRequest, source: Source, start: int = 0, stop: int | None = None, threads: int = 1
) -> PassResult:
    """As read_chunks, in one part; large inputs in up to `threads` threads."""
    size = (source.size if stop is None else stop) - start
    if threads == 1 or not worth_sharing(decode_request, size):
        return decode_request.decoders.read(source, start, stop)
    stretch = max(_LEAST_BYTES, min(CHUNK_BYTES, size // (_EACH * threads)))
    asked = decode_request.with_options(chunk_bytes=_CHUNK_OF_STRETCH, stretch_bytes=stretch)
    decoders = asked._replace(skip=False).decoders
    with closing(_read_stretches(asked, source, start, stop, threads, decoders, _EACH)) as parts:
        return join_results(list(parts))


def incomplete_batch(head: bytes, position: int, left: int, lost_from: int | None, file: str | None = None) -> Damage:
    """The Damage for the last `left` bytes of an input, which begin at `position` and are the start of a batch: for
    readers who know that nothing is written there any more. Of 0 to 11 bytes base offset and length are not known.

    head: the first 12 of these bytes, or all of them
    lost_from: the next offset of the last good batch; None: there is none
    file: the name of the file; None: the input is a value
    """
    what = "value" if file is None else "file"
    fault = {"file": file, "position": position, "found": left, "detail": f"the {what} ends in mid-batch"}
    if len(head) >= LOG_OVERHEAD:
        fault["base_offset"] = int.from_bytes(head[: V2_AT.batch_length], "big", signed=True)
        fault["expected"] = LOG_OVERHEAD + batch_length(head)
    return damage_from_fault(file, position, left, lost_from, None, "length_beyond_end", fault)
