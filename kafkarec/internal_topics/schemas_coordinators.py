"""The records of `__transaction_state`, `__share_group_state` and `__remote_log_metadata` (Kafka 4.4).

KIP-98 and KIP-890 (transactions), KIP-932 (share groups), KIP-405 (tiered storage).
The notation: `format/message_schemas.py`.
"""

from __future__ import annotations

TRANSACTION_COORDINATOR = """
0 TransactionLog
key 0
  transactionalId string
value 0-1 flexible 1+
  producerId int64
  previousProducerId int64 1+ @0 =-1
  nextProducerId int64 1+ @1 =-1
  producerEpoch int16
  nextProducerEpoch int16 1+ @3 =-1
  transactionTimeoutMs int32
  transactionStatus int8
  transactionPartitions [PartitionsSchema]?
  transactionLastUpdateTimestampMs int64
  transactionStartTimestampMs int64
  clientTransactionVersion int16 1+ @2
  PartitionsSchema:
    topic string
    partitionIds [int32]
"""

SHARE_COORDINATOR = """
0 ShareSnapshot
key 0
  groupId string
  topicId uuid
  partition int32
value 0 flexible 0+
  snapshotEpoch int32
  stateEpoch int32
  leaderEpoch int32
  startOffset int64
  deliveryCompleteCount int32 @0 =-1
  createTimestamp int64
  writeTimestamp int64
  stateBatches [StateBatch]
  StateBatch:
    firstOffset int64
    lastOffset int64
    deliveryState int8
    deliveryCount int16
1 ShareUpdate
key 0
  groupId string
  topicId uuid
  partition int32
value 0 flexible 0+
  snapshotEpoch int32
  leaderEpoch int32
  startOffset int64
  deliveryCompleteCount int32 @0 =-1
  stateBatches [StateBatch]
  StateBatch:
    firstOffset int64
    lastOffset int64
    deliveryState int8
    deliveryCount int16
"""

REMOTE_LOG_METADATA = """
0 RemoteLogSegmentMetadataRecord
value 0 flexible 0+
  remoteLogSegmentId RemoteLogSegmentIdEntry
  startOffset int64
  endOffset int64
  brokerId int32
  maxTimestampMs int64
  eventTimestampMs int64
  segmentLeaderEpochs [SegmentLeaderEpochEntry]
  segmentSizeInBytes int32
  customMetadata bytes? =null
  remoteLogSegmentState int8
  txnIndexEmpty bool @0
  RemoteLogSegmentIdEntry:
    topicIdPartition TopicIdPartitionEntry
    id uuid
  SegmentLeaderEpochEntry:
    leaderEpoch int32
    offset int64
  TopicIdPartitionEntry:
    name string
    id uuid
    partition int32
1 RemoteLogSegmentMetadataUpdateRecord
value 0 flexible 0+
  remoteLogSegmentId RemoteLogSegmentIdEntry
  brokerId int32
  eventTimestampMs int64
  customMetadata bytes? =null
  remoteLogSegmentState int8
  RemoteLogSegmentIdEntry:
    topicIdPartition TopicIdPartitionEntry
    id uuid
  TopicIdPartitionEntry:
    name string
    id uuid
    partition int32
2 RemotePartitionDeleteMetadataRecord
value 0 flexible 0+
  topicIdPartition TopicIdPartitionEntry
  brokerId int32
  eventTimestampMs int64
  remotePartitionDeleteState int8
  TopicIdPartitionEntry:
    name string
    id uuid
    partition int32
3 RemoteLogSegmentMetadataSnapshotRecord
value 0 flexible 0+
  segmentId uuid
  startOffset int64
  endOffset int64
  brokerId int32
  maxTimestampMs int64
  eventTimestampMs int64
  segmentLeaderEpochs [SegmentLeaderEpochEntry]
  segmentSizeInBytes int32
  customMetadata bytes? =null
  remoteLogSegmentState int8
  txnIndexEmpty bool @0
  SegmentLeaderEpochEntry:
    leaderEpoch int32
    offset int64
"""
