"""The records of `__cluster_metadata` (Kafka 4.4, KIP-631). The notation: `format/message_schemas.py`."""

from __future__ import annotations

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
