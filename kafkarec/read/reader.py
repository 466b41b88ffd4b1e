"""decode, stream, scan and batches for bytes in memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

from kafkarec._core import Source
from kafkarec.format.enums import Isolation
from kafkarec.tables.records import BatchTable, RecordBatch, RecordColumns

from .decode_options import DecodeRequest, check_option_names, request
from .isolation import excluded
from .passes import as_columns, read_part, read_pieces, scan_pieces


def _isolated(
    asked: DecodeRequest, source: Source, isolation: Isolation | str, aborted: Any, last_stable_offset: int | None
) -> tuple[DecodeRequest, int | None]:
    """The request with what read_committed excludes, and the last stable offset."""
    if Isolation.of(isolation) is Isolation.READ_UNCOMMITTED:
        return asked, None
    found = excluded([(asked, source)], aborted, last_stable_offset)
    options = replace(asked.options, aborted=found.aborted, stable_offset=found.stable_offset)
    return asked._replace(options=options), found.last_stable_offset


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

    data: any buffer of one or many batches, of any mix of magics; a cut batch at its end is not an error: see
        `.remaining`. If a memory map's file is truncated meanwhile, the process ends with SIGBUS: use `open` instead
    columns: names in the wanted order; default offset, timestamp, timestamp_type, key, value, headers
    isolation: read_uncommitted, or read_committed as a consumer sees it; `aborted` [(producer id, first offset)] and
        `last_stable_offset` replace what the markers in the data say
    control: keep the records of control batches
    check_crcs: CRC-32C and CRC-32 of every batch; "all" checks inner messages of magic 0 and 1 too
    errors: "raise" the first damage as a KafkaRecordError, or "skip" damaged batches and list them in `.damage`
    max_decompressed_bytes: cap per compressed payload, LimitExceededError above it
    timestamp_unit: ms, us, ns, or int64 (raw milliseconds); a value that does not fit is null and counted
    header_keys: utf8 as Java decodes it (malformed: U+FFFD), or binary
    threads: how many decode in parallel, in chunks of about 1 MB
    """
    if not isinstance(threads, int) or threads < 1:
        raise ValueError(f"threads {threads!r}: 1 or more")
    source = Source(data)
    asked = request(
        columns=columns,
        control=control,
        check_crcs=check_crcs,
        errors=errors,
        timestamp_unit=timestamp_unit,
        max_decompressed_bytes=max_decompressed_bytes,
        header_keys=header_keys,
        layout=layout,
        _file=_file,
        _topic=_topic,
        _partition=_partition,
    )
    asked, stable = _isolated(asked, source, isolation, aborted, last_stable_offset)
    return as_columns(asked, read_part(asked, source, threads=threads), stable)


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
    """As decode, in pieces of about 1 MB of payload, each with its own batches and damage: constant memory.

    `.remaining` is 0 except on the last piece. With errors="raise" it yields everything before the damage, then raises.
    """
    source = Source(data)
    asked = request(
        columns=columns,
        control=control,
        check_crcs=check_crcs,
        errors=errors,
        timestamp_unit=timestamp_unit,
        max_decompressed_bytes=max_decompressed_bytes,
        header_keys=header_keys,
        layout=layout,
        _file=_file,
        _topic=_topic,
        _partition=_partition,
    )
    asked, stable = _isolated(asked, source, isolation, aborted, last_stable_offset)
    return (as_columns(asked, part, stable) for part in read_pieces(asked, source))


def scan(data: Any, *, errors: str = "raise", _file: object = None) -> BatchTable:
    """One row per batch from the headers alone: no CRC, nothing is decompressed. Reads 61 bytes a batch.

    Raises for broken framing, and for a batch too small for its header; errors="skip" continues after such damage.
    """
    [table] = scan_pieces(request(errors=errors, _file=_file), Source(data), whole=True)
    return table


def batches(data: Any, *, errors: str = "raise", _file: object = None, **options: Any) -> Iterator[RecordBatch]:
    """The batches one by one. Framing errors are raised by next(), all others when a batch is iterated.

    Takes decode's options for the records; control records are included unless control=False.
    """
    check_option_names(options)
    asked = request(**{"control": True, **options}, errors=errors, _file=_file)
    return _batches(data, asked)


class _BufferBytes(NamedTuple):
    """A batch's bytes within a buffer."""

    asked: DecodeRequest
    source: Source
    view: memoryview
    start: int
    stop: int

    def raw(self) -> memoryview:
        return self.view[self.start : self.stop]

    def write_to(self, file: Any) -> int:
        file.write(self.raw())
        return self.stop - self.start

    def read(self) -> RecordColumns:
        return as_columns(self.asked, read_part(self.asked, self.source, self.start, self.stop))


def _batches(data: Any, asked: DecodeRequest) -> Iterator[RecordBatch]:
    source = Source(data)
    view = memoryview(data).cast("B") if source.size else memoryview(b"")
    one = asked._replace(skip=False)
    for table in scan_pieces(asked, source, whole=True):
        for fields in table:
            start = fields["position"]
            yield RecordBatch(fields, _BufferBytes(one, source, view, start, start + fields["size_in_bytes"]))
