"""The small files beside a log's segments: indexes, leader-epoch-checkpoint, partition.metadata, what was left out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..errors import KafkaRecordError
from ..indexes import epochs as epoch_file
from ..indexes import partition_metadata, txn_index
from . import epochs
from .files import FileFacts
from .notes import Notebook


def check(log: Any, files: Sequence[FileFacts], steps: list[epochs.Step], notes: Notebook) -> None:
    """All of them; a file that is not there is a note at most."""
    _epoch_file(log, steps, notes)
    _metadata(log, notes)
    for one in getattr(log, "left_out", ()):
        notes.add("file_left_out", f"{one.name}: {one.why}")


def _folder_file(log: Any, name: str) -> bytes | None:
    read = getattr(log, "folder_file", None)
    try:
        data: bytes | None = read(name) if read else None
    except OSError:
        return None
    return data


def _epoch_file(log: Any, steps: list[epochs.Step], notes: Notebook) -> None:
    name = epoch_file.NAME
    data = _folder_file(log, name)
    if data is None:
        return
    try:
        entries = epoch_file.read(data)
    except KafkaRecordError as error:
        notes.add("epoch_file_invalid", str(error), file=name)
        return
    epochs.compare(entries, steps, notes, name)


def _metadata(log: Any, notes: Notebook) -> None:
    data = _folder_file(log, partition_metadata.NAME)
    if data is None:
        return
    try:
        partition_metadata.read(data)
    except KafkaRecordError as error:
        notes.add("partition_metadata_invalid", str(error), file=partition_metadata.NAME)


def aborted(log: Any) -> list[tuple[int, int]]:
    """(first, last) offsets of the aborted transactions that the log's .txnindex files list."""
    found = []
    for segment in log.segments:
        try:
            data = segment.sidecar(".txnindex")
            entries = txn_index.read(data) if data else ()
        except (OSError, KafkaRecordError):
            continue
        found += [(entry.first_offset, entry.last_offset) for entry in entries]
    return found
