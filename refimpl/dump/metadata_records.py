"""The records of `__cluster_metadata`, the log of the controllers.

KIP-500 and KIP-631. A value begins with the version of the frame, the type and the version of the
record; there are no keys. All versions are flexible.
"""

from typing import Annotated, Any

from attrs import frozen

from refimpl.records.schema import (
    BOOL,
    ID,
    INT8,
    INT32,
    STRING,
    Bool,
    Data,
    Float64,
    Id,
    Int8,
    Int16,
    Int32,
    Int64,
    MaybeText,
    Numbers,
    Text,
    Texts,
    UInt16,
    Uuid,
    since,
    tagged,
)


@frozen
class BrokerEndpoint:
    """A listener of a broker: its address and security protocol."""

    name: Text
    host: Text
    port: UInt16
    security_protocol: Int16


@frozen
class BrokerFeature:
    """A feature that a broker has, and in which versions."""

    name: Text
    min_supported_version: Int16
    max_supported_version: Int16


@frozen(kw_only=True)
class RegisterBrokerRecord:
    """A broker has joined, or has come back in another incarnation (KIP-631)."""

    broker_id: Int32
    is_migrating_zk_broker: Annotated[bool, BOOL, since(2)] = False
    incarnation_id: Id
    broker_epoch: Int64
    end_points: tuple[BrokerEndpoint, ...]
    features: tuple[BrokerFeature, ...]
    rack: MaybeText
    fenced: Bool
    in_controlled_shutdown: Annotated[bool, BOOL, since(1)] = False
    log_dirs: Annotated[tuple[Uuid, ...], ID, tagged(0, 3)] = ()
    cordoned_log_dirs: Annotated[tuple[Uuid, ...] | None, ID, tagged(1, 4)] = None


@frozen
class UnregisterBrokerRecord:
    """A broker has left for good."""

    broker_id: Int32
    broker_epoch: Int64


@frozen
class TopicRecord:
    """A topic was created."""

    name: Text
    topic_id: Id


@frozen(kw_only=True)
class PartitionRecord:
    """A partition: replicas, their directories, who is in sync, who leads (KIP-858, KIP-966)."""

    partition_id: Int32
    topic_id: Id
    replicas: Numbers
    isr: Numbers
    removing_replicas: Numbers
    adding_replicas: Numbers
    leader: Int32
    leader_recovery_state: Annotated[int, INT8, tagged(0)] = 0
    leader_epoch: Int32
    partition_epoch: Int32
    directories: Annotated[tuple[Uuid, ...], ID, since(1)] = ()
    eligible_leader_replicas: Annotated[tuple[int, ...] | None, INT32, tagged(1, 2)] = None
    last_known_elr: Annotated[tuple[int, ...] | None, INT32, tagged(2, 2)] = None


@frozen
class ConfigRecord:
    """A setting of a topic, a broker or a group; without a value it is removed."""

    resource_type: Int8
    resource_name: Text
    name: Text
    value: MaybeText


@frozen(kw_only=True)
class PartitionChangeRecord:
    """A change of a partition; fields that are absent keep their values."""

    partition_id: Int32
    topic_id: Id
    isr: Annotated[tuple[int, ...] | None, INT32, tagged(0)] = None
    leader: Annotated[int, INT32, tagged(1)] = -2
    replicas: Annotated[tuple[int, ...] | None, INT32, tagged(2)] = None
    removing_replicas: Annotated[tuple[int, ...] | None, INT32, tagged(3)] = None
    adding_replicas: Annotated[tuple[int, ...] | None, INT32, tagged(4)] = None
    leader_recovery_state: Annotated[int, INT8, tagged(5)] = -1
    directories: Annotated[tuple[Uuid, ...] | None, ID, tagged(8, 1)] = None
    eligible_leader_replicas: Annotated[tuple[int, ...] | None, INT32, tagged(6, 2)] = None
    last_known_elr: Annotated[tuple[int, ...] | None, INT32, tagged(7, 2)] = None


@frozen
class FenceBrokerRecord:
    """A broker may lead nothing any more."""

    id: Int32
    epoch: Int64


@frozen
class UnfenceBrokerRecord:
    """A broker may lead again."""

    id: Int32
    epoch: Int64


@frozen
class RemoveTopicRecord:
    """A topic was deleted."""

    topic_id: Id


@frozen
class DelegationTokenRecord:
    """A delegation token (KIP-900)."""

    owner: Text
    requester: Text
    renewers: Texts
    issue_timestamp: Int64
    max_timestamp: Int64
    expiration_timestamp: Int64
    token_id: Text


@frozen
class UserScramCredentialRecord:
    """A user's SCRAM credential (KIP-900)."""

    name: Text
    mechanism: Int8
    salt: Data
    stored_key: Data
    server_key: Data
    iterations: Int32


