"""Calls of the Python API: on bytes, on an opened log, and of what writes."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import builders
from plain_logs import batch

import kafkarec
from kafkarec.sidecars import leader_epochs, offset_index, partition_metadata, producer_snapshot, time_index, txn_index

from .calls import Recorder, content

_TOPIC_ID = "pmqbwj8JRCSCfzvNTqatEw"
_FEW = 12
"""So many rows are shown each; of more, their number and the digest of all."""
_READS = {
    "strict": {},
    "skip": {"errors": "skip", "control": True, "columns": ["offset", "key", "value", "base_offset", "sequence"]},
    "committed": {"errors": "skip", "isolation": "read_committed"},
    "every check": {"check_crcs": "all", "timestamp_unit": "int64", "header_keys": "binary"},
    "no repair": {"errors": "skip", "restore": False, "columns": ["offset", "timestamp", "headers"]},
}


def of_bytes(here: Recorder, data: bytes):
    for name, options in _READS.items():
        here.ask(f"decode {name}", partial(_decode, data, **options))
    here.ask("scan", lambda: _rows(kafkarec.scan(data)))
    here.ask("batches", lambda: [_batch(one) for one in islice(kafkarec.batches(data), _FEW)])
    here.ask("encode", lambda: kafkarec.encode(kafkarec.decode(data), magic=2))
    here.ask("convert", lambda: _rewritten(kafkarec.convert(data, magic=1)))
    here.ask("compact", lambda: _rewritten(kafkarec.compact(data, now=1_800_000_000_000)))
    here.ask("validate", lambda: _validated(data, first_offset=500))
    here.ask("validate appended", lambda: _validated(data, append_checks=True, assign_offsets=False))


def of_log(here: Recorder, folder: Path):
    with kafkarec.open(folder) as log:
        here.ask("log", lambda: [repr(log), log.topic, log.partition, log.start_offset, log.next_offset, log.size])
        here.ask("last stable offset", lambda: log.last_stable_offset)
        for at in (0, 1_700_000_000_000, 1_700_000_000_045, 1_700_000_009_999):
            here.ask(f"offset at {at}", partial(log.offset_for_timestamp, at))
        for name, options in _READS.items():
            here.ask(f"read {name}", partial(_read, log, start_offset=5, **options))
        here.ask("read a range", partial(_read, log, start_offset=10, end_offset=21))
        times = {"start_timestamp": 1_700_000_000_020, "end_timestamp": 1_700_000_000_050}
        here.ask("read a time", partial(_read, log, **times))
        here.ask("stream", lambda: [_decoded(piece) for piece in log.stream(batch_bytes=1000)])
        here.ask("scan", lambda: _rows(log.scan()))
        here.ask("batches", lambda: [_batch(one) for one in islice(log.batches(), _FEW)])
        here.ask("transactions", lambda: str(log.transactions()))
        here.ask("verify", lambda: log.verify().to_dict())
        for segment in log.segments:
            here.ask(f"segment {segment.name}", partial(_segment, segment))


def of_options(here: Recorder, data: bytes):
    """Each option of decode, the forms for columns of values, and the texts of what is returned."""
    options = {
        "view": {"layout": "view"},
        "threads": {"threads": 2},
        "microseconds": {"timestamp_unit": "us"},
        "nanoseconds": {"timestamp_unit": "ns", "header_keys": "binary"},
        "columns": {"columns": ["value", "partition_leader_epoch", "magic", "compression", "producer_id", "offset"]},
        "control": {"control": True, "columns": ["offset", "is_control", "control_type", "is_transactional"]},
        "aborted": {"isolation": "read_committed", "aborted": [(0, 0)], "last_stable_offset": 9},
        "limited": {"max_decompressed_bytes": 100},
        "unchecked": {"check_crcs": False, "errors": "skip"},
        "wrong": {"columns": ["offset", "colour"]},
    }
    for name, given in options.items():
        here.ask(f"decode {name}", partial(_decode, data, **given))
    values = [data[:900], None, b"", data[:300], data]
    for name, given in {"strict": {}, "skip": {"errors": "skip"}, "pieces": {"max_output_bytes": 1}}.items():
        here.ask(f"decode_each {name}", partial(_lists, kafkarec.decode_each, values, **given))
    here.ask("scan_each", partial(_lists, kafkarec.scan_each, values))
    columns = kafkarec.decode(data, errors="skip")
    shown = [repr(columns), str(columns[:2]), repr(columns.batches), columns._repr_html_(), str(columns.schema)]
    here.ask("texts", lambda: [*shown, *map(str, columns.damage), repr(columns[0])])


def _lists(decode: Callable[..., Any], values: list[Any], **options) -> list[Any]:
    return [
        [list(one.offsets), one.validity, _rows(one.records), [str(each) for each in (*one.damage, *one.incomplete)]]
        for one in decode(values, **options)
    ]


def of_side_files(here: Recorder, folder: Path):
    """What `kafkarec.sidecars` reads from each side file, and whether it writes the same bytes."""
    kinds = {".index": offset_index, ".timeindex": time_index, ".txnindex": txn_index, ".snapshot": producer_snapshot}
    names = {"leader-epoch-checkpoint": leader_epochs, "partition.metadata": partition_metadata}
    for path in sorted(folder.iterdir()):
        kind = kinds.get(path.suffix) or names.get(path.name)
        if kind is not None:
            base = [int(path.stem)] if kind in (offset_index, time_index) else []
            here.ask(f"side file {path.name}", partial(_parsed, kind, path.read_bytes(), *base))


def _parsed(kind, data: bytes, *base: int) -> list[Any]:
    found = kind.read(data, *base)
    return [kind.write(found) == data if hasattr(kind, "write") else str(found), *(list(one) for one in found)]


def of_writers(here: Recorder):
    rows = [(n * 2, 1_700_000_000_000 + n, b"k%d" % (n % 3), b"v" * n, [("h", b"x")] * (n % 2)) for n in range(9)]
    dicts = [{"key": b"k", "value": b"v%d" % n, "timestamp": 1_700_000_000_000 - n, "headers": []} for n in range(7)]
    options = {
        "plain": {}, "small": {"batch_size": 100}, "magic 1": {"magic": 1}, "magic 0": {"magic": 0},
        "idempotent": {"producer_id": 5, "producer_epoch": 1, "base_sequence": 2147483645, "is_transactional": True},
        "append time": {"timestamp_type": "log_append_time", "log_append_time": 1_700_000_000_500},
        "epoch": {"partition_leader_epoch": 7, "base_offset": 1000},
    }  # fmt: skip
    for name, given in options.items():
        here.ask(f"encode {name}", partial(_encoded, rows, given))
        here.ask(f"encode dicts {name}", partial(_encoded, dicts, given))
        here.ask(f"builder {name}", partial(_built, rows, given))
    here.ask("sizes", lambda: [kafkarec.estimate_size(dicts, magic=magic) for magic in (0, 1, 2)])
    for field in (
        {"base_offset": 70},
        {"partition_leader_epoch": 9},
        {"timestamp_type": "log_append_time", "max_timestamp": 5},
    ):
        here.ask(f"stamp {field}", partial(_stamped, field))
    here.ask("segment writer", _segments)
    for name, data in _PRODUCED.items():
        for also in _CHECKED:
            here.ask(f"validate {name} {also}", partial(_validated, data, first_offset=30, **also))


_CHECKED = [
    {}, {"compression": "lz4"}, {"magic": 1}, {"compacted": True}, {"max_message_bytes": 90},
    {"timestamp_before_max_ms": 1000, "now": 1_800_000_000_000}, {"timestamp_type": "log_append_time", "now": 7},
]  # fmt: skip
_PRODUCED = {
    "batch": batch(0, 3),
    "idempotent": batch(0, 3, producer_id=4, producer_epoch=0, base_sequence=9),
    "offsets": builders.batch([builders.record(offset_delta=n * 2) for n in range(3)]),
    "empty": builders.batch([]),
    "two": batch(0, 2) * 2,
    "control": builders.end_marker(0, 4, commit=True),
    "magic 0": builders.message(magic=0) * 2,
    "magic 1": builders.message(magic=1),
    "no key": batch(0, 1, key=None, value=b"v"),
}


def _decode(data: bytes, **options) -> dict[str, Any]:
    return _decoded(kafkarec.decode(data, **options))


def _read(log, **options) -> dict[str, Any]:
    return _decoded(log.read(**options))


def _segment(segment: kafkarec.Segment) -> list[Any]:
    return [repr(segment), segment.base_offset, _read(segment, end_offset=9)]


def _decoded(columns: kafkarec.RecordColumns) -> dict[str, Any]:
    return {
        "records": _rows(columns),
        "batches": _few(columns.batches.column("size_in_bytes")),
        "damage": [one.as_dict() for one in columns.damage],
        "restored": [one._asdict() for one in columns.restored],
        "undecided": [one._asdict() for one in columns.undecided],
        "remaining": columns.remaining,
        "last_stable_offset": columns.last_stable_offset,
        "out_of_range": columns.timestamps_out_of_range,
    }


def _rows(table: kafkarec.RecordColumns | kafkarec.BatchTable):
    names = table.schema.names
    return [names, _few([list(row) for row in zip(*map(table.column, names), strict=True)])]


def _few(rows: list[Any]):
    if len(rows) <= _FEW:
        return rows
    return [len(rows), hashlib.sha256(repr(rows).encode()).hexdigest()[:12], rows[0], rows[-1]]


def _batch(batch: kafkarec.RecordBatch) -> list[Any]:
    records = [(one.offset, one.timestamp, one.key, one.value, one.headers, str(one.control)) for one in batch]
    return [batch.base_offset, batch.last_offset, batch.magic, batch.compression, len(batch.raw), _few(records)]


def _rewritten(result) -> list[Any]:
    return [content(bytes(result)), str(result.stats)]


def _validated(data: bytes, **options) -> dict[str, Any]:
    result = kafkarec.validate(data, now=options.pop("now", 1_700_000_000_000), **options)
    return {
        "bytes": content(bytes(result)),
        **{name: str(getattr(result, name)) for name in dir(result) if _is_value(result, name)},
    }


def _is_value(result, name: str) -> bool:
    return not name.startswith("_") and not callable(getattr(result, name)) and not hasattr(bytes, name)


def _encoded(rows: Iterable[Any], options: dict[str, Any]) -> list[Any]:
    data = kafkarec.encode(rows, **options)
    return [data, _decoded(kafkarec.decode(data))]


def _built(rows: Iterable[Any], options: dict[str, Any]) -> list[Any]:
    with kafkarec.RecordBatchBuilder(**options) as builder:
        metadata = [
            builder.append(offset=at, timestamp=now, key=key, value=value, headers=headers)
            for at, now, key, value, headers in rows
        ]
        return [str(metadata), builder.build()]


def _stamped(fields: dict[str, Any]) -> list[Any]:
    data = bytearray(batch(0, 3))
    return [kafkarec.stamp(data, **fields), bytes(data)]


def _segments() -> dict[str, Any]:
    folder = Path("written-0")
    with kafkarec.SegmentWriter(folder, segment_bytes=400, index_interval_bytes=100, topic_id=_TOPIC_ID) as writer:
        for base in range(0, 60, 3):
            writer.append(batch(base, 3, producer_id=3, producer_epoch=0, base_sequence=base))
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.suffix != ".lock"}
