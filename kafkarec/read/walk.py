"""The walk over a log: every batch is read once, in order, for all who need it

    segments -> Decoder: headers of all batches, the payloads that are wanted -> Step, Step, ...

A segment is a file (storage.segment_file) or bytes in memory (BytesSegment).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import AbstractContextManager, closing, nullcontext, suppress
from functools import lru_cache, partial
from itertools import chain, islice, tee
from typing import Any, NamedTuple

from kafkarec._core import PassResult, Source
from kafkarec.errors import KafkaRecordError
from kafkarec.format.layout import UP_TO_MAGIC
from kafkarec.recover.marker_evidence import NO_EVIDENCE
from kafkarec.recover.steps import MARKER_COLUMNS, Step
from kafkarec.support.threads import run_in_threads

from .decode_options import (
    ALL_CHECKS,
    CONTROL_PAYLOADS,
    NO_CHECKS,
    NO_PAYLOADS,
    PAYLOAD_CHECKS,
    DecodeRequest,
    request,
)
from .passes import read_chunks, worth_sharing

_MOST_AHEAD = 8  # steps of a segment that is read ahead whole
_LEAST_FIRST = (NO_CHECKS, PAYLOAD_CHECKS, ALL_CHECKS)


class Want(NamedTuple):
    """What is read of each batch besides its header. `|`: what two need together.

    payloads   of no batches, of control batches, of all
    columns    of their records
    checks     whose checksums are checked: of no batches, of those whose payloads are read, of all
    """

    payloads: int = NO_PAYLOADS
    columns: tuple[str, ...] = ()
    checks: int = NO_CHECKS

    def __or__(self, other: Want) -> Want:
        columns = tuple(dict.fromkeys((*self.columns, *other.columns)))
        checks = max(self.checks, other.checks, key=_LEAST_FIRST.index)
        return Want(max(self.payloads, other.payloads), columns, checks)


HEADERS = Want()
CHECKSUMS = Want(checks=ALL_CHECKS)
MARKERS = Want(CONTROL_PAYLOADS, MARKER_COLUMNS)
CHECKED_MARKERS = MARKERS | Want(checks=PAYLOAD_CHECKS)


@lru_cache(64)
def walk_request(want: Want, *, errors: str = "raise", restore: bool = True) -> DecodeRequest:
    """The request for a walk. restore: header fields are restored, as by a reader; a broker restores none."""
    found = request(columns=want.columns, control=True, errors=errors, restore=restore)
    return found.with_options(payloads=want.payloads, check_crc=want.checks)


class BytesSegment:
    """Bytes in memory as the segment of a walk.

    source        of the same bytes, if there is one
    base_offset   None: their offsets may repeat and fall; else they are as those of a file, at or above this one
    """

    path: str | None = None
    later_segment = False
    transaction_evidence = NO_EVIDENCE
    begin, end = 0, None

    def __init__(self, data: Any, source: Source | None = None, base_offset: int | None = None) -> None:
        self.source = Source(data) if source is None else source
        self.base_offset, self.size = base_offset, self.source.size
        self._bytes = self.source.memory

    def opened(self) -> AbstractContextManager[Source]:
        return nullcontext(self.source)

    def named_request(self, decode_request: DecodeRequest) -> DecodeRequest:
        """There is no file of which something is known; "" has the rules of one."""
        return decode_request if self.base_offset is None else decode_request._replace(named={"file": ""})

    def raw(self, position: int, length: int) -> memoryview:
        """Bytes; fewer at the end."""
        return self._bytes[position : position + length]


def walk(
    segments: Iterable[Any],
    decode_request: DecodeRequest,
    *,
    start: int = 0,
    stop: int | None = None,
    start_of: Callable[[Any], int] | None = None,
    threads: int = 1,
) -> Generator[Step]:
    """Yields the steps of the segments, at least one of each, in order, in constant memory. An error is raised after
    the good batches before it.

    segments      also buffers
    start, stop   positions: only what is between them is read, of each segment
    start_of      a segment -> its start
    threads       how many read ahead, the calling one included, also in the next segments; the steps are the same
    """

    def steps(number: int, segment: Any, threads: int) -> Iterator[Step]:
        with segment.opened() as source:
            begin = max(segment.begin, start if start_of is None else start_of(segment))
            end = source.size if segment.end is None else segment.end
            end = end if stop is None else min(end, stop)
            for part in read_chunks(segment.named_request(decode_request), source, begin, end, threads):
                tail = (end - part.remaining, part.remaining) if part.remaining else None
                yield Step(segment, number, part, tail)

    def steps_of_small(number: int, segment: Any) -> list[Step] | None:
        """All steps, if that takes little memory and no error comes; else None: they are read again."""
        with suppress(KafkaRecordError, OSError), segment.opened() as source:
            if source.is_shareable and not worth_sharing(decode_request, source.size):
                found = list(islice(steps(number, segment, 1), _MOST_AHEAD + 1))
                return found if len(found) <= _MOST_AHEAD else None
        return None

    numbered = enumerate(one if hasattr(one, "opened") else BytesSegment(one) for one in segments)
    first = list(islice(numbered, 2 if threads > 1 else 0))
    if len(first) > 1:
        several, also_ahead = tee(chain(first, numbered))
        with closing(run_in_threads((partial(steps_of_small, *one) for one in also_ahead), threads)) as ahead:
            for one, found in zip(several, ahead, strict=True):
                yield from steps(*one, threads) if found is None else found
        return
    for number, segment in chain(first, numbered):
        yield from steps(number, segment, threads)


def steps_of(segment: Any, number: int, part: PassResult) -> Iterator[Step]:
    """The steps of a part that may be several joined ones."""
    if len(part.tables) == 1:
        yield Step(segment, number, part)
        return
    chunks = {id(chunk.rows): [chunk] for chunk in part.chunks}
    damage, restored = part.damage, part.restored
    for rows in part.tables:
        yield Step(segment, number, PassResult(chunks.get(id(rows), []), [rows], damage, part.remaining, restored))
        damage, restored = [], []


def is_preallocated(segment: Any, tail: tuple[int, int]) -> bool:
    """Whether the tail of a step is zeros, as in a preallocated file (log.preallocate), and not an incomplete batch.
    The engine has looked at the bytes behind the first ones: after so many zeros it takes only zeros for a tail. False
    if it cannot be read."""
    position, length = tail
    try:
        head = segment.raw(position, min(length, UP_TO_MAGIC))
    except OSError:
        return False
    return len(head) > 0 and not any(head)


def passes_checksum(segment: Any, position: int, size: int) -> bool:
    """Whether the bytes at `position` are a batch with a right checksum."""
    try:
        list(walk([segment], walk_request(CHECKSUMS), start=position, stop=position + size))
    except KafkaRecordError:
        return False
    return True
