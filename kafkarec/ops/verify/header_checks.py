"""Checks of batch headers for values that no Kafka writer writes and that readers accept or ignore.


    attributes of magic 2   bits 0-2 codec, 3 timestamp type, 4 transactional, 5 control, 6 delete horizon, 7-15 unused
    attributes of magic 1   bits 0-2 codec, 3 timestamp type; magic 0: bits 0-2 codec

Each check is done on a whole column first. Rows are checked one by one only if the column has a match.
"""

from __future__ import annotations

from kafkarec.format.layout import BATCH_MAGIC, USED_BITS
from kafkarec.recover.steps import Step

from .findings import FindingCollector, place_of


def check(step: Step, findings: FindingCollector) -> None:
    """Does all checks of this module on the batches of one piece."""
    if not len(step):
        return
    for kind, name, what in _NEVER_NEGATIVE:
        _not_negative(step, findings, kind, name, what)
    for check_rows in (_attributes, _counts, _producers):
        check_rows(step, findings)


# In most of these fields -1 means none, for which the columns have null.
_NEVER_NEGATIVE = (
    ("base_offset_negative", "base_offset", "base offset"),
    ("timestamp_negative", "base_timestamp", "base timestamp"),
    ("timestamp_negative", "max_timestamp", "max timestamp"),
    ("producer_id_invalid", "producer_id", "producer id"),
    ("sequence_negative", "base_sequence", "base sequence"),
    ("leader_epoch_negative", "partition_leader_epoch", "partition leader epoch"),
)


def _not_negative(step: Step, findings: FindingCollector, kind: str, name: str, what: str) -> None:
    column = step.column(name)
    known = [value for value in column if value is not None] if None in column else column
    if not known or min(known) >= 0:
        return
    for row, value in enumerate(column):
        if value is not None and value < 0:
            findings.add(kind, f"{what} {value}", place_of(step, row))


def _attributes(step: Step, findings: FindingCollector) -> None:
    def unused_bits(magic: int, attributes: int) -> int:
        width = 0xFFFF if magic >= BATCH_MAGIC else 0xFF
        return attributes & width & ~USED_BITS[magic]

    if not any(unused_bits(*pair) for pair in set(zip(step.column("magic"), step.column("attributes"), strict=True))):
        return
    for row, (magic, attributes) in enumerate(zip(step.column("magic"), step.column("attributes"), strict=True)):
        if bits := unused_bits(magic, attributes):
            findings.add("attributes_unknown", f"attribute bits {bits:#06x}", place_of(step, row))


def _counts(step: Step, findings: FindingCollector) -> None:
    """Reports batches with more records than offsets. Fewer are normal after compaction. The audit (see
    audit_findings.py) reports batches with a payload but a record count of 0."""
    if step.column("record_count") == step.offset_counts:
        return
    for row, (counted, offsets) in enumerate(zip(step.column("record_count"), step.offset_counts, strict=True)):
        if counted is not None and counted > offsets:
            base, last = step.column("base_offset")[row], step.column("last_offset")[row]
            detail = f"{counted} records in a batch with the offsets {base} to {last}"
            findings.add("count_above_offsets", detail, place_of(step, row))


def _producers(step: Step, findings: FindingCollector) -> None:
    """Reports data batches with a producer id but no sequence (KIP-98). Markers have no sequence."""
    producers, sequences = step.column("producer_id"), step.column("base_sequence")
    if None not in sequences or producers.count(None) == len(step):
        return
    for row, (producer, sequence, is_control) in enumerate(
        zip(producers, sequences, step.column("is_control"), strict=True)
    ):
        if producer is not None and producer >= 0 and sequence is None and not is_control:
            findings.add("producer_without_sequence", f"producer id {producer} without a sequence", place_of(step, row))
