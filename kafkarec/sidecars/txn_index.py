"""`.txnindex`: the aborted transactions with markers in the segment (Kafka: TransactionIndex, AbortedTxn, KIP-98).

    byte  size  field
    0     2     version             int16  0
    2     8     producer_id         int64
    10    8     first_offset        int64  base offset of the transaction's first batch, maybe in an earlier segment
    18    8     last_offset         int64  the ABORT marker's offset
    26    8     last_stable_offset  int64  first offset of the oldest transaction of any other producer still open
                                           then, else the offset after the marker

A segment without aborted transactions has no such file, or an empty one. It is never preallocated. Kafka compares only
the version's first byte with 0, so it accepts versions 1 to 255; here they are refused.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct, error

from kafkarec.format.side_files import AbortedTransaction

from .parsing import demand_whole_entries, refuse

SUFFIX = ".txnindex"
ENTRY_SIZE = 34
VERSION = 0
LAYOUT = Struct(">hqqqq")


def read(data: bytes, file: str | None = None) -> tuple[AbortedTransaction, ...]:
    """The aborted transactions of a .txnindex file's bytes.

    CorruptRecordError (index_invalid) for a version other than 0 and for bytes that are not whole entries.
    """
    demand_whole_entries(data, ENTRY_SIZE, file)
    entries = []
    for number, (version, producer_id, first, last, stable) in enumerate(LAYOUT.iter_unpack(data)):
        if version != VERSION:
            position = number * ENTRY_SIZE
            refuse(
                "index_invalid", f"version {version} of entry {number} is not {VERSION}", position=position, file=file
            )
        entries.append(AbortedTransaction(producer_id, first, last, stable, version))
    return tuple(entries)


def write(entries: Iterable[AbortedTransaction]) -> bytes:
    """The bytes of aborted transactions; CorruptRecordError if a field does not fit its 64 bits."""
    packed = bytearray()
    for entry in entries:
        try:
            packed += LAYOUT.pack(entry.version, *entry[:4])
        except error:
            refuse("index_invalid", "a field of an aborted transaction does not fit its 64 bits", position=len(packed))
    return bytes(packed)
