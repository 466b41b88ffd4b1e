"""The records of `__consumer_offsets`, and the consumers' messages in them (Kafka 4.4).

Ids 9 and 18 were in no release. The flexible version of GroupMetadata and OffsetCommit values is 4. The
notation: `format/message_schemas.py`.
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
