"""The table of all kinds of findings of `verify` besides damage.

Damage (bytes that are no readable batch) has its own table, `kafkarec.errors.REASONS`. A finding is about readable
batches, about the files around them, or about what is missing between them.

Severity    meaning                                                                     exit status
error       the log contradicts itself: data was lost or duplicated, or is misread      1
anomaly     Kafka reads it without an error, but none of its writers writes it          0, with --strict 1
note        explained, nothing to do                                                    0
"""

from __future__ import annotations

from typing import NamedTuple

from .side_file_finding import CHECKS

ERROR, ANOMALY, NOTE = "error", "anomaly", "note"
SEVERITIES = (ERROR, ANOMALY, NOTE)


class FindingKind(NamedTuple):
    """A kind of finding: its default severity, a sentence, and advice."""

    severity: str
    sentence: str
    advice: str


def _kinds(severity: str, **rows: tuple[str, str]) -> dict[str, FindingKind]:
    return {name: FindingKind(severity, *row) for name, row in rows.items()}


_REINDEX = "a broker that finds no index rebuilds it; `kafkarec reindex` does the same in another folder"
_COPY = "copy the file again, or salvage the partition"
_READ = "nothing is lost; find out which program wrote the batch"

# Keys of side_file_finding.CHECKS that would be ambiguous here.
_RENAMED = {
    "unreadable": "small_file_unreadable",
    "preallocated": "small_file_preallocated",
    "read_failure": "unreadable_file",
}

