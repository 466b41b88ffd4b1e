"""The records of the internal topics, and the consumers' messages in them (Kafka 4.4).

    GROUP_COORDINATOR, CONSUMER_PROTOCOL  `__consumer_offsets`. Ids 9 and 18 were in no release. The flexible version of
                                          GroupMetadata and OffsetCommit values is 4
    METADATA                              `__cluster_metadata` (KIP-631)
    TRANSACTION_COORDINATOR               `__transaction_state` (KIP-98, KIP-890)
    SHARE_COORDINATOR                     `__share_group_state` (KIP-932)
    REMOTE_LOG_METADATA                   `__remote_log_metadata` (KIP-405, tiered storage)

The notation: `format/message_schemas.py`.
"""

from __future__ import annotations

GROUP_COORDINATOR = """
0 LegacyOffsetCommit
key 0
  group string
  topic string
  partition int32
value 0
  offset int64
  metadata string
  commitTimestamp int64
1 OffsetCommit
key 0
  group string
  topic string
  partition int32
value 0-4 flexible 4+
  offset int64
  leaderEpoch int32 3+ =-1
  metadata string
  commitTimestamp int64
  expireTimestamp int64 1 =-1
  topicId uuid 4+ @0
2 GroupMetadata
key 0
  group string
value 0-4 flexible 4+
  protocolType string
  generation int32
  protocol string?
  leader string?
  currentStateTimestamp int64 2+ =-1
  members [MemberMetadata]
  MemberMetadata:
    memberId string
    groupInstanceId string? 3+ =null
    clientId string
    clientHost string
    rebalanceTimeout int32 1+ =-1
    sessionTimeout int32
    subscription bytes
    assignment bytes
3 ConsumerGroupMetadata
key 0
  groupId string
value 0 flexible 0+
  epoch int32
  metadataHash int64 @0
4 ConsumerGroupPartitionMetadata
key 0
  groupId string
value 0 flexible 0+
  topics [TopicMetadata]
  TopicMetadata:
    topicId uuid
    topicName string
    numPartitions int32
    partitionMetadata [PartitionMetadata]
  PartitionMetadata:
    partition int32
    racks [string]
5 ConsumerGroupMemberMetadata
key 0
  groupId string
  memberId string
value 0 flexible 0+
  instanceId string?
  rackId string?
  clientId string
  clientHost string
  subscribedTopicNames [string]
  subscribedTopicRegex string?
  rebalanceTimeoutMs int32 =-1
  serverAssignor string?
  classicMemberMetadata ClassicMemberMetadata? @0
  ClassicMemberMetadata:
    sessionTimeoutMs int32
    supportedProtocols [ClassicProtocol]
  ClassicProtocol:
    name string
    metadata bytes
6 ConsumerGroupTargetAssignmentMetadata
key 0
  groupId string
value 0 flexible 0+
  assignmentEpoch int32
  assignmentTimestamp int64 @0
7 ConsumerGroupTargetAssignmentMember
key 0
  groupId string
  memberId string
value 0 flexible 0+
  topicPartitions [TopicPartition]
  TopicPartition:
    topicId uuid
    partitions [int32]
8 ConsumerGroupCurrentMemberAssignment
key 0
  groupId string
  memberId string
value 0 flexible 0+
  memberEpoch int32
  previousMemberEpoch int32
  state int8
  assignedPartitions [TopicPartitions]
  partitionsPendingRevocation [TopicPartitions]
  TopicPartitions:
    topicId uuid
    partitions [int32]
    assignmentEpochs [int32]? @0
10 ShareGroupMemberMetadata
key 0
  groupId string
  memberId string
value 0 flexible 0+
  rackId string?
  clientId string
  clientHost string
  subscribedTopicNames [string]
11 ShareGroupMetadata
key 0
  groupId string
value 0 flexible 0+
  epoch int32
  metadataHash int64
12 ShareGroupTargetAssignmentMetadata
key 0
  groupId string
value 0 flexible 0+
  assignmentEpoch int32
  assignmentTimestamp int64 @0
13 ShareGroupTargetAssignmentMember
key 0
  groupId string
  memberId string
value 0 flexible 0+
  topicPartitions [TopicPartition]
  TopicPartition:
    topicId uuid
    partitions [int32]
14 ShareGroupCurrentMemberAssignment
key 0
  groupId string
  memberId string
value 0 flexible 0+
  memberEpoch int32
  previousMemberEpoch int32
  state int8
  assignedPartitions [TopicPartitions]
  TopicPartitions:
    topicId uuid
    partitions [int32]
15 ShareGroupStatePartitionMetadata
key 0
  groupId string
value 0 flexible 0+
  initializingTopics [TopicPartitionsInfo]
  initializedTopics [TopicPartitionsInfo]
  deletingTopics [TopicInfo]
  TopicPartitionsInfo:
    topicId uuid
    topicName string
    partitions [int32]
  TopicInfo:
    topicId uuid
    topicName string
16 ConsumerGroupRegularExpression
key 0
  groupId string
  regularExpression string
value 0 flexible 0+
  topics [string]
  version int64
  timestamp int64
17 StreamsGroupMetadata
key 0
  groupId string
value 0 flexible 0+
  epoch int32
  metadataHash int64
  validatedTopologyEpoch int32 @0 =-1
  lastAssignmentConfigs [LastAssignmentConfig]? @1
  storedDescriptionTopologyEpoch int32 @2 =-1
  failedDescriptionTopologyEpoch int32 @3 =-1
  LastAssignmentConfig:
    key string
    value string
19 StreamsGroupMemberMetadata
key 0
  groupId string
  memberId string
value 0 flexible 0+
  instanceId string?
  rackId string?
  clientId string
  clientHost string
  rebalanceTimeoutMs int32 =-1
  topologyEpoch int32
  processId string
  userEndpoint Endpoint? =null
  clientTags [KeyValue]
  Endpoint:
    host string
    port uint16
  KeyValue:
    key string
    value string
20 StreamsGroupTargetAssignmentMetadata
key 0
  groupId string
value 0 flexible 0+
  assignmentEpoch int32
  assignmentTimestamp int64 @0
21 StreamsGroupTargetAssignmentMember
key 0
  groupId string
  memberId string
value 0 flexible 0+
  activeTasks [TaskIds]
  standbyTasks [TaskIds]
  warmupTasks [TaskIds]
  TaskIds:
    subtopologyId string
    partitions [int32]
22 StreamsGroupCurrentMemberAssignment
key 0
  groupId string
  memberId string
value 0 flexible 0+
  memberEpoch int32
  previousMemberEpoch int32
  state int8
  activeTasks [TaskIds]
  standbyTasks [TaskIds]
  warmupTasks [TaskIds]
  activeTasksPendingRevocation [TaskIds]
  standbyTasksPendingRevocation [TaskIds]
  warmupTasksPendingRevocation [TaskIds]
  TaskIds:
    subtopologyId string
    partitions [int32]
    assignmentEpochs [int32]? @0
23 StreamsGroupTopology
key 0
  groupId string
value 0 flexible 0+
  epoch int32
  subtopologies [Subtopology]
  Subtopology:
    subtopologyId string
    sourceTopics [string]
    sourceTopicRegex [string]
    stateChangelogTopics [TopicInfo]
    repartitionSinkTopics [string]
    repartitionSourceTopics [TopicInfo]
    copartitionGroups [CopartitionGroup]
  TopicInfo:
    name string
    partitions int32
    replicationFactor int16
    topicConfigs [TopicConfig]
  CopartitionGroup:
    sourceTopics [int16]
    sourceTopicRegex [int16]
    repartitionSourceTopics [int16]
  TopicConfig:
    key string
    value string
"""

