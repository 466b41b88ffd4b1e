"""Findings from the decoder's audit: what Kafka's readers accept without an error, noted when a batch is decoded.

A note is a kind, how often it was seen in a batch, and up to three numbers of the first time; see `_c/audit.pxd`.
"""

from __future__ import annotations

from kafkarec.recover.steps import Step

from .findings import Findings, place_of

_IN_A_RECORD = "in a record of the batch at offset {offset}"

# kind of finding and its text for each kind of note, in the order of the C enum Anomaly: {0}, {1}, {2} are the numbers
_FINDINGS = (
    ("record_offsets_unordered", "offset {0} after offset {1}"),
    ("record_offset_outside", "records with the offsets {0} to {1} in a batch with the offsets {base} to {last}"),
    ("inner_offsets_unordered", "offset {0} after offset {1}"),
    ("inner_offset_above_wrapper", "inner offset {0} in a wrapper with offset {last}"),
    ("header_key_not_utf8", "a header key at offset {0}"),
    ("length_below_minus_one", _IN_A_RECORD),
    ("record_attributes_unknown", _IN_A_RECORD),
    ("varint_not_minimal", _IN_A_RECORD),
    ("count_zero_with_payload", "no records declared, and {0} bytes of records are there"),
    ("count_zero_with_payload", "no records declared, but a payload that cannot be decompressed: {detail}"),
    ("payload_trailing_bytes", "{codec}: {0} bytes after the end of the stream"),
    ("payload_several_streams", "{codec}: {0} {streams} in one payload"),
    ("payload_checksum_ignored", "{codec}: wrong content checksum"),
    ("payload_checksum_ignored", "{codec}: the content does not have the size in the frame's header"),
    ("length_below_minus_one", "a length of {0}"),
    ("message_trailing_bytes", "{0} bytes after a message's value"),
    ("attributes_unknown", "attribute bits {0:#04x} of an inner message"),
    ("inner_magic_differs", "inner message {0} has magic {1}, its wrapper {magic}"),
    ("inner_truncated", "inner message {0} has a size of {1} bytes, but {2} are left"),
    ("inner_trailing_bytes", "{0} bytes after inner message {1}"),
)
_HEADER_KEYS = 4
_LARGEST_RECORD = len(_FINDINGS)
_NUMBERS = 6
_STREAMS = {"gzip": "members", "snappy": "streams", "zstd": "frames"}


def add(step: Step, notes: Findings) -> tuple[int, int | None]:
    """Adds the findings about the good batches of one step; returns the size and offset of its largest record. The size
    is without the record's length; of a message of magic 0 and 1 without its offset and size."""
    largest: tuple[int, int | None] = (0, None)
    numbers = iter(step.rows.audit().cast("q").tolist())
    for row, number, times, *sizes in zip(*[numbers] * _NUMBERS, strict=True):
        if number == _LARGEST_RECORD:
            largest = sizes[0], sizes[1]  # each is larger than the one before
            continue
        kind, text = _FINDINGS[number]
        (position, offset), places = place_of(step, row), times
        if number == _HEADER_KEYS:
            offset, places, _ = sizes
        codec = step.column("compression")[row]
        text = text.format(
            *sizes,
            base=step.column("base_offset")[row],
            codec=codec,
            detail=step.rows.note_details.get(row, ""),
            last=step.column("last_offset")[row],
            magic=step.column("magic")[row],
            offset=offset,
            streams=_STREAMS.get(codec),
        )
        notes.add(kind, text, position, offset, count=times, places=places)
    return largest
