"""Checks of batch headers for values that no Kafka writer writes and that readers accept or ignore.

    attributes of magic 2   bits 0-2 codec, 3 timestamp type, 4 transactional, 5 control, 6 delete horizon, 7-15 unused
    attributes of magic 1   bits 0-2 codec, 3 timestamp type; magic 0: bits 0-2 codec

`_c/row_checks.pxd` finds the steps that may have one.
"""

from __future__ import annotations

from kafkarec.format.layout import BATCH_MAGIC, USED_BITS
from kafkarec.recover.steps import Step

from .findings import Findings, place_of

# In most of these fields -1 means none, for which the columns have null.
_NEVER_NEGATIVE = (
    ("base_offset_negative", "base_offset", "base offset"),
    ("timestamp_negative", "base_timestamp", "base timestamp"),
    ("timestamp_negative", "max_timestamp", "max timestamp"),
    ("producer_id_invalid", "producer_id", "producer id"),
    ("sequence_negative", "base_sequence", "base sequence"),
    ("leader_epoch_negative", "partition_leader_epoch", "partition leader epoch"),
)


def check(step: Step, findings: Findings) -> None:
    """Does all checks of this module on the batches of one step."""
    for kind, name, what in _NEVER_NEGATIVE:
        for row, value in enumerate(step.column(name)):
            if value is not None and value < 0:
                findings.add(kind, f"{what} {value}", *place_of(step, row))
    names = ("magic", "attributes", "record_count", "producer_id", "base_sequence", "is_control")
    rows = zip(*map(step.column, (*names, "base_offset", "last_offset")), strict=True)
    for row, (magic, attributes, count, producer, sequence, is_control, base, last) in enumerate(rows):
        bits = attributes & (0xFFFF if magic >= BATCH_MAGIC else 0xFF) & ~USED_BITS[magic]
        if bits:
            findings.add("attributes_unknown", f"attribute bits {bits:#06x}", *place_of(step, row))
        if count is not None and count > (1 if base is None else last - base + 1):
            detail = f"{count} records in a batch with the offsets {base} to {last}"
            findings.add("count_above_offsets", detail, *place_of(step, row))
        if producer is not None and producer >= 0 and sequence is None and not is_control:  # KIP-98
            findings.add(
                "producer_without_sequence", f"producer id {producer} without a sequence", *place_of(step, row)
            )
