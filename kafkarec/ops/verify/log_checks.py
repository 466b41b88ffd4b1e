"""The checks along a log: its side files against the batches, producers' sequences, transactions; files that are none

The side files are read before the batches, as a broker may be writing both. CRCs and damage are not reported here.
"""

from __future__ import annotations

import os
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from functools import partial
from operator import attrgetter
from typing import Any, NamedTuple

from kafkarec.errors import KafkaRecordError
from kafkarec.format.side_files import AbortedTransaction
from kafkarec.recover.marker_matching import MatchedTransactions
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
from kafkarec.sources.folders import Folder, LocalFolder
from kafkarec.sources.read_failures import read_failure
from kafkarec.state import transactions
from kafkarec.state.producers import ProducerStates
from kafkarec.storage import first_bytes, names, recorded_ends
from kafkarec.storage.log_folders import PartitionFiles
from kafkarec.storage.rebuild_folder import filename_prefix, snapshot_name
from kafkarec.storage.segment_file import SegmentFile
from kafkarec.support.text_table import duration_text

from .batch_checks import EMPTIED, EPOCH, GAP, OFFSETS, SequenceCheck
from .findings import REINDEX, Findings, SideFileFindings
from .side_file_checks import EpochCheckpointCheck, OffsetIndexCheck, TimeIndexCheck, TxnIndexCheck, check_snapshot

# missing index, the index that exists, what a broker does then (LogSegment.sanityCheck)
_MISSING = (
    (offset_index.SUFFIX, time_index.SUFFIX, "a broker that starts on this folder recovers the whole segment"),
    (
        time_index.SUFFIX,
        offset_index.SUFFIX,
        "a broker that starts on this folder creates an empty one: searches by time read the whole segment",
    ),
)
_CHECKED: tuple[tuple[Any, Any], ...] = ((offset_index, OffsetIndexCheck), (time_index, TimeIndexCheck))


class LogFindings(NamedTuple):
    """What was found along a log. Not the LogCheck itself: that has its producers and transactions, and a report is of
    many logs.

    segments   of each segment that was read, by its path: about its indexes, and the snapshot at its start
    own        about the log's other side files
    batches    about producers and transactions
    """

    segments: dict[str, SideFileFindings]
    own: SideFileFindings
    batches: Findings


