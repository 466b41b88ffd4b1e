"""One pass over one input: decodes bytes to chunks of columns, batch tables and damage.

Used by decode, stream and scan, of buffers and of files.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from kafkarec._core import Decoder, Rows, Source
from kafkarec.damage import Damage, Restored
from kafkarec.errors import KafkaRecordError
from kafkarec.tables.records import BatchTable, RecordColumns

from .decode_options import DecodeRequest
from .isolation import Excluded
from .threads import read_shared, worth_sharing


class PassResult(NamedTuple):
    """The result for consecutive bytes of an input: chunks, batch tables, damage; remaining: bytes of a cut tail;
    restored batches."""

    chunks: list[Any]
    tables: list[Rows]
    damage: list[Damage]
    remaining: int = 0
    restored: Sequence[Restored] = ()


_part = tuple.__new__  # of a tuple that is there; PassResult(*fields) takes four times as long


def joined(parts: list[PassResult]) -> PassResult:
    """Consecutive parts as one. `remaining` is summed: only the last part of an input has any."""
    restored = [one for part in parts for one in part.restored]
    whole = PassResult([], [], [], sum(part.remaining for part in parts), restored)
    for part in parts:
        whole.chunks.extend(part.chunks)
        whole.tables.extend(part.tables)
        whole.damage.extend(part.damage)
    return whole


def as_columns(decode_request: DecodeRequest, part: PassResult, left_out: Excluded | None = None) -> RecordColumns:
    """left_out: by read_committed; None: not read so."""
    chunks, tables, damage, remaining, restored = part
    return RecordColumns(
        decode_request.layout,
        chunks,
        tables,
        tuple(damage),
        remaining,
        None if left_out is None else left_out.last_stable_offset,
        decode_request.options.ticks,
        decode_request.options.binary_header_keys,
        () if left_out is None else left_out.undecided,
        tuple(restored),
    )


def _pieces(decoder: Decoder) -> Iterator[PassResult]:
    """Yields one part per chunk; before it raises an error, the good batches that precede it."""
    while True:
        try:
            more = decoder.run()
        except KafkaRecordError:
            yield _take_part(decoder, False, 0)
            raise
        yield _take_part(decoder, more, 0 if more else decoder.remaining)
        if not more:
            return


def _take_part(decoder: Decoder, more: bool, remaining: int) -> PassResult:
    damage = [damage for _, _, damage in decoder.pop_damage(not more)]
    chunk, rows = decoder.take()
    restored = [Restored.of(*one) for one in decoder.pop_restored()]
    return PassResult([] if chunk is None else [chunk], [rows], damage, remaining, restored)


def read_pieces(
    decode_request: DecodeRequest, source: Source, start: int = 0, stop: int | None = None
) -> Iterator[PassResult]:
    """Decodes bytes [start, stop) of the input; yields one part per chunk, in constant memory."""
    decoder = decode_request.decoder()
    decoder.feed(source, start, stop)
    return _pieces(decoder)


def read_part(
    decode_request: DecodeRequest, source: Source, start: int = 0, stop: int | None = None, threads: int = 1
) -> PassResult:
    """As read_pieces, in one part; large inputs in up to `threads` threads."""
    if threads > 1 and worth_sharing(decode_request, (source.size if stop is None else stop) - start):
        return _part(PassResult, read_shared(decode_request, source, start, stop, threads))
    return _part(PassResult, decode_request.read(source, start, stop))


def scan_pieces(
    decode_request: DecodeRequest,
    source: Source,
    start: int = 0,
    stop: int | None = None,
    *,
    whole: bool = False,
    check_crcs: bool = False,
) -> Iterator[BatchTable]:
    """Batch tables of about 11,000 batches each; whole: one of all batches. From frames and headers alone, unless
    check_crcs: then every byte is read, and still nothing decompressed."""
    of_headers = decode_request.of_headers(check_crcs=check_crcs, whole=whole)
    return map(batch_table, read_pieces(of_headers, source, start, stop))


def batch_table(part: PassResult) -> BatchTable:
    return BatchTable(part.tables, tuple(part.damage), part.remaining, tuple(part.restored))
