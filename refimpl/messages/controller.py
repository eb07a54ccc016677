"""Messages between brokers, operators and the controller, under Kafka's names.

Named tuples, as in `refimpl.messages.broker`. An error is Kafka's name of it, or None; the message
beside it explains it to people. A broker forwards the requests of operators to the controller
(KIP-590).
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from attrs import frozen

from refimpl.machines import messages as machines
from refimpl.messages.broker import TopicPartition
from refimpl.messages.cluster import Change, ConfigResource, Endpoint
from refimpl.security.acls import AclBinding, AclFilter
from refimpl.security.principals import ANONYMOUS_USER

CONTROLLER = 0
"""The node id under which the controller is reached."""

DEFAULT = -1
"""As a number of partitions or a replication factor: the controller's configured default."""

PREFERRED, UNCLEAN = 0, 1
"""Election types (KIP-460)."""

SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3
"""The operations of IncrementalAlterConfigs on a value (KIP-339)."""

UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3
"""The ways of UpdateFeatures (KIP-778)."""


# Brokers


@frozen
class BrokerAddress:
    """A broker's address, its rack, and the ids of its log directories."""

    endpoints: tuple[Endpoint, ...] = ()
    rack: str | None = None
    log_dirs: tuple[bytes, ...] = ()


NO_ADDRESS = BrokerAddress()


class BrokerRegistrationRequest(NamedTuple):
    """Register a broker process that has started (KIP-631).

    `incarnation_id` grows with each start. `previous_broker_epoch` is that of the last process if
    it ended in a controlled shutdown, else -1 (KIP-966). `log_dirs` are the ids of its log
    directories, of 16 bytes each (KIP-858).
    """

    broker_id: int
    incarnation_id: int
    previous_broker_epoch: int
    endpoints: tuple[Endpoint, ...] = ()
    rack: str | None = None
    log_dirs: tuple[bytes, ...] = ()


class BrokerRegistrationResponse(NamedTuple):
    """The broker epoch of the process, for all its later requests."""

    error: str | None
    broker_epoch: int


class BrokerHeartbeatRequest(NamedTuple):
    """A broker lives, and has the metadata of this controller epoch up to this version.

    `offline` are the partitions whose log has failed on it. Kafka reports these by log directories
    (KIP-858), and on ZooKeeper by KAFKA_STORAGE_ERROR in answers to LeaderAndIsr (KIP-112).
    """

    broker_id: int
    broker_epoch: int
    metadata_version: int
    want_shut_down: bool
    controller_epoch: int = 0
    offline: tuple[TopicPartition, ...] = ()


class BrokerHeartbeatResponse(NamedTuple):
    """The answer to a heartbeat; the broker may shut down once it leads no partition."""

    error: str | None
    should_shut_down: bool


class UnregisterBrokerRequest(NamedTuple):
    """A broker that is down will not come back (KIP-500)."""

    broker_id: int


class AlterPartitionRequest(NamedTuple):
    """A leader asks for another ISR (KIP-497)."""

    partition: TopicPartition
    change: machines.AlterPartitionRequest
    topic_id: bytes = b""


class AlterPartitionResponse(NamedTuple):
    """The partition state in force, and the reason of a refusal."""

    partition: TopicPartition
    outcome: machines.AlterPartitionResponse


class UpdateMetadataRequest(NamedTuple):
    """A metadata update for the broker of this epoch: everything, or the last changes.

    It replaces the LeaderAndIsr, StopReplica and UpdateMetadata requests of Kafka up to 3.9.
    """

    broker_epoch: int
    metadata_version: int
    changes: Sequence[Change]
    is_full: bool
    controller_epoch: int = 0
    controller_id: int = 0
    cluster_id: str = ""


class AllocateProducerIdsRequest(NamedTuple):
    """Ask for a block of producer ids (KIP-730)."""

    broker_id: int
    broker_epoch: int


class AllocateProducerIdsResponse(NamedTuple):
    """A block of ids that no other broker gets."""

    error: str | None
    first_producer_id: int = -1
    length: int = 0


class InitProducerIdRequest(NamedTuple):
    """Ask for a producer id, or for a newer epoch of the present one (KIP-98, KIP-360)."""

    producer_id: int = -1
    producer_epoch: int = -1


class InitProducerIdResponse(NamedTuple):
    """An id and an epoch that no other producer has."""

    error: str | None
    producer_id: int = -1
    producer_epoch: int = -1


class Envelope(NamedTuple):
    """A request that a broker forwards to the controller on behalf of a client (KIP-590)."""

    body: Any


class Stopped(NamedTuple):
    """As an output: the controlled shutdown is over, and the process may end."""