@frozen
class FeatureLevelRecord:
    """The level of a feature that the cluster is at, `metadata.version` among them (KIP-584)."""

    name: Text
    feature_level: Int16


@frozen
class EntityData:
    """A part of an entity: a user, a client id, an address; without a name it is the default."""

    entity_type: Text
    entity_name: MaybeText


@frozen
class ClientQuotaRecord:
    """A quota of an entity."""

    entity: tuple[EntityData, ...]
    key: Text
    value: Float64
    remove: Bool


@frozen
class ProducerIdsRecord:
    """Producer ids up to here belong to a broker (KIP-730)."""

    broker_id: Int32
    broker_epoch: Int64
    next_producer_id: Int64


@frozen(kw_only=True)
class BrokerRegistrationChangeRecord:
    """A change of a broker: fencing, controlled shutdown, log directories."""

    broker_id: Int32
    broker_epoch: Int64
    fenced: Annotated[int, INT8, tagged(0)] = 0
    in_controlled_shutdown: Annotated[int, INT8, tagged(1, 1)] = 0
    log_dirs: Annotated[tuple[Uuid, ...], ID, tagged(2, 2)] = ()
    cordoned_log_dirs: Annotated[tuple[Uuid, ...] | None, ID, tagged(3, 3)] = None


@frozen
class AccessControlEntryRecord:
    """A rule about who may do what (KIP-801)."""

    id: Id
    resource_type: Int8
    resource_name: Text
    pattern_type: Int8
    principal: Text
    host: Text
    operation: Int8
    permission_type: Int8


@frozen
class RemoveAccessControlEntryRecord:
    """A rule was removed."""

    id: Id


@frozen
class NoOpRecord:
    """Nothing: it shows that the controller is alive (KIP-835)."""


@frozen
class ZkMigrationStateRecord:
    """The state of the migration from ZooKeeper (KIP-866)."""

    zk_migration_state: Int8


@frozen
class RemoveUserScramCredentialRecord:
    """A password was removed."""

    name: Text
    mechanism: Int8


@frozen(kw_only=True)
class BeginTransactionRecord:
    """The begin of a transaction, which is valid as a whole or not at all (KIP-868)."""

    name: Annotated[str | None, STRING, tagged(0)] = None


@frozen
class EndTransactionRecord:
    """The end of a transaction whose records are valid."""


@frozen(kw_only=True)
class AbortTransactionRecord:
    """The end of a transaction whose records are not valid."""

    reason: Annotated[str | None, STRING, tagged(0)] = None


@frozen
class RemoveDelegationTokenRecord:
    """A delegation token was removed."""

    token_id: Text


@frozen
class ControllerEndpoint:
    """A listener of a controller: its address and security protocol."""

    name: Text
    host: Text
    port: UInt16
    security_protocol: Int16


@frozen
class ControllerFeature:
    """A feature that a controller has, and in which versions."""

    name: Text
    min_supported_version: Int16
    max_supported_version: Int16


@frozen
class RegisterControllerRecord:
    """A controller has joined, or has come back (KIP-919)."""

    controller_id: Int32
    incarnation_id: Id
    zk_migration_ready: Bool
    end_points: tuple[ControllerEndpoint, ...]
    features: tuple[ControllerFeature, ...]


@frozen
class ClearElrRecord:
    """The eligible leader replicas of a topic, or of all topics, are forgotten (KIP-966)."""

    topic_name: Text


#: Each type by its number, with the newest version that we know.
METADATA_RECORDS: dict[int, tuple[type[Any], int]] = {
    0: (RegisterBrokerRecord, 4),
    1: (UnregisterBrokerRecord, 0),
    2: (TopicRecord, 0),
    3: (PartitionRecord, 2),
    4: (ConfigRecord, 0),
    5: (PartitionChangeRecord, 2),
    7: (FenceBrokerRecord, 0),
    8: (UnfenceBrokerRecord, 0),
    9: (RemoveTopicRecord, 0),
    10: (DelegationTokenRecord, 0),
    11: (UserScramCredentialRecord, 0),
    12: (FeatureLevelRecord, 0),
    14: (ClientQuotaRecord, 0),
    15: (ProducerIdsRecord, 0),
    17: (BrokerRegistrationChangeRecord, 3),
    18: (AccessControlEntryRecord, 0),
    19: (RemoveAccessControlEntryRecord, 0),
    20: (NoOpRecord, 0),
    21: (ZkMigrationStateRecord, 0),
    22: (RemoveUserScramCredentialRecord, 0),
    23: (BeginTransactionRecord, 0),
    24: (EndTransactionRecord, 0),
    25: (AbortTransactionRecord, 0),
    26: (RemoveDelegationTokenRecord, 0),
    27: (RegisterControllerRecord, 0),
    28: (ClearElrRecord, 0),
}
