"""The filter of the log cleaner: which batches and records stay, and the batches that it writes (Kafka: Cleaner,
MemoryRecords.filterTo)

    step (about 1 MB of input) -> SourceBatch    one for each batch, in order, empty ones too
                               -> Chunk          all records of the step; a batch has the rows [start, stop)
    a batch           is_unread      removed without reading its records (Kafka: DELETE)
                      keeps_header   if none of its records is kept, its header is, as an empty batch (RETAIN_EMPTY)
                      neither        removed if none of its records is kept (DELETE_EMPTY)
    new bytes         copied         magic 2, every record is kept and no delete horizon is to be set: the same bytes
                      rewritten      see below
                      emptied        the header alone
                      removed

A delete horizon (KIP-534), `now` + `delete_retention_ms`, is set on a batch that has none and keeps a tombstone, or is
the marker of a transaction without data. In a batch that is rewritten (MemoryRecords.buildRetainedRecordsInto,
DefaultRecordBatch)

    unchanged     base and last offset, leader epoch, producer id, epoch and base sequence, flags, codec
    may change    base timestamp: that of the first kept record, or the delete horizon
                  max timestamp: the greatest of the kept records; with LogAppendTime it is unchanged
                  magic: messages of magic 0 and 1 become batches of magic 2 (KIP-724, since Kafka 4.0), whose base and
                  last offset are those of the first and last kept record; with keeps_header the last offset stays

Records that Kafka's builder refuses are refused here: a broker stops cleaning the partition of such a log.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import compress, pairwise
from typing import Any, NamedTuple, NoReturn

from kafkarec import codecs
from kafkarec._core import Chunk
from kafkarec._verbs import LastOffsets, RequestCheck
from kafkarec._writer import RecordInput
from kafkarec.damage import error
from kafkarec.errors import PAYLOAD_REASONS, KafkaRecordError
from kafkarec.format.control import ControlRecordType
from kafkarec.format.java_integers import INT_MAX, wrapped
from kafkarec.format.layout import BATCH_MAGIC, LEAST_SIZES
from kafkarec.format.side_files import AbortedTransaction
from kafkarec.ops.rewrite import Progress, SourceBatch, batches_of, empty_batch, new_header, row_counts, steps
from kafkarec.read.decode_options import request
from kafkarec.read.passes import as_columns
from kafkarec.read.walk import HEADERS, walk, walk_request
from kafkarec.recover.steps import Step
from kafkarec.storage.raw_batches import reread
from kafkarec.write.encoding import record_input_of

from .log_state import Aborted, CleanerSettings, LogState

COLUMNS = ("offset", "timestamp", "key", "value", "headers", "control_type")
_OFFSET, _TIMESTAMP, _KEY, _VALUE, _, _CONTROL_TYPE = range(len(COLUMNS))
_ABORT, _COMMIT = ControlRecordType.ABORT.value, ControlRecordType.COMMIT.value


def refuse(batch: SourceBatch, why: str) -> NoReturn:
    """Raises InvalidRecordError: the batch cannot be rewritten."""
    which = f"the batch at byte {batch.position} (last offset {batch.last_offset})"
    raise batch.error("batch_not_rewritable", f"{which} cannot be rewritten: {why}")


@dataclass(slots=True)
class CleanerStats:
    """What a pass read, and what it kept (Kafka: MemoryRecords.FilterResult, CleanerStats, and causes that it does not
    count).

    messages_read             records of the batches that were read; deleted batches are not read
    max_offset                greatest last offset of a batch that was copied or emptied, or offset of a record in one
                              that was rewritten; -1: nothing was kept
    max_timestamp             greatest max timestamp of what was kept, ms; -1: none
    offset_of_max_timestamp   last offset of the batch with that max timestamp
    batches_read              the sum of batches_copied, batches_rewritten, batches_emptied and batches_removed
    horizons_set              batches whose delete horizon was set

    Of the log cleaner:

    messages_superseded     removed: the log has a later offset for the key
    messages_invalid        removed: no key
    tombstones_removed      removed: past the delete horizon
    messages_aborted        removed: data of aborted transactions
    markers_removed         control records removed: no data left in the transaction, past the delete horizon
    map_messages_read       records read for the offset map, with `keys` distinct keys
    bytes_left_alone        bytes from the first uncleanable offset on, copied unchanged
    first_uncleanable_offset, next_offset   where cleaning ended, and where the log ends
    """

    messages_read: int = 0
    bytes_read: int = 0
    messages_retained: int = 0
    bytes_retained: int = 0
    max_offset: int = -1
    max_timestamp: int = -1
    offset_of_max_timestamp: int = -1
    batches_read: int = 0
    batches_copied: int = 0
    batches_rewritten: int = 0
    batches_emptied: int = 0
    batches_removed: int = 0
    horizons_set: int = 0
    messages_superseded: int = 0
    messages_invalid: int = 0
    tombstones_removed: int = 0
    messages_aborted: int = 0
    markers_removed: int = 0
    map_messages_read: int = 0
    keys: int = 0
    bytes_left_alone: int = 0
    first_uncleanable_offset: int = 0
    next_offset: int = 0

    def add_retained(
        self, batch: SourceBatch, max_timestamp: int, at: int, max_offset: int, messages: int, size: int
    ) -> None:
        """Counts a batch that is kept in some form (FilterResult.updateRetainedBatchMetadata)."""
        if max_timestamp != -1 and at < 0:
            refuse(batch, f"its last offset {at} is negative")
        if max_offset < 0:
            refuse(batch, f"its greatest offset {max_offset} is negative")
        if max_timestamp > self.max_timestamp:
            self.max_timestamp, self.offset_of_max_timestamp = max_timestamp, at
        self.max_offset = max(self.max_offset, max_offset)
        self.messages_retained += messages
        self.bytes_retained += size


class CleanedTransactions:
    """Transaction state of a pass; `on_batch_read` is called with every batch in log order.

    kept    entries of the new .txnindex files: aborted transactions that had data in this pass, in the order of their
            markers
    """

    def __init__(self, aborted: Iterable[Aborted]) -> None:
        self._waiting = sorted(aborted, key=lambda one: one.first_offset, reverse=True)
        self._aborted: dict[int, Aborted] = {}
        self._seen: set[int] = set()
        self._committed: set[int] = set()
        self.kept: list[AbortedTransaction] = []

    def on_batch_read(self, batch: SourceBatch) -> bool:
        """Whether the state of its transaction allows a batch to be removed (CleanedTransactionMetadata.onBatchRead,
        onControlBatchRead)."""
        while self._waiting and self._waiting[-1].first_offset <= batch.last_offset:
            one = self._waiting.pop()
            self._aborted.setdefault(one.producer_id, one)
        if batch.is_control:
            return self._on_control_batch_read(batch)
        if not batch.is_transactional:
            return False
        if batch.producer_id in self._aborted:
            self._seen.add(batch.producer_id)
            return True
        self._committed.add(batch.producer_id)
        return False

    def _on_control_batch_read(self, batch: SourceBatch) -> bool:
        if batch.start == batch.stop:
            return True
        producer = batch.producer_id
        if batch.control_type == _ABORT:
            ended = self._aborted.pop(producer, None)
            if ended is None or producer not in self._seen:
                return True
            self._seen.discard(producer)
            self.kept.append(ended.entry)
            return False
        if batch.control_type == _COMMIT:
            had_data = producer in self._committed
            self._committed.discard(producer)
            return not had_data
        if batch.control_type is None:
            why = f"control record at byte {batch.position} (base offset {batch.base_offset}) has no readable key"
            raise batch.error("control_record_invalid", why)
        return False


class BatchDecision(NamedTuple):
    """What the filter decides about a batch (Kafka: RecordFilter.BatchRetentionResult).

    records             True: all are kept, False: none; None: `Cleaner.retained_rows` says which
    keeps_header        if none of its records is kept, its header is, as an empty batch (RETAIN_EMPTY)
    is_unread           it is removed, and its records are not read (DELETE)
    empty_transaction   its marker ends a transaction that has no data left: its delete horizon is set
    """

    records: bool | None = None
    keeps_header: bool = False
    is_unread: bool = False
    empty_transaction: bool = False


_LOG_APPEND = 1


class Cleaner:
    """The filter of one pass over one log, segment after segment; adds to `stats`.

    offsets        of each key the last one, of what is cleaned
    transactions   their state; `kept` is complete at the end

    Payloads are decompressed a second time to look for max.decompressed.message.bytes. A tombstone of magic 0 or 1
    becomes one of magic 2 with a horizon. keeps_header turns a message of magic 0 or 1 into an empty batch of magic 2,
    which Kafka refuses to do. Header keys that are not UTF-8 keep their bytes; Kafka's builder writes U+FFFD in their
    place.
    """

    def __init__(
        self,
        settings: CleanerSettings,
        stats: CleanerStats,
        progress: Progress,
        known: LogState,
        offsets: LastOffsets,
        transactions: CleanedTransactions,
    ) -> None:
        self.stats, self._settings, self._progress, self._known = stats, settings, progress, known
        self._offsets, self._transactions = offsets, transactions
        self._horizon = wrapped(settings.now + settings.delete_retention_ms, 64)
        # all columns that are needed to rewrite a record unchanged
        self._request = request(
            columns=COLUMNS,
            control=True,
            timestamp_unit="int64",
            header_keys="binary",
            check_crcs=settings.check_crcs,
            max_decompressed_bytes=settings.max_decompressed_bytes,
        )

    def check_batch_retention(self, batch: SourceBatch) -> BatchDecision:
        """Called for every batch, in order (Cleaner.cleanInto's checkBatchRetention)."""
        is_last = batch.next_offset == self._known.next_offset  # in a broker the high watermark
        if batch.producer_id < 0 and not batch.is_control and not is_last:
            return BatchDecision()
        discards = removed = self._transactions.on_batch_read(batch)
        if batch.is_control:
            horizon = batch.delete_horizon_ms
            removed = discards and horizon is not None and horizon <= self._settings.now
        last = None if batch.producer_id < 0 else self._known.producers.get(batch.producer_id)
        keeps_header = is_last or (
            last is not None
            and (
                batch.last_offset == last.last_offset
                if last.last_offset >= 0  # else its last batch is a marker
                else batch.is_control and batch.producer_epoch == last.producer_epoch
            )
        )
        count = (batch.record_count or 0) if removed else 0
        if batch.is_control:
            self.stats.markers_removed += count
        else:
            self.stats.messages_aborted += count
        records = False if removed else True if batch.is_control else None
        return BatchDecision(records, keeps_header, removed and not keeps_header, discards and batch.is_control)

    def retained_rows(self, to_filter: Sequence[SourceBatch], chunk: Chunk, without_value: bytes | None) -> bytearray:
        """One byte for each row of the chunk: 1 keeps it, 0 removes it (Cleaner.shouldRetainRecord). Called once for
        some of their batches, after `check_batch_retention` for each; bytes of others are ignored. without_value: 1 for
        each row whose value is null; None: there is none"""
        keep = self._offsets.latest(chunk)
        tombstones = 0  # those past their delete horizon
        for batch in to_filter:
            horizon = batch.delete_horizon_ms
            if without_value is None or horizon is None or self._settings.now < horizon:
                continue
            at = without_value.find(1, batch.start, batch.stop)
            while at >= 0:
                tombstones += keep[at]
                keep[at] = 0
                at = without_value.find(1, at + 1, batch.stop)
        lost = sum(batch.rows - keep.count(1, batch.start, batch.stop) for batch in to_filter)
        missing = chunk.nulls(_KEY)
        invalid = 0 if missing is None else sum(missing.count(1, batch.start, batch.stop) for batch in to_filter)
        self.stats.tombstones_removed += tombstones
        self.stats.messages_invalid += invalid
        self.stats.messages_superseded += lost - invalid - tombstones
        return keep

    def kept_batches(self, segment: Any, stop: int | None = None) -> Iterator[bytes | memoryview]:
        """The kept batches of a segment, or of its first `stop` bytes; each item is one or more whole batches."""
        start: int | None = 0
        while start is not None:
            try:
                for step in steps(segment, self._request, self._progress, stop, start=start):
                    yield from self._filter_step(step)
                start = None
            except KafkaRecordError as refusal:
                start = self._end_of_unread_batch(refusal, segment)
                if start is None:
                    raise

    def _end_of_unread_batch(self, refusal: KafkaRecordError, segment: Any) -> int | None:
        """The position after a batch with an unreadable payload, if it is removed unread, so that its payload does not
        matter. None: the error is raised."""
        if refusal.reason not in PAYLOAD_REASONS or refusal.position is None:
            return None
        start = refusal.position
        step = next(walk([segment], walk_request(HEADERS), start=start))
        if not len(step):
            return None
        batch = next(batches_of(step, [0] * len(step)))
        if not self.check_batch_retention(batch).is_unread:
            return None
        self.stats.batches_read += 1
        self.stats.bytes_read += batch.size_in_bytes
        self.stats.batches_removed += 1
        return start + batch.size_in_bytes

    def _filter_step(self, step: Step) -> Iterator[bytes | memoryview]:
        columns = as_columns(self._request, step.part)
        chunk, results = step.chunk, []
        for batch in batches_of(step, row_counts(step)):
            if chunk is not None and batch.is_control and batch.rows:
                (control_type,) = chunk.values(_CONTROL_TYPE, batch.start, batch.start + 1)
                batch = batch._replace(control_type=control_type)
            results.append((batch, self.check_batch_retention(batch)))
        to_filter = [batch for batch, result in results if result.records is None and batch.rows]
        without_value = None if chunk is None else chunk.nulls(_VALUE)
        keep = self.retained_rows(to_filter, chunk, without_value) if chunk is not None and to_filter else b""
        record_input: RecordInput | None = None
        copied = stop = 0  # bytes [copied, stop) of the input are yet to be copied
        for batch, result in results:
            self.stats.batches_read += 1
            self.stats.bytes_read += batch.size_in_bytes
            if result.records is None:
                keep_rows = bytes(keep[batch.start : batch.stop])
            else:
                keep_rows = (b"\1" if result.records else b"\0") * batch.rows
            made: bytes | None = None  # None: copied
            if result.is_unread:
                self.stats.batches_removed += 1
                made = b""
            else:
                self._check_sizes(step, batch)
                horizon = self._new_horizon(batch, result, keep_rows, without_value)
                self.stats.messages_read += batch.rows
                if 1 not in keep_rows:
                    made = self._emptied(batch) if result.keeps_header else b""
                    self.stats.batches_removed += not made
                elif chunk is not None and (
                    0 in keep_rows or batch.magic < BATCH_MAGIC or horizon != batch.delete_horizon_ms
                ):
                    record_input = record_input or record_input_of(columns)
                    made = self._rewritten(batch, chunk, record_input, keep_rows, horizon, result.keeps_header)
            if made is None:
                self.stats.batches_copied += 1
                size, last = batch.size_in_bytes, batch.last_offset
                self.stats.add_retained(batch, batch.max_timestamp, last, last, batch.rows, size)
                if batch.position != stop:
                    if stop > copied:
                        yield reread(step.segment, copied, stop - copied)
                    copied = batch.position
                stop = batch.position + size
                continue
            if stop > copied:
                yield reread(step.segment, copied, stop - copied)
                copied = stop
            if made:
                yield made
        if stop > copied:
            yield reread(step.segment, copied, stop - copied)

    def _check_sizes(self, step: Step, batch: SourceBatch) -> None:
        """max.decompressed.message.bytes, for the records of a batch that is read, if it is compressed."""
        most = self._settings.max_decompressed_message_bytes
        if most is None or not batch.codec or batch.record_count == 0:
            return
        raw = reread(step.segment, batch.position, batch.size_in_bytes)
        check = RequestCheck(
            raw, check_crcs=False, from_zero=False, rising=False, leader_epoch=None, most_bytes=len(raw)
        )
        position, length = check.payload()
        limit = self._request.options.limit
        payload = codecs.decompress(batch.codec, raw[position : position + length], limit, batch.magic)
        found = check.first_too_large(payload, most)
        if found is not None:
            record, size = found
            sides = {"file": step.segment.path, "record": record, "expected": most, "found": size}
            raise error("record_too_large", batch.place | sides)

    def _new_horizon(
        self, batch: SourceBatch, result: BatchDecision, keep: bytes, without_value: bytes | None
    ) -> int | None:
        """The delete horizon of a batch: its own, or a new one, which is set once."""
        if batch.delete_horizon_ms is not None:
            return batch.delete_horizon_ms
        sets = result.empty_transaction
        if not sets and without_value is not None:
            tombstones = without_value[batch.start : batch.stop]
            sets = int.from_bytes(tombstones, "big") & int.from_bytes(keep, "big") != 0
        return self._horizon if sets else None

    def _emptied(self, batch: SourceBatch) -> bytes:
        """The header alone, for a producer's last sequence or the end of the log (writeEmptyHeader)."""
        self.stats.batches_emptied += 1
        size, last = LEAST_SIZES[max(batch.magic, BATCH_MAGIC)], batch.last_offset
        self.stats.add_retained(batch, batch.max_timestamp, last, last, 0, size)
        return empty_batch(new_header(batch)._replace(delete_horizon_ms=None, codec=0), batch.max_timestamp)

    def _rewritten(
        self,
        batch: SourceBatch,
        chunk: Chunk,
        record_input: RecordInput,
        keep: bytes,
        horizon: int | None,
        retains_end: bool,
    ) -> bytes:
        """A batch with some of its records.

        keep          one byte for each of its rows, 1 for the records to write
        horizon       delete horizon in ms; None or below 0: none
        retains_end   whether also messages of magic 0 and 1 keep their last offset
        """
        self.stats.batches_rewritten += 1
        self.stats.horizons_set += horizon != batch.delete_horizon_ms and self._horizon >= 0
        offsets, timestamps = (
            list(compress(chunk.values(column, batch.start, batch.stop), keep)) for column in (_OFFSET, _TIMESTAMP)
        )
        # MemoryRecordsBuilder.appendWithOffset and validateProducerState
        for one, other in pairwise(offsets):
            if other <= one:
                refuse(batch, f"offset {other} follows offset {one}")
        lowest = min((time for time in timestamps if time is not None), default=0)
        if lowest < 0:
            refuse(batch, f"timestamp {lowest} is negative")
        if batch.producer_id == -1:
            if batch.is_transactional:
                refuse(batch, "it is transactional and has no producer id")
        elif batch.producer_epoch == -1:
            refuse(batch, "it has a producer id and no producer epoch")
        elif batch.base_sequence < 0 and not batch.is_control:
            refuse(batch, f"it has a producer id and the base sequence {batch.base_sequence}")
        header = new_header(batch)._replace(delete_horizon_ms=None if horizon is None or horizon < 0 else horizon)
        last_offset = offsets[-1]
        if batch.magic < BATCH_MAGIC:
            last_offset = max(last_offset, batch.last_offset) if retains_end else last_offset
            header = header._replace(base_offset=offsets[0], last_offset=last_offset)
        if last_offset - header.base_offset > INT_MAX:
            refuse(batch, f"offset {last_offset} is more than {INT_MAX} above its base offset {header.base_offset}")
        written = record_input.write(header, batch.start, batch.stop, keep)
        max_timestamp = int.from_bytes(written[35:43], "big", signed=True)
        at = batch.last_offset if batch.magic >= BATCH_MAGIC else offsets[-1]
        if max_timestamp == -1 and batch.timestamp_type != _LOG_APPEND:
            at = -1
        self.stats.add_retained(batch, max_timestamp, at, offsets[-1], len(offsets), len(written))
        return written