KINDS: dict[str, FindingKind] = {
    **_kinds(
        ERROR,
        # offsets: UnifiedLog.append keeps them ascending, and reads by offset rely on it
        offset_overlap=("a batch begins at or below the last offset of the batch before it", "salvage the partition"),
        base_offset_wrong=("a batch's base offset, which no checksum covers, does not fit the adjacent batches", _COPY),
        header_restored=(
            "header fields of a batch are damaged, which no checksum covers; the right values are proven",
            "salvage the partition: it writes the proven values",
        ),
        offset_below_file_name=("a batch has offsets below the base offset in its file's name", _COPY),
        segment_overlap=("a segment contains offsets from the base offset of the next one on", _COPY),
        segment_gap=("offsets are missing between two segments", "look for the segment in a backup or a replica"),
        offset_gap=("offsets are missing between two good batches", "look for them in a replica"),
        # the log's end: kafkarec.storage.recorded_ends
        end_lost=(
            "a file beside the log says that the log was longer, and only lost records explain it",
            "salvage the partition; look for the rest in a replica, and do not rebuild the indexes first",
        ),
        end_was_longer=(
            "a file beside the log says that the log was longer: records were lost, or truncated",
            "salvage the partition; look for the rest in a replica, and do not rebuild the indexes first",
        ),
        start_above_end=(
            "the log start offset is above the log's end: records are missing, or were deleted on purpose",
            "remove the partition's line from log-start-offset-checkpoint before a broker starts, or lose the rest",
        ),
        # files
        unreadable_file=(
            "a file cannot be opened or read; the others were verified",
            "its line says why, and what to do",
        ),
        unreadable_folder=(
            "a folder cannot be listed: nothing in it was verified",
            "check its permissions and the disk",
        ),
        snapshot_incomplete=(
            "a KRaft snapshot does not end with its footer",
            "use another snapshot, or that of another voter",
        ),
        segment_misnamed=("the name of a segment has another offset than its batches", "salvage uses its batches"),
        duplicate_segment=("two files have the same base offset", "keep one of them"),
        # epochs
        epoch_goes_back=("the partition leader epoch decreases", "compare with a replica: kafkarec diff"),
        # transactions, producers
        control_record_unreadable=("a control record cannot be read: read_committed stops here", "kafkarec explain"),
        sequence_duplicate=("a producer's batch is stored twice", "consumers see its records twice"),
        sequence_gap=(
            "sequences of a producer are missing, but no offsets are",
            "records were lost before they were written",
        ),
        sequence_order=("a producer's sequence decreases", "batches are out of order"),
        producer_not_transactional=("a plain batch within its producer's transaction", "a broker fails on it"),
        producer_epoch_goes_back=("a producer's epoch decreases", "a fenced producer wrote after its successor"),
        # this program
        bytes_unaccounted=(
            "good bytes, damage and tail do not add up to the file",
            "a bug in kafkarec: please report it",
        ),
    ),
    **_kinds(
        ANOMALY,
        # batch headers, magic 2: DefaultRecordBatch
        attributes_unknown=("unused attribute bits are set", _READ),
        count_zero_with_payload=(
            "a batch declares no records but contains some, which no reader returns",
            "kafkarec explain",
        ),
        count_above_offsets=("a batch has more records than offsets", _READ),
        base_offset_negative=("a base offset is negative", _READ),
        timestamp_negative=("a timestamp is negative and not -1", _READ),
        producer_id_invalid=("a producer id is negative and not -1", _READ),
        producer_without_sequence=("a batch has a producer id but no sequence", _READ),
        sequence_negative=("a base sequence is negative and not -1", _READ),
        leader_epoch_negative=("a partition leader epoch is negative and not -1", _READ),
        # records: DefaultRecord
        record_offset_outside=("a record's offset is outside of its batch's offsets", _READ),
        record_offsets_unordered=("the offsets of a batch's records do not ascend", _READ),
        record_attributes_unknown=("unused attribute bits of a record are set", _READ),
        varint_not_minimal=("a varint is longer than necessary", _READ),
        length_below_minus_one=("a length is negative and not -1", _READ),
        header_key_not_utf8=(
            "a header key is not UTF-8: Java reads it with U+FFFD",
            "read it with header_keys='binary'",
        ),
        # compressed payloads
        payload_trailing_bytes=("bytes after the end of a compressed stream, which no reader reads", _READ),
        payload_several_streams=("several compressed streams in one payload", _READ),
        payload_checksum_ignored=("a checksum in a compressed frame is wrong, but Kafka does not verify it", _READ),
        # messages of magic 0 and 1: LegacyRecord, AbstractLegacyRecordBatch
        inner_truncated=(
            "the last inner message is incomplete: readers ignore it without an error",
            "its record is lost",
        ),
        inner_trailing_bytes=("extra bytes after the inner messages", _READ),
        inner_magic_differs=("an inner message has another magic than its wrapper", _READ),
        inner_offsets_unordered=("offsets of inner messages do not ascend", _READ),
        inner_offset_above_wrapper=("an inner offset is above the wrapper's", _READ),
        message_trailing_bytes=("extra bytes after a message's value", _READ),
        # control records
        control_type_unknown=("a control record has a type that Kafka 4.3 does not have", "written by a newer Kafka"),
        control_version_newer=("a control record has a newer version than in Kafka 4.3", "written by a newer Kafka"),
        # around the batches
        transaction_hanging=("a transaction stays open: read_committed consumers wait", "kafkarec txn"),
        sidefiles_unchecked=("indexes and other side files could not be compared", "repair the log first"),
    ),
    **_kinds(
        NOTE,
        preallocated=("zeros from a batch's end to the file's end: preallocated, or never written", "nothing to do"),
        cut_tail=(
            "the file ends with an incomplete batch: it was still being written or copied",
            "a broker truncates it",
        ),
        no_log=("a file without any batch", "kafkarec ls lists the files of a folder"),
        empty_file=("the file is empty", "nothing to do if the log was just rolled"),
        removed_meanwhile=(
            "a file or folder was removed after its folder was listed: a broker deletes, moves and replaces them",
            "verify again if no broker runs there",
        ),
        file_left_out=("not read, on purpose", "nothing to do"),
        file_beside_log=("not read: a .swap, .deleted or .cleaned file", "salvage uses what the log lacks"),
        batches_left_out=("record batches in a file that no broker reads", "verify the file itself"),
        offsets_compacted=("offsets are missing, as in any compacted log", "nothing to do"),
        gaps_salvaged=("offsets are missing that salvage.json lists as lost or set aside", "nothing to do"),
        index_without_segment=(
            "an index before the log's first segment has no segment: a broker deleted that, or it is lost",
            "look for the segment in a backup or a replica if retention did not delete it",
        ),
        gaps_explained=("offset gaps, by their explanation", "nothing to do"),
    ),
    # indexes, snapshots and checkpoints: each may be an error, an anomaly or a note
    **{
        _RENAMED.get(check, check): FindingKind(ERROR, f"not the case: {holds}", _REINDEX)
        for check, holds in CHECKS.items()
        if check != "read_failure"
    },
}


END_KINDS = frozenset({"end_lost", "end_was_longer", "start_above_end"})
"""Kinds of findings from a witness above the log's end."""

COMPARED = frozenset(check for check in CHECKS if check not in _RENAMED)
"""Kinds of findings from the comparison of a side file with the batches."""


def kind_of(check: str) -> str:
    """The kind for a key of `side_file_finding.CHECKS`."""
    return _RENAMED.get(check, check)
