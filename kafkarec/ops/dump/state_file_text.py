"""A .txnindex or .snapshot file as text

The layouts are in `kafkarec.sidecars.txn_index` and `producer_snapshot`; Kafka's tool is less strict than those
readers. Only the first byte of a .txnindex entry's version is read (AbortedTxn), bytes after the last whole entry are
ignored, and a snapshot is read as by Kafka's generated class (ProducerStateManager.readSnapshot).
"""

from __future__ import annotations

from kafkarec.format.checksum import crc32c
from kafkarec.format.java_integers import decrement_sequence
from kafkarec.format.single_fields import FieldFault
from kafkarec.sidecars import producer_snapshot, txn_index
from kafkarec.sources.files import ByteSource

from .batch_reader import refuse
from .java_text import optional_long

_LARGEST = 256 << 20


class SnapshotError(Exception):
    """The error that Kafka's tool prints for a snapshot before it continues with the next file."""


def txn_index_text(source: ByteSource) -> str:
    """The lines of a .txnindex. Kafka reads all entries before it prints the first."""
    lines = []
    for number, entry in enumerate(txn_index.LAYOUT.iter_unpack(_whole(source, txn_index.ENTRY_SIZE))):
        version, producer_id, first, last, stable = entry
        version >>= 8  # AbortedTxn.version reads the first byte only
        if version > 0:
            fault = FieldFault("index_invalid", detail=f"version {version} of entry {number} is above 0")
            refuse(source, number * txn_index.ENTRY_SIZE, fault)
        lines.append(
            f"version: {version} producerId: {producer_id} firstOffset: {first} lastOffset: {last} "
            f"lastStableOffset: {stable}\n"
        )
    return "".join(lines)


def snapshot_text(source: ByteSource) -> str:
    """The lines of a .snapshot; SnapshotError if the file is not one."""
    lines = []
    for entry in _entries(_whole(source, 1)):
        producer_id, epoch, sequence, offset, delta, timestamp, coordinator_epoch, transaction = entry
        line = (
            f"producerId: {producer_id} producerEpoch: {epoch} coordinatorEpoch: {coordinator_epoch} "
            f"currentTxnFirstOffset: {optional_long(transaction if transaction >= 0 else None)} "
            f"lastTimestamp: {timestamp}"
        )
        if offset >= 0:
            line += (
                f" firstSequence: {decrement_sequence(sequence, delta)} lastSequence: {sequence} "
                f"lastOffset: {offset} offsetDelta: {delta} timestamp: {timestamp}"
            )
        lines.append(f"{line}\n")
    return "".join(lines)


def _whole(source: ByteSource, unit: int) -> bytes:
    if source.size > _LARGEST:
        refuse(
            source, 0, FieldFault("limit_exceeded", detail=f"{source.size} bytes, more than {_LARGEST} are not read")
        )
    return source.read_at(0, source.size - source.size % unit)


def _entries(data: bytes) -> list[tuple[int, ...]]:
    schema = "Snapshot failed schema validation: "
    if len(data) < 2:
        raise SnapshotError(f"{schema}null")
    version = int.from_bytes(data[:2], "big", signed=True)
    if version != 1:
        raise SnapshotError(f"{schema}Snapshot contained an unknown file version {version}")
    if len(data) < producer_snapshot.HEAD.size:
        raise SnapshotError(f"{schema}null")
    _, stored, count = producer_snapshot.HEAD.unpack_from(data)
    left = len(data) - producer_snapshot.HEAD.size
    if count < 0:
        raise SnapshotError(f"{schema}non-nullable field producerEntries was serialized as null")
    if count > left:
        raise SnapshotError(
            f"{schema}Tried to allocate a collection of size {count}, but there are only {left} bytes remaining."
        )
    if count * producer_snapshot.ENTRY.size > left:
        raise SnapshotError(f"{schema}null")
    computed = crc32c(data[producer_snapshot.CHECKED_FROM :])
    if stored != computed:
        raise SnapshotError(
            f"Snapshot is corrupt (CRC is no longer valid). Stored crc: {stored}. Computed crc: {computed}"
        )
    end = producer_snapshot.HEAD.size + count * producer_snapshot.ENTRY.size
    return list(producer_snapshot.ENTRY.iter_unpack(data[producer_snapshot.HEAD.size : end]))
