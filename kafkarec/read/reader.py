"""decode, stream, scan and batches for bytes in memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

from kafkarec._core import Batches, BatchesInMemory, BatchRows, PassResult, Source, attach_decode
from kafkarec._core import decode as decode_at_once
from kafkarec.errors import KafkaRecordError
from kafkarec.format.enums import Isolation
from kafkarec.tables.records import BatchTable, RecordBatch, RecordColumns

from .decode_options import (
    DecodeRequest,
    batch_request,
    checked_request,
    checked_threads,
    request_of_locals,
    scan_request,
)
from .passes import Excluded, as_columns, read_at_once, read_chunks

attach_decode(checked_request, RecordColumns)


def _request_and_source(arguments: dict[str, Any]) -> tuple[DecodeRequest, Source, Excluded | None]:
    """The request, the source of its data, and what read_committed excludes, which is in the request, too. arguments:
    the `locals()` of a function with the parameters of `decode`.

    Where offsets fall, and it is proven that one of them is wrong, the data are read as a file of one log: an aborted
    batch with a wrong one would be none. But not if they fall with the right one, too: then they are of several logs,
    or requests, and it may fit by chance.
    """
    decode_request, data = request_of_locals(arguments), arguments["data"]
    source = Source(data)
    if Isolation.of(arguments["isolation"]) is Isolation.READ_UNCOMMITTED:
        return decode_request, source, None
    from .isolation import excluded  # not at the top: with what it imports a seventh of `import kafkarec`
    from .walk import BytesSegment

    aborted = arguments["aborted"]
    excluded_of = partial(
        excluded,
        aborted=None if aborted is None else list(aborted),
        last_stable_offset=arguments["last_stable_offset"],
        skip=decode_request.skip,
        restore=decode_request.options.restore,
    )
    found = excluded_of([BytesSegment(data, source)])
    if found.falls and (found.aborted or found.stable_offset is not None):  # else nothing is left out
        of_log = BytesSegment(data, source, base_offset=0)
        by_order = excluded_of([of_log])
        if by_order.wrong_offsets and not by_order.falls:
            return by_order.applied_to(of_log.named_request(decode_request)), source, by_order
    return found.applied_to(decode_request), source, found


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
    restore: bool = True,
    aborted: Iterable[tuple[int, int]] | None = None,
    last_stable_offset: int | None = None,
    layout: str = "copy",
    threads: int = 1,
) -> RecordColumns:
    """Decodes record batches of any magic into Arrow columns. Follows MemoryRecords.batches and streamingIterator.

    data: any buffer of one or many batches, of any mix of magics; a cut batch at its end is not an error: see
        `.remaining`. If a memory map's file is truncated meanwhile, the process ends with SIGBUS: use `open` instead
    columns: names, in the order of the result; default offset, timestamp, timestamp_type, key, value, headers
    isolation: read_uncommitted, or read_committed as a consumer sees it; `aborted` [(producer id, first offset)] and
        `last_stable_offset` override the markers in the data
    control: keep the records of control batches
    check_crcs: CRC-32C and CRC-32 of every batch; "all" checks inner messages of magic 0 and 1 too
    errors: "raise" the first damage as a KafkaRecordError, or "skip" damaged batches and list them in `.damage`
    max_decompressed_bytes: cap per compressed payload, LimitExceededError above it
    timestamp_unit: ms, us, ns, or int64 (raw milliseconds); a value that does not fit is null and counted
    header_keys: utf8 as Java decodes it (malformed: U+FFFD), or binary
    restore: with errors="skip", batches whose length or magic is damaged and whose checksum proves the right one are
        good batches, listed in `.restored`; False: they are damage. With read_committed so are those whose base offset
        is proven to be wrong by the batches around it, if no other offsets fall; with errors="raise" the first of
        these is raised
    layout: "copy", or "view": keys, values and header values are binary_view, and those of more than 12 bytes stay in
        `data` where they are not compressed. So the columns, and what Arrow's interface makes of them, keep `data`: a
        bytearray cannot be resized meanwhile, a change of its bytes changes the values, and the file of a memory map
        must not be truncated as long as they are read
    threads: how many threads may decode, the calling one included; inputs of 1 MiB or less have one
    """
    if isolation == "read_uncommitted" and threads == 1:
        return decode_at_once(
            data,
            columns,
            control,
            check_crcs,
            errors,
            max_decompressed_bytes,
            timestamp_unit,
            header_keys,
            restore,
            layout,
        )
    checked_threads(threads)
    decode_request, source, left_out = _request_and_source(locals())
    return as_columns(decode_request, read_at_once(decode_request, source, threads=threads), left_out)


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
    restore: bool = True,
    aborted: Iterable[tuple[int, int]] | None = None,
    last_stable_offset: int | None = None,
    layout: str = "copy",
    threads: int = 1,
) -> Iterator[RecordColumns]:
    """As decode, in pieces of about 1 MB of payload, each with its own batches and damage: constant memory. Threads
    decode up to 8 MiB of payload ahead for each; the pieces are the same.

    `.remaining` is 0 except on the last piece. With errors="raise" it yields everything before the damage, then raises.
    """
    decode_request, source, left_out = _request_and_source(locals())
    parts = read_chunks(decode_request, source, threads=checked_threads(threads))
    return (as_columns(decode_request, part, left_out) for part in parts)


def scan(data: Any, *, errors: str = "raise") -> BatchTable:
    """One row per batch, from the headers alone: checks no CRC and decompresses nothing. Reads 61 bytes per batch.

    Raises CorruptRecordError for broken framing, and for a batch too small for its header; errors="skip" continues
    after such damage.
    """
    return BatchTable(read_at_once(scan_request(errors), Source(data)))


def batches(data: Any, *, errors: str = "raise", **options: Any) -> Iterator[RecordBatch]:
    """The batches one by one. Framing errors are raised by next(), all others when a batch is iterated.

    Accepts decode's options for the records; control records are included unless control=False.
    """
    source = Source(data)
    return Batches(
        _batch_rows(scan_request(errors), source), BatchesInMemory(source, batch_request(**options).decoders)
    )


def _batch_rows(decode_request: DecodeRequest, source: Source) -> Iterator[BatchRows]:
    """Of all batches at once; if there is damage, first of the good batches before it."""
    parts: Iterable[PassResult]
    try:
        parts = [decode_request.decoders.read(source)]
    except KafkaRecordError:
        parts = read_chunks(decode_request, source)
    for part in parts:
        yield from part.tables
