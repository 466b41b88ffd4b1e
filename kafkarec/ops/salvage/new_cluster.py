"""Changes a log for a broker of another cluster, which gives the producer ids of this one to other producers

    producer id, epoch, base sequence    -1, not transactional    a new producer with an old id would be taken for its
                                                                  old self: its records are lost as duplicates
    partition leader epoch               0                        as that of a new topic
    aborted batches, markers             removed
    batches of open transactions         set aside                nobody can end them there
    messages of magic 0 and 1            unchanged

Only headers change. A CRC is linear: that of the new header with the same records follows from the old one and the two
headers, so no record is read; what is read back has to have it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kafkarec.format.checksum import crc32c
from kafkarec.format.layout import BATCH_MAGIC, CONTROL, TRANSACTIONAL, V2, V2_AT, V2_OVERHEAD, V2Header, v2_header
from kafkarec.read.isolation import aborted_spans, match
from kafkarec.recover.marker_matching import FIRST, Match
from kafkarec.storage.log_reading import tables
from kafkarec.storage.partition_folder import PartitionFiles
from kafkarec.support.text_table import counted

from .planned_files import Change, batch_size

REASON = "transaction_not_ended"
_ZEROS = memoryview(bytes(1 << 20))
_WITHOUT_PRODUCER = {"partition_leader_epoch": 0, "producer_id": -1, "producer_epoch": -1, "base_sequence": -1}


class _Span(NamedTuple):
    """The offsets of a transaction whose data is left out. reason: as of a Change"""

    first: int
    end: int
    reason: str


def changes(log: PartitionFiles) -> Iterator[Change]:
    """Yields the changes of a planned log."""
    left_out = _uncommitted(match(log.segments))
    for segment in log.segments:
        for table in tables([segment]):
            magics, positions = table.column("magic"), table.column("position")
            for position in (at for at, magic in zip(positions, magics, strict=True) if magic >= BATCH_MAGIC):
                old = v2_header(segment.raw(position, V2_OVERHEAD))
                span = _span(old, left_out)
                if span is not None:
                    yield Change(segment.name, position, batch_size(old), b"", old, None, span.reason, span.first)
                    continue
                attributes = old.attributes & ~TRANSACTIONAL
                new = old._replace(attributes=attributes, **_WITHOUT_PRODUCER)
                if new != old:
                    new = new._replace(crc=_checksum(old, new))
                    yield Change(segment.name, position, V2_OVERHEAD, V2.pack(*new), old, new)


def sentence(changed: list[Change]) -> str:
    """What the report says of them."""
    left_out = [one.old for one in changed if one.old and not one.new and not one.reason]
    markers = sum(bool(one.attributes & CONTROL) for one in left_out)
    renewed = counted(sum(one.new is not None for one in changed), "batch")
    aborted = counted(len(left_out) - markers, "batch")
    return (
        f"for another cluster: {renewed} without the producer id, or with another leader epoch; "
        f"{counted(markers, 'marker')} and {aborted} of aborted transactions are left out"
    )


def _uncommitted(matched: Match) -> dict[int, list[_Span]]:
    """Producer id -> its transactions that were not committed, in order."""
    found: dict[int, list[_Span]] = {}
    for producer, first, marker in aborted_spans(matched):
        found.setdefault(producer, []).append(_Span(first, marker, ""))
    for producer, txn in matched.open.items():
        found.setdefault(producer, []).append(_Span(txn[FIRST], 2**63, REASON))
    return found


def _span(header: V2Header, left_out: dict[int, list[_Span]]) -> _Span | None:
    """The transaction with which a batch is left out; None: it stays."""
    base = header.base_offset
    if header.attributes & CONTROL:
        return _Span(base, base, "")
    if not header.attributes & TRANSACTIONAL:
        return None
    spans = left_out.get(header.producer_id, [])
    while spans and spans[0].end <= base:
        del spans[0]
    return spans[0] if spans and spans[0].first <= base else None


def _checksum(old: V2Header, new: V2Header) -> int:
    size = batch_size(old) - V2_OVERHEAD
    return old.crc ^ _before_zeros(old, size) ^ _before_zeros(new, size)


def _before_zeros(header: V2Header, size: int) -> int:
    """The CRC-32C of the checked part of a header and `size` zeros."""
    crc = crc32c(V2.pack(*header)[V2_AT.attributes :])
    while size > 0:
        crc = crc32c(_ZEROS[:size], crc)
        size -= len(_ZEROS)
    return crc
