"""Tables of docs/columns.md: names and types from `kafkarec.format.schema`, descriptions from the tables here."""

from __future__ import annotations

import re
from collections.abc import Mapping

from kafkarec.format.control import ControlRecordType
from kafkarec.format.enums import CODEC_NAMES
from kafkarec.format.layout import LATEST_CODEC, MAGICS
from kafkarec.format.schema import BATCH_FIELDS, RECORD_FIELDS, Field

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


def records() -> str:
    return _table(RECORD_FIELDS, RECORDS)


def batches() -> str:
    return _table(BATCH_FIELDS, BATCHES)


def _table(fields: Mapping[str, Field], notes: str) -> str:
    for word, facts in _FILLED_IN.items():
        notes = re.sub(rf"\b{word}\b", facts, notes)
    notes_of = {name.strip(): rest for name, *rest in (line.split("|") for line in notes.strip().split("\n"))}
    if set(notes_of) != set(fields):
        differing = set(notes_of) ^ set(fields)
        raise ValueError(f"tools/doc_columns.py and kafkarec/format/schema.py differ: {differing}")
    rows = ["| column | type | null when | what |\n|---|---|---|---|"]
    for name, field in fields.items():
        null, what = (cell.strip() for cell in notes_of[name])
        type_name = f"`{field.type}`" if "<" in field.type else field.type
        rows.append(f"| `{name}` | {type_name} | {null} | {what} |".replace("|  |", "| |"))
    return "\n".join(rows) + "\n"
