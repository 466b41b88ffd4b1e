"""The table of all kinds of findings of `verify` besides damage.

Damage (bytes that are no readable batch) has its own table, `kafkarec.errors.REASONS`. A finding is about readable
batches, about the files of the log, or about what is missing between them. A new kind is a row here and the check that
adds it: reports, JSON, the exit status, the next commands and docs/damage.md follow from the row.

Severity    meaning                                                                     exit status
error       the log contradicts itself: data was lost or duplicated, or is misread      1
anomaly     Kafka reads it without an error, but none of its writers writes it          0, with --strict 1
note        explained, nothing to do                                                    0
"""

from __future__ import annotations

from typing import NamedTuple

ERROR, ANOMALY, NOTE = SEVERITIES = ("error", "anomaly", "note")

# What a kind is about, as far as a report has to know.
END, READ_FAILURE, COMPARISON, INDEX_FILE = "end", "read failure", "comparison", "index file"
# What repairs it: the command that a report prints next.
SALVAGE, REINDEX, REPLICA, TXN = "salvage", "reindex", "replica", "txn"


class Kind(NamedTuple):
    """A kind of finding.

    severities   that it may have, the usual one first
    violation    what is wrong, in plain words
    advice       what to do about it
    step         SALVAGE, REINDEX, REPLICA or TXN; empty: no command repairs it
    subject      END: of the log; READ_FAILURE; COMPARISON: of a side file with the batches; INDEX_FILE: a side file,
                 which reindex writes if it is an index or a snapshot; empty: anything else
    """

    severities: tuple[str, ...]
    violation: str
    advice: str
    step: str = ""
    subject: str = ""

    @property
    def severity(self) -> str:
        return self.severities[0]


_ERROR, _ANOMALY, _NOTE = (ERROR,), (ANOMALY,), (NOTE,)
_ERROR_OR_ANOMALY, _ERROR_OR_NOTE = (ERROR, ANOMALY), (ERROR, NOTE)
_COPY = "copy the file again, or salvage the partition"
_LOST_END = "salvage the partition; look for the rest in a replica, and do not rebuild the indexes first"
_REINDEX = "`kafkarec reindex`; what a broker does with it, and what else helps, depends on the file (docs/damage.md)"
_OFFSETS = "`kafkarec reindex`, or delete it: a broker makes a new one at its start, but does not notice a wrong one"
_MISSING = "`kafkarec reindex`; a broker recovers a segment without .index, and makes an empty .timeindex"
_TIMES = "`kafkarec reindex`; a broker does not notice it, and searches by time, and retention, go by it"
_ABORTED = "`kafkarec reindex`; read_committed consumers go by it: they get aborted records, or miss committed ones"
_PRODUCERS = "`kafkarec reindex`; a broker believes it, and refuses batches of its producers or stores them twice"
_EPOCHS = "`kafkarec reindex`; a broker believes it: it says where replicas truncate their logs (KIP-101)"

# What no Kafka writer writes in a batch, and readers accept or ignore: what is wrong, by the kind's name
_ODD_BATCHES = {
    # batch headers, magic 2: DefaultRecordBatch
    "attributes_unknown": "unused attribute bits are set",
    "count_above_offsets": "a batch has more records than offsets",
    "base_offset_negative": "a base offset is negative",
    "timestamp_negative": "a timestamp is negative and not -1",
    "producer_id_invalid": "a producer id is negative and not -1",
    "producer_without_sequence": "a batch has a producer id but no sequence",
    "sequence_negative": "a base sequence is negative and not -1",
    "leader_epoch_negative": "a partition leader epoch is negative and not -1",
    # records: DefaultRecord
    "record_offset_outside": "a record's offset is outside of its batch's offsets",
    "record_offsets_unordered": "the offsets of a batch's records do not ascend",
    "record_attributes_unknown": "unused attribute bits of a record are set",
    "varint_not_minimal": "a varint is longer than necessary",
    "length_below_minus_one": "a length is negative and not -1",
    # compressed payloads
    "payload_trailing_bytes": "bytes after the end of a compressed stream, which no reader reads",
    "payload_several_streams": "several compressed streams in one payload",
    "payload_checksum_ignored": "a checksum in a compressed frame is wrong, but Kafka does not verify it",
    # messages of magic 0 and 1: LegacyRecord, AbstractLegacyRecordBatch
    "inner_trailing_bytes": "extra bytes after the inner messages",
    "inner_magic_differs": "an inner message has another magic than its wrapper",
    "inner_offsets_unordered": "offsets of inner messages do not ascend",
    "inner_offset_above_wrapper": "an inner offset is above the wrapper's",
    "message_trailing_bytes": "extra bytes after a message's value",
}

