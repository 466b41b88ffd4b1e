"""decode, stream, scan, batches: one engine, several ways to take its columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, NamedTuple

from . import transactions
from ._core import Rows, Source
from .enums import Isolation
from .errors import KafkaRecordError
from .faults import Damage
from .records import BatchTable, RecordBatch, RecordColumns
from .request import CHUNK_BYTES, NO_COLUMNS, NO_PAYLOADS, Options, Request, request


class _Part(NamedTuple):
    """A stretch of one input: its chunks, batch tables and damage."""

    chunks: list[Any]
    tables: list[Rows]
    damage: list[Damage]
    remaining: int


def _read_part(asked: Request, source: Source, start: int = 0, stop: int | None = None) -> _Part:
    decoder = asked.decoder()
    decoder.feed(source, start, stop)
    part = _Part([], [], [], 0)
    more = True
    while more:
        more = decoder.run()
        part.damage.extend(damage for _, _, damage in decoder.pop_damage(not more))
        chunk, rows = decoder.take()
        part.tables.append(rows)
        if chunk is not None:
            part.chunks.append(chunk)
    return part._replace(remaining=decoder.remaining)


def _read_parallel(asked: Request, source: Source, threads: int) -> _Part | None:
    """Stretches of about a chunk each on a pool; None when one is damaged: that needs what came before it."""
    table, _ = _headers(source, "raise", None)
    borders = [0]
    for position in table.column("position"):
        if position - borders[-1] >= CHUNK_BYTES:
            borders.append(position)
    stretches = list(zip(borders, [*borders[1:], None], strict=True))
    with ThreadPoolExecutor(threads, "kafkarec") as pool:
        try:
            parts = list(pool.map(lambda ends: _read_part(asked, source, *ends), stretches))
        except KafkaRecordError:
            return None
    if any(part.damage for part in parts):
        return None
    return _Part(
        [chunk for part in parts for chunk in part.chunks],
        [table for part in parts for table in part.tables],
        [],
        parts[-1].remaining,
    )


def _columns(asked: Request, part: _Part, stable: int | None) -> RecordColumns:
    pieces = [(chunk, 0, len(chunk)) for chunk in part.chunks]
    return RecordColumns(
        asked.layout, pieces, part.tables, tuple(part.damage), part.remaining, stable,
        asked.options.ticks, asked.options.binary_header_keys,
    )  # fmt: skip


def _isolated(
    asked: Request, source: Source, isolation: Isolation | str, aborted: Any, last_stable_offset: int | None
) -> tuple[Request, int | None]:
    """The request with what read_committed hides, and the last stable offset."""
    if Isolation.of(isolation) is Isolation.READ_UNCOMMITTED:
        return asked, None
    hidden = transactions.hidden(asked, source, aborted, last_stable_offset)
    options = replace(asked.options, aborted=hidden.aborted, stable_offset=hidden.stable_offset)
    return asked._replace(options=options), hidden.last_stable_offset


def decode(
    data: Any,
    *,
    columns: Iterable[str] | None = None,
    isolation: Isolation | str = "read_uncommitted",
    control: bool = False,
    check_crcs: bool | str = True,
    errors: str = "raise",
    max_decompressed_bytes: int = 128 << 20,
    timestamp_unit: str = "ms",
    header_keys: str = "utf8",
    aborted: Iterable[tuple[int, int]] | None = None,
    last_stable_offset: int | None = None,
    layout: str = "copy",
    threads: int = 1,
    _file: object = None,
    _topic: str | None = None,
    _partition: int | None = None,
) -> RecordColumns:
    """Decodes record batches of any magic into Arrow columns. Follows MemoryRecords.batches and streamingIterator.

    data: any buffer of one or many batches, magics mixed; a cut batch at its end is the end: see `.remaining`
    columns: names in the wanted order; default offset, timestamp, timestamp_type, key, value, headers
    isolation: read_uncommitted, or read_committed as a consumer sees it; `aborted` [(producer id, first offset)] and
        `last_stable_offset` replace what the markers in the data say
    control: keep the records of control batches
    check_crcs: CRC-32C and CRC-32 of every batch; "all" checks inner messages of magic 0 and 1 too
    errors: "raise" the first damage as a KafkaRecordError, or "skip" damaged batches and list them in `.damage`
    max_decompressed_bytes: cap per compressed payload, LimitExceededError above it
    timestamp_unit: ms, us, ns, or int64 (raw milliseconds); a value that does not fit is null and counted
    header_keys: utf8 as Java decodes it (malformed: U+FFFD), or binary
    threads: chunks of about 1 MB are decoded side by side
    """
    if not isinstance(threads, int) or threads < 1:
        raise ValueError(f"threads {threads!r}: 1 or more")
    source = Source(data)
    asked = request(
        columns=columns, control=control, check_crcs=check_crcs, errors=errors, timestamp_unit=timestamp_unit,
        max_decompressed_bytes=max_decompressed_bytes, header_keys=header_keys, layout=layout,
        _file=_file, _topic=_topic, _partition=_partition,
    )  # fmt: skip
    asked, stable = _isolated(asked, source, isolation, aborted, last_stable_offset)
    part = None
    if threads > 1 and source.size > CHUNK_BYTES:
        part = _read_parallel(asked, source, threads)
    return _columns(asked, part or _read_part(asked, source), stable)


def stream(
    data: Any,
    *,
    columns: Iterable[str] | None = None,
    isolation: Isolation | str = "read_uncommitted",
    control: bool = False,
    check_crcs: bool | str = True,
    errors: str = "raise",
    max_decompressed_bytes: int = 128 << 20,
    timestamp_unit: str = "ms",
    header_keys: str = "utf8",
    aborted: Iterable[tuple[int, int]] | None = None,
    last_stable_offset: int | None = None,
    layout: str = "copy",
    _file: object = None,
    _topic: str | None = None,
    _partition: int | None = None,
) -> Iterator[RecordColumns]:
    """As decode, a piece of about 1 MB of payload at a time, each with its own batches and damage: flat memory.

    `.remaining` is 0 but on the last piece. Under errors="raise" everything before the damage comes first.
    """
    source = Source(data)
    asked = request(
        columns=columns, control=control, check_crcs=check_crcs, errors=errors, timestamp_unit=timestamp_unit,
        max_decompressed_bytes=max_decompressed_bytes, header_keys=header_keys, layout=layout,
        _file=_file, _topic=_topic, _partition=_partition,
    )  # fmt: skip
    asked, stable = _isolated(asked, source, isolation, aborted, last_stable_offset)
    return _stream(asked, source, stable)


def _stream(asked: Request, source: Source, stable: int | None) -> Iterator[RecordColumns]:
    decoder = asked.decoder()
    decoder.feed(source)
    more, fault = True, None
    while more:
        try:
            more = decoder.run()
        except KafkaRecordError as error:
            more, fault = False, error
        damage = [damage for _, _, damage in decoder.pop_damage(not more)]
        chunk, rows = decoder.take()
        remaining = 0 if more or fault else decoder.remaining
        yield _columns(asked, _Part([] if chunk is None else [chunk], [rows], damage, remaining), stable)
    if fault is not None:
        raise fault


def _headers(data: Any, errors: str, file: object) -> tuple[BatchTable, KafkaRecordError | None]:
    """The batch table as far as frames and headers hold, and what stopped it."""
    asked = request(errors=errors, _file=file)
    decoder = asked.decoder(Options(payloads=NO_PAYLOADS, check_crc=False, chunk_bytes=None), NO_COLUMNS)
    decoder.feed(data)
    fault = None
    try:
        decoder.run()
    except KafkaRecordError as error:
        fault = error
    damage = tuple(damage for _, _, damage in decoder.pop_damage())
    return BatchTable.of([decoder.take()[1]], damage, decoder.remaining), fault


def scan(data: Any, *, errors: str = "raise", _file: object = None) -> BatchTable:
    """One row per batch from the headers alone: no CRC, nothing is decompressed. Reads 61 bytes a batch.

    Refuses what cannot be framed, and a batch too small for its header. errors="skip" goes on behind such damage.
    """
    table, fault = _headers(data, errors, _file)
    if fault is not None:
        raise fault
    return table


def batches(data: Any, *, errors: str = "raise", _file: object = None, **wishes: Any) -> Iterator[RecordBatch]:
    """The batches one by one. Frames that cannot be read raise at next(), the rest when a batch is iterated.

    Takes decode's options for the records; control records are included unless control=False is said.
    """
    asked = request(**{"control": True, **wishes}, _file=_file)
    return _batches(data, errors, asked)


def _batches(data: Any, errors: str, asked: Request) -> Iterator[RecordBatch]:
    source = Source(data)
    view = memoryview(data).cast("B") if memoryview(data).nbytes else memoryview(b"")
    table, fault = _headers(source, errors, asked.named["file"])
    for fields in table:
        start = fields["position"]
        stop = start + fields["size_in_bytes"]

        def read(start: int = start, stop: int = stop) -> RecordColumns:
            return _columns(asked, _read_part(asked, source, start, stop), None)

        yield RecordBatch(fields, view[start:stop], read)
    if fault is not None:
        raise fault
