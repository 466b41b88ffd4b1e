"""One pass over one input: its bytes in, chunks of columns, batch tables and damage out.

decode, stream and scan of buffers and of files are all made of these three.
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
    """A stretch of input: its chunks, batch tables and damage; how many bytes were left behind it."""

    chunks: list[Any]
    tables: list[Rows]
    damage: list[Damage]
    remaining: int = 0


def joined(parts: list[PassResult]) -> PassResult:
    """Parts one behind the other, as one. Only the last one of an input has bytes left."""
    whole = PassResult([], [], [], sum(part.remaining for part in parts))
    for part in parts:
        whole.chunks.extend(part.chunks)
        whole.tables.extend(part.tables)
        whole.damage.extend(part.damage)
    return whole


def as_columns(asked: DecodeRequest, part: PassResult, stable: int | None = None) -> RecordColumns:
    pieces = [(chunk, 0, len(chunk)) for chunk in part.chunks]
    return RecordColumns(
        asked.layout, pieces, part.tables, tuple(part.damage), part.remaining, stable,
        asked.options.ticks, asked.options.binary_header_keys,
    )  # fmt: skip


def _pieces(decoder: Decoder) -> Iterator[PassResult]:
    """What the fed decoder reads, a chunk a part. A fault is raised behind everything in front of it."""
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
    """Bytes [start, stop) of the input, a chunk a part: flat memory."""
    decoder = asked.decoder()
    decoder.feed(source, start, stop)
    return _pieces(decoder)


def read_part(asked: DecodeRequest, source: Source, start: int = 0, stop: int | None = None, threads: int = 1) -> PassResult:
    """The same as one part; with `threads` in stretches of about a chunk, side by side."""
    if threads > 1 and (source.size if stop is None else stop) - start > CHUNK_BYTES:
        part = _read_parallel(asked, source, start, stop, threads)
        if part is not None:
            return part
    return joined(list(read_pieces(asked, source, start, stop)))


def _read_parallel(asked: DecodeRequest, source: Source, start: int, stop: int | None, threads: int) -> PassResult | None:
    """None when a stretch is damaged: that needs what came before it."""
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
        payloads=NO_PAYLOADS, check_crc=NO_CHECKS, chunk_bytes=None if whole else CHUNK_BYTES,
        offsets=asked.options.offsets, times=asked.options.times,
    )  # fmt: skip
    decoder = asked.decoder(options, NO_COLUMNS)
    decoder.feed(source, start, stop)
    for part in _pieces(decoder):
        yield BatchTable.of(part.tables, tuple(part.damage), part.remaining)
