"""BatchHeader: the header fields with which the writer writes a batch.

Fields and their order are those of `kafkarec/_c/batch.pxd` (magic 2); magic 0 and 1 ignore the fields they lack.
"""

from __future__ import annotations

from typing import NamedTuple


class BatchHeader(NamedTuple):
    """Header fields of a batch; the defaults mean "absent". Callers check the values.

    codec                 id (`Compression`)
    level                 None: Kafka's default of the codec
    timestamp_type        0 create, 1 log append; without meaning in magic 0
    last_offset           None: that of the last record; after compaction it may be higher
    log_append_time       ms; under log append the max timestamp (magic 2) or every message's timestamp (magic 1)
    delete_horizon_ms     sets the flag and is stored as the base timestamp (KIP-534)
    base_timestamp        None: that of the first record, or the horizon; -1 without records
    max_timestamp         None: the greatest timestamp of the records, or log_append_time
    """

    magic: int = 2
    codec: int = 0
    level: int | None = None
    timestamp_type: int = 0
    base_offset: int = 0
    last_offset: int | None = None
    partition_leader_epoch: int = -1
    log_append_time: int = -1
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1
    is_transactional: bool = False
    is_control: bool = False
    delete_horizon_ms: int | None = None
    base_timestamp: int | None = None
    max_timestamp: int | None = None
