"""Checks of side files against the log's batches: `check_log` for a partition, `check_folder` for a data folder

The headers of all batches and the markers are read once. CRCs of batches are not checked, and damage of the log is not
reported here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol, TypeVar

from kafkarec.damage import Damage
from kafkarec.errors import KafkaRecordError
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
from kafkarec.state.index_builders import follow
from kafkarec.state.producers import ProducerStates
from kafkarec.state.rebuild_folder import LogLike, SidecarSegment, stem
from kafkarec.state.recovery_walk import GoodBatches, walk

from .epoch_file_checks import EpochCheck
from .index_checks import OffsetCheck, TimeCheck
from .producer_file_checks import TransactionCheck, check_snapshot
from .side_file_finding import CHECKS, ERROR, NOTE, SEVERITIES, WARNING, Findings, SideFileFinding

__all__ = ["CHECKS", "ERROR", "NOTE", "SEVERITIES", "WARNING", "SideFileFinding", "check_folder", "check_log"]

T = TypeVar("T")
_LOST = "kafkarec reindex makes a new one"
# missing index, files it belongs to, what a broker does without it (LogSegment.sanityCheck)
_MISSING = (
    (offset_index.SUFFIX, time_index.SUFFIX, "a broker that starts on this folder recovers the whole segment"),
    (
        time_index.SUFFIX,
        offset_index.SUFFIX,
        "a broker that starts on this folder makes an empty one: searches by time read all",
    ),
)


def check_log(log: LogLike) -> Iterator[SideFileFinding]:
    """Findings about the side files of a partition: those of each segment, worst first, then those of the whole log.

    log: a storage.Log; for a single segment use storage.logs. Missing files are not reported: a broker rebuilds them,
    and a copy may have left them out.
    """
    findings = Findings()
    entries = _read(findings, log.folder_file, leader_epochs.NAME, leader_epochs.read) or ()
    epochs_check = EpochCheck(entries, leader_epochs.NAME, findings)
    told = log.folder_file(leader_epochs.NAME) is not None
    _read(findings, log.folder_file, partition_metadata.NAME, partition_metadata.read)
    progress: _Progress | None = None
    for number, segment in enumerate(log.segments):
        of_segment = Findings()
        walked = _Segment(segment, number + 1 < len(log.segments), of_segment)
        if progress is None:
            progress = _Progress.at(segment, walked.base)
        else:
            progress.compare(segment, walked.base, of_segment)
        for stretch in walk(segment, check_crcs=False):
            walked.see(stretch, progress)
            if told:
                epochs_check.see(stretch.columns)
        walked.finish(progress)
        yield from of_segment
    if progress is not None and log.segments:
        end = stem(progress.states.end_offset) + producer_snapshot.SUFFIX
        data = log.folder_file(end)
        if data is not None and progress.states.end_offset != walked.base:
            progress.compare_data(data, end, findings)
    yield from findings


def _read(
    findings: Findings, reading: Callable[[str], bytes | None], name: str, read: Callable[[bytes, str | None], T]
) -> T | None:
    """The content of a file; None if it does not exist or, with a finding, cannot be read."""
    try:
        data = reading(name)
        return None if data is None else read(data, None)  # no name: every finding begins with it
    except KafkaRecordError as error:
        severity = WARNING if name.endswith(producer_snapshot.SUFFIX) else ERROR
        findings.add(severity, "unreadable", name, f"{error}; {_LOST}")
    except OSError as error:
        findings.add(ERROR, "unreadable", name, f"cannot be read: {(error.strerror or str(error)).lower()}")
    return None


def _is_there(segment: SidecarSegment, suffix: str) -> bool:
    try:
        return segment.sidecar(suffix) is not None
    except OSError:
        return True  # reported as unreadable


class _Progress:
    """The state of the log after the batches read so far."""

    def __init__(self, states: ProducerStates, complete: bool) -> None:
        self.states = states
        self.complete = complete  # nothing is missing before the first segment
        self.cleaned = False

    @classmethod
    def at(cls, segment: SidecarSegment, base: int) -> _Progress:
        """The state at the start of the log: empty at offset 0, else from the snapshot of the first segment."""
        name = stem(base) + producer_snapshot.SUFFIX
        entries = _read(Findings(), lambda _: segment.sidecar(producer_snapshot.SUFFIX), name, producer_snapshot.read)
        known = base > 0 and entries is not None
        return cls(ProducerStates(entries or () if known else (), base), base == 0 or known)

    def compare(self, segment: SidecarSegment, base: int, findings: Findings) -> None:
        """Compares the snapshot at the start of a later segment."""
        data = segment.sidecar(producer_snapshot.SUFFIX)
        if data is not None:
            self.compare_data(data, stem(base) + producer_snapshot.SUFFIX, findings)

    def compare_data(self, data: bytes, name: str, findings: Findings) -> None:
        def compared(content: bytes, _: str | None) -> None:
            check_snapshot(content, name, self.states, findings, complete=self.complete, cleaned=self.cleaned)

        _read(findings, lambda _: data, name, compared)


class _Segment:
    """The three indexes of one segment, compared batch by batch."""

    def __init__(self, segment: SidecarSegment, later_segment: bool, findings: Findings) -> None:
        self.base = segment.base_offset or 0
        self._findings = findings
        self._later_segment = later_segment
        self._damage: list[Damage] = []
        self._end = 0
        self._next_offset: int | None = None

        def sidecar(module: Any, read: Callable[[bytes, str | None], T]) -> T | None:
            return _read(findings, lambda _: segment.sidecar(module.SUFFIX), stem(self.base) + module.SUFFIX, read)

        offsets = sidecar(offset_index, lambda data, name: offset_index.read(data, self.base, name))
        times = sidecar(time_index, lambda data, name: time_index.read(data, self.base, name))
        self._aborted = sidecar(txn_index, txn_index.read)
        # A segment without any index was copied alone; with other indexes, no .txnindex means nothing was aborted.
        there = {module.SUFFIX: _is_there(segment, module.SUFFIX) for module in (offset_index, time_index, txn_index)}
        for suffix, other, then in _MISSING:
            if there[other] and not there[suffix]:
                findings.add(WARNING, "index_missing", stem(self.base) + suffix, f"is not there: {then}; {_LOST}")
        self._no_transactions = any(there.values()) and not there[txn_index.SUFFIX]
        self._name = stem(self.base)
        self._offsets = None if offsets is None else OffsetCheck(offsets, self._name + offset_index.SUFFIX, findings)
        self._times = None if times is None else TimeCheck(times, self._name + time_index.SUFFIX, findings)
        self._transactions = TransactionCheck(self._name + txn_index.SUFFIX, findings)
        self._live = any(one is not None and one.preallocated for one in (offsets, times))
        if later_segment:
            for suffix, one in ((offset_index.SUFFIX, offsets), (time_index.SUFFIX, times)):
                if one is not None and one.preallocated:
                    findings.add(
                        WARNING,
                        "preallocated",
                        self._name + suffix,
                        f"the last {one.preallocated} bytes are zeros made in advance, although a later segment "
                        "exists: a broker that does not recover the segment takes them for entries",
                        expected=0,
                        found=one.preallocated,
                    )

    def see(self, stretch: GoodBatches, progress: _Progress) -> None:
        columns = stretch.columns
        self._damage += stretch.damage
        for position, size, base, last, timestamp in zip(
            *(columns[n] for n in ("position", "size_in_bytes", "base_offset", "last_offset", "max_timestamp")),
            strict=True,
        ):
            if self._offsets is not None:
                self._offsets.see(position, size, base, last, self._in_damage)
            if self._times is not None:
                self._times.see(base, last, timestamp)
            if base is not None and self._next_offset is not None and base > self._next_offset:
                progress.cleaned = True
            self._next_offset = last + 1
            self._end = position + size
        ended = list(follow(progress.states, columns, stretch.markers))
        self._transactions.see(columns, stretch.markers, ended)

    def _in_damage(self, position: int) -> bool:
        return any(one.position <= position < one.position + one.length for one in self._damage)

    def finish(self, progress: _Progress) -> None:
        ahead = self._live and not self._later_segment
        if self._offsets is not None:
            self._offsets.finish(self._end, self._in_damage, ahead)
        if self._times is not None:
            self._times.finish(self._later_segment and not self._live, ahead)
        progress.cleaned = progress.cleaned or bool(self._damage)
        if self._no_transactions:
            self._transactions.not_there()
        elif self._aborted is not None:
            complete = progress.complete and not progress.cleaned
            self._transactions.finish(self._aborted, complete, bool(self._damage))


class DataFolder(Protocol):
    """The interface of storage.LogDir that is used here."""

    def folder_file(self, name: str) -> bytes | None: ...
    def __iter__(self) -> Iterator[Any]: ...


class _OffsetRange(NamedTuple):
    """The offsets of a log: [start, end]; None: not known."""

    start: int | None
    end: int | None


# file -> (whether an offset above the log's end is wrong, the consequence)
_BEYOND = {
    "recovery-point-offset-checkpoint": "the broker takes all of it for flushed: records behind the end are lost",
    "replication-offset-checkpoint": "records up to there were in all in-sync replicas and are not here: lost here",
    "log-start-offset-checkpoint": "all records of the log count as deleted",
    "cleaner-offset-checkpoint": "the cleaner has been further than the log goes: records are lost",
}


def check_folder(folder: DataFolder) -> Iterator[SideFileFinding]:
    """Findings about the files of a broker's data folder itself: meta.properties and the four *-checkpoint files.

    folder: a storage.LogDir. Reads the headers of each log's last segment.
    """
    findings = Findings()
    _read(findings, folder.folder_file, meta_properties.NAME, meta_properties.read)
    known = [
        (name, offsets)
        for name in offset_checkpoints.NAMES
        if (offsets := _read(findings, folder.folder_file, name, offset_checkpoints.read)) is not None
    ]
    logs = {(log.topic, log.partition): log for log in folder} if known else {}
    reach: dict[tuple[str, int], _OffsetRange] = {}
    for name, offsets in known:
        for place, offset in offsets.items():
            log = logs.get(place)
            shown = f"{place.topic}-{place.partition}"
            if log is None:
                findings.add(
                    WARNING, "log_missing", name, f"{shown} with offset {offset} has no folder here", found=shown
                )
                continue
            if place not in reach:
                reach[place] = _OffsetRange(log.start_offset, log.next_offset)
            end = reach[place].end
            if end is not None and offset > end:
                findings.add(
                    ERROR,
                    "offset_beyond_log",
                    name,
                    f"{shown} has offset {offset}, and the log ends at {end}: {_BEYOND[name]}",
                    expected=f"at most {end}",
                    found=offset,
                )
    yield from findings
