"""An operator: creates and deletes topics, adds partitions, and changes configurations and quotas.

It asks any broker, which forwards the request to the controller that it knows. After a time-out it
asks for something else, and the outcome of the first request is unknown.
"""

from collections.abc import Iterator, Sequence
from random import Random
from typing import Any, NamedTuple

from attrs import define, field

from chaos.sim.addresses import BROKERS, TICK, TOPIC, Tick
from chaos.sim.simulation import Simulation
from refimpl.controller import znodes
from refimpl.messages import controller as c
from refimpl.messages.broker import Request, Response
from refimpl.messages.cluster import TOPIC as RESOURCE
from refimpl.messages.cluster import ConfigResource

NAMES = ("t1", "t2", "t3")
KEYS = ("retention.ms", "delete.retention.ms")
RATES = ("producer_byte_rate", "consumer_byte_rate")
ORDERS = ConfigResource(RESOURCE, TOPIC)
ENTITIES = (("user", "user-1"), ("client-id", None)), (("client-id", "loader"),)
"""The entities with quotas: each client of a user, and a client of any user."""
# Values count on from here: nothing is ever old enough to be deleted, and no client is throttled.
FIRST_VALUE = 1_000_000_000
MOST_PARTITIONS = 4


class Setting(NamedTuple):
    """A configuration or a quota: the znode that keeps it, and its name."""

    path: str
    key: str


class Altered(NamedTuple):
    """A setting has this value, as a znode has it."""

    setting: Setting
    value: str


def _quota(entity: Sequence[tuple[str, str | None]], key: str) -> Setting:
    return Setting(znodes.quota_path(frozenset(entity))[-1], key)


CONFIGURATIONS = tuple(Setting(znodes.config_path(ORDERS), key) for key in KEYS)
QUOTAS = tuple(_quota(entity, key) for entity in ENTITIES for key in RATES)


class Asked(NamedTuple):
    """The operator asks for something."""

    number: int
    body: Any


class Answered(NamedTuple):
    """The operator's request and its answer."""

    number: int
    asked: Any
    body: Any


@define(eq=False)
class Operator:
    """Sends one request after the other, until the faults are over.

    `ids` are the topics that it knows to be created, and has not asked to delete since.
    """

    id: int
    simulation: Simulation
    rng: Random
    paused_until: int = 0
    stopped: bool = False
    asked: dict[int, Any] = field(factory=dict[int, Any])
    ids: dict[str, bytes] = field(factory=dict[str, bytes])
    partitions: dict[str, int] = field(factory=dict[str, int])

    def handle(self, message: Any) -> None:
        """Ask for the next thing, or take an answer."""
        if type(message) is Tick:
            self._ask()
        elif type(message) is Response:
            self._take(message)

    def _ask(self) -> None:
        if self.stopped:
            return
        simulation, rng = self.simulation, self.rng
        timeline = simulation.timeline
        number = len(self.asked) + 1
        body = self.asked[number] = self._next(number)
        simulation.observe(self.id, Asked(number, body))
        simulation.network.send(Request(self.id, rng.choice(BROKERS), number, body))
        at = timeline.now + 1 + int(rng.expovariate(1.0 / simulation.settings.operate_ms))
        timeline.at(at, self.id, TICK)

    def _next(self, number: int) -> Any:
        rng = self.rng
        name = rng.choice(NAMES)
        draw = rng.random()
        if draw < 0.2:
            change = c.ConfigAlteration(rng.choice(KEYS), c.SET, str(FIRST_VALUE + number))
            return c.IncrementalAlterConfigsRequest(((ORDERS, (change,)),))
        if draw < 0.3:
            operation = rng.choice(RATES), float(FIRST_VALUE + number)
            alteration = c.QuotaAlteration(rng.choice(ENTITIES), (operation,))
            return c.AlterClientQuotasRequest((alteration,))
        if draw < 0.65 and name not in self.ids:
            count, factor = rng.randrange(1, MOST_PARTITIONS), rng.randrange(1, 4)
            return c.CreateTopicsRequest((c.CreatableTopic(name, count, factor),))
        if draw < 0.8 and name in self.ids:
            more = self.partitions[name] + 1
            return c.CreatePartitionsRequest((c.NewPartitions(name, more),))
        self.partitions.pop(name, None)
        topic_id = self.ids.pop(name, None)
        if topic_id is None:
            return c.DeleteTopicsRequest(names=(name,))
        return c.DeleteTopicsRequest(topic_ids=(topic_id,))

    def _take(self, response: Response) -> None:
        asked = self.asked.get(response.correlation_id)
        for one in _granted(asked, response.body):
            match one:
                case c.CreatedTopic(name):
                    self.ids[name] = one.topic_id
                    self.partitions[name] = one.num_partitions
                case c.NewPartitions(name, count):
                    if name in self.partitions:
                        self.partitions[name] = count
                case _:
                    pass
            seen = Answered(response.correlation_id, asked, one)
            self.simulation.observe(self.id, seen)


def _granted(asked: Any, body: Any) -> Iterator[Any]:
    """The changes that an answer confirms, as requested or as the controller completed them."""
    match body:
        case c.CreateTopicsResponse(topics):
            yield from (one for one in topics if one.error is None)
        case c.DeleteTopicsResponse(topics):
            yield from (one for one in topics if one.error is None)
        case c.CreatePartitionsResponse(topics):
            yield from (asked.topics[0] for one in topics if one.error is None)
        case c.AlterConfigsResponse(resources):
            [(resource, [change])] = asked.resources
            altered = Altered(Setting(znodes.config_path(resource), change.name), change.value)
            yield from (altered for one in resources if one.error is None)
        case c.AlterClientQuotasResponse(entities):
            [(entity, [(key, value)])] = asked.alterations
            altered = Altered(_quota(entity, key), str(value))
            yield from (altered for one in entities if one.error is None)
        case _:
            pass  # REQUEST_TIMED_OUT: the outcome is unknown
