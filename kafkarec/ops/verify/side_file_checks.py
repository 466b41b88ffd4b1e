"""Checks of side files against the log's batches: `check_log` for a partition, `check_folder` for a data folder

The headers of all batches and the markers are read once. CRCs of batches are not checked, and damage of the log is not
reported here.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Container, Iterator
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from kafkarec.damage import Damage
from kafkarec.errors import KafkaRecordError
from kafkarec.format.side_files import AbortedTransaction
from kafkarec.read.walk import CHECKSUMS, MARKERS, asked, walk
from kafkarec.recover.steps import Step
from kafkarec.sidecars import (
    leader_epochs,
    meta_properties,
    offset_checkpoints,
    offset_index,
    partition_metadata,
    producer_snapshot,
    time_index,
    txn_index,
)
from kafkarec.sources.read_failures import of_one_file, read_failure
from kafkarec.state.producers import ProducerStates, at_log_start
from kafkarec.storage.data_folder import DataFolderFiles
from kafkarec.storage.partition_folder import PartitionFiles
from kafkarec.storage.rebuild_folder import filename_prefix
from kafkarec.storage.segment_file import SegmentFile

from .epoch_file_checks import EpochCheck
from .index_checks import OffsetCheck, TimeCheck
from .producer_file_checks import TransactionCheck, check_snapshot
from .side_file_finding import CHECKS, ERROR, NOTE, SEVERITIES, WARNING, SideFileFinding, SideFileFindings

__all__ = ["CHECKS", "ERROR", "NOTE", "SEVERITIES", "WARNING", "SideFileFinding", "check_folder", "check_log"]

T = TypeVar("T")
_REINDEX = "reindex writes a new one"
# file that reindex does not write -> where a new one comes from
_STALE = {"index_position", "time_largest", "transaction_missing"}
"""What a truncation or a kill leaves in the files of the active segment."""
_NOT_INDEXED = {
    meta_properties.NAME: "copy it from a backup, or write one with the broker's node.id, cluster.id, directory.id",
    partition_metadata.NAME: "write one with the topic id that kafka-topics --describe prints",
    **dict.fromkeys(offset_checkpoints.NAMES, "without it a broker writes a new one"),
}
# missing index, the index that exists, what a broker does then (LogSegment.sanityCheck)
_MISSING = (
    (offset_index.SUFFIX, time_index.SUFFIX, "a broker that starts on this folder recovers the whole segment"),
    (
        time_index.SUFFIX,
        offset_index.SUFFIX,
        "a broker that starts on this folder creates an empty one: searches by time read the whole segment",
    ),
)


def check_log(log: PartitionFiles, restored: Container[str] = ()) -> Iterator[SideFileFinding]:
    """Yields findings about the side files of a partition: those of each segment, worst first, then those of the log.

    log: a storage.Log; for a single segment use storage.logs. Missing files are not reported: a broker rebuilds them,
    and a copy may have left them out.
    restored: the paths of segments with batches whose headers a reader restores; these are compared as restored
    """
    findings = SideFileFindings()
    entries = _read(findings, log.folder_file, leader_epochs.NAME, leader_epochs.read)
    epochs_check = EpochCheck(entries or (), leader_epochs.NAME, findings)
    has_epochs = entries is not None
    _read(findings, log.folder_file, partition_metadata.NAME, partition_metadata.read)
    state: _LogState | None = None
    for number, segment in enumerate(log.segments):
        of_segment = SideFileFindings()
        indexes = _SegmentIndexes(segment, number + 1 < len(log.segments), of_segment)
        if state is None:
            state = _LogState.at(segment, indexes.base)
        else:
            name = filename_prefix(indexes.base) + producer_snapshot.SUFFIX
            state.compare(partial(segment.sidecar, producer_snapshot.SUFFIX), name, of_segment)
        try:
            restore = segment.path in restored  # only a batch whose checksum is right can be restored
            want = MARKERS | CHECKSUMS if restore else MARKERS
            for step in walk([segment], asked(want, errors="skip", restore=restore)):
                indexes.add(step, state)
                if has_epochs:
                    epochs_check.add(step.column)
        except (OSError, KafkaRecordError) as error:
            if not of_one_file(error):
                raise
            state.complete, state.cleaned = False, True  # verify reports the segment itself
        else:
            indexes.finish(state)
        yield from map(_of_active_segment, of_segment) if indexes.is_active else of_segment
    if state is not None and log.segments:
        end = filename_prefix(state.states.end_offset) + producer_snapshot.SUFFIX
        if state.states.end_offset != indexes.base:
            state.compare(partial(log.folder_file, end), end, findings)
    yield from findings


def _of_active_segment(one: SideFileFinding) -> SideFileFinding:
    """The finding, but no error where it is about a file that a broker is still writing, or rebuilds as it was killed:
    after a truncation an index has old entries, which the broker knows, behind the new ones."""
    if one.severity != ERROR or one.check not in _STALE:
        return one
    more = "; the index is preallocated: the broker still uses it, or rebuilds it at its next start"
    return replace(one, severity=WARNING, sentence=one.sentence + more)


def _read(
    findings: SideFileFindings,
    reading: Callable[[str], bytes | None],
    name: str,
    read: Callable[[bytes, str | None], T],
) -> T | None:
    """The content of a file; None: it does not exist, or cannot be read, for which a finding is added."""
    try:
        data = reading(name)
        return None if data is None else read(data, None)  # None: every finding begins with the name anyway
    except KafkaRecordError as error:
        severity = WARNING if name.endswith(producer_snapshot.SUFFIX) else ERROR
        findings.add(severity, "unreadable", name, f"{error}; {_NOT_INDEXED.get(name, _REINDEX)}")
    except OSError as error:
        failure = read_failure(error, error.filename or name)
        findings.add(ERROR, "read_failure", name, f"cannot be read: {failure.why}", found=failure.cause)
    return None


def _is_there(segment: SegmentFile, suffix: str) -> bool:
    try:
        return segment.sidecar(suffix) is not None
    except OSError:
        return True  # reported as unreadable


class _LogState:
    """The state of the log after the batches read so far.

    start      the base offset of the first segment
    complete   whether no batches before the first segment are missing
    cleaned    whether offsets were missing so far
    """

    def __init__(self, states: ProducerStates, start: int, complete: bool) -> None:
        self.states = states
        self.start = start
        self.complete = complete
        self.cleaned = False

    @classmethod
    def at(cls, segment: SegmentFile, base: int) -> _LogState:
        """The state at the start of the log: empty at offset 0, else from the snapshot of the first segment."""
        states, complete, _ = at_log_start(segment.sidecar, base)
        return cls(states, base, complete)

    def compare(self, reading: Callable[[], bytes | None], name: str, findings: SideFileFindings) -> None:
        """Compares the snapshot `name`, which is read by `reading`."""

        def compared(content: bytes, _: str | None) -> None:
            check_snapshot(content, name, self.states, findings, complete=self.complete, cleaned=self.cleaned)

        _read(findings, lambda _: reading(), name, compared)


class _SegmentIndexes:
    """The three indexes of one segment, compared with its batches."""

    def __init__(self, segment: SegmentFile, later_segment: bool, findings: SideFileFindings) -> None:
        self.base = segment.base_offset or 0
        self._findings = findings
        self._later_segment = later_segment
        self._damage: list[Damage] = []
        self._end = 0
        self._next_offset: int | None = None

        def sidecar(module: Any, read: Callable[[bytes, str | None], T]) -> T | None:
            return _read(
                findings, lambda _: segment.sidecar(module.SUFFIX), filename_prefix(self.base) + module.SUFFIX, read
            )

        offsets = sidecar(offset_index, lambda data, name: offset_index.read(data, self.base, name))
        times = sidecar(time_index, lambda data, name: time_index.read(data, self.base, name))
        self._aborted = sidecar(txn_index, txn_index.read)
        # A segment without any index was copied alone. If it has other indexes, a missing .txnindex means that no
        # transaction was aborted.
        exists = {module.SUFFIX: _is_there(segment, module.SUFFIX) for module in (offset_index, time_index, txn_index)}
        for suffix, other, consequence in _MISSING:
            if exists[other] and not exists[suffix]:
                findings.add(
                    WARNING,
                    "index_missing",
                    filename_prefix(self.base) + suffix,
                    f"is missing: {consequence}; {_REINDEX}",
                )
        self._no_transactions = any(exists.values()) and not exists[txn_index.SUFFIX]
        self._name = filename_prefix(self.base)
        self._offsets = None if offsets is None else OffsetCheck(offsets, self._name + offset_index.SUFFIX, findings)
        self._times = None if times is None else TimeCheck(times, self._name + time_index.SUFFIX, findings)
        self._entries = sorted(self._aborted or (), key=lambda entry: entry.last_offset)
        self._transactions = TransactionCheck(self._name + txn_index.SUFFIX, findings)
        self._live = any(one is not None and one.preallocated for one in (offsets, times))
        self.is_active = self._live and not later_segment
        if later_segment:
            for suffix, one in ((offset_index.SUFFIX, offsets), (time_index.SUFFIX, times)):
                if one is not None and one.preallocated:
                    findings.add(
                        WARNING,
                        "preallocated",
                        self._name + suffix,
                        f"the last {one.preallocated} bytes are preallocated zeros, although a later segment "
                        "exists: a broker that does not recover the segment reads them as entries",
                        expected=0,
                        found=one.preallocated,
                    )

    def add(self, step: Step, state: _LogState) -> None:
        self._damage += step.damage
        names = ("position", "size_in_bytes", "base_offset", "last_offset", "max_timestamp")
        positions, sizes, bases, lasts, timestamps = map(step.column, names)
        if positions:
            if self._offsets is not None:
                self._offsets.add(positions, sizes, bases, lasts, self._in_damage)
            if self._times is not None:
                self._times.add(bases, lasts, timestamps)
            next_offsets = [last + 1 for last in lasts]
            before = [bases[0] if self._next_offset is None else self._next_offset, *next_offsets[:-1]]
            if bases != before and any(base is not None and base > at for base, at in zip(bases, before, strict=True)):
                state.cleaned = True
            self._next_offset = next_offsets[-1]
            self._end = positions[-1] + sizes[-1]
        start = 0
        for row, entry in self._without_marker(step):
            self._transactions.add(state.states.take(step, start, row))
            start = row
            self._transactions.add_lost(entry, state.states)
        self._transactions.add(state.states.take(step, start))

    def _without_marker(self, step: Step) -> list[tuple[int, AbortedTransaction]]:
        """(row, entry) of the .txnindex entries whose offsets are missing before the row. Their markers are lost, and
        the entries are then what is known of them."""
        bases, lasts = step.column("base_offset"), step.column("last_offset")
        found = []
        while self._entries and lasts and self._entries[0].last_offset <= lasts[-1]:
            entry = self._entries.pop(0)
            row = bisect_left(lasts, entry.last_offset)
            if bases[row] is not None and bases[row] > entry.last_offset:
                found.append((row, entry))
        return found

    def _in_damage(self, position: int) -> bool:
        return any(one.position <= position < one.position + one.length for one in self._damage)

    def finish(self, state: _LogState) -> None:
        if self._later_segment:
            for entry in self._entries:
                self._transactions.add_lost(entry, state.states)
        if self._offsets is not None:
            self._offsets.finish(self._end, self._in_damage, self.is_active)
        if self._times is not None:
            self._times.finish(self._later_segment and not self._live, self.is_active)
        if state.cleaned:
            self._transactions.leave_out_before(state.start)
        state.cleaned = state.cleaned or bool(self._damage)
        if self._no_transactions:
            self._transactions.report_missing_file()
        elif self._aborted is not None:
            complete = state.complete and not state.cleaned
            self._transactions.finish(self._aborted, complete, bool(self._damage))


def check_folder(folder: DataFolderFiles) -> Iterator[SideFileFinding]:
    """Yields findings about the files of a data folder itself: meta.properties and the four *-checkpoint files. Offsets
    above a log's end are found by `storage.recorded_ends`."""
    findings = SideFileFindings()
    _read(findings, folder.folder_file, meta_properties.NAME, meta_properties.read)
    logs = {(log.topic, log.partition) for log in folder}
    for name in offset_checkpoints.NAMES:
        for place, offset in (_read(findings, folder.folder_file, name, offset_checkpoints.read) or {}).items():
            if place not in logs:
                shown = f"{place.topic}-{place.partition}"
                sentence = f"{shown} with offset {offset} has no folder here"
                findings.add(NOTE, "log_missing", name, sentence, found=shown)
    yield from findings