# The messages of members of a classic group of protocol type "consumer", after two bytes of version (KIP-429, KIP-881).
CONSUMER_PROTOCOL = """
- ConsumerProtocolSubscription
value 0-3
  topics [string]
  userData bytes? =null
  ownedPartitions [TopicPartition] 1+
  generationId int32 2+ =-1
  rackId string? 3+ =null
  TopicPartition:
    topic string
    partitions [int32]
- ConsumerProtocolAssignment
value 0-3
  assignedPartitions [TopicPartition]
  userData bytes? =null
  TopicPartition:
    topic string
    partitions [int32]
"""


METADATA = """
0 RegisterBrokerRecord
value 0-4 flexible 0+
  brokerId int32
  isMigratingZkBroker bool 2+
  incarnationId uuid
  brokerEpoch int64
  endPoints [BrokerEndpoint]
  features [BrokerFeature]
  rack string?
  fenced bool =true
  inControlledShutdown bool 1+
  logDirs [uuid] 3+ @0
  cordonedLogDirs [uuid]? 4+ @1 =null
  BrokerEndpoint:
    name string
    host string
    port uint16
    securityProtocol int16
  BrokerFeature:
    name string
    minSupportedVersion int16
    maxSupportedVersion int16
1 UnregisterBrokerRecord
value 0 flexible 0+
  brokerId int32
  brokerEpoch int64
2 TopicRecord
value 0 flexible 0+
  name string
  topicId uuid
3 PartitionRecord
value 0-2 flexible 0+
  partitionId int32 =-1
  topicId uuid
  replicas [int32]
  isr [int32]
  removingReplicas [int32]
  addingReplicas [int32]
  leader int32 =-1
  leaderRecoveryState int8 @0
  leaderEpoch int32 =-1
  partitionEpoch int32 =-1
  directories [uuid] 1+
  eligibleLeaderReplicas [int32]? 2+ @1 =null
  lastKnownElr [int32]? 2+ @2 =null
4 ConfigRecord
value 0 flexible 0+
  resourceType int8
  resourceName string
  name string
  value string?
5 PartitionChangeRecord
value 0-2 flexible 0+
  partitionId int32 =-1
  topicId uuid
  isr [int32]? @0 =null
  leader int32 @1 =-2
  replicas [int32]? @2 =null
  removingReplicas [int32]? @3 =null
  addingReplicas [int32]? @4 =null
  leaderRecoveryState int8 @5 =-1
  directories [uuid]? 1+ @8 =null
  eligibleLeaderReplicas [int32]? 2+ @6 =null
  lastKnownElr [int32]? 2+ @7 =null
7 FenceBrokerRecord
value 0 flexible 0+
  id int32
  epoch int64
8 UnfenceBrokerRecord
value 0 flexible 0+
  id int32
  epoch int64
9 RemoveTopicRecord
value 0 flexible 0+
  topicId uuid
10 DelegationTokenRecord
value 0 flexible 0+
  owner string
  requester string
  renewers [string]
  issueTimestamp int64
  maxTimestamp int64
  expirationTimestamp int64
  tokenId string
11 UserScramCredentialRecord
value 0 flexible 0+
  name string
  mechanism int8
  salt bytes
  storedKey bytes
  serverKey bytes
  iterations int32
12 FeatureLevelRecord
value 0 flexible 0+
  name string
  featureLevel int16
14 ClientQuotaRecord
value 0 flexible 0+
  entity [EntityData]
  key string
  value float64
  remove bool
  EntityData:
    entityType string
    entityName string?
15 ProducerIdsRecord
value 0 flexible 0+
  brokerId int32
  brokerEpoch int64 =-1
  nextProducerId int64
17 BrokerRegistrationChangeRecord
value 0-3 flexible 0+
  brokerId int32
  brokerEpoch int64
  fenced int8 @0
  inControlledShutdown int8 1+ @1
  logDirs [uuid] 2+ @2
  cordonedLogDirs [uuid]? 3+ @3 =null
18 AccessControlEntryRecord
value 0 flexible 0+
  id uuid
  resourceType int8
  resourceName string
  patternType int8
  principal string
  host string
  operation int8
  permissionType int8
19 RemoveAccessControlEntryRecord
value 0 flexible 0+
  id uuid
20 NoOpRecord
value 0 flexible 0+
21 ZkMigrationStateRecord
value 0 flexible 0+
  zkMigrationState int8
22 RemoveUserScramCredentialRecord
value 0 flexible 0+
  name string
  mechanism int8
23 BeginTransactionRecord
value 0 flexible 0+
  name string? @0 =null
24 EndTransactionRecord
value 0 flexible 0+
25 AbortTransactionRecord
value 0 flexible 0+
  reason string? @0 =null
26 RemoveDelegationTokenRecord
value 0 flexible 0+
  tokenId string
27 RegisterControllerRecord
value 0 flexible 0+
  controllerId int32
  incarnationId uuid
  zkMigrationReady bool
  endPoints [ControllerEndpoint]
  features [ControllerFeature]
  ControllerEndpoint:
    name string
    host string
    port uint16
    securityProtocol int16
  ControllerFeature:
    name string
    minSupportedVersion int16
    maxSupportedVersion int16
28 ClearElrRecord
value 0 flexible 0+
  topicName string
29 UnregisterControllerRecord
value 0 flexible 0+
  controllerId int32
"""


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
