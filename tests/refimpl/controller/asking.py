"""A controller with brokers, and what is asked of it."""

from random import Random
from typing import Any

from attrs import define, field

from refimpl.controller.controller import Controller
from refimpl.controller.state import ControllerConfig
from refimpl.machines.messages import AlterPartitionRequest
from refimpl.messages import broker as m
from refimpl.messages import controller as c
from refimpl.messages.cluster import Endpoint, PartitionRegistration

CLIENT = 100


@define
class Asking:
    """Brokers 1 to `brokers`, of which each second one stands in rack b."""

    config: ControllerConfig = field(factory=ControllerConfig)
    brokers: int = 3
    controller: Controller = field(init=False)
    number: int = 0
    news: list[c.UpdateMetadataRequest] = field(factory=list[c.UpdateMetadataRequest])
    #: All that followed from requests
    observed: list[Any] = field(factory=list[Any])

    def __attrs_post_init__(self) -> None:
        """Let all brokers register."""
        self.controller = Controller(self.config, Random(7))
        for broker in range(1, self.brokers + 1):
            self.register(broker, 1)

    def register(self, broker: int, incarnation: int) -> Any:
        endpoint = Endpoint("PLAINTEXT", f"host{broker}", 9092)
        rack = "ab"[broker % 2]
        body = c.BrokerRegistrationRequest(broker, incarnation, -1, (endpoint,), rack)
        return self.ask(body, broker)

    def ask(self, body: Any, source: int = CLIENT) -> Any:
        """The controller's answer."""
        self.number += 1
        outputs = self.controller.handle(0, m.Request(source, 0, self.number, body))
        self.observed += outputs
        self.news += [
            one.body
            for one in outputs
            if isinstance(one, m.Request) and isinstance(one.body, c.UpdateMetadataRequest)
        ]
        (answer,) = [one.body for one in outputs if isinstance(one, m.Response)]
        return answer

    def create(self, name: str, *assignments: tuple[int, ...], **configs: str) -> None:
        topic = c.CreatableTopic(
            name, assignments=tuple(enumerate(assignments)), configs=tuple(configs.items())
        )
        (created,) = self.ask(c.CreateTopicsRequest((topic,))).topics
        assert created.error is None

    def partition(self, name: str, number: int = 0) -> PartitionRegistration:
        return self.controller.metadata.partitions[m.TopicPartition(name, number)]

    def alter_isr(self, name: str, *isr: int) -> Any:
        """The answer to a leader that asks for this ISR."""
        here = self.partition(name)
        epochs = self.controller.registry.epochs
        leader = here.decision.leader or 0
        change = AlterPartitionRequest(
            *(leader, epochs[leader], here.decision.leader_epoch),
            *(here.decision.partition_epoch, tuple((one, epochs[one]) for one in isr)),
        )
        body = c.AlterPartitionRequest(m.TopicPartition(name, 0), change)
        return self.ask(body, leader).outcome

    def move(self, name: str, *replicas: int, **of: Any) -> Any:
        """The result of a reassignment; without replicas, of cancelling it."""
        wanted = c.ReassignablePartition(m.TopicPartition(name, 0), replicas or None)
        (result,) = self.ask(c.AlterPartitionReassignmentsRequest((wanted,), **of)).partitions
        return result.error
