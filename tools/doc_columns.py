"""The reference page of columns: names and types from `kafkarec.format.schema`, descriptions from the tables here."""

from __future__ import annotations

import re

from kafkarec.format.control import ControlRecordType
from kafkarec.format.enums import CODEC_NAMES
from kafkarec.format.layout import LATEST_CODEC, MAGICS

RECORDS = """
    offset | never | absolute; gaps are normal (compaction, control records, aborted transactions)
    timestamp | for -1 | LogAppendTime: the batch's max timestamp for every record, as Kafka's own classes report it
    timestamp_type | magic 0 | 0 create time, 1 log append time
    key | null key | empty is not null
    value | tombstone | empty is not null
    headers | never | none is an empty list; order and duplicates kept
    topic | unknown | set when folders are read; null for bytes
    partition | unknown | likewise
    file | unknown | likewise
    batch_position | never | byte of the batch in the input
    base_offset | never | of the batch
    partition_leader_epoch | -1, magic 0 and 1 | of the leader that appended the batch
    magic | never | MAGICS
    compression | never | CODECS
    is_transactional | never | false for magic 0 and 1
    is_control | never | false for magic 0 and 1
    control_type | not control, unreadable | raw id: CONTROL_TYPES
    producer_id | -1 |
    producer_epoch | -1 |
    sequence | -1 | wraps from 2^31-1 to 0
"""
BATCHES = """
    position | never | byte of the batch in the input
    base_offset | magic 0 and 1 wrappers | Kafka decompresses a wrapper to compute it
    last_offset | never | magic 0 and 1: the outer offset
    next_offset | never | last offset + 1
    batch_length | never | as stored: the bytes after that field
    size_in_bytes | never | `batch_length` + 12
    partition_leader_epoch | -1, magic 0 and 1 |
    magic | never | MAGICS
    crc | never | as stored; `scan` does not compute it
    attributes | never | as stored
    compression | codec ids above LATEST_CODEC | CODECS
    timestamp_type | magic 0 | 0 create time, 1 log append time
    is_transactional | never |
    is_control | never |
    delete_horizon_ms | the flag is not set | KIP-534
    base_timestamp | for -1, magic 0 and 1 |
    max_timestamp | for -1 |
    producer_id | -1, magic 0 and 1 |
    producer_epoch | -1, magic 0 and 1 |
    base_sequence | -1, magic 0 and 1 |
    last_sequence | -1, magic 0 and 1 |
    record_count | magic 0 and 1 | 0: the cleaner emptied the batch
"""
_FILLED_IN = {
    "CONTROL_TYPES": ", ".join(f"{kind.value} {kind.name}" for kind in ControlRecordType if kind >= 0),
    "CODECS": " ".join(CODEC_NAMES),
    "LATEST_CODEC": str(LATEST_CODEC),
    "MAGICS": ", ".join(map(str, MAGICS)),
}

PAGE = """\
# Columns

<!-- written by tools/make_docs.py from kafkarec/format/schema.py and tools/doc_columns.py: do not edit -->

## Records

`decode`, `stream`, `Segment.read` and `kafkarec cat` return by default: {default}. Request every other column by
name: `decode(data, columns=["offset", "sequence"])`. The caller's order is kept; an unknown name is a `ValueError` that
lists the names. When more than one partition is read, `topic`, `partition` and `file` are added.

{records}

In the Arrow schema {required} are `not null`, every other column is nullable.

A value is null exactly where Kafka's accessor returns -1 or nothing. Other negative values are kept.

* `timestamp_unit`: `ms` (default), `us`, `ns`, or `int64` for the raw milliseconds. A time that does not fit the unit
  is null and counted in `.timestamps_out_of_range`; it is not an error.
* In a header key that is not UTF-8, invalid bytes become U+FFFD as in Java. `header_keys="binary"` returns the bytes.
* `layout="view"`: `key`, `value` and the headers' values are `binary_view`; everything else is as with `layout="copy"`
  (default). In uncompressed batches of bytes that you pass, values of more than 12 bytes are not copied: the columns
  point to your buffer and keep it. So a `bytearray` cannot be resized meanwhile and must not be changed, since the
  values change with it; and if it is a memory map whose file is truncated, reading the values ends the process with
  SIGBUS. Values that were compressed, and those of files that kafkarec opened, are copied into the columns. It pays
  for values of about 100 bytes or more ([Design](explanation/design.md)). pyarrow, polars and DuckDB read
  views; Spark does not, so the functions for Spark have no such option.
* `control=False` (default) leaves the records of control batches out, as a consumer does.
* `isolation="read_committed"` leaves out what a real consumer would: aborted records, and everything from the
  start of the first transaction whose marker is not in the input. `.last_stable_offset` is that offset.

## Batches

`kafkarec.scan(data)`, `Segment.scan()` and `.batches` of every decode: one row per batch, read from headers only.

{batches}

Magic 0 and 1: one row per outer message.
"""


def page() -> str:
    from kafkarec.format.schema import BATCH_FIELDS, DEFAULT_RECORD_COLUMNS, RECORD_FIELDS

    def table(fields, notes: str) -> str:  # type: ignore[no-untyped-def]
        for word, facts in _FILLED_IN.items():
            notes = re.sub(rf"\b{word}\b", facts, notes)
        notes_of = {name.strip(): rest for name, *rest in (line.split("|") for line in notes.strip().split("\n"))}
        if set(notes_of) != set(fields):
            differing = set(notes_of) ^ set(fields)
            raise ValueError(f"tools/doc_columns.py and kafkarec/format/schema.py differ: {differing}")
        rows = ["| column | type | null when | what |", "|---|---|---|---|"]
        for name, field in fields.items():
            null, what = (cell.strip() for cell in notes_of[name])
            rows.append(f"| `{name}` | {_type(field.type)} | {null} | {what} |")
        return "\n".join(row.replace("|  |", "| |") for row in rows)

    return PAGE.format(
        default=", ".join(f"`{name}`" for name in DEFAULT_RECORD_COLUMNS),
        required=" and ".join(f"`{field.name}`" for field in RECORD_FIELDS.values() if not field.nullable),
        records=table(RECORD_FIELDS, RECORDS),
        batches=table(BATCH_FIELDS, BATCHES),
    )


def _type(text: str) -> str:
    return f"`{text}`" if "<" in text else text
