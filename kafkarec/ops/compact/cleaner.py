"""compact: one pass of the log cleaner over a log (Kafka: Cleaner, KIP-534, KIP-98)

    log state (headers, markers) and offset map (keys and offsets) -> filter (every batch once)

record without key                         removed, and counted as invalid
record with a later offset for its key     removed
tombstone                                  kept until the delete horizon of its batch, now + delete_retention_ms,
                                           which is set by the first pass that reads it
tombstone of magic 0 and 1                 becomes one of magic 2 with a horizon
batch with a producer's last sequence      its header is kept until the producer writes again or expires
last batch of the log                      its header is kept, as the log's end offset. A message of magic 0 or 1
                                           becomes an empty batch of magic 2; a broker fails on such a log
data of an aborted transaction             removed at once
its marker                                 removed when the transaction has no data left before it, after the delete
                                           horizon; until then its entry stays in the .txnindex
marker of a committed transaction          the same
any other control batch                    kept
from the first uncleanable offset on       everything is kept

The log is read twice, after its headers and markers. Memory: the offset map, and a part of about 1 MB.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from operator import add
from typing import Any

from kafkarec.format.side_files import AbortedTransaction
from kafkarec.ops.rewrite import JoinedBatches, Progress, segments_of, with_joined_output
from kafkarec.read.walk import HEADERS, walk, walk_request
from kafkarec.storage.raw_batches import reread

from .filtering import CleanedTransactions, Cleaner, CleanerStats
from .log_state import DAY_MS, LAST_OFFSET, CleanerSettings, LogState, read_last_offsets, read_log_state

_STEP = 1 << 20


class Cleaning(Iterator[bytes | memoryview]):
    """A pass of the cleaner: an iterator over the cleaned log, one or more whole batches at a time, in order.

    .stats                  CleanerStats so far
    .aborted_transactions   entries of the new .txnindex files so far, of aborted transactions that had data in this
                            pass, in the order of their markers: each belongs to the segment that the batch with its
                            `last_offset` is written to
    .remaining              bytes after the last batch of the segments that were read; they are left out
    """

    stats: CleanerStats

    def __init__(self, segments: Sequence[Any], settings: CleanerSettings, progress: Progress) -> None:
        self.stats, self.remaining = CleanerStats(), 0
        self._segments, self._settings, self._progress = segments, settings, progress
        self._transactions = CleanedTransactions(())
        self._stretches = self._output_batches()

    @property
    def aborted_transactions(self) -> tuple[AbortedTransaction, ...]:
        return tuple(self._transactions.kept)

    def __next__(self) -> bytes | memoryview:
        return next(self._stretches)

    def _output_batches(self) -> Iterator[bytes | memoryview]:
        settings, stats = self._settings, self.stats
        known = read_log_state(self._segments, settings)
        self.remaining = known.remaining
        self._transactions = CleanedTransactions(known.aborted)
        limit, stops = self._first_uncleanable(known)
        spans = ((one.producer_id, one.first_offset, one.last_offset) for one in known.aborted)
        offsets, stats.map_messages_read = read_last_offsets(self._segments, stops, spans, settings, self._progress)
        stats.first_uncleanable_offset, stats.next_offset, stats.keys = limit, known.next_offset, len(offsets)
        cleaner = Cleaner(settings, stats, self._progress, known, offsets, self._transactions)
        for segment, stop in zip(self._segments, stops, strict=True):
            if stop != 0:
                yield from cleaner.kept_batches(segment, stop)
            if stop is None:
                continue
            for step in walk([segment], walk_request(HEADERS), start=stop):  # the rest, unchanged
                ends = list(map(add, step.column("position"), step.column("size_in_bytes")))
                for end in ends:
                    if end - stop >= _STEP or end == ends[-1]:
                        stats.bytes_left_alone += end - stop
                        yield reread(segment, stop, end - stop)
                        stop = end
        self._transactions.kept += [one.entry for one in known.aborted if one.last_offset >= limit]

    def _first_uncleanable(self, known: LogState) -> tuple[int, list[int | None]]:
        """The first uncleanable offset (LogCleanerManager.cleanableOffsets), and where it is in each segment; None: the
        whole segment is cleaned."""
        limit = min(known.last_stable_offset, known.next_offset, self._settings.first_uncleanable_offset)
        if limit <= 0:  # nothing is cleaned below offset 0
            limit = min([limit, *known.start_offsets])
        stops: list[int | None] = []
        for segment, start, highest in zip(self._segments, known.start_offsets, known.highest_offsets, strict=True):
            if start >= limit:  # a broker cleans no segment with an uncleanable offset in it
                stops.append(0)
            elif highest < limit:
                stops.append(None)
            else:
                steps = walk([segment], walk_request(HEADERS))
                rows = (row for step in steps for row in step.zip_columns("last_offset", "position"))
                stops.append(next((position for last, position in rows if last >= limit), None))
        return limit, stops


def cleaned(
    source: Any,
    *,
    now: int | None = None,
    delete_retention_ms: int = DAY_MS,
    producer_expiration_ms: int = DAY_MS,
    first_uncleanable_offset: int | None = None,
    check_crcs: bool | str = True,
    max_decompressed_bytes: int = 128 << 20,
    max_decompressed_message_bytes: int | None = None,
    progress: Callable[[str, int], object] = lambda path, end: None,
) -> Cleaning:
    """Runs the log cleaner over a log that no broker has open: keeps the last record of each key. Follows Cleaner and
    MemoryRecords.filterTo of Kafka 4.4. `kafkarec.compact` returns all output, `kafkarec.ops.compact.cleaned` an
    iterator over it, in constant memory besides the offset map.

    source: a buffer of batches, or a Segment or Log from kafkarec.open. A log is cleaned to its end, including the last
        segment, which a broker does not clean
    now: ms since 1970, the wall clock by default. The first pass that reads a tombstone or marker sets its delete
        horizon, now + delete_retention_ms; a pass after that time removes it, so removal takes two passes
    delete_retention_ms: delete.retention.ms
    producer_expiration_ms: producer.id.expiration.ms; the last batch of a producer that wrote less than this before
        `now` keeps its header, if need be without records
    first_uncleanable_offset: everything is kept from here on; at most, and by default, the last stable offset
    check_crcs, max_decompressed_bytes: as for kafkarec.decode; Kafka's cleaner checks no CRC and writes a new one over
        damaged bytes
    max_decompressed_message_bytes: the topic's max.decompressed.message.bytes, 1 to 2^31-9: InvalidRecordError
        (record_too_large) for a larger record in a compressed batch, without its length (in magic 0 and 1 without its
        offset and size), unless the cleaner removes the whole batch unread; None: 2^31-9. Looking decompresses twice
    progress: called with the path of a segment and the position up to which its records were read; they are read twice

    KafkaRecordError for bytes that are not batches and for a batch that Kafka's cleaner fails on; TypeError for a
    source that is a path; ValueError for several partitions and for a number out of range.
    """
    settings = CleanerSettings(
        now=time.time_ns() // 1_000_000 if now is None else now,
        delete_retention_ms=delete_retention_ms,
        producer_expiration_ms=producer_expiration_ms,
        first_uncleanable_offset=LAST_OFFSET if first_uncleanable_offset is None else first_uncleanable_offset,
        check_crcs=check_crcs,
        max_decompressed_bytes=max_decompressed_bytes,
        max_decompressed_message_bytes=max_decompressed_message_bytes,
    )
    settings.check()
    return Cleaning(segments_of(source), settings, progress)


class Compacted(JoinedBatches):
    """The cleaned log, as bytes.

    .stats                  CleanerStats
    .aborted_transactions   entries of the new .txnindex: of aborted transactions that had data in this pass
    .remaining              bytes after the last batch of each segment; they are left out
    """

    stats: CleanerStats
    aborted_transactions: tuple[AbortedTransaction, ...]
    remaining: int


compact = with_joined_output("compact", cleaned, Compacted)
