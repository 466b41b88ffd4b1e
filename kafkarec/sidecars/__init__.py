"""The small files beside a log's segments: readers, rebuilding and checking, a module per format

| module | files |
|---|---|
| `offset_index` | .index |
| `time_index` | .timeindex |
| `txn_index` | .txnindex |
| `producer_snapshot` | .snapshot |
| `epochs` | leader-epoch-checkpoint |
| `partition_metadata` | partition.metadata |
| `meta_properties` | meta.properties of a data folder |
| `offset_checkpoints` | the four *-checkpoint files of a data folder |

Each has `read(data, ...)`, `write(...)` and the lookups that Kafka makes in the file; bad bytes raise
CorruptRecordError. `rebuild` makes the first five from a log's batches, `check` compares them with its batches.
"""