class LogCheck:
    """The checks along one log: `begin_segment`, `take` with each step, and `end_segment` or `mark_unread` for each
    segment; then `finish`.

    start   of the log, by log-start-offset-checkpoint; 0: not known. A broker that recovers a log takes no producer
            from what is below it (UnifiedLog.rebuildProducerState)
    """

    def __init__(self, log: PartitionFiles, start: int, sequences: bool) -> None:
        path = partial(os.path.join, str(log.path))
        self._log, self._path = log, path
        self._own, self._batches = SideFileFindings(path), Findings()
        self._segments: dict[str, SideFileFindings] = {}
        entries = self._own.read_in_folder(log, leader_epochs.NAME, leader_epochs.read)
        self._epochs = (
            None if entries is None else EpochCheckpointCheck(entries, partial(self._own.report, leader_epochs.NAME))
        )
        self._own.read_in_folder(log, partition_metadata.NAME, partition_metadata.read)
        self._base = log.segments[0].base_offset or 0 if log.segments else 0
        self._states = ProducerStates((), self._base)
        self._start = max(self._base, start)
        self._is_complete = self._start == 0  # whether the producers of all earlier batches are known
        self._has_missing_offsets = False  # whether offsets were missing so far
        self._has_emptied_markers = False  # of which a broker that recovers the log does not use the header
        self._is_read = True
        self._sequences = SequenceCheck(self._batches) if sequences else None
        self._match = MatchedTransactions()

    def begin_segment(self, segment: SegmentFile) -> None:
        findings = self._segments[segment.path] = SideFileFindings(self._path)
        base = segment.base_offset or 0
        # the cleaner may have removed the last batches before it
        self._has_missing_offsets = self._has_missing_offsets or self._states.end_offset < base
        self._compare_snapshot(base, partial(segment.sidecar, producer_snapshot.SUFFIX), findings)
        self._indexes = _SegmentIndexes(segment, segment is not self._log.segments[-1], findings)

    def take(self, step: Step, flags: int) -> None:
        """Takes the batches of the next step. flags: what RowCheck says of them."""
        if len(step):
            has_gaps = bool(flags & (GAP | OFFSETS))
            self._has_missing_offsets = self._has_missing_offsets or has_gaps
            self._has_emptied_markers = self._has_emptied_markers or bool(flags & EMPTIED)
            self._indexes.add(step, self._states, has_gaps or bool(step.damage))
            if self._epochs is not None:
                self._epochs.add(step, not flags & EPOCH)
            if self._sequences is not None:
                self._sequences.check(self._indexes.path, step)
        self._match.take(step)

    def end_segment(self, largest_batch: int) -> None:
        """The segment was read. largest_batch: its size in bytes."""
        is_complete = self._is_complete and not self._has_missing_offsets
        self._indexes.finish(self._states, is_complete, self._start, largest_batch)

    def mark_unread(self) -> None:
        """A segment could not be read, or not to its end."""
        self._is_read, self._has_missing_offsets = False, True

    def stop(self, error: OSError | KafkaRecordError) -> None:
        """No other segment can be read, either."""
        self.mark_unread()
        why = str(error)
        if isinstance(error, OSError):
            path = str(error.filename or "a file")
            why = f"{path}: {read_failure(error, path).why}"
        self._own.add("sidefiles_unchecked", f"the log's side files could not be compared: {why}")

    def finish(self) -> LogFindings:
        """What was found. All segments were read."""
        results = LogFindings(self._segments, self._own, self._batches)
        if not self._segments:
            return results
        end = self._states.end_offset
        if end != self._indexes.base:
            reading = partial(self._log.folder_file, snapshot_name(end))
            self._compare_snapshot(end, reading, self._segments[self._indexes.path])
        # the format of the snapshots of other offsets, such as above the end of a log that was longer
        compared = {end, *(segment.base_offset for segment in self._log.segments)}
        if self._log.is_folder and isinstance(self._log.folder, LocalFolder):
            for one in recorded_ends.files_beside(self._log):
                if one.suffix == producer_snapshot.SUFFIX and one.base_offset not in compared:
                    self._own.read_in_folder(self._log, one.stem + one.suffix, producer_snapshot.read)
        found = self._match
        if self._is_read:
            found.finish()
            if found.ended or found.without_data or found.open:
                hanging = transactions.TransactionListing(found, transactions.HANGING_AFTER).hanging
                for txn in hanging[:1]:
                    detail = f"producer {txn.producer_id} epoch {txn.producer_epoch} since offset {txn.first_offset}"
                    if txn.duration_ms is not None:
                        detail += f", open for {duration_text(txn.duration_ms)} or more by append times"
                    self._batches.add("transaction_hanging", detail, offset=txn.first_offset, count=len(hanging))
        return results

    def _compare_snapshot(self, offset: int, reading: Any, findings: SideFileFindings) -> None:
        name = snapshot_name(offset)
        entries = findings.read(name, reading, producer_snapshot.read)
        if entries is not None and offset == self._base and not self._is_complete:  # that of the log's start
            self._states, self._is_complete = ProducerStates(entries, offset), self._start == self._base
        cleaned = self._has_missing_offsets or self._has_emptied_markers
        is_known = self._is_complete and self._is_read and not cleaned
        check_snapshot(entries or (), self._states, partial(findings.report, name), is_known)


