"""Parsers and serializers of a log's side files, one module per format.

| module | files |
|---|---|
| `offset_index` | .index |
| `time_index` | .timeindex |
| `txn_index` | .txnindex |
| `producer_snapshot` | .snapshot |
| `leader_epochs` | leader-epoch-checkpoint |
| `partition_metadata` | partition.metadata |
| `meta_properties` | meta.properties of a data folder |
| `offset_checkpoints` | the four *-checkpoint files of a data folder |

Each has `read(data, ...)`, if kafkarec writes such files `write(...)`, and the lookups that Kafka makes there; bad
bytes raise CorruptRecordError. `kafkarec.storage.rebuild_folder` rebuilds the first five from a log's batches; verify
compares them.
"""