class StorageFailed(NamedTuple):
    """As an output: every log directory has failed, and the process has to end (KIP-112)."""

    why: str


# Topics


class Mutator(NamedTuple):
    """The client on whose behalf partitions are created and deleted, for its quota (KIP-599).

    `is_strict`: it knows THROTTLING_QUOTA_EXCEEDED, and is refused instead of served and throttled.
    """

    client_id: str | None
    is_strict: bool = True
    user: str = ANONYMOUS_USER


class CreatableTopic(NamedTuple):
    """A topic to be created: by numbers, or by `assignments` of replicas to partitions.

    A configuration of None is refused, as in Kafka.
    """

    name: str
    num_partitions: int = DEFAULT
    replication_factor: int = DEFAULT
    assignments: Sequence[tuple[int, Sequence[int]]] = ()
    configs: Sequence[tuple[str, str | None]] = ()


class CreateTopicsRequest(NamedTuple):
    """Create topics (KIP-4)."""

    topics: Sequence[CreatableTopic]
    validate_only: bool = False
    timeout_ms: int = 60_000
    mutator: Mutator | None = None


class CreatedTopic(NamedTuple):
    """The result for one topic; an error and a message if it was not created."""

    name: str
    error: str | None
    message: str | None = None
    topic_id: bytes = bytes(16)
    num_partitions: int = -1
    replication_factor: int = -1
    configs: Mapping[str, str] = {}


class CreateTopicsResponse(NamedTuple):
    """The result for each topic, in the order of the request."""

    topics: Sequence[CreatedTopic]
    throttle_ms: int = 0


class DeleteTopicsRequest(NamedTuple):
    """Delete topics by their names or ids (KIP-516)."""

    names: Sequence[str] = ()
    topic_ids: Sequence[bytes] = ()
    timeout_ms: int = 60_000
    mutator: Mutator | None = None


class DeletedTopic(NamedTuple):
    """The result for one topic; its name or its id may not be known."""

    name: str | None
    topic_id: bytes
    error: str | None
    message: str | None = None


class DeleteTopicsResponse(NamedTuple):
    """The result for each topic."""

    topics: Sequence[DeletedTopic]
    throttle_ms: int = 0


class NewPartitions(NamedTuple):
    """The total number of partitions that a topic shall have; the assignments of new ones, if
    given.
    """

    name: str
    total_count: int
    assignments: Sequence[Sequence[int]] | None = None


class CreatePartitionsRequest(NamedTuple):
    """Give topics more partitions (KIP-195)."""

    topics: Sequence[NewPartitions]
    validate_only: bool = False
    timeout_ms: int = 60_000
    mutator: Mutator | None = None


class TopicResult(NamedTuple):
    """The result for one topic."""

    name: str
    error: str | None
    message: str | None = None


class CreatePartitionsResponse(NamedTuple):
    """The result for each topic."""

    topics: Sequence[TopicResult]
    throttle_ms: int = 0


# Leaders and replicas


class ElectLeadersRequest(NamedTuple):
    """Elect leaders of these partitions, or, if None, of all of them (KIP-183, KIP-460)."""

    election_type: int
    partitions: Sequence[TopicPartition] | None
    timeout_ms: int = 60_000


class PartitionResult(NamedTuple):
    """The result for one partition."""

    partition: TopicPartition
    error: str | None
    message: str | None = None


class ElectLeadersResponse(NamedTuple):
    """The result for each partition; for a request for all, only of those that needed an
    election.
    """

    partitions: Sequence[PartitionResult]
    error: str | None = None
    message: str | None = None


class ReassignablePartition(NamedTuple):
    """The target replicas of a partition; None cancels a reassignment under way (KIP-455)."""

    partition: TopicPartition
    replicas: Sequence[int] | None


class AlterPartitionReassignmentsRequest(NamedTuple):
    """Begin or cancel reassignments (KIP-455)."""

    partitions: Sequence[ReassignablePartition]
    allow_replication_factor_change: bool = True
    timeout_ms: int = 60_000


class AlterPartitionReassignmentsResponse(NamedTuple):
    """The result for each partition."""

    partitions: Sequence[PartitionResult]
    error: str | None = None
    message: str | None = None


class ListPartitionReassignmentsRequest(NamedTuple):
    """List the reassignments under way, of these partitions or of all."""

    partitions: Sequence[TopicPartition] | None = None
    timeout_ms: int = 60_000


class OngoingReassignment(NamedTuple):
    """A reassignment under way."""

    partition: TopicPartition
    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


class ListPartitionReassignmentsResponse(NamedTuple):
    """The reassignments under way among those asked for."""

    partitions: Sequence[OngoingReassignment]
    error: str | None = None
    message: str | None = None


