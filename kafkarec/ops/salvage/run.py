"""`kafkarec.salvage`: plans each partition, writes it, and reads it back; several partitions at once."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from typing import Any

from kafkarec.read.decode_options import checked_threads
from kafkarec.sources import remote
from kafkarec.sources.read_failures import ReadFailure
from kafkarec.storage import opening, recorded_ends
from kafkarec.storage.good_batches import ReadProgress, no_progress
from kafkarec.storage.log_folders import DataFolderFiles, PartitionFiles
from kafkarec.storage.output_rules import Inputs, Refused, self_and_parents
from kafkarec.storage.segment_file import SegmentFile
from kafkarec.support.durable import make_folder, sync_folder, write_file

from .beside_files import arrange_segments
from .partition_sources import (
    PartitionSources,
    find_partitions,
    ids_in_meta_properties,
    rank_by_topic_id,
)
from .plan import plan
from .plan_builder import SalvageOptions
from .plan_writing import FileDigest, verify_and_write_side_files, write_plan, write_side_files
from .planned_changes import UNDECIDED_AS
from .planned_files import PlannedFolder, Spool, Unreadable
from .salvage_report import SalvageReport
from .salvaged_partition import SalvagedPartition
from .unfinished_run import EARLIER, REPORT, UNFINISHED, PartitionNote, UnfinishedRun

_LOG_BYTES_PER_INDEX_BYTE = 64  # at the default index interval
_SPARE = 1 << 20


class NotEnoughSpace(Refused):
    """The file system of the output folder has too little free space."""


_AT_ONCE = 8  # partitions: each waits for the disk most of the time


def salvage(
    src: Any,
    out: str | os.PathLike[str],
    *,
    as_partition: bool = False,
    new_cluster: bool = False,
    dry_run: bool = False,
    topic: str | None = None,
    partition: int | None = None,
    check_free_space: bool = True,
    max_decompressed_bytes: int = 128 << 20,
    undecided: str = "abort",
    keep_end: bool = False,
    merge_different: bool = False,
    restore: bool = True,
    use: Sequence[str | os.PathLike[str]] = (),
    read_once: bool = False,
    threads: int = 1,
    progress: ReadProgress | None = None,
) -> SalvageReport:
    """Copies every good batch of `src` to a new log in the folder `out`, byte for byte, and reports the rest.

    src: a path (a file of any name, a partition folder, a data folder), an opened Segment, Log or LogDir, or a list of
        them: several sources of one partition are merged, and conflicting batches are set aside and reported
    out: a folder that is empty or does not exist, and is not within a source; or that of an unfinished run of the same
        salvage, which is then continued
    as_partition: write folders that a broker starts on, with leader epochs, producer snapshots and topic id; batches
        that a broker would truncate (a stale leader epoch) or fail on (plain ones in an open transaction) are set
        aside. For brokers of the same cluster
    new_cluster: as_partition for another cluster, whose producer ids are others: batches have no producer, aborted ones
        and markers are left out, those of open transactions are set aside; offsets and records stay
    dry_run: read everything and write nothing
    topic, partition: of files whose names do not have them
    max_decompressed_bytes: limit per compressed payload; a batch above it is set aside
    undecided: what is done about a transaction whose marker is lost in damage, if nothing proves how it ended: write an
        "abort" or a "commit" marker, leave it "open", or set its batches "aside". A proven end is written in any case
    keep_end: add a batch without records up to the highest offset that other files of the sources refer to, if the log
        ends below it, so that a broker does not use offsets again that consumers know
    merge_different: merge sources of one partition also if they have different topic ids in partition.metadata: the
        first one is then the log, and the others fill what it lacks. Otherwise Refused, as they are no replicas
    restore: write batches of which only length, magic, base offset or leader epoch is damaged, with the values that
        the checksum or their neighbours prove; False: they are damage
    use: files that are read in addition, such as a .deleted file whose offsets are after the log's end
    read_once: copy batches while the sources are read, for a failing disk; otherwise they are read a second time when
        they are copied, and copied while they are read from the first read error on
    threads: how many threads decode a file, with the same result
    progress: called with (path, position) while the sources are read

    Complete KRaft snapshots of a metadata log are copied; the good batches of others are set aside.

    Nothing is ever written to a source. Files are synced (fsync), and read back from the disk. A run that was killed,
    or stopped because the disk was full, continues when it is started again: finished partitions are taken over.
    Writes `salvage.json`, the report as JSON.

    Raises Refused (a ValueError) if a source or other files would be at risk, and OSError if the sources cannot be read
    at all or the output cannot be written.
    """
    if undecided not in UNDECIDED_AS:
        raise Refused(f"undecided {undecided!r}: one of {', '.join(UNDECIDED_AS)}")
    checked_threads(threads)
    as_partition = as_partition or new_cluster
    given = [*(src if isinstance(src, list | tuple) else [src]), *use]
    out = os.path.abspath(os.fspath(out))
    if os.path.lexists(out) and not os.path.isdir(out):
        raise Refused(f"{out} is not a folder")
    paths = []
    for one in given:
        if isinstance(one, PartitionFiles | DataFolderFiles | SegmentFile):
            paths += [one.path, *(segment.path for log in opening.logs(one) for segment in log.segments)]
        else:
            paths.append(os.fsdecode(one))
    named = {path if remote.is_url(path) else os.path.abspath(path) for path in paths}
    Inputs(sorted(named)).demand_apart(out, out)
    partitions, left_out, data_folders = find_partitions(given, topic, partition)
    for one in partitions:
        arrange_segments(one, named)
    rank_by_topic_id(partitions, merge_different)
    for source in (source for one in partitions for source in one.sources if not source.unordered):
        # an incomplete batch at their end is a loss, also if the files were named one by one
        source.segments[:-1] = [segment.copy(later_segment=True) for segment in source.segments[:-1]]
    unnamed = [one.sources[0].path for one in partitions if one.topic is None]
    if as_partition and unnamed:
        raise Refused(f"a broker's folder has the topic in its name: give --topic and --partition for {unnamed[0]}")
    sources = [str(getattr(one, "path", one)) for one in given]
    report = SalvageReport(out, sources, as_partition, dry_run, new_cluster=new_cluster)
    known = named | {os.path.abspath(file.path) for one in partitions for file in one.beside}
    known |= {os.path.abspath(filler.path) for one in partitions for filler in one.fillers}
    report.source_ids = ids_in_meta_properties(partitions)
    missing = recorded_ends.missing_folders(data_folders, partitions)
    report.lost_folders = [(one.path, one.why) for one in missing if one.is_lost]
    report.left_out = [(one.name, one.why) for one in left_out if os.path.abspath(one.name) not in known]
    report.left_out += [(one.path, one.why) for one in missing if not one.is_lost]
    report.unread = [ReadFailure(one.name, one.cause, one.why) for one in left_out if one.cause]
    choices = as_partition, new_cluster, max_decompressed_bytes, undecided, keep_end, restore
    options = SalvageOptions(out, *choices, threads, progress or no_progress)
    unfinished = None
    if not dry_run:
        if check_free_space:
            _demand_space(out, [one.size for one in partitions], read_once)
        make_folder(out)
        unfinished = UnfinishedRun(out, sorted(named), [topic, partition, merge_different, *choices])
    try:
        report.partitions = _salvage_all(partitions, options, unfinished, read_once)
        for failure in (failure for one in report.partitions for failure in one.unread):
            if failure.path not in report.unreadable:
                report.unread.append(failure)
                report.left_out.append((failure.path, failure.why))
        if unfinished is not None:
            write_file(out, REPORT, (json.dumps(report.to_dict(), indent=1) + "\n").encode())
            sync_folder(out)
            unfinished.finish()
    finally:
        if unfinished is not None:
            unfinished.close()
    return report


def _demand_space(out: str, sizes: Sequence[int], read_once: bool) -> None:
    """Raises NotEnoughSpace. sizes: bytes of the sources of each partition; what an earlier run has written of them is
    not needed, unless they have changed since. Those that are read once are kept until their partition is written"""
    kept = os.path.join(out, EARLIER)
    written = [os.path.join(root, name) for root, _, files in os.walk(out) for name in files]
    needed = sum(sizes) - sum(os.lstat(path).st_size for path in written if not path.startswith(kept))
    needed += sum(sorted(sizes)[-_AT_ONCE:]) if read_once else 0
    stats = os.statvfs(next(place for place in self_and_parents(out) if os.path.isdir(place)))
    free, wanted = stats.f_bavail * stats.f_frsize, needed + needed // _LOG_BYTES_PER_INDEX_BYTE + _SPARE
    if free < wanted:
        raise NotEnoughSpace(
            f"{out} has {free} bytes free, and up to {wanted} may be needed; --dry-run prints how many are "
            "needed (--ignore-space skips this check)"
        )


def _salvage_all(
    partitions: Sequence[PartitionSources], options: SalvageOptions, unfinished: UnfinishedRun | None, read_once: bool
) -> list[SalvagedPartition]:
    """The reports of all partitions, in their order. unfinished: None in a dry run"""
    failure: list[BaseException] = []  # of one partition, which stops the others

    def raise_if_stopped() -> None:
        if failure:
            raise failure[0]

    def on_progress(path: str, position: int) -> None:
        raise_if_stopped()
        options.progress(path, position)

    def salvage_one(partition: PartitionSources) -> list[SalvagedPartition]:
        raise_if_stopped()
        note = PartitionNote(unfinished, partition) if unfinished else None
        finished = note.load_finished() if note else None
        if finished is not None:
            return finished
        # A source that could be read when it was planned, and not again: each batch is read and copied at once then,
        # and what cannot be read is found to be unreadable.
        for is_read_once in (read_once, True):
            with suppress(Unreadable):
                return _salvage_partition(
                    partition, replace(options, progress=on_progress), note, is_read_once, raise_if_stopped
                )
        raise OSError(errno.EIO, "it changes, or its disk fails, while it is read", partition.sources[0].path)

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        try:
            return [*chain.from_iterable(pool.map(salvage_one, partitions))]
        except BaseException as error:
            failure.append(error)  # the others end, and the pool waits for that
            raise


def _salvage_partition(
    partition: PartitionSources,
    options: SalvageOptions,
    note: PartitionNote | None,
    read_once: bool,
    stopped: Callable[[], None],
) -> list[SalvagedPartition]:
    """Plans one partition, writes it, and reads it back. note: None in a dry run, which only plans"""
    spool = Spool(os.path.join(options.out, UNFINISHED), note.name, read_once) if note else None
    plans: list[PlannedFolder] = []
    try:
        plans = plan(partition, replace(options, spool=spool))
        if note is None:
            for one in plans:
                if one.report.files:
                    with one.log() as log:
                        problems = write_side_files(log, lambda name, data: None, options.as_partition, None)
                    one.report.problems += problems
        else:
            note.begin(plans)
            states: dict[str, FileDigest] = {}
            for one in plans:
                write_plan(one, options.out, stopped)
            for one in plans:
                states |= verify_and_write_side_files(one, options.out, options.as_partition)
            note.finish(plans, states)
    finally:
        for one in plans:
            one.close()
        if spool is not None:
            spool.drop()
    return [one.report for one in plans]
