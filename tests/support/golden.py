"""The golden vectors: bytes that Apache Kafka wrote, and what Kafka's own classes read from them.

`tests/vectors/MANIFEST.md` says how they were made. Files are read when they are first used, so collecting is cheap.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from oracle import Batch, Verdict, absent
from paths import VECTORS

TIMESTAMP_TYPE_IDS = {"CreateTime": 0, "LogAppendTime": 1, "NoTimestampType": None}


@dataclass(frozen=True)
class Case:
    """One named file with its JSON: `bytes` is its content, `json` is what Kafka's classes read from it."""

    name: str
    bin_path: Path
    json_path: Path

    @functools.cached_property
    def bytes(self) -> bytes:
        return self.bin_path.read_bytes()

    @functools.cached_property
    def json(self) -> dict[str, Any]:
        return json.loads(self.json_path.read_text(encoding="utf-8"))

    def __str__(self) -> str:
        return self.name


def _case(path: Path) -> Case:
    return Case(path.stem, path.with_suffix(".bin"), path)


def vectors() -> list[Case]:
    """Return the well-formed buffers."""
    return [_case(path) for path in sorted((VECTORS / "vectors").glob("*.json"))]


def invalid() -> list[Case]:
    """Return the invalid or odd buffers."""
    return [_case(path) for path in sorted((VECTORS / "invalid").glob("*.json"))]


def vector(name: str) -> Case:
    return _case(VECTORS / "vectors" / f"{name}.json")


def invalid_case(name: str) -> Case:
    return _case(VECTORS / "invalid" / f"{name}.json")


def segment_files() -> list[Case]:
    """Return every `.log` and `.checkpoint` of a real broker's folders that has a JSON file."""
    return [
        Case(f"{path.parent.name}/{path.name.removesuffix('.json')}", path.with_suffix(""), path)
        for path in sorted((VECTORS / "segments").glob("*/*.json"))
        if path.name.endswith((".log.json", ".checkpoint.json"))
    ]


def copied(source: Path, to: Path, keep: Sequence[str] = ()) -> Path:
    """Return a copy of a partition folder, without what is written about it. keep: the only suffixes."""
    to.mkdir(parents=True)
    for path in source.iterdir():
        is_about_it = path.name.endswith((".json", ".txt", ".tsv", ".md", "interval"))
        if not is_about_it and (not keep or path.suffix in keep):
            shutil.copy(path, to)
    return to


def consumer_reads() -> list[tuple[str, str]]:
    """Return (folder, isolation level) of every file that a real KafkaConsumer wrote."""
    return [(path.parent.name, path.stem) for path in sorted((VECTORS / "segments").glob("*/read_*committed.json"))]


def partition_bytes(folder: str) -> bytes:
    """Return all segments of one partition, in offset order, as one buffer."""
    return b"".join(path.read_bytes() for path in sorted((VECTORS / "segments" / folder).glob("*.log")))


def consumed(folder: str, isolation: str) -> list[dict[str, Any]]:
    """Return what a real consumer returned, as rows of the default columns and partition_leader_epoch."""
    text = (VECTORS / "segments" / folder / f"{isolation}.json").read_text(encoding="utf-8")
    rows = []
    for row in json.loads(text)["records"]:
        record = expected_record(row | {"sequence": -1}, {})
        del record["sequence"]
        rows.append(record | {"partition_leader_epoch": row["leaderEpoch"]})
    return rows


@dataclass(frozen=True, eq=False)
class Large:
    """A key or value above 16 KiB, of which Kafka's reading has length and SHA-256; equal to the bytes with these."""

    length: int
    sha256: str

    def __eq__(self, data: object) -> bool:
        return isinstance(data, bytes) and (len(data), hashlib.sha256(data).hexdigest()) == (self.length, self.sha256)


def blob(record: dict[str, Any], field: str) -> bytes | Large | None:
    """Return a key or value."""
    if f"{field}Sha256" in record:
        return Large(record[f"{field}Length"], record[f"{field}Sha256"])
    text = record[field]
    return None if text is None else base64.b64decode(text)


def expected_record(record: dict[str, Any], batch: dict[str, Any]) -> dict[str, Any]:
    """Return a record of the JSON under the names of the record columns, and with their nulls."""
    timestamp_type = record.get("timestampType") or batch["timestampType"]
    headers = tuple((key, None if value is None else base64.b64decode(value)) for key, value in record["headers"])
    return {
        "offset": record["offset"],
        "timestamp": absent(record["timestamp"]),
        "timestamp_type": TIMESTAMP_TYPE_IDS[timestamp_type],
        "key": blob(record, "key"),
        "value": blob(record, "value"),
        "headers": headers,
        "sequence": absent(record["sequence"]),
    }


def expected_batch(batch: dict[str, Any]) -> dict[str, Any]:
    """Return a batch of the JSON under the names of the batch columns, and with their nulls."""
    legacy = batch["magic"] < 2
    codec = batch["codec"]
    return {
        "position": batch["position"],
        "base_offset": None if legacy and batch["isCompressed"] else batch["baseOffset"],
        "last_offset": batch["lastOffset"],
        "next_offset": batch["nextOffset"],
        "batch_length": batch["batchLength"],
        "size_in_bytes": batch["sizeInBytes"],
        "partition_leader_epoch": absent(batch["partitionLeaderEpoch"]),
        "magic": batch["magic"],
        "crc": batch["crc"],
        "attributes": batch["attributes"],
        "compression": codec,
        "timestamp_type": TIMESTAMP_TYPE_IDS[batch["timestampType"]],
        "is_transactional": batch["isTransactional"],
        "is_control": batch["isControl"],
        "delete_horizon_ms": batch["deleteHorizonMs"],
        "base_timestamp": None if legacy else absent(batch["baseTimestamp"]),
        "max_timestamp": absent(batch["maxTimestamp"]),
        "producer_id": absent(batch["producerId"]),
        "producer_epoch": absent(batch["producerEpoch"]),
        "base_sequence": absent(batch["baseSequence"]),
        "last_sequence": absent(batch["lastSequence"]),
        "record_count": batch["countOrNull"],
    }


def verdict(data: bytes, read: dict[str, Any]) -> Verdict:
    """What Kafka's classes read from these bytes, as the oracle's verdict."""
    batches = []
    for batch in read["batches"]:
        columns = expected_batch(batch)
        raw = data[columns["position"] :][: columns["size_in_bytes"]]
        records = [expected_record(record, batch) for record in batch["records"]]
        batches.append(Batch(columns["position"], raw, columns["magic"], columns, records))
    return Verdict(batches, read["sizeInBytes"] - read["validBytes"])