# Configurations and quotas


class ConfigAlteration(NamedTuple):
    """A change of one configuration: SET, DELETE, APPEND or SUBTRACT."""

    name: str
    operation: int
    value: str | None


class IncrementalAlterConfigsRequest(NamedTuple):
    """Change single configurations of resources (KIP-339)."""

    resources: Sequence[tuple[ConfigResource, Sequence[ConfigAlteration]]]
    validate_only: bool = False


class AlterConfigsRequest(NamedTuple):
    """Replace all configurations of resources (KIP-133)."""

    resources: Sequence[tuple[ConfigResource, Mapping[str, str | None]]]
    validate_only: bool = False


class ResourceResult(NamedTuple):
    """The result for one resource."""

    resource: ConfigResource
    error: str | None
    message: str | None = None


class AlterConfigsResponse(NamedTuple):
    """The result for each resource."""

    resources: Sequence[ResourceResult]


class QuotaAlteration(NamedTuple):
    """Quotas of one entity, each with its new value, or None to remove it.

    They are pairs, because a client may name a type of entity or a key twice, which is refused.
    """

    entity: Sequence[tuple[str, str | None]]
    operations: Sequence[tuple[str, float | None]]


class AlterClientQuotasRequest(NamedTuple):
    """Change quotas (KIP-546)."""

    alterations: Sequence[QuotaAlteration]
    validate_only: bool = False


class QuotaResult(NamedTuple):
    """The result for one entity."""

    entity: Sequence[tuple[str, str | None]]
    error: str | None
    message: str | None = None


class AlterClientQuotasResponse(NamedTuple):
    """The result for each entity."""

    entities: Sequence[QuotaResult]


# Security


class CreateAclsRequest(NamedTuple):
    """Create ACLs (KIP-140). One that is there already is no error."""

    bindings: Sequence[AclBinding]


class AclResult(NamedTuple):
    """The result for one ACL."""

    error: str | None
    message: str | None = None


class CreateAclsResponse(NamedTuple):
    """The result for each ACL."""

    results: Sequence[AclResult]


class DeleteAclsRequest(NamedTuple):
    """Delete the ACLs that filters select (KIP-140)."""

    filters: Sequence[AclFilter]


class DeletedAcls(NamedTuple):
    """The ACLs that one filter selected."""

    error: str | None
    message: str | None = None
    bindings: Sequence[AclBinding] = ()


class DeleteAclsResponse(NamedTuple):
    """The result for each filter."""

    filters: Sequence[DeletedAcls]


class ScramUpsertion(NamedTuple):
    """A credential to keep: its mechanism by number, and the password, salted."""

    user: str
    mechanism: int
    iterations: int
    salt: bytes
    salted_password: bytes

    def __repr__(self) -> str:
        """Everything but the secrets."""
        return f"ScramUpsertion(user={self.user!r}, mechanism={self.mechanism}, [hidden])"


class ScramDeletion(NamedTuple):
    """A credential to forget."""

    user: str
    mechanism: int


class AlterUserScramCredentialsRequest(NamedTuple):
    """Keep and forget SCRAM credentials (KIP-554)."""

    deletions: Sequence[ScramDeletion]
    upsertions: Sequence[ScramUpsertion]


class ScramResult(NamedTuple):
    """The result for one user."""

    user: str
    error: str | None
    message: str | None = None


class AlterUserScramCredentialsResponse(NamedTuple):
    """The result for each user."""

    users: Sequence[ScramResult]


class FeatureUpdate(NamedTuple):
    """The level that a feature shall have; `upgrade_type` says which way it may go."""

    name: str
    level: int
    upgrade_type: int = UPGRADE


class UpdateFeaturesRequest(NamedTuple):
    """Finalize features at other levels: all of them or none (KIP-584). Its answer is a
    ControlResponse.
    """

    updates: Sequence[FeatureUpdate]
    validate_only: bool = False
    timeout_ms: int = 60_000


class ControlResponse(NamedTuple):
    """The answer with nothing but an error, or none."""

    error: str | None
    message: str | None = None


AdminRequest: TypeAlias = (
    CreateTopicsRequest
    | DeleteTopicsRequest
    | CreatePartitionsRequest
    | ElectLeadersRequest
    | AlterPartitionReassignmentsRequest
    | ListPartitionReassignmentsRequest
    | IncrementalAlterConfigsRequest
    | AlterConfigsRequest
    | AlterClientQuotasRequest
    | CreateAclsRequest
    | DeleteAclsRequest
    | AlterUserScramCredentialsRequest
    | UnregisterBrokerRequest
    | UpdateFeaturesRequest
)
"""The requests of operators, which a broker forwards."""