KINDS: dict[str, Kind] = {
    # offsets: UnifiedLog.append keeps them ascending, and reads by offset rely on it
    "offset_overlap": Kind(
        _ERROR_OR_ANOMALY,
        "a batch begins at or below the last offset of the batch before it",
        "salvage the partition: it sets aside what does not fit",
        SALVAGE,
    ),
    "base_offset_wrong": Kind(
        _ERROR, "a batch's base offset, which no checksum covers, does not fit the adjacent batches", _COPY, REPLICA
    ),
    "header_restored": Kind(
        _ERROR,
        "header fields of a batch are damaged, which no checksum covers; the right values are proven",
        "salvage the partition: it writes the proven values",
        SALVAGE,
    ),
    "offset_below_file_name": Kind(
        _ERROR, "a batch has offsets below the base offset in its file's name", _COPY, SALVAGE
    ),
    "segment_overlap": Kind(
        _ERROR,
        "a segment has offsets that belong to the next segment",
        "salvage the partition: it sets aside what does not fit",
        SALVAGE,
    ),
    "segment_gap": Kind(
        _ERROR_OR_ANOMALY,
        "offsets are missing between two segments",
        "look for the segment in a backup or a replica",
        REPLICA,
    ),
    "offset_gap": Kind(
        _ERROR_OR_ANOMALY, "offsets are missing between two good batches", "look for them in a replica", REPLICA
    ),
    # the log's end: kafkarec.storage.recorded_ends
    "end_lost": Kind(
        _ERROR,
        "a snapshot or checkpoint file refers to offsets after the end of the log: records at the end are lost",
        _LOST_END,
        SALVAGE,
        END,
    ),
    "end_was_longer": Kind(
        _ERROR,
        "an index or checkpoint file refers to offsets after the end of the log: records were lost, or truncated",
        _LOST_END,
        SALVAGE,
        END,
    ),
    "start_above_end": Kind(
        _ERROR,
        "the log start offset is above the log's end: records are missing, or were deleted on purpose",
        "remove the partition's line from log-start-offset-checkpoint before a broker starts; otherwise the broker "
        "deletes the remaining segments at startup",
        subject=END,
    ),
    "folder_lost": Kind(
        _ERROR,
        "a partition has no folder, though __cluster_metadata has it there: all its records are lost",
        "look for a replica or a backup before a broker starts: it would begin the partition again, empty",
        subject=END,
    ),
    # files
    "unreadable_file": Kind(
        _ERROR,
        "a file cannot be opened or read; the others were verified",
        "its line says why, and what to do",
        subject=READ_FAILURE,
    ),
    "unreadable_folder": Kind(
        _ERROR,
        "a folder cannot be listed: nothing in it was verified",
        "check its permissions and the disk",
        subject=READ_FAILURE,
    ),
    "snapshot_incomplete": Kind(
        _ERROR, "a KRaft snapshot does not end with its footer", "use another snapshot, or that of another voter"
    ),
    "segment_misnamed": Kind(
        _ERROR,
        "the name of a segment has another offset than its batches",
        "salvage the partition: it names the segments by their batches",
        SALVAGE,
    ),
    "duplicate_segment": Kind(_ERROR, "two files have the same base offset", "keep one of them"),
    # epochs
    "epoch_goes_back": Kind(
        _ERROR, "the partition leader epoch decreases", "compare with a replica: kafkarec diff", REPLICA
    ),
    # transactions, producers
    "control_record_unreadable": Kind(
        _ERROR, "a control record cannot be read: read_committed stops here", "kafkarec explain", TXN
    ),
    "sequence_duplicate": Kind(_ERROR, "a producer's batch is stored twice", "consumers see its records twice"),
    "sequence_gap": Kind(
        _ERROR,
        "sequences of a producer are missing, but no offsets are",
        "records were lost before they were written",
    ),
    "sequence_order": Kind(_ERROR, "a producer's sequence decreases", "batches are out of order"),
    "producer_not_transactional": Kind(
        _ERROR,
        "a plain batch within its producer's transaction",
        "a broker cannot load the log (InvalidTxnStateException)",
    ),
    "producer_epoch_goes_back": Kind(
        _ERROR, "a producer's epoch decreases", "a fenced producer wrote after its successor"
    ),
    # this program
    "bytes_unaccounted": Kind(
        _ERROR, "good bytes, damage and tail do not add up to the file", "a bug in kafkarec: please report it"
    ),
    **{
        name: Kind(_ANOMALY, violation, "nothing is lost; find out which program wrote the batch")
        for name, violation in _ODD_BATCHES.items()
    },
    # odd batches that readers do not show as they are
    "count_zero_with_payload": Kind(
        _ANOMALY, "a batch declares no records but contains some, which no reader returns", "kafkarec explain"
    ),
    "header_key_not_utf8": Kind(
        _ANOMALY, "a header key is not UTF-8: Java reads it with U+FFFD", "read it with header_keys='binary'"
    ),
    "inner_truncated": Kind(
        _ANOMALY, "the last inner message is incomplete: readers ignore it without an error", "its record is lost"
    ),
    # control records
    "control_type_unknown": Kind(
        _ANOMALY, "a control record has a type that Kafka 4.4 does not have", "written by a newer Kafka"
    ),
    "control_version_newer": Kind(
        _ANOMALY, "a control record has a newer version than in Kafka 4.4", "written by a newer Kafka"
    ),
    # transactions and side files of the log
    "transaction_hanging": Kind(
        _ANOMALY, "a transaction stays open: read_committed consumers wait", "kafkarec txn", TXN
    ),
    "sidefiles_unchecked": Kind(
        (ANOMALY, NOTE),
        "indexes and other side files could not be compared with the batches",
        "salvage or copy the log first, then verify it again",
    ),
    # explained
    "preallocated": Kind(
        _NOTE,
        "zeros from a batch's end to the file's end: space reserved by the broker, or records that never reached the "
        "disk",
        "nothing to do",
    ),
    "cut_tail": Kind(
        _NOTE,
        "the file ends with an incomplete batch: it was still being written or copied",
        "a broker truncates it",
    ),
    "no_log": Kind((NOTE, ERROR), "a file without any batch", "kafkarec ls lists the files of a folder"),
    "empty_file": Kind(_NOTE, "the file is empty", "nothing to do if the log was just rolled"),
    "removed_meanwhile": Kind(
        _NOTE,
        "a file or folder was removed after its folder was listed: a broker deletes, moves and replaces them",
        "verify again if no broker runs there",
    ),
    "changed_meanwhile": Kind(
        _NOTE,
        "the log was changed twice while it was verified, so nothing is known of it: a broker is writing there",
        "verify again when no broker writes to the folder",
    ),
    "file_left_out": Kind(_NOTE, "not a log file: not verified", "nothing to do"),
    "other_log_file": Kind(
        _NOTE,
        "not verified: a .swap, .deleted or .cleaned file",
        "salvage takes the offsets that the log lacks from this file",
    ),
    "batches_left_out": Kind(_NOTE, "record batches in a file that no broker reads", "verify the file itself"),
    "offsets_compacted": Kind(_NOTE, "offsets are missing, as in any compacted log", "nothing to do"),
    "gaps_salvaged": Kind(_NOTE, "offsets are missing that salvage.json lists as lost or set aside", "nothing to do"),
    "index_without_segment": Kind(
        _NOTE,
        "an index before the log's first segment has no segment: a broker deleted that, or it is lost",
        "look for the segment in a backup or a replica if retention did not delete it",
    ),
    # indexes, snapshots and checkpoints, each compared with the format
    "small_file_unreadable": Kind(
        _ERROR_OR_ANOMALY,
        "the file does not follow its format, or its checksum is wrong",
        _REINDEX,
        REINDEX,
        INDEX_FILE,
    ),
    "index_missing": Kind(_ANOMALY, "a segment has only one of .index and .timeindex", _MISSING, REINDEX),
    "small_file_preallocated": Kind(_ANOMALY, "the index of a closed segment ends in preallocated zeros", _OFFSETS),
    "log_missing": Kind(
        _NOTE,
        "a partition in a *-checkpoint file or in __cluster_metadata has no folder here",
        "nothing to do if it was moved",
    ),
    # the same, compared with the batches
    "index_order": Kind(
        _ERROR_OR_NOTE, "entries of .index do not ascend in offset and position", _OFFSETS, REINDEX, COMPARISON
    ),
    "index_position": Kind(
        _ERROR_OR_ANOMALY, "an .index entry does not point to the start of a batch", _OFFSETS, REINDEX, COMPARISON
    ),
    "index_offset": Kind(
        _ERROR_OR_ANOMALY,
        "an .index entry points to a batch without its offset, or after it",
        _OFFSETS,
        REINDEX,
        COMPARISON,
    ),
    "index_append": Kind(
        _NOTE,
        "an .index entry has the last offset of an append of several batches, as brokers before 4.1 write it",
        "nothing to do",
        "",
        COMPARISON,
    ),
    "index_coverage": Kind(
        _ANOMALY, "the entries of .index end before the end of the log", _OFFSETS, REINDEX, COMPARISON
    ),
    "time_order": Kind(
        _ERROR_OR_NOTE,
        "entries of .timeindex do not ascend in timestamp, or descend in offset",
        _TIMES,
        REINDEX,
        COMPARISON,
    ),
    "time_offset": Kind(
        _ERROR_OR_ANOMALY, "a .timeindex entry has an offset outside of the segment", _TIMES, REINDEX, COMPARISON
    ),
    "time_largest": Kind(
        _ERROR_OR_ANOMALY,
        "a .timeindex entry does not have the largest timestamp up to its offset",
        _TIMES,
        REINDEX,
        COMPARISON,
    ),
    "time_end": Kind(
        _ANOMALY,
        "the last entry of a closed segment's .timeindex does not have the segment's largest timestamp",
        _TIMES,
        REINDEX,
        COMPARISON,
    ),
    "transaction_missing": Kind(
        _ERROR_OR_ANOMALY, ".txnindex lacks an aborted transaction", _ABORTED, REINDEX, COMPARISON
    ),
    "transaction_unknown": Kind(
        SEVERITIES,
        "a .txnindex entry has no ABORT marker in the segment",
        _ABORTED,
        REINDEX,
        COMPARISON,
    ),
    "transaction_differs": Kind(
        SEVERITIES,
        "a .txnindex entry has other offsets than the batches of its transaction",
        _ABORTED,
        REINDEX,
        COMPARISON,
    ),
    "producer_differs": Kind(
        _ERROR_OR_NOTE,
        "epoch, sequence, offset or open transaction of a producer in .snapshot are not those of the batches",
        _PRODUCERS,
        "",
        COMPARISON,
    ),
    "producer_unknown": Kind(_ANOMALY, "a producer in .snapshot has no batches in the log", _PRODUCERS, "", COMPARISON),
    "epoch_order": Kind(
        _ERROR, "entries of leader-epoch-checkpoint do not ascend in epoch and start offset", _EPOCHS, "", COMPARISON
    ),
    "epoch_differs": Kind(
        SEVERITIES,
        "a batch has another leader epoch than leader-epoch-checkpoint has for its offset",
        _EPOCHS,
        "",
        COMPARISON,
    ),
}


def kinds_of_subject(subject: str) -> frozenset[str]:
    return frozenset(name for name, kind in KINDS.items() if kind.subject == subject)
