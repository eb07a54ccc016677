"""The state of a controller, and the changes and outputs of its decisions."""

from typing import Any

from attrs import define, field, frozen

from refimpl.configs import Configs
from refimpl.controller.topics import Defaults
from refimpl.machines.assignment import Assignment
from refimpl.machines.brokers import BrokerRegistry
from refimpl.machines.controller import PartitionState
from refimpl.messages.broker import TopicPartition
from refimpl.messages.cluster import (
    BrokerRegistration,
    Change,
    ClusterMetadata,
    PartitionRegistration,
)


@frozen(kw_only=True)
class ControllerConfig:
    """A controller's settings, by Kafka's names; times are in milliseconds.

    `eligible_leader_replicas` is Kafka's feature of that name (KIP-966), and `last_known_leader`
    its companion in Kafka 4.x. `leader_imbalance_check_interval_ms` is 0 if
    auto.leader.rebalance.enable is false.
    """

    broker_session_timeout_ms: int = 9_000
    leader_imbalance_check_interval_ms: int = 300_000
    min_insync_replicas: int = 1
    unclean_leader_election_enable: bool = False
    delete_topic_enable: bool = True
    controller_quota_window_num: int = 11
    controller_quota_window_size_seconds: int = 1
    eligible_leader_replicas: bool = True
    last_known_leader: bool = False
    topics: Defaults = field(factory=Defaults)
    #: server.properties, whose values are the defaults of topics
    configs: Configs = field(factory=Configs)


@define(eq=False)
class Controlled:
    """One partition: its topic's id, its assignment, and its state."""

    topic_id: bytes
    assignment: Assignment
    state: PartitionState

    def registration(self, name: TopicPartition) -> PartitionRegistration:
        """The registration in force, as sent to brokers."""
        state, assignment = self.state, self.assignment
        return PartitionRegistration(
            *(name, self.topic_id, state.decision, assignment.replicas),
            *(assignment.adding, assignment.removing, state.elr, state.last_known),
        )


@define(eq=False)
class ControllerState:
    """The registry of brokers, the metadata, and a `PartitionState` for each partition.

    `changes` are decisions that are not published yet, and `outputs` their consequences.
    """

    config: ControllerConfig
    registry: BrokerRegistry = field(factory=BrokerRegistry)
    metadata: ClusterMetadata = field(factory=ClusterMetadata)
    partitions: dict[TopicPartition, Controlled] = field(factory=dict[TopicPartition, Controlled])
    changes: list[Change] = field(factory=list[Change])
    outputs: list[Any] = field(factory=list[Any])

    def change(self, change: Change) -> None:
        """Apply a change to the metadata."""
        self.metadata.apply(change)
        self.changes.append(change)

    def broker_changed(self, broker: int) -> None:
        """Copy the registry's state of a broker into the metadata."""
        known = self.metadata.brokers.get(broker) or BrokerRegistration(broker, -1, -1)
        self.change(
            known._replace(
                broker_epoch=self.registry.epochs[broker],
                fenced=broker not in self.registry.alive,
                in_controlled_shutdown=broker in self.registry.leaving,
            )
        )
