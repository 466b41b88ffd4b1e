"""Removes batches from a new log that a broker fails on: non-transactional batches within an open transaction


    offset 40   transactional batch of producer 7       a transaction begins
    offset 45   its marker                              lost to damage
    offset 60   plain batch of producer 7               ProducerAppendInfo throws InvalidTxnStateException

A broker that recovers such a log stops at startup. So the plain batches are set aside; the transaction is kept, as its
end is not known. This is done after the log is written, since its markers and batches must be read in order: the
batches to remove are recorded in the journal first, then the segments are rewritten.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from itertools import groupby
from typing import Any, NamedTuple

from kafkarec import storage
from kafkarec.errors import KafkaRecordError
from kafkarec.sidecars import producer_snapshot
from kafkarec.state.producers import ProducerStates
from kafkarec.state.recovery_walk import walk
from kafkarec.storage import Log, Segment
from kafkarec.support.durable import make_folder, sync_folder

from .copying import Output, Unreadable, digest
from .output import SET_ASIDE
from .report import OutputFile, SalvagedPartition, SetAside

_COUNT_AT = 57  # the record count in a batch of magic 2; older messages have no producer
REASON = "transaction_open"


class Plain(NamedTuple):
    """A batch to remove from the segment `name`. first: first offset of its producer's open transaction."""

    name: str
    position: int
    size: int
    base: int
    last: int
    records: int
    producer_id: int
    first: int


def find(folder: str) -> list[Plain]:
    """The plain batches of a new log whose producer has an open transaction at their offset."""
    with _opened(folder) as log:
        return list(_plain(log)) if _suspects(log) else []


def _opened(folder: str) -> Log:
    log = storage.open(folder)
    assert isinstance(log, Log)
    return log


def _suspects(log: Log) -> bool:
    """Whether any producer has both transactional and plain batches, by the headers alone; most logs have none."""
    seen: dict[bool, set[int]] = {True: set(), False: set()}
    for segment in log.segments:
        for table in segment.scan_pieces(errors="skip"):
            columns = map(table.column, ("producer_id", "is_control", "is_transactional"))
            for producer_id, is_control, is_transactional in zip(*columns, strict=True):
                if producer_id is not None and producer_id >= 0 and not is_control:
                    seen[bool(is_transactional)].add(producer_id)
    seen[True] |= set(_states(log).producers)
    return bool(seen[True] & seen[False])


def _states(log: Log) -> ProducerStates:
    """The producers before the log's first segment, from its .snapshot."""
    first = log.segments[0]
    try:
        data = first.sidecar(producer_snapshot.SUFFIX) if first.base_offset else None
        return ProducerStates(() if data is None else producer_snapshot.read(data), first.base_offset or 0)
    except KafkaRecordError:
        return ProducerStates((), first.base_offset or 0)


def _plain(log: Log) -> Iterator[Plain]:
    states = _states(log)
    for segment in log.segments:
        for stretch in walk(segment):
            columns = stretch.columns
            for at, position in enumerate(columns["position"]):
                row = {name: values[at] for name, values in columns.items()}
                known = states.producers.get(-1 if row["producer_id"] is None else row["producer_id"])
                open_since = None if known is None else known.first_offset
                if open_since is not None and not row["is_control"] and not row["is_transactional"]:
                    count = int.from_bytes(segment.raw(position + _COUNT_AT, 4), "big", signed=True)
                    yield Plain(
                        segment.name,
                        position,
                        row["size_in_bytes"],
                        row["base_offset"],
                        row["last_offset"],
                        count,
                        row["producer_id"],
                        open_since,
                    )
                else:
                    states.append(row, stretch.markers.get(position))


def keep(out: str, folder: str, found: list[Plain]) -> None:
    """Copies the batches to the folder of batches set aside, before they are removed from the log."""
    if not found:
        return
    beside = os.path.join(out, SET_ASIDE, folder)
    make_folder(beside)
    output = Output(beside, _name())
    try:
        with _opened(os.path.join(out, folder)) as log:
            segments = {segment.name: segment for segment in log.segments}
            for one in found:
                _copied(output, segments[one.name], one.position, one.size)
        output.commit()
    finally:
        output.drop()
    sync_folder(beside)


def remove(out: str, report: SalvagedPartition, found: list[Plain]) -> None:
    """Rewrites the segments without the batches and corrects the report. Skips segments that are already rewritten."""
    folder = os.path.join(out, report.folder)
    files = {file.name: file for file in report.files}
    for name, group in groupby(found, key=lambda one: one.name):
        those, file, path = list(group), files[name], os.path.join(folder, name)
        if os.path.getsize(path) == file.size:
            _rewrite(folder, name, those)
        _correct(file, path, those)
        report.set_aside += [
            SetAside(path, one.position, one.size, one.base, one.last, REASON, f"{SET_ASIDE}/{report.folder}/{_name()}")
            for one in those
        ]
        for counts in (file, report):
            counts.batches -= len(those)
            counts.records -= sum(one.records for one in those)
            counts.size -= sum(one.size for one in those)
    if found:
        named = [int(file.name.partition(".")[0]) for file in report.files]  # an empty segment's name is the log's end
        begins = [file.first_offset for file in report.files if file.first_offset is not None]
        ends = [file.last_offset + 1 for file in report.files if file.last_offset is not None]
        report.start_offset, report.next_offset = min(begins or named), max(*named, *ends)
        for producer_id, first in sorted({(one.producer_id, one.first) for one in found}):
            report.problems.append(
                f"the end of the transaction of producer {producer_id} from offset {first} on is not here, and it "
                "wrote plain batches behind it: a broker would not start on them, so they are set aside"
            )


def _name() -> str:
    return f"{REASON}-0-all.log"


def _rewrite(folder: str, name: str, those: list[Plain]) -> None:
    segment = storage.open(os.path.join(folder, name))
    assert isinstance(segment, Segment)
    output = Output(folder, name)
    try:
        with segment:
            at = 0
            for one in those:
                _copied(output, segment, at, one.position - at)
                at = one.position + one.size
            _copied(output, segment, at, segment.size - at)
        output.commit()
    finally:
        output.drop()
    sync_folder(folder)


def _copied(output: Output, segment: Segment, position: int, size: int) -> None:
    try:
        if size:
            output.copy(segment, position, size)
    except Unreadable:
        text = "what was copied cannot be read again; the disk cannot be trusted"
        raise OSError(errno.EIO, text, segment.path) from None


def _correct(file: OutputFile, path: str, those: list[Plain]) -> None:
    """Updates digest, first and last offset of a rewritten segment in the report."""
    file.sha256 = digest(path)
    firsts: list[Any] = []
    last = None
    segment = storage.open(path)
    for table in segment.scan_pieces():
        if len(table):
            firsts = firsts or table.column("base_offset")[:1]
            last = table.column("last_offset")[-1]
    if last is None:
        file.first_offset = file.last_offset = None
        return
    file.last_offset = last
    if file.first_offset in {one.base for one in those}:
        file.first_offset = firsts[0]
