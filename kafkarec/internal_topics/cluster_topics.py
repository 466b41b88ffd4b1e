"""The topics of a cluster, by the records of `__cluster_metadata` (KRaft, KIP-631; log directories: KIP-858)"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .internal_records import read

TOPIC = "__cluster_metadata"
_OF_A_TOPIC = 2  # the resource type (Kafka: ConfigResource.Type)
_RESERVED = "A" * 20  # the ids 0 to 99: unassigned, lost, migrating (Kafka: DirectoryId)


class ClusterTopics:
    """What the records have set, in their order. Those that cannot be read are left out.

    directories   broker -> ids of the log directories that it registered with, if it has ids (Kafka 3.7)
    """

    def __init__(self, values: Iterable[bytes | None]) -> None:
        self.directories: dict[int | None, list[str]] = {}
        names: dict[str, str] = {}
        self._of_topics: dict[str, dict[Any, Any]] = {}  # topic -> setting -> value, and partition -> its fields
        for record in (read(TOPIC, None, value) for value in values):
            fields = record.value or {}
            topic = names.get(fields.get("topicId", ""), "")
            if record.type == "TopicRecord":
                names[fields["topicId"]] = fields["name"]
            elif record.type == "RemoveTopicRecord":
                self._of_topics.pop(topic, None)
            elif record.type == "ConfigRecord" and fields["resourceType"] == _OF_A_TOPIC:
                self._of_topics.setdefault(fields["resourceName"], {})[fields["name"]] = fields["value"]
            elif topic and "partitionId" in fields:  # of PartitionRecord, PartitionChangeRecord
                known = self._of_topics.setdefault(topic, {}).setdefault(fields["partitionId"], {})
                known |= {name: field for name, field in fields.items() if field is not None}
            elif fields.get("logDirs"):  # of RegisterBrokerRecord, BrokerRegistrationChangeRecord
                self.directories[fields["brokerId"]] = fields["logDirs"]

    def replicas_of(self, broker: int | None) -> dict[tuple[str, int], str]:
        """(topic, partition) -> id of the log directory that has the broker's replica; empty: not known."""
        found = {}
        for topic, partitions in self._of_topics.items():
            for partition, fields in partitions.items():
                replicas = fields.get("replicas", ()) if isinstance(partition, int) else ()
                if broker in replicas:
                    ids = dict(zip(replicas, fields.get("directories", ()), strict=False))
                    directory = ids.get(broker, _RESERVED)
                    found[topic, partition] = "" if directory.startswith(_RESERVED) else directory
        return found

    def is_only_compacted(self, topic: str | None) -> bool:
        """Whether nothing deletes a segment of the topic: it is compacted, without retention, and not tiered."""
        settings = self._of_topics.get(topic or "", {})
        return settings.get("cleanup.policy") == "compact" and settings.get("remote.storage.enable") != "true"
