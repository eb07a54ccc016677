"""Judges what clients are told of the cluster by the decisions that the answering broker has heard.

The decisions are taken from the updates that arrive, and not from the broker's metadata.
"""

from collections.abc import Mapping
from typing import Any

from attrs import define, field

from chaos.oracles.violation import Violation
from chaos.sim.addresses import TOPIC_IDS
from chaos.sim.hosts import Handled
from chaos.sim.simulation import Simulation
from refimpl.machines.messages import LeaderAndIsr
from refimpl.messages.broker import MetadataRequest, MetadataResponse, Response, TopicPartition
from refimpl.messages.cluster import PartitionRegistration
from refimpl.messages.controller import UpdateMetadataRequest
from refimpl.messages.group import GROUP, FindCoordinatorRequest, FindCoordinatorResponse
from refimpl.messages.observations import Ignored
from refimpl.records.coordinators import OFFSETS_TOPIC, TRANSACTIONS_TOPIC, partition_for


@define(eq=False)
class Heard:
    """The newest decision about each partition that one process has heard."""

    process: int
    controller_epoch: int = -1
    decisions: dict[TopicPartition, LeaderAndIsr] = field(
        factory=dict[TopicPartition, LeaderAndIsr]
    )

    def take(self, news: UpdateMetadataRequest) -> None:
        """Note an update; one of an older controller does not count, and a newer one begins with
        everything.
        """
        if news.controller_epoch < self.controller_epoch:
            return
        if news.controller_epoch > self.controller_epoch and not news.is_full:
            return
        self.controller_epoch = news.controller_epoch
        for one in news.changes:
            if isinstance(one, PartitionRegistration) and one.partition.topic in TOPIC_IDS:
                known = self.decisions.get(one.partition)
                if known is None or known.partition_epoch <= one.decision.partition_epoch:
                    self.decisions[one.partition] = one.decision


@define(eq=False)
class ToldOracle:
    """ToldAsHeard: every answer to Metadata and FindCoordinator."""

    simulation: Simulation
    heard: dict[int, Heard] = field(factory=dict[int, Heard])

    def attach(self) -> None:
        """Watch the requests about the cluster that brokers handle."""
        self.simulation.watch(Handled, self._handled)

    def _handled(self, who: int, seen: Handled) -> None:
        heard = self.heard.get(who)
        if heard is None or heard.process != seen.process:
            heard = self.heard[who] = Heard(seen.process)
        request, body = seen.request, seen.request.body
        if isinstance(body, UpdateMetadataRequest):
            if not any(isinstance(one, Ignored) for one in seen.outputs):
                heard.take(body)
            return
        for one in seen.outputs:
            if isinstance(one, Response) and one.correlation_id == request.correlation_id:
                told = _wrong(heard.decisions, body, one.body)
                if told:
                    raise Violation("ToldAsHeard", f"broker {who}: {told}")


def _wrong(decisions: Mapping[TopicPartition, LeaderAndIsr], asked: Any, answer: Any) -> str:
    if isinstance(answer, MetadataResponse):
        return _wrong_leaders(decisions, asked, answer)
    if isinstance(answer, FindCoordinatorResponse):
        return _wrong_coordinators(decisions, asked, answer)
    return ""


def _wrong_leaders(
    decisions: Mapping[TopicPartition, LeaderAndIsr],
    asked: MetadataRequest,
    answer: MetadataResponse,
) -> str:
    told = {one.partition: (one.leader, one.leader_epoch, one.isr) for one in answer.partitions}
    for name, decision in decisions.items():
        if asked.topics is None or name.topic in asked.topics:
            leader = -1 if decision.leader is None else decision.leader
            known = leader, decision.leader_epoch, decision.isr
            if told.get(name) != known:
                return f"{name} is told as {told.get(name)}, heard is {known}"
    return ""


def _wrong_coordinators(
    decisions: Mapping[TopicPartition, LeaderAndIsr],
    asked: FindCoordinatorRequest,
    answer: FindCoordinatorResponse,
) -> str:
    topic = OFFSETS_TOPIC if asked.key_type == GROUP else TRANSACTIONS_TOPIC
    count = sum(name.topic == topic for name in decisions)
    for one in answer.coordinators:
        if one.error is None:
            name = TopicPartition(topic, partition_for(one.key, count or 1))
            decision = decisions.get(name)
            if decision is None or decision.leader != one.node_id:
                return f"the coordinator of {one.key} is told as {one.node_id}, heard is {decision}"
    return ""
