"""Metadata and DescribeTopicPartitions answer by all decisions that were heard, in any order."""

from types import SimpleNamespace
from typing import Any

import pytest
from attrs import define, field
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from refimpl.api import describe_topic_partitions, metadata
from refimpl.api.call import Call
from refimpl.configs import Configs
from refimpl.machines.messages import LeaderAndIsr
from refimpl.messages.broker import TopicPartition
from refimpl.messages.cluster import (
    BrokerRegistration,
    ClusterMetadata,
    Endpoint,
    PartitionRegistration,
    TopicCreated,
    TopicDeleted,
)

NAMES, NUMBERS, BROKERS = ("a", "b", "c"), (0, 1, 2), (1, 2, 3)


@define(eq=False)
class FakeBroker:
    """A broker of which only the metadata are asked for."""

    node: Any
    cluster_id: str = "cluster"
    listener_name: str = "PLAINTEXT"
    configs: Configs = field(factory=Configs)


class Answers(RuleBasedStateMachine):
    """Decisions arrive, some of them late; after each, both APIs say what is in force."""

    def __init__(self) -> None:
        super().__init__()
        self.metadata = ClusterMetadata()
        self.broker: Any = FakeBroker(SimpleNamespace(id=1, metadata=self.metadata))
        self.ids: dict[str, bytes] = {}
        self.made = 0
        self.heard: dict[str, dict[int, PartitionRegistration]] = {}
        self.fenced: dict[int, bool] = {}

    @rule(name=st.sampled_from(NAMES))
    def create_topic(self, name: str) -> None:
        if name not in self.heard:
            self.made += 1
            self.ids[name] = self.made.to_bytes(16, "big")
            self.heard[name] = {}
            self.metadata.apply(TopicCreated(name, self.ids[name]))

    @rule(name=st.sampled_from(NAMES))
    def delete_topic(self, name: str) -> None:
        if name in self.heard:
            del self.heard[name]
            self.metadata.apply(TopicDeleted(name, self.ids[name]))

    @rule(
        name=st.sampled_from(NAMES),
        number=st.sampled_from(NUMBERS),
        epochs=st.tuples(st.integers(0, 3), st.integers(0, 5)),
        leader=st.sampled_from((None, *BROKERS)),
        isr=st.frozensets(st.sampled_from(BROKERS)),
        elr=st.frozensets(st.sampled_from(BROKERS)),
    )
    def decide(
        self,
        name: str,
        number: int,
        epochs: tuple[int, int],
        leader: int | None,
        isr: frozenset[int],
        elr: frozenset[int],
    ) -> None:
        if name not in self.heard:
            return
        decision = LeaderAndIsr(epochs[0], leader, isr, epochs[1])
        change = PartitionRegistration(
            TopicPartition(name, number), self.ids[name], decision, BROKERS, elr=elr
        )
        known = self.heard[name].get(number)
        if known is None or known.decision.partition_epoch <= epochs[1]:
            self.heard[name][number] = change
        self.metadata.apply(change)

    @rule(broker=st.sampled_from(BROKERS), fenced=st.booleans())
    def register(self, broker: int, fenced: bool) -> None:
        self.fenced[broker] = fenced
        endpoint = Endpoint("PLAINTEXT", "localhost", 9090 + broker)
        self.metadata.apply(BrokerRegistration(broker, 1, 1, (endpoint,), fenced=fenced))

    def _expected(self, one: PartitionRegistration) -> dict[str, Any]:
        leader, alive = one.decision.leader, [at for at, off in self.fenced.items() if not off]
        return {
            "error_code": "LEADER_NOT_AVAILABLE" if leader is None else None,
            "leader_id": -1 if leader is None else leader,
            "leader_epoch": one.decision.leader_epoch,
            "isr_nodes": sorted(one.decision.isr),
            "offline_replicas": [at for at in BROKERS if at not in alive],
        }

    def _call(self, api_key: int, version: int, **request: Any) -> Call:
        return Call(self.broker, api_key, version, SimpleNamespace(**request))

    def _told_by_metadata(self) -> dict[str, list[dict[str, Any]]]:
        handling = metadata.handle(self._call(3, 12, topics=None))
        with pytest.raises(StopIteration) as done:
            next(handling)
        answer: Any = done.value.value
        alive = [at for at, off in sorted(self.fenced.items()) if not off]
        assert [one["node_id"] for one in answer["brokers"]] == alive
        return {one["name"]: one["partitions"] for one in answer["topics"]}

    def _told_by_pages(self, limit: int) -> dict[str, list[dict[str, Any]]]:
        """All pages, each of so many partitions."""
        told: dict[str, list[dict[str, Any]]] = {}
        cursor: Any = None
        while True:
            call = self._call(75, 0, topics=[], cursor=cursor, response_partition_limit=limit)
            answer: Any = describe_topic_partitions.handle(call)
            for one in answer["topics"]:
                told.setdefault(one["name"], []).extend(one["partitions"])
            if answer["next_cursor"] is None:
                return told
            cursor = SimpleNamespace(**answer["next_cursor"])

    @invariant()
    def both_tell_what_was_heard(self) -> None:
        for told in (self._told_by_metadata(), self._told_by_pages(2)):
            assert told.keys() == self.heard.keys()
            for name, partitions in told.items():
                numbers = sorted(self.heard[name])
                assert [one["partition_index"] for one in partitions] == numbers
                for one in partitions:
                    known = self.heard[name][one["partition_index"]]
                    expected = self._expected(known)
                    assert {key: one[key] for key in expected} == expected
                    if "eligible_leader_replicas" in one:
                        assert one["eligible_leader_replicas"] == sorted(known.elr)


TestAnswers = Answers.TestCase
