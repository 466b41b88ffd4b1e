"""Rebuilds all side files of a partition folder: indexes, producer snapshots, leader-epoch-checkpoint.

| file | made from |
|---|---|
| NNN.index NNN.timeindex NNN.txnindex | the batches of segment NNN |
| NNN.snapshot | all batches before segment NNN, as a broker writes it when it rolls a segment |
| EEE.snapshot (EEE: the log end offset) | all batches, as a broker writes it at a clean shutdown |
| leader-epoch-checkpoint | the old file, and the batches |

If the log does not begin at offset 0, the earlier producers and open transactions are read from the first segment's
.snapshot, if that is readable, as by a broker.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain
from typing import NamedTuple

from kafkarec.damage import Damage
from kafkarec.errors import KafkaRecordError
from kafkarec.read.walk import CHECKSUMS, MARKERS, walk, walk_request
from kafkarec.recover.steps import Step
from kafkarec.sidecars import leader_epochs, producer_snapshot
from kafkarec.state.index_builders import DEFAULT_INTERVAL, SegmentIndexBuilder
from kafkarec.state.producers import ProducerStates, producers_at_log_start

from .log_folders import PartitionFiles
from .segment_file import SegmentFile

_EPOCHS = ("base_offset", "partition_leader_epoch")
EachStep = Callable[[SegmentFile, Step], None]


class RebuiltSideFiles(NamedTuple):
    """The side files rebuilt from one segment, or (segment None) from the whole log.

    files      {name: bytes}
    damage     the segment's damage; the indexes describe the batches before and after it
    problems   sentences about batches that do not fit an index entry, and about old files that could not be read
    end_offset, lower_epoch   of the log, with its side files: its end, and the first batch with a leader epoch below
               that of one before it: its base offset, its epoch, the higher one; None: there is none
    """

    segment: SegmentFile | None
    files: dict[str, bytes]
    damage: tuple[Damage, ...]
    problems: tuple[str, ...]
    end_offset: int = 0
    lower_epoch: tuple[int, int, int] | None = None


def filename_prefix(offset: int) -> str:
    """An offset as 20 digits, as at the start of file names (Kafka: filenamePrefixFromOffset)."""
    return f"{offset:020d}"


def snapshot_name(offset: int) -> str:
    """The name of the producer snapshot at an offset."""
    return filename_prefix(offset) + producer_snapshot.SUFFIX


def rebuild_side_files(
    log: PartitionFiles,
    interval: int = DEFAULT_INTERVAL,
    *,
    check_crcs: bool = True,
    each_step: EachStep | None = None,
) -> Iterator[RebuiltSideFiles]:
    """Yields the side files of each segment, in order, then those of the log. Writes nothing. Needs memory for the
    indexes of one segment.

    interval     index.interval.bytes
    check_crcs   False: the batches are known to be good
    each_step    called with each step of the reading
    """
    states: ProducerStates | None = None
    epochs, log_problems = stored_epochs(log)
    # behind the log's first batch the file's first epoch begins where messages of magic 0 or 1, which have none, are
    # before it; None: it begins with the log
    first_start = epochs[0].start_offset if epochs else None
    highest, lower = -1, None
    request = walk_request(MARKERS | CHECKSUMS if check_crcs else MARKERS, errors="skip", restore=False)
    for segment in log.segments:
        steps = walk([segment], request)
        first = next(steps)
        base = segment.base_offset
        if base is None:
            base = first.first_offset if len(first) else 0
        files = {}
        if states is None:
            states, problem = producers_at_log_start(segment, base)
            log_problems += [] if problem is None else [problem]
            log_start = base
        else:
            states.end_offset = max(states.end_offset, base)
            files[snapshot_name(base)] = producer_snapshot.write(states.snapshot())
        builder = SegmentIndexBuilder(base, epochs, interval)
        damage: list[Damage] = []
        for step in chain([first], steps):
            builder.add(step.rows, states.take(step).aborted)
            if each_step is not None:
                each_step(segment, step)
            if lower is None:
                row, highest = step.rows.first_lower_epoch(highest)
                if row is not None:
                    offset, epoch = (step.cell(name, row) for name in _EPOCHS)
                    lower = offset, epoch, highest
            if first_start is not None and len(step) and step.first_offset < first_start:
                before = step.zip_columns(*_EPOCHS)
                if any(epoch is not None and epoch >= 0 and offset < first_start for offset, epoch in before):
                    first_start = None
            damage += step.damage
        files |= {filename_prefix(base) + suffix: data for suffix, data in builder.finish().items()}
        yield RebuiltSideFiles(segment, files, tuple(damage), builder.problems)
    if states is None:
        return
    if epochs and first_start is None and epochs[0].start_offset > log_start:  # the cleaner may have removed batches
        epochs[0] = epochs[0]._replace(start_offset=log_start)
    files = {leader_epochs.NAME: leader_epochs.write(epochs)}
    if states.end_offset > 0 and states.end_offset != base:
        files[snapshot_name(states.end_offset)] = producer_snapshot.write(states.snapshot())
    yield RebuiltSideFiles(None, files, (), tuple(log_problems), states.end_offset, lower)


def stored_epochs(log: PartitionFiles) -> tuple[list[leader_epochs.EpochEntry], list[str]]:
    """The entries of the existing leader-epoch-checkpoint, and sentences about problems. Recovery begins with these
    entries, as some epochs are not in any batch."""
    try:
        return leader_epochs.read_assigned(log.folder_file(leader_epochs.NAME) or b""), []
    except (KafkaRecordError, OSError) as error:
        return [], [f"the old epochs are ignored: {error}"]
