"""Rebuilds all side files of a partition folder: indexes, producer snapshots, leader-epoch-checkpoint.

| file | made from |
|---|---|
| NNN.index NNN.timeindex NNN.txnindex | the batches of segment NNN |
| NNN.snapshot | all batches before segment NNN, as a broker writes it when it rolls a segment |
| EEE.snapshot | all batches, EEE being the log end offset, as a broker writes it at a clean shutdown |
| leader-epoch-checkpoint | the old file, and the batches |

If the log does not begin at offset 0, producers and open transactions from before it are taken from the first
segment's .snapshot, if that is readable; as a broker does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

from kafkarec.damage import Damage
from kafkarec.errors import KafkaRecordError
from kafkarec.format.side_files import SnapshotEntry
from kafkarec.sidecars import leader_epochs, offset_index, producer_snapshot
from kafkarec.state.producers import ProducerStates

from .index_builders import DEFAULT_INTERVAL, SegmentRebuild
from .index_interval import IntervalFit, IntervalRange
from .recovery_walk import GoodBatches, ScannableSegment, walk


class SidecarSegment(ScannableSegment, Protocol):
    """The attributes of storage.Segment that are used here."""

    @property
    def base_offset(self) -> int | None: ...
    def sidecar(self, suffix: str) -> bytes | None: ...


class LogLike(Protocol):
    """The attributes of storage.Log that are used here."""

    @property
    def segments(self) -> Sequence[SidecarSegment]: ...
    def folder_file(self, name: str) -> bytes | None: ...


class Rebuilt(NamedTuple):
    """The files rebuilt from one segment, or (segment None) from the whole log.

    files      {name: bytes}
    damage     the segment's damage; the indexes describe the batches before and after it
    problems   sentences about batches that do not fit an index entry, and about old files that could not be read
    fit        the index.interval.bytes consistent with the segment's old .index; None: there is no readable one
    """

    segment: SidecarSegment | None
    files: dict[str, bytes]
    damage: tuple[Damage, ...] = ()
    problems: tuple[str, ...] = ()
    fit: IntervalRange | None = None


def stem(offset: int) -> str:
    """An offset with 20 digits, as in file names."""
    return f"{offset:020d}"


def rebuild_log(log: LogLike, interval: int = DEFAULT_INTERVAL, *, as_recovery: bool = False) -> Iterator[Rebuilt]:
    """Yields a Rebuilt per segment, in order, then one for the log; writes nothing. Memory: one segment's indexes.

    interval      index.interval.bytes
    as_recovery   snapshots as LogSegment.recover() makes them: see producers.ProducerStates
    """
    states: ProducerStates | None = None
    epochs, notes = old_epochs(log)
    for segment in log.segments:
        stretches = walk(segment)
        first = next(stretches, None)
        base = segment.base_offset if segment.base_offset is not None else _first_offset(first)
        files = {}
        if states is None:
            states, problems = first_states(segment, base, as_recovery)
            notes += problems
            log_start = base
        else:
            states.end_offset = max(states.end_offset, base)
            files[stem(base) + producer_snapshot.SUFFIX] = producer_snapshot.write(states.snapshot())
        maker = SegmentRebuild(base, states, epochs, interval)
        old = _old_index(segment, base)
        damage: list[Damage] = []
        while first is not None:
            maker.add(first.columns, first.markers)
            damage += first.damage
            if old is not None:
                old.add(first.columns["position"])
            first = next(stretches, None)
        made = maker.finish()
        files |= {stem(base) + suffix: data for suffix, data in made.files.items()}
        yield Rebuilt(segment, files, tuple(damage), made.problems, old.fit if old else None)
    if states is None:
        return
    files = {leader_epochs.NAME: leader_epochs.write(from_start(epochs, log_start))}
    if states.end_offset > 0 and states.end_offset != base:
        files[stem(states.end_offset) + producer_snapshot.SUFFIX] = producer_snapshot.write(states.snapshot())
    yield Rebuilt(None, files, (), tuple(notes))


def _first_offset(stretch: GoodBatches | None) -> int:
    """The base offset of a file without one in its name: that of its first batch."""
    if stretch is None or not stretch.columns["position"]:
        return 0
    base = stretch.columns["base_offset"][0]
    return int(stretch.columns["last_offset"][0] if base is None else base)


def first_states(segment: SidecarSegment, base: int, as_recovery: bool) -> tuple[ProducerStates, list[str]]:
    name = stem(base) + producer_snapshot.SUFFIX
    entries: tuple[SnapshotEntry, ...] = ()
    notes = []
    try:
        data = segment.sidecar(producer_snapshot.SUFFIX) if base > 0 else None
        entries = () if data is None else producer_snapshot.read(data, name)
    except (KafkaRecordError, OSError) as error:
        notes = [f"the log's first snapshot is passed over: {error}"]
    return ProducerStates(entries, base, as_recovery=as_recovery), notes


def _old_index(segment: SidecarSegment, base: int) -> IntervalFit | None:
    try:
        data = segment.sidecar(offset_index.SUFFIX)
        return None if data is None else IntervalFit(offset_index.read(data, base))
    except (KafkaRecordError, OSError):
        return None


def old_epochs(log: LogLike) -> tuple[list[leader_epochs.EpochEntry], list[str]]:
    """The old file's entries, with which recovery begins: some epochs are not in any batch."""
    entries: list[leader_epochs.EpochEntry] = []
    try:
        data = log.folder_file(leader_epochs.NAME)
        for epoch, start in leader_epochs.read(data or b""):
            leader_epochs.assign(entries, epoch, start)
    except (KafkaRecordError, OSError) as error:
        return [], [f"the old epochs are passed over: {error}"]
    return entries, []


def from_start(entries: list[leader_epochs.EpochEntry], log_start: int) -> list[leader_epochs.EpochEntry]:
    """The entries, the first one moved to the log's start: the cleaner may have removed that epoch's first batches."""
    if entries and entries[0].start_offset > log_start:
        entries[0] = entries[0]._replace(start_offset=log_start)
    return entries
