"""A broker's data folder around the golden `__cluster_metadata-0`, with a folder of each partition assigned there."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import builders
from message_samples import write_value
from paths import SEGMENTS
from plain_logs import batch, log
from witness_folders import golden

import kafkarec
from kafkarec import internal_topics
from kafkarec.internal_topics.topics import TOPICS

METADATA = "__cluster_metadata"
DIRECTORY, OTHER_DIRECTORY = "QSMiwXgSTZuAIecVuHIwPQ", "gXa8ENUVWplkTL1NRuyDTA"
UNASSIGNED = "A" * 22
_READ = list(internal_topics.rows(kafkarec.open(SEGMENTS / f"{METADATA}-0")))
TOPIC_IDS = {row["value"]["name"]: row["value"]["topicId"] for row in _READ if row["type"] == "TopicRecord"}
END = 145  # offset after its last record


def records(*changes: tuple[str, dict[str, Any]], base: int = END) -> bytes:
    """A batch of (type, fields that have no default)."""
    values = []
    for name, fields in changes:
        kind = TOPICS[METADATA].type_named(name)
        values.append(write_value(TOPICS[METADATA], kind, kind.value.last, fields))
    made = [builders.record(offset_delta=at, key=None, value=value) for at, value in enumerate(values)]
    return builders.batch(made, base_offset=base, leader_epoch=1)


def partition(topic: str, kind: str = "PartitionChangeRecord", **fields) -> tuple[str, dict[str, Any]]:
    return kind, {"partitionId": 0, "topicId": TOPIC_IDS[topic], **fields}


def setting(topic: str, name: str, value: str) -> tuple[str, dict[str, Any]]:
    return "ConfigRecord", {"resourceType": 2, "resourceName": topic, "name": name, "value": value}


def add_metadata(root: Path, *changes: tuple[str, dict[str, Any]]):
    with open(root / f"{METADATA}-0" / f"{0:020}.log", "ab") as log:
        log.write(records(*changes))


def log_directory(root: Path, directory: str, topics: Sequence[str] = (), node: int = 1) -> Path:
    root.mkdir(parents=True, exist_ok=True)
    meta = f"version=1\nnode.id={node}\ncluster.id=x\ndirectory.id={directory}\n"
    (root / "meta.properties").write_text(meta)
    for topic in topics:
        if (SEGMENTS / f"{topic}-0").is_dir():
            golden(root, f"{topic}-0")
        else:
            log(root / f"{topic}-0", [batch(0)])
    return root


def cluster_folder(root: Path, *without: str) -> Path:
    log_directory(root, DIRECTORY, [METADATA, *(topic for topic in TOPIC_IDS if topic not in without)])
    return root
