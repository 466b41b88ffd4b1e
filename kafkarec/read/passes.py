"""One pass over one input: decodes bytes to chunks of columns, batch tables and damage.

Used by decode, stream and scan, of buffers and of files.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from kafkarec._core import Decoder, Rows, Source
from kafkarec.damage import Damage
from kafkarec.errors import KafkaRecordError
from kafkarec.tables.records import BatchTable, RecordColumns

from .decode_options import CHUNK_BYTES, NO_CHECKS, NO_COLUMNS, NO_PAYLOADS, DecodeRequest, EngineOptions


class PassResult(NamedTuple):
    """The result for consecutive bytes of an input: chunks, batch tables, damage; remaining: bytes of a cut tail."""

    chunks: list[Any]
    tables: list[Rows]
    damage: list[Damage]
    remaining: int = 0


def joined(parts: list[PassResult]) -> PassResult:
    """Consecutive parts as one. `remaining` is summed: only the last part of an input has any."""
    whole = PassResult([], [], [], sum(part.remaining for part in parts))
    for part in parts:
        whole.chunks.extend(part.chunks)
        whole.tables.extend(part.tables)
        whole.damage.extend(part.damage)
    return whole


def as_columns(asked: DecodeRequest, part: PassResult, stable: int | None = None) -> RecordColumns:
    pieces = [(chunk, 0, len(chunk)) for chunk in part.chunks]
    return RecordColumns(
        asked.layout,
        pieces,
        part.tables,
        tuple(part.damage),
        part.remaining,
        stable,
        asked.options.ticks,
        asked.options.binary_header_keys,
    )


def _pieces(decoder: Decoder) -> Iterator[PassResult]:
    """Yields a part per chunk. Yields the good batches before an error first, then raises it."""
    while True:
        try:
            more = decoder.run()
        except KafkaRecordError:
            yield _taken(decoder, False, 0)
            raise
        yield _taken(decoder, more, 0 if more else decoder.remaining)
        if not more:
            return


def _taken(decoder: Decoder, more: bool, remaining: int) -> PassResult:
    damage = [damage for _, _, damage in decoder.pop_damage(not more)]
    chunk, rows = decoder.take()
    return PassResult([] if chunk is None else [chunk], [rows], damage, remaining)


def read_pieces(asked: DecodeRequest, source: Source, start: int = 0, stop: int | None = None) -> Iterator[PassResult]:
    """Decodes bytes [start, stop) of the input, a part per chunk: constant memory."""
    decoder = asked.decoder()
    decoder.feed(source, start, stop)
    return _pieces(decoder)


def read_part(
    asked: DecodeRequest, source: Source, start: int = 0, stop: int | None = None, threads: int = 1
) -> PassResult:
    """read_pieces joined to one part; with `threads` above 1, pieces of about a chunk are decoded in parallel."""
    if threads > 1 and (source.size if stop is None else stop) - start > CHUNK_BYTES:
        part = _read_parallel(asked, source, start, stop, threads)
        if part is not None:
            return part
    return joined(list(read_pieces(asked, source, start, stop)))


def _read_parallel(
    asked: DecodeRequest, source: Source, start: int, stop: int | None, threads: int
) -> PassResult | None:
    """read_part in several threads; None if there is damage, as resynchronisation needs the bytes before it."""
    borders = [start]
    try:
        for table in scan_pieces(asked._replace(skip=False), source, start, stop):
            for position in table.column("position"):
                if position - borders[-1] >= CHUNK_BYTES:
                    borders.append(position)
    except KafkaRecordError:
        return None
    stretches = list(zip(borders, [*borders[1:], stop], strict=True))
    with ThreadPoolExecutor(threads, "kafkarec") as pool:
        try:
            parts = list(pool.map(lambda ends: joined(list(read_pieces(asked, source, *ends))), stretches))
        except KafkaRecordError:
            return None
    return None if any(part.damage for part in parts) else joined(parts)


def scan_pieces(
    asked: DecodeRequest, source: Source, start: int = 0, stop: int | None = None, *, whole: bool = False
) -> Iterator[BatchTable]:
    """Batch tables from frames and headers alone, about 11,000 batches each or, with `whole`, all of them."""
    options = EngineOptions(
        payloads=NO_PAYLOADS,
        check_crc=NO_CHECKS,
        chunk_bytes=None if whole else CHUNK_BYTES,
        offsets=asked.options.offsets,
        times=asked.options.times,
    )
    decoder = asked.decoder(options, NO_COLUMNS)
    decoder.feed(source, start, stop)
    for part in _pieces(decoder):
        yield BatchTable.of(part.tables, tuple(part.damage), part.remaining)
