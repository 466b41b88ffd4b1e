"""Error messages for records that cannot be written, indexed by the C enum RowFault of `_c/write_v2.pxd`."""

from __future__ import annotations

_WORDS = (
    "",
    "a header key is null",
    "its key, value and headers take more than 2^31-1 bytes",
    "its offset is null",
    "its offset {offset} does not follow {previous}: offsets increase within an input",
    "its timestamp {timestamp} is negative; -1 or null is none",
    "its compression is none of none, gzip, snappy, lz4, zstd",
    "it has headers, which magic 0 and 1 have no place for; convert() drops and counts them",
    "it belongs to a producer, a transaction or a control batch, which magic 0 and 1 do not have",
    "its offset {offset} is 2^31 or more away from the base offset {base}",
    "its producer_id, producer_epoch, sequence and is_transactional do not belong together: a producer has the first "
    "three, and a transaction has a producer",
    "its codec is zstd, which only magic 2 has (KIP-110)",
    "its offset {offset} is negative",
)


def refused(fault: int, record: int, **facts: int) -> ValueError:
    """The error for a RowFault. record: its index in the input; facts: values for the message."""
    return ValueError(f"record {record}: {_WORDS[fault].format(**facts)}")