class _SegmentIndexes:
    """The three indexes of one segment, compared with its batches."""

    def __init__(self, segment: SegmentFile, later_segment: bool, findings: SideFileFindings) -> None:
        self.path, self.base = segment.path, segment.base_offset or 0
        self._findings, self._later_segment = findings, later_segment
        self._end = 0
        name = filename_prefix(self.base)
        exists = dict.fromkeys((offset_index.SUFFIX, time_index.SUFFIX, txn_index.SUFFIX), True)

        def sidecar(module: Any, *base: int) -> Any:
            def reading() -> bytes | None:
                data = segment.sidecar(module.SUFFIX)
                exists[module.SUFFIX] = data is not None  # one that cannot be read is there
                return data

            return findings.read(name + module.SUFFIX, reading, lambda data, file: module.read(data, *base, file))

        indexes = [(name + module.SUFFIX, sidecar(module, self.base), check) for module, check in _CHECKED]
        self._aborted = sidecar(txn_index)
        for suffix, other, consequence in _MISSING:
            if exists[other] and not exists[suffix]:
                findings.report(name + suffix, "index_missing", f"is missing: {consequence}; {REINDEX}")
        if any(exists.values()) and not exists[txn_index.SUFFIX]:
            # Beside other indexes a missing one says that no transaction was aborted; a segment alone was copied alone.
            self._aborted = ()
        preallocated = {file: index.preallocated for file, index, _ in indexes if index is not None}
        self._live = any(preallocated.values())
        findings.is_active = self._live and not later_segment
        self._checks = [
            check(index, partial(findings.report, file)) for file, index, check in indexes if index is not None
        ]
        self._entries = sorted(self._aborted or (), key=lambda entry: entry.last_offset)
        self._transactions = TxnIndexCheck(partial(findings.report, name + txn_index.SUFFIX))
        for file, size in preallocated.items():
            if later_segment and size:
                what = (
                    f"the last {size} bytes are preallocated zeros, although a later segment exists: a broker that "
                    "does not recover the segment reads them as entries"
                )
                findings.report(file, "small_file_preallocated", what)

    def add(self, step: Step, states: ProducerStates, has_gaps: bool) -> None:
        for check in self._checks:
            check.add(step)
        start = 0
        for row, entry in self._entries_without_marker(step, has_gaps or not self._end):
            self._transactions.add(states.take(step, start, row))
            start = row
            self._transactions.add_lost_marker(entry, states)
        self._transactions.add(states.take(step, start))
        _, self._end = step.rows.byte_range(len(step) - 1)

    def _entries_without_marker(self, step: Step, has_gaps: bool) -> Iterator[tuple[int, AbortedTransaction]]:
        """Yields (row, entry) of the .txnindex entries whose offsets are missing before the row. Their markers are
        lost, and the entries are then what is known of them."""
        last = step.cell("last_offset", len(step) - 1)
        stop = bisect_right(self._entries, last, key=attrgetter("last_offset"))
        reached, self._entries = self._entries[:stop], self._entries[stop:]
        if not has_gaps:
            return
        bases, lasts = step.column("base_offset"), step.column("last_offset")
        for entry in reached:
            row = bisect_left(lasts, entry.last_offset)
            if bases[row] is not None and bases[row] > entry.last_offset:
                yield row, entry

    def finish(self, states: ProducerStates, is_complete: bool, start: int, largest_batch: int) -> None:
        """Reports what the indexes have after the last batch.

        is_complete     whether the producers before the log are known, and no offsets are missing in it up to here
        start           of the log
        largest_batch   its size in bytes
        """
        if self._later_segment:
            for entry in self._entries:
                self._transactions.add_lost_marker(entry, states)
        is_closed = self._later_segment and not self._live
        for check in self._checks:
            check.finish(self._end, largest_batch, is_closed)
        if self._aborted is not None:
            self._transactions.finish(self._aborted, is_complete, start)


def check_data_folder(folder: Folder, findings: Findings) -> None:
    """Adds findings about the files of a data folder itself: meta.properties and the four *-checkpoint files. Offsets
    above a log's end are found by `storage.recorded_ends`, partitions without a folder by `storage.recorded_ends`."""
    found = SideFileFindings(folder.join)
    found.read(meta_properties.NAME, partial(folder.read, meta_properties.NAME), meta_properties.read)
    for name in offset_checkpoints.NAMES:
        found.read(name, partial(folder.read, name), offset_checkpoints.read)
    findings.update(found)


def check_left_out(folder: Any, findings: Findings) -> None:
    """Adds findings for what a folder's reading left out: an error if a folder cannot be listed. A file with batches
    but without Kafka's name, as in fsck's lost+found, may be a segment that is missing elsewhere."""
    for one in folder.left_out:
        name = os.path.basename(one.name)
        path = os.path.join("" if folder.folder is None else folder.folder.path, one.name)
        if one.kind == names.COPY or (one.cause and names.is_segment(name)):
            continue  # verified as a segment, and reported there
        found = []
        if one.kind == names.FOREIGN:
            found = list(first_bytes.files_with_batches(path))
        for file, base in found:
            is_named = one.is_folder and names.is_segment(os.path.basename(file))
            why = "its folder's name is not a partition's" if is_named else "its name is not a segment's"
            detail = f"not verified: {why}; it contains record batches starting at offset {base}"
            findings.add("batches_left_out", detail, offset=base, file=file)
        if one.is_folder and names.folder(name) is not None and not one.cause:
            findings.add("file_left_out", one.why, file=path)
        elif not found:
            parsed = names.segment(name)
            kind = "other_log_file" if parsed is not None and parsed.suffix == ".log" else "file_left_out"
            if one.kind == names.UNREADABLE:
                findings.add("unreadable_folder", one.why, file=path, cause=one.cause or None)  # each of them
                continue
            kind = "removed_meanwhile" if one.kind == names.REMOVED else kind
            findings.add(kind, f"{one.name}: {one.why}", cause=one.cause or None)  # the first, and their number
