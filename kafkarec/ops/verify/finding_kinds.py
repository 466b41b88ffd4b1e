"""The table of all kinds of findings of `verify` besides damage.

Damage (bytes that are no readable batch) has its own table, `kafkarec.errors.REASONS`. A finding is about readable
batches, about the files around them, or about what is missing between them.

Severity    meaning                                                                     exit status
error       the log contradicts itself: something was lost, doubled or is misread       1
anomaly     Kafka reads it without an error, and none of its writers writes it          0, with --strict 1
note        explained, nothing to do                                                    0
"""

from __future__ import annotations

from typing import NamedTuple

from .side_file_finding import CHECKS

ERROR, ANOMALY, NOTE = "error", "anomaly", "note"
SEVERITIES = (ERROR, ANOMALY, NOTE)


class FindingKind(NamedTuple):
    """A kind of finding: its default severity, a sentence, what to do."""

    severity: str
    sentence: str
    advice: str


def _kinds(severity: str, **rows: tuple[str, str]) -> dict[str, FindingKind]:
    return {name: FindingKind(severity, *row) for name, row in rows.items()}


_REINDEX = "a broker that finds no index rebuilds it; `kafkarec reindex` does the same into another folder"
_COPY = "copy the file again, or salvage the partition"
_READ = "nothing is lost; find out which program wrote the batch"

# Names in side_file_finding.CHECKS that would be ambiguous here.
_RENAMED = {"unreadable": "small_file_unreadable", "preallocated": "small_file_preallocated"}

KINDS: dict[str, FindingKind] = {
    **_kinds(
        ERROR,
        # offsets: UnifiedLog.append keeps them ascending, and reads by offset rely on it
        offset_overlap=("a batch begins at or below the last offset of the batch before it", "salvage the partition"),
        base_offset_wrong=("a batch's base offset, which no checksum covers, does not fit its neighbours", _COPY),
        offset_below_file_name=("a batch lies below the base offset in its file's name", _COPY),
        segment_overlap=("a segment goes on beyond the base offset of the next one", _COPY),
        segment_gap=("offsets are missing between two segments", "look for the segment in a backup or a replica"),
        offset_gap=("offsets are missing between two good batches", "look for them in a replica"),
        # files
        unreadable_file=("the file cannot be opened or read", "copy the disk with ddrescue, then verify the copy"),
        unreadable_folder=("a folder cannot be listed: nothing of it was verified", "look at its rights, and the disk"),
        snapshot_incomplete=("a KRaft snapshot does not end with its footer", "take another snapshot, or a voter's"),
        duplicate_segment=("two files hold the same base offset", "keep one of them"),
        # epochs
        epoch_goes_back=("the partition leader epoch goes down", "compare with a replica: kafkarec diff"),
        # transactions, producers
        control_record_unreadable=("a control record cannot be read: read_committed stops here", "kafkarec explain"),
        sequence_duplicate=("a producer's batch is there twice", "consumers see its records twice"),
        sequence_gap=("a producer's sequence jumps, and no offset is missing there", "records were lost on the way"),
        sequence_order=("a producer's sequence goes back", "batches are out of order"),
        producer_not_transactional=("a plain batch within its producer's transaction", "a broker fails on it"),
        producer_epoch_goes_back=("a producer's epoch goes down", "a fenced producer wrote behind its successor"),
        # this program
        tiling_broken=("good bytes, damage and tail do not add up to the file", "please report it: a bug of kafkarec"),
    ),
    **_kinds(
        ANOMALY,
        # batch headers, magic 2: DefaultRecordBatch
        attributes_unknown=("unused attribute bits are set", _READ),
        count_zero_with_payload=("a batch declares no records and holds some: they are invisible", "kafkarec explain"),
        count_above_offsets=("a batch has more records than offsets", _READ),
        base_offset_negative=("a base offset is negative", _READ),
        timestamp_negative=("a timestamp is negative and not -1", _READ),
        producer_id_invalid=("a producer id is negative and not -1", _READ),
        producer_without_sequence=("a batch has a producer id and no sequence", _READ),
        sequence_negative=("a base sequence is negative and not -1", _READ),
        leader_epoch_negative=("a partition leader epoch is negative and not -1", _READ),
        # records: DefaultRecord
        record_offset_outside=("a record's offset lies outside of its batch's offsets", _READ),
        record_offsets_unordered=("records of a batch do not count up", _READ),
        record_attributes_unknown=("unused attribute bits of a record are set", _READ),
        varint_not_minimal=("a varint is longer than its value needs", _READ),
        length_below_minus_one=("a length is negative and not -1", _READ),
        header_key_not_utf8=("a header key is not UTF-8: Java reads U+FFFD", "read it with header_keys='binary'"),
        # compressed payloads: codecs/anomalies.py
        payload_bytes_behind=("bytes behind the end of a compressed stream: no reader looks at them", _READ),
        payload_several_streams=("several compressed streams in one payload", _READ),
        payload_checksum_ignored=("a checksum in a compressed frame is wrong, and Kafka does not compare it", _READ),
        # messages of magic 0 and 1: LegacyRecord, AbstractLegacyRecordBatch
        inner_truncated=("the last inner message is cut: readers drop it in silence", "its record is lost"),
        inner_bytes_behind=("spare bytes behind the inner messages", _READ),
        inner_magic_differs=("an inner message has another magic than its wrapper", _READ),
        inner_offsets_unordered=("offsets of inner messages do not count up", _READ),
        inner_offset_above_wrapper=("an inner offset lies above the wrapper's", _READ),
        message_bytes_behind=("spare bytes behind a message's value", _READ),
        # control records
        control_type_unknown=("a control record has a type that Kafka 4.3 does not know", "written by a newer Kafka"),
        control_version_newer=("a control record has a newer version", "written by a newer Kafka"),
        # around the batches
        transaction_hanging=("a transaction stays open: read_committed consumers wait", "kafkarec txn"),
        sidefiles_unchecked=("indexes and other small files could not be compared", "repair the log first"),
    ),
    **_kinds(
        NOTE,
        preallocated=("zeros from a batch's end to the file's end: preallocated, or never written", "nothing"),
        cut_tail=("the file ends inside a batch: cut while it was written or copied", "a broker cuts it off"),
        no_log=("a file without any batch", "kafkarec ls shows what is what"),
        empty_file=("the file is empty", "nothing, if the log was just rolled"),
        file_left_out=("left out, on purpose", "nothing"),
        batches_left_out=("record batches lie where no broker looks for them", "name the file itself"),
        offsets_compacted=("offsets are missing as in any compacted log", "nothing"),
        gaps_explained=("offset gaps, by what explains them", "nothing"),
        records_not_walked=("records were not searched for what Kafka reads in silence", "kafkarec verify --deep"),
    ),
    # indexes, snapshots and checkpoints: each may be an error, an anomaly or a note
    **{
        _RENAMED.get(check, check): FindingKind(ERROR, f"does not hold: {holds}", _REINDEX)
        for check, holds in CHECKS.items()
    },
}


COMPARED = frozenset(check for check in CHECKS if check not in _RENAMED)
"""Kinds of findings from comparing a side file with the batches."""


def kind_of(check: str) -> str:
    """The kind for a name of `side_file_finding.CHECKS`."""
    return _RENAMED.get(check, check)
