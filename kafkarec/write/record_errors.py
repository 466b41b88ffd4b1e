"""Error messages for records that cannot be written, by the members of the C enum RowFault of `_c/write.pxd`."""

from __future__ import annotations

from kafkarec.format.enums import CODEC_NAMES

MESSAGES = {
    "fine": "",
    "header_key_null": "a header key is null",
    "record_too_large": "its key, value and headers take more than 2^31-1 bytes",
    "offset_null": "its offset is null",
    "offset_not_rising": "its offset {offset} does not follow {previous}: offsets increase within an input",
    "timestamp_negative": "its timestamp {timestamp} is negative; -1 or null is none",
    "codec_unknown": f"its compression is not one of {', '.join(CODEC_NAMES)}",
    "headers_unsupported": "it has headers, which magic 0 and 1 do not have; convert() drops and counts them",
    "fields_unsupported": "it belongs to a producer, a transaction or a control batch, which magic 0 and 1 do not have",
    "offset_too_far": "its offset {offset} is 2^31 or more away from the base offset {base}",
    "fields_contradict": "its producer_id, producer_epoch, sequence and is_transactional do not belong together: a "
    "producer has the first three, and a transaction has a producer",
    "codec_unfit": "its codec is not one that its magic has: zstd came with magic 2 (KIP-110)",
    "offset_negative": "its offset {offset} is negative",
}
_BY_NUMBER = tuple(MESSAGES.values())


def refused(fault: int, record: int, **values: int) -> ValueError:
    """The error for a RowFault. record: its index in the input; values: fields of the message."""
    return ValueError(f"record {record}: {_BY_NUMBER[fault].format(**values)}")
