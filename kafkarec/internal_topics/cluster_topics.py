"""The topics of a cluster, by the records of `__cluster_metadata` (KRaft, KIP-631; log directories: KIP-858)"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import zip_longest
from typing import Any

from .internal_records import read

CLUSTER_METADATA = "__cluster_metadata"
_OF_A_TOPIC = 2  # the resource type (Kafka: ConfigResource.Type)
_RESERVED = "A" * 20  # the ids 0 to 99: unassigned, lost, migrating (Kafka: DirectoryId)


class ClusterTopics:
    """What the records have set, in their order. Those that cannot be read are left out.

    replicas      (topic, partition) -> {broker: id of its log directory}; None: not known, as before Kafka 3.7
    settings      topic -> its settings
    directories   broker -> ids of the log directories that it registered with, if they have ids
    """

    def __init__(self, values: Iterable[bytes | None]) -> None:
        self.replicas: dict[tuple[str, int], dict[int, str | None]] = {}
        self.settings: dict[str, dict[str, str | None]] = {}
        self.directories: dict[int, list[str]] = {}
        names: dict[Any, str] = {}
        for record in (read(CLUSTER_METADATA, None, value) for value in values):
            fields = record.value or {}
            topic = names.get(fields.get("topicId"))
            if record.type == "TopicRecord":
                names[fields["topicId"]] = fields["name"]
            elif record.type == "RemoveTopicRecord" and topic:
                self.settings.pop(topic, None)
                self.replicas = {place: known for place, known in self.replicas.items() if place[0] != topic}
            elif record.type == "ConfigRecord" and fields["resourceType"] == _OF_A_TOPIC:
                self.settings.setdefault(fields["resourceName"], {})[fields["name"]] = fields["value"]
            elif topic and "partitionId" in fields:  # of PartitionRecord, PartitionChangeRecord
                known = self.replicas.get((topic, fields["partitionId"]), {})
                ids = [None if one.startswith(_RESERVED) else one for one in fields.get("directories") or ()]
                brokers = fields["replicas"] or known
                self.replicas[topic, fields["partitionId"]] = dict(zip_longest(brokers, ids or known.values()))
            elif fields.get("logDirs"):  # of RegisterBrokerRecord, BrokerRegistrationChangeRecord
                self.directories[fields["brokerId"]] = fields["logDirs"]
