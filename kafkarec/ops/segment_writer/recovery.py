"""Recovers an existing partition folder for appending, as a broker does after a crash

    last segment     read with checksums; bytes after its last good batch are cut off, if no good batch follows
    others           read too, and must not be damaged; missing indexes are rebuilt
    producers        from the latest .snapshot, and the batches after it
    epochs           those of leader-epoch-checkpoint that begin below the log's end, and those of the batches
    *.part           of a killed writer: removed; snapshots above the log's end too

A broker deletes every segment after a damaged one (LogLoader.recoverLog). Here damage before the end is an error:
`kafkarec salvage` copies the good batches.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NoReturn

from kafkarec import storage
from kafkarec.damage import Damage
from kafkarec.errors import REASONS, CorruptRecordError, KafkaRecordError
from kafkarec.sidecars import (
    leader_epochs,
    meta_properties,
    offset_index,
    partition_metadata,
    producer_snapshot,
    time_index,
    txn_index,
)
from kafkarec.state.index_builders import SegmentIndexes, SegmentRebuild
from kafkarec.state.producers import ProducerStates
from kafkarec.state.rebuild_folder import first_states, old_epochs, stem
from kafkarec.state.recovery_walk import GoodBatches, walk
from kafkarec.storage import Log, LogDir, Segment, names
from kafkarec.support.durable import PART, sync_folder, write_file

from .active_segment import SegmentFile, log_name
from .roll_params import WriterSettings

_ADVICE = "nothing was changed; kafkarec salvage copies what is good to a new folder"


@dataclass
class Recovered:
    """The state of a recovered log.

    segments        all but the last one
    maker           rebuilds the indexes of the last segment; None: there is no segment yet
    base, size      of the last segment: base offset from its name, bytes of its good batches
    cut             bytes after them, to be cut off
    rewritten_files          {name: bytes} of side files that were missing or unusable
    """

    states: ProducerStates
    epochs: list[leader_epochs.EpochEntry]
    next_offset: int
    segments: list[SegmentFile] = field(default_factory=list)
    maker: SegmentRebuild | None = None
    base: int = 0
    size: int = 0
    cut: int = 0
    rewritten_files: dict[str, bytes] = field(default_factory=dict)
    first_timestamp: int | None = None


def demand_partition(folder: str) -> None:
    """Raises ValueError for a broker's data folder, in which nothing is written or locked."""
    if not os.path.isdir(folder):
        return
    opened = storage.open(folder)
    if isinstance(opened, LogDir) and (len(opened) or os.path.exists(os.path.join(folder, meta_properties.NAME))):
        raise ValueError(f"{folder} is a folder of partitions: name one of them, or a new one")


def recover(folder: str, settings: WriterSettings, check_all: bool) -> Recovered:
    """Reads the folder, then writes missing or unusable side files. CorruptRecordError if it is damaged before its end;
    ValueError if files are not named as by a broker, or a broker must complete an operation (.swap); both before
    anything is changed."""
    opened = storage.open(folder)
    if not isinstance(opened, Log):
        return Recovered(ProducerStates(as_recovery=True), [], settings.start_offset or 0)
    with opened as log:
        _check_names(folder, log)
        if not log.segments:
            return Recovered(ProducerStates(as_recovery=True), [], settings.start_offset or 0)
        return _recovered(folder, log, settings, check_all)


def remove_partial_files(folder: str) -> None:
    """Removes the incomplete files of a killed writer."""
    for name in os.listdir(folder):
        whole = name.removesuffix(PART)
        ours = whole in (leader_epochs.NAME, partition_metadata.NAME) or names.segment(whole) is not None
        if whole != name and ours:
            os.unlink(os.path.join(folder, name))


def _check_names(folder: str, log: Log) -> None:
    for segment in log.segments:
        if segment.base_offset is None or segment.name != log_name(segment.base_offset):
            raise ValueError(f"{segment.path} is not named as in a broker's folder; {_ADVICE}")
    swaps = names.swaps_to_take(os.listdir(folder))
    if swaps:
        raise ValueError(f"{folder} holds {swaps[0]}, which a broker must put into service first; {_ADVICE}")


def _recovered(folder: str, log: Log, settings: WriterSettings, check_all: bool) -> Recovered:
    last = len(log.segments) - 1
    first = 0 if check_all else _first_to_read(log)
    start = log.segments[first].base_offset or 0
    states, _ = first_states(log.segments[first], start, True)
    epochs, _ = old_epochs(log)
    found = Recovered(states, epochs, start)
    found.segments = [SegmentFile(one.path, one.base_offset or 0, one.size) for one in log.segments[:last]]
    for segment in log.segments:
        _sync(segment.path, drop_cache=segment is log.segments[last])
    for number in range(first, last + 1):
        _walk(log, log.segments[number], number == last, found, settings)
    found.states = _snapshot(log, found.next_offset) or found.states
    if found.maker is not None:
        found.maker.states = found.states
    for name, data in found.rewritten_files.items():
        write_file(folder, name, data)
    found.epochs[:] = _within(epochs, log.segments[0].base_offset or 0, found.next_offset)
    drop_snapshots(folder, {offset for offset in snapshots(folder) if offset <= found.next_offset})
    sync_folder(folder)
    return found


def _within(epochs: list[leader_epochs.EpochEntry], start: int, end: int) -> list[leader_epochs.EpochEntry]:
    """The epochs of a log from `start` to `end` (LeaderEpochFileCache.truncateFromStart, truncateFromEnd)."""
    known = [entry for entry in epochs if entry.start_offset < end]
    first = [entry._replace(start_offset=start) for entry in known if entry.start_offset <= start]
    return first[-1:] + [entry for entry in known if entry.start_offset > start]


