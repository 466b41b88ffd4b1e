"""decode, stream, scan, batches of bytes in memory: one engine, several ways to take its columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

from kafkarec._core import Source
from kafkarec.format.enums import Isolation
from kafkarec.tables.records import BatchTable, RecordBatch, RecordColumns

from .decode_options import DecodeRequest, demand_known, request
from .isolation import excluded
from .passes import as_columns, read_part, read_pieces, scan_pieces


def _isolated(
    asked: DecodeRequest, source: Source, isolation: Isolation | str, aborted: Any, last_stable_offset: int | None
) -> tuple[DecodeRequest, int | None]:
    """The request with what read_committed hides, and the last stable offset."""
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

    data: any buffer of one or many batches, magics mixed; a cut batch at its end is the end: see `.remaining`. A memory
        map whose file is truncated meanwhile ends the process with SIGBUS: `open` the path instead
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
    return (as_columns(asked, part, stable) for part in read_pieces(asked, source))


def scan(data: Any, *, errors: str = "raise", _file: object = None) -> BatchTable:
    """One row per batch from the headers alone: no CRC, nothing is decompressed. Reads 61 bytes a batch.

    Refuses what cannot be framed, and a batch too small for its header. errors="skip" goes on behind such damage.
    """
    [table] = scan_pieces(request(errors=errors, _file=_file), Source(data), whole=True)
    return table


def batches(data: Any, *, errors: str = "raise", _file: object = None, **wishes: Any) -> Iterator[RecordBatch]:
    """The batches one by one. Frames that cannot be read raise at next(), the rest when a batch is iterated.

    Takes decode's options for the records; control records are included unless control=False is said.
    """
    demand_known(wishes)
    asked = request(**{"control": True, **wishes}, errors=errors, _file=_file)
    return _batches(data, asked)


class _Stretch(NamedTuple):
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
            yield RecordBatch(fields, _Stretch(one, source, view, start, start + fields["size_in_bytes"]))
