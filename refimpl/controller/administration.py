"""The requests of operators: topics, leaders, replicas, configurations, quotas, ACLs, credentials.

Pure functions plan each request (`topics`, `elections`, `reassignments`, `configs`, `quotas`). This
module puts the plans in force, one part of a request after the other, and answers.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from attrs import define, field

from refimpl.controller import elections
from refimpl.controller.acls import Changed, plan_creation, plan_deletion
from refimpl.controller.configs import (
    MIN_ISR,
    ConfigSchema,
    plan_incremental,
    plan_replacement,
)
from refimpl.controller.decisions import Decisions
from refimpl.controller.errors import ApiError, unknown_topic_or_partition
from refimpl.controller.features import plan_features
from refimpl.controller.mutation_quotas import MutationQuota, MutationQuotas
from refimpl.controller.placement import Rng
from refimpl.controller.quotas import plan_quotas
from refimpl.controller.reassignments import ongoing, plan_move
from refimpl.controller.scram import plan_credentials
from refimpl.controller.state import ControllerState
from refimpl.controller.topics import (
    check_growth,
    check_new,
    check_size,
    plan_partitions,
    plan_topic,
)
from refimpl.errors import Refusal
from refimpl.messages import controller as c
from refimpl.messages.broker import TopicPartition
from refimpl.messages.cluster import (
    BROKER,
    GROUP,
    TOPIC,
    AclsAltered,
    BrokerUnregistered,
    ConfigResource,
    ConfigsAltered,
    ProducerIdsAllocated,
    QuotasAltered,
    ScramCredentialsAltered,
    TopicDeleted,
)

ZERO_ID = bytes(16)
METADATA_TOPIC = "__cluster_metadata"
DASH = 62
"""The place of the dash in the alphabet of base64 for URLs: the first six bits of an id."""

PRODUCER_IDS = 1_000
"""The number of producer ids in a block (KIP-730)."""


@define(eq=False)
class Administration:
    """The requests of operators, and of brokers on behalf of clients."""

    state: ControllerState
    decisions: Decisions
    rng: Rng
    schema: ConfigSchema
    controller_id: int = c.CONTROLLER
    mutation_quotas: MutationQuotas = field(init=False)
    _handlers: Mapping[type, Callable[[Any], Any]] = field(init=False)
    #: The requests that a client's quota limits
    _mutations: Mapping[type, Callable[[Any, MutationQuota], Any]] = field(init=False)

    def __attrs_post_init__(self) -> None:
        """Map each type of request to its handler."""
        config = self.state.config
        window_s = config.controller_quota_window_num * config.controller_quota_window_size_seconds
        self.mutation_quotas = MutationQuotas(self.state.metadata, window_s)
        self._mutations = {
            c.CreateTopicsRequest: self.create_topics,
            c.DeleteTopicsRequest: self.delete_topics,
            c.CreatePartitionsRequest: self.create_partitions,
        }
        self._handlers = {
            c.ElectLeadersRequest: self.elect_leaders,
            c.AlterPartitionReassignmentsRequest: self.alter_reassignments,
            c.ListPartitionReassignmentsRequest: self.list_reassignments,
            c.IncrementalAlterConfigsRequest: self.incremental_alter_configs,
            c.AlterConfigsRequest: self.alter_configs,
            c.AlterClientQuotasRequest: self.alter_client_quotas,
            c.CreateAclsRequest: self.create_acls,
            c.DeleteAclsRequest: self.delete_acls,
            c.AlterUserScramCredentialsRequest: self.alter_scram_credentials,
            c.UnregisterBrokerRequest: self.unregister_broker,
            c.UpdateFeaturesRequest: self.update_features,
            c.AllocateProducerIdsRequest: self.allocate_producer_ids,
        }

    def ask(self, now: int, body: Any) -> Any:
        """The answer to a request; None if it is not an administrative one."""
        mutation = self._mutations.get(body.__class__)
        if mutation is not None:
            quota = self.mutation_quotas.of(body.mutator, now)
            return mutation(body, quota)._replace(throttle_ms=quota.throttle_ms)
        handler = self._handlers.get(body.__class__)
        return None if handler is None else handler(body)

    # Topics

    def create_topics(
        self, body: c.CreateTopicsRequest, quota: MutationQuota
    ) -> c.CreateTopicsResponse:
        """Create topics; refusing one does not keep others from being created (KIP-4)."""
        twice = _repeated(topic.name for topic in body.topics)
        wanted = [topic for topic in body.topics if topic.name not in twice]
        duplicates = [
            c.CreatedTopic(name, "INVALID_REQUEST", "Duplicate topic name.") for name in twice
        ]
        try:
            check_size(wanted, self.state.config.topics)
        except ApiError as error:
            created = [c.CreatedTopic(one.name, error.error, error.message) for one in wanted]
        else:
            validate_only = body.validate_only
            created = [self._created(one, quota, validate_only=validate_only) for one in wanted]
        return c.CreateTopicsResponse((*created, *duplicates))

    def _created(
        self, topic: c.CreatableTopic, quota: MutationQuota, *, validate_only: bool
    ) -> c.CreatedTopic:
        try:
            return self._create(topic, quota, validate_only=validate_only)
        except ApiError as error:
            return c.CreatedTopic(topic.name, error.error, error.message)

    def _create(
        self, topic: c.CreatableTopic, quota: MutationQuota, *, validate_only: bool
    ) -> c.CreatedTopic:
        here, name = self.state, topic.name
        if name == METADATA_TOPIC:
            raise ApiError(
                "INVALID_REQUEST", f"Creation of internal topic {METADATA_TOPIC} is prohibited."
            )
        check_new(name, here.metadata.topics)
        resource = ConfigResource(TOPIC, name)
        assignments = plan_topic(
            *(topic, here.metadata, here.registry.active, here.config.topics, self.rng)
        )
        wanted = [c.ConfigAlteration(key, c.SET, value) for key, value in topic.configs]
        configs = plan_incremental(resource, wanted, here.metadata, self.schema, is_new=True)
        quota.take(len(assignments))
        topic_id = self._new_id()
        if not validate_only:
            self.decisions.create_topic(name, topic_id)
            if configs:
                here.change(ConfigsAltered(resource, configs))
            for number, replicas in enumerate(assignments):
                self.decisions.create_partition(TopicPartition(name, number), replicas)
        factor = len(assignments[0])
        return c.CreatedTopic(name, None, None, topic_id, len(assignments), factor, configs)

    def _new_id(self) -> bytes:
        """A random UUID (version 4), neither all zero nor with a leading dash in text."""
        while True:
            raw = bytearray(self.rng.randbytes(16))
            raw[6], raw[8] = raw[6] & 0x0F | 0x40, raw[8] & 0x3F | 0x80
            if raw[0] >> 2 != DASH and bytes(raw) not in self.state.metadata.topic_names:
                return bytes(raw)

    def delete_topics(
        self, body: c.DeleteTopicsRequest, quota: MutationQuota
    ) -> c.DeleteTopicsResponse:
        """Delete topics by name or by id; a topic that is named twice is not deleted."""
        if not self.state.config.delete_topic_enable:
            error = ("TOPIC_DELETION_DISABLED", "Topic deletion is disabled.")
            named = [c.DeletedTopic(name, ZERO_ID, *error) for name in body.names]
            return c.DeleteTopicsResponse(
                (*named, *(c.DeletedTopic(None, one, *error) for one in body.topic_ids))
            )
        results: list[c.DeletedTopic] = []
        wanted = self._wanted_topics(body, results)
        for topic_id, name in wanted.items():
            partitions = self.state.metadata.topics[name].partitions
            try:
                quota.take(len(partitions))
            except ApiError as error:
                results.append(c.DeletedTopic(name, topic_id, error.error, error.message))
                continue
            for number in partitions:
                del self.state.partitions[TopicPartition(name, number)]
            self.state.change(TopicDeleted(name, topic_id))
            results.append(c.DeletedTopic(name, topic_id, None))
        return c.DeleteTopicsResponse(results)

    def _wanted_topics(
        self, body: c.DeleteTopicsRequest, results: list[c.DeletedTopic]
    ) -> dict[bytes, str]:
        """The topics by their ids; those that are not found, or named twice, go to the results."""
        metadata, wanted = self.state.metadata, dict[bytes, str]()
        invalid = "INVALID_REQUEST"
        twice, twice_ids = _repeated(body.names), _repeated(body.topic_ids)
        for name in twice:
            results.append(c.DeletedTopic(name, ZERO_ID, invalid, "Duplicate topic name."))
        for topic_id in twice_ids:
            results.append(c.DeletedTopic(None, topic_id, invalid, "Duplicate topic id."))
        for topic_id in body.topic_ids:
            if topic_id in twice_ids:
                continue
            if topic_id == ZERO_ID:
                message = "Neither topic name nor id were specified."
                results.append(c.DeletedTopic(None, topic_id, invalid, message))
            elif topic_id in metadata.topic_names:
                wanted[topic_id] = metadata.topic_names[topic_id]
            else:
                message = "This server does not host this topic ID."
                results.append(c.DeletedTopic(None, topic_id, "UNKNOWN_TOPIC_ID", message))
        for name in body.names:
            if name in twice:
                continue
            topic = metadata.topics.get(name)
            if topic is None:
                error = unknown_topic_or_partition()
                results.append(c.DeletedTopic(name, ZERO_ID, error.error, error.message))
            elif topic.topic_id in wanted or topic.topic_id in twice_ids:
                wanted.pop(topic.topic_id, None)
                message = "The provided topic name maps to an ID that was already supplied."
                results.append(c.DeletedTopic(name, topic.topic_id, invalid, message))
            else:
                wanted[topic.topic_id] = name
        return wanted

    def create_partitions(
        self, body: c.CreatePartitionsRequest, quota: MutationQuota
    ) -> c.CreatePartitionsResponse:
        """Give topics more partitions (KIP-195)."""
        twice = _repeated(topic.name for topic in body.topics)
        duplicate = ("INVALID_REQUEST", "Duplicate topic name.")
        results = [c.TopicResult(name, *duplicate) for name in twice]
        try:
            check_growth(body.topics, self.state.metadata)
        except ApiError as large:
            names = dict.fromkeys(topic.name for topic in body.topics)
            results = [c.TopicResult(name, large.error, large.message) for name in names]
            return c.CreatePartitionsResponse(results)
        for wanted in body.topics:
            if wanted.name in twice:
                continue
            try:
                self._create_partitions(wanted, quota, validate_only=body.validate_only)
                results.append(c.TopicResult(wanted.name, None))
            except ApiError as error:
                results.append(c.TopicResult(wanted.name, error.error, error.message))
        return c.CreatePartitionsResponse(results)

    def _create_partitions(
        self, wanted: c.NewPartitions, quota: MutationQuota, *, validate_only: bool
    ) -> None:
        here = self.state
        assignments = plan_partitions(
            *(wanted, here.metadata, here.registry.active, here.config.topics, self.rng)
        )
        quota.take(len(assignments))
        if validate_only:
            return
        first = len(here.metadata.topics[wanted.name].partitions)
        for number, replicas in enumerate(assignments, first):
            self.decisions.create_partition(TopicPartition(wanted.name, number), replicas)

    # Leaders and replicas

    def elect_leaders(self, body: c.ElectLeadersRequest) -> c.ElectLeadersResponse:
        """Elect leaders; a request for all partitions leaves out those that needed no election
        (KIP-460).
        """
        wanted = tuple(self.state.partitions) if body.partitions is None else body.partitions
        results: list[c.PartitionResult] = []
        for name in wanted:
            try:
                self._elect(body.election_type, name)
                results.append(c.PartitionResult(name, None))
            except ApiError as error:
                if body.partitions is not None or error.error != "ELECTION_NOT_NEEDED":
                    results.append(c.PartitionResult(name, error.error, error.message))
        return c.ElectLeadersResponse(results)

    def _elect(self, election_type: int, name: TopicPartition) -> None:
        if name.topic not in self.state.metadata.topics:
            raise unknown_topic_or_partition(f"No such topic as {name.topic}")
        one = self.state.partitions.get(name)
        if one is None:
            raise unknown_topic_or_partition(f"No such partition as {name}")
        choice = elections.asked(election_type, one.assignment.replicas, one.state)
        try:
            if choice.how == "unclean":
                self.decisions.elect_unclean_once(name, one, choice.broker)
            else:
                self.decisions.elect(name, one, choice)
        except Refusal as refusal:
            raise ApiError(refusal.kafka_error, str(refusal)) from None

    def alter_reassignments(
        self, body: c.AlterPartitionReassignmentsRequest
    ) -> c.AlterPartitionReassignmentsResponse:
        """Begin, replace or cancel reassignments (KIP-455)."""
        results: list[c.PartitionResult] = []
        for wanted in body.partitions:
            try:
                self._move(wanted, may_change_factor=body.allow_replication_factor_change)
                results.append(c.PartitionResult(wanted.partition, None))
            except ApiError as error:
                results.append(c.PartitionResult(wanted.partition, error.error, error.message))
        return c.AlterPartitionReassignmentsResponse(results)

    def _move(self, wanted: c.ReassignablePartition, *, may_change_factor: bool) -> None:
        here, name = self.state, wanted.partition
        _, target = plan_move(wanted, here.metadata, may_change_factor=may_change_factor)
        one = here.partitions[name]
        if target is None:
            assignment = one.assignment.cancelled()
        else:
            assignment = one.assignment.moved_to(target)
            if assignment == one.assignment:
                return
        try:
            self.decisions.move(name, assignment)
        except Refusal as refusal:
            text = f"{name.topic}:{name.partition}"
            raise ApiError(
                "INVALID_REPLICA_ASSIGNMENT",
                f"Unable to revert partition assignment for {text} because it would require an "
                f"unclean leader election. ({refusal})",
            ) from None

    def list_reassignments(
        self, body: c.ListPartitionReassignmentsRequest
    ) -> c.ListPartitionReassignmentsResponse:
        """The reassignments under way."""
        return c.ListPartitionReassignmentsResponse(
            ongoing(self.state.metadata.partitions, body.partitions)
        )

    # Configurations and quotas

    def incremental_alter_configs(
        self, body: c.IncrementalAlterConfigsRequest
    ) -> c.AlterConfigsResponse:
        """Change single configurations; a resource is changed as a whole or not (KIP-339)."""
        here = self.state

        def plan(resource: ConfigResource, wanted: Any) -> Mapping[str, str]:
            elr = here.config.eligible_leader_replicas
            return plan_incremental(resource, wanted, here.metadata, self.schema, elr_enabled=elr)

        return self._alter(body.resources, plan, validate_only=body.validate_only)

    def alter_configs(self, body: c.AlterConfigsRequest) -> c.AlterConfigsResponse:
        """Replace all configurations of resources (KIP-133)."""
        here = self.state

        def plan(resource: ConfigResource, wanted: Any) -> Mapping[str, str]:
            elr = here.config.eligible_leader_replicas
            return plan_replacement(resource, wanted, here.metadata, self.schema, elr_enabled=elr)

        return self._alter(body.resources, plan, validate_only=body.validate_only)

    def _alter(
        self,
        resources: Iterable[tuple[ConfigResource, Any]],
        plan: Callable[[ConfigResource, Any], Mapping[str, str]],
        *,
        validate_only: bool,
    ) -> c.AlterConfigsResponse:
        wanted = list(resources)
        twice = _repeated(resource for resource, _ in wanted)
        results = [c.ResourceResult(one, "INVALID_REQUEST", "Duplicate resource.") for one in twice]
        for resource, alterations in wanted:
            if resource in twice:
                continue
            try:
                values = plan(resource, alterations)
                results.append(c.ResourceResult(resource, None))
            except ApiError as error:
                results.append(c.ResourceResult(resource, error.error, error.message))
                continue
            if not validate_only:
                self._configure(resource, values)
        return c.AlterConfigsResponse(results)

    def _configure(self, resource: ConfigResource, values: Mapping[str, str]) -> None:
        before = self.state.metadata.configs.get(resource, {})
        if values == before and resource.type != BROKER:
            return  # a broker reads its configuration again even so (KAFKA-14136)
        self.state.change(ConfigsAltered(resource, values))
        if resource.type == GROUP:
            return
        clear = before.get(MIN_ISR) != values.get(MIN_ISR)
        self.decisions.configured(
            resource.name if resource.type == TOPIC else None, clear_elr=clear
        )

    def alter_client_quotas(self, body: c.AlterClientQuotasRequest) -> c.AlterClientQuotasResponse:
        """Change quotas (KIP-546)."""
        results: list[c.QuotaResult] = []
        twice = set(_repeated(frozenset(one.entity) for one in body.alterations))
        for key, alteration in {frozenset(one.entity): one for one in body.alterations}.items():
            try:
                entity, values = plan_quotas(
                    alteration, self.state.metadata.quotas, is_repeated=key in twice
                )
                results.append(c.QuotaResult(alteration.entity, None))
            except ApiError as error:
                results.append(c.QuotaResult(alteration.entity, error.error, error.message))
                continue
            if not body.validate_only and values != self.state.metadata.quotas.get(entity, {}):
                self.state.change(QuotasAltered(entity, values))
        return c.AlterClientQuotasResponse(results)

    # Security

    def create_acls(self, body: c.CreateAclsRequest) -> c.CreateAclsResponse:
        """Create ACLs; refusing one does not keep others from being created (KIP-140)."""
        changed, results = plan_creation(body.bindings, self.state.metadata.acls)
        self._alter_acls(changed)
        return c.CreateAclsResponse(results)

    def delete_acls(self, body: c.DeleteAclsRequest) -> c.DeleteAclsResponse:
        """Delete the ACLs that filters select (KIP-140)."""
        changed, results = plan_deletion(body.filters, self.state.metadata.acls)
        self._alter_acls(changed)
        return c.DeleteAclsResponse(results)

    def _alter_acls(self, changed: Changed) -> None:
        for pattern, entries in changed.items():
            self.state.change(AclsAltered(pattern, entries))

    def alter_scram_credentials(
        self, body: c.AlterUserScramCredentialsRequest
    ) -> c.AlterUserScramCredentialsResponse:
        """Keep and forget SCRAM credentials (KIP-554)."""
        changed, results = plan_credentials(body, self.state.metadata.scram)
        for user, credentials in changed.items():
            self.state.change(ScramCredentialsAltered(user, credentials))
        return c.AlterUserScramCredentialsResponse(results)

    # Features

    def update_features(self, body: c.UpdateFeaturesRequest) -> c.ControlResponse:
        """Finalize features at other levels: all of them or none (KIP-584)."""
        here = self.state
        try:
            planned = plan_features(
                body.updates, here.metadata.features, here.config.configs, self.controller_id
            )
        except ApiError as error:
            return c.ControlResponse(error.error, error.message)
        if not body.validate_only and planned != here.metadata.features:
            here.change(planned)
        return c.ControlResponse(None)

    # Brokers

    def unregister_broker(self, body: c.UnregisterBrokerRequest) -> c.ControlResponse:
        """Remove a broker that will not come back."""
        broker, registry = body.broker_id, self.state.registry
        if broker not in self.state.metadata.brokers:
            return c.ControlResponse(
                "BROKER_ID_NOT_REGISTERED", f"Broker ID {broker} is not currently registered"
            )
        if broker in registry.alive:
            registry.fence(broker)
            self.decisions.broker_fenced(broker)
        registry.epochs.pop(broker, None)
        self.state.change(BrokerUnregistered(broker))
        return c.ControlResponse(None)

    def allocate_producer_ids(
        self, body: c.AllocateProducerIdsRequest
    ) -> c.AllocateProducerIdsResponse:
        """A block of producer ids that no other broker gets (KIP-730)."""
        try:
            self.state.registry.check(body.broker_id, body.broker_epoch)
        except Refusal as refusal:
            return c.AllocateProducerIdsResponse(refusal.kafka_error)
        first = self.state.metadata.next_producer_id
        self.state.change(ProducerIdsAllocated(first + PRODUCER_IDS))
        return c.AllocateProducerIdsResponse(None, first, PRODUCER_IDS)


def _repeated(names: Iterable[Any]) -> list[Any]:
    """The names that occur more than once, in order of appearance."""
    return [name for name, times in Counter(names).items() if times > 1]