def _first_to_read(log: Log) -> int:
    """The index of the first segment to read: the last one, if its snapshot and the epochs before it exist; else 0."""
    epochs, _ = old_epochs(log)
    known = epochs and epochs[0].start_offset <= (log.segments[0].base_offset or 0)
    return len(log.segments) - 1 if known and _snapshot(log, log.segments[-1].base_offset or 0) else 0


def _snapshot(log: Log, offset: int) -> ProducerStates | None:
    """The producers before an offset, from the snapshot; None if there is no readable one. It has more than the
    batches, of which the cleaner removed markers; a broker begins with the latest one, too."""
    try:
        data = log.folder_file(f"{stem(offset)}{producer_snapshot.SUFFIX}")
        return None if data is None else ProducerStates(producer_snapshot.read(data), offset, as_recovery=True)
    except KafkaRecordError:
        return None


def _sync(path: str, drop_cache: bool) -> None:
    """Syncs a file and drops its cached pages: after a failed fsync the page cache may differ from the disk."""
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        os.fsync(descriptor)
        if drop_cache and hasattr(os, "posix_fadvise"):
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)


def _walk(log: Log, segment: Segment, is_last: bool, found: Recovered, settings: WriterSettings) -> None:
    """Reads one segment and updates `found`."""
    base = segment.base_offset or 0
    if base < found.next_offset:
        _refuse(segment, 0, f"its name is below offset {found.next_offset}, at which the segment before it ends")
    found.base, found.size, found.next_offset, found.first_timestamp = base, 0, base, None
    found.states.end_offset = base
    if found.maker is not None:
        known = _snapshot(log, base)
        if known is None:
            name = stem(base) + producer_snapshot.SUFFIX
            found.rewritten_files[name] = producer_snapshot.write(found.states.snapshot())
        found.states = known or found.states
    found.maker = SegmentRebuild(base, found.states, found.epochs, settings.index_interval_bytes)
    damage: list[Damage] = []
    for stretch in walk(segment):
        damage = sorted((*damage, *stretch.damage), key=lambda one: one.position)
        unreadable = next((one for one in damage if one.reason == "unreadable"), None)
        if unreadable is not None:
            raise OSError(errno.EIO, f"{unreadable.detail}; {_ADVICE}", segment.path)
        _check_stretch(segment, stretch, found, damage)
        found.maker.add(stretch.columns, stretch.markers)
    found.cut = segment.size - found.size
    if damage and not is_last:
        _refuse_damage(segment, damage[0])
    made = found.maker.finish()
    if made.problems:
        _refuse(segment, 0, made.problems[0])
    if not is_last:
        found.rewritten_files |= _indexes_to_rewrite(segment, made)


def _check_stretch(segment: Segment, stretch: GoodBatches, found: Recovered, damage: list[Damage]) -> None:
    columns = stretch.columns
    rows = zip(*(columns[name] for name in ("position", "size_in_bytes", "base_offset", "last_offset")), strict=True)
    for position, size, base, last in rows:
        if position > found.size:
            _refuse_damage(segment, damage[0])
        if (last if base is None else base) < found.next_offset:
            _refuse(segment, position, f"offset {last if base is None else base} is below {found.next_offset}")
        found.size, found.next_offset = position + size, last + 1
    if found.first_timestamp is None and columns["position"]:
        timestamp = columns["max_timestamp"][0]
        found.first_timestamp = -1 if timestamp is None else timestamp


def _refuse_damage(segment: Segment, one: Damage) -> NoReturn:
    raise REASONS[one.reason].error(
        f"{one.detail}; the log goes on behind it, so it is no torn end; {_ADVICE}",
        position=one.position,
        reason=one.reason,
        file=segment.path,
        next_position=one.next_position,
    )


def _refuse(segment: Segment, position: int, why: str) -> NoReturn:
    text = f"{segment.path} at byte {position}: {why}; {_ADVICE}"
    raise CorruptRecordError(text, position=position, file=segment.path)


def _indexes_to_rewrite(segment: Segment, made: SegmentIndexes) -> dict[str, bytes]:
    """The rebuilt indexes of a segment whose own are missing or empty, or refused by LogSegment.sanityCheck; and a
    .txnindex with other transactions."""
    base = segment.base_offset or 0
    return {
        stem(base) + suffix: data
        for suffix, data in made.files.items()
        if not _is_sound(segment.sidecar(suffix), data, suffix, base)
    }


def _is_sound(data: bytes | None, made: bytes, suffix: str, base: int) -> bool:
    if not data:
        return data == made
    try:
        if suffix == txn_index.SUFFIX:  # the last stable offset differs if a broker appended several batches at once
            stored, known = txn_index.read(data), txn_index.read(made)
            return [one[:3] for one in stored] == [one[:3] for one in known]
        index = offset_index.read(data, base) if suffix == offset_index.SUFFIX else time_index.read(data, base)
    except KafkaRecordError:
        return False
    return len(index) > 0 and index[len(index) - 1].offset >= base


def snapshots(folder: str) -> Iterator[int]:
    """The offsets of a folder's producer snapshots."""
    for name in os.listdir(folder):
        known = names.segment(name)
        if known is not None and name == f"{stem(known.base_offset)}{producer_snapshot.SUFFIX}":
            yield known.base_offset


def drop_snapshots(folder: str, kept: set[int]) -> None:
    """Removes the snapshots of a folder except those at `kept` (ProducerStateManager.removeStraySnapshots)."""
    for offset in set(snapshots(folder)) - kept:
        with suppress(FileNotFoundError):
            os.unlink(os.path.join(folder, stem(offset) + producer_snapshot.SUFFIX))
