"""A plan: the cluster, the clients and the faults of one run, as values and as text."""

from collections.abc import Iterator, Mapping
from typing import Any

import orjson
from attrs import asdict, evolve, field, frozen

from chaos.real.campaign.vocabulary import KINDS

BROKERS = (1, 2, 3)
CONTROLLER = 100
ORDERS, KEYED, MOVED, AGAIN, GROWN, KEPT, CONFIGURED = (
    *("orders", "keyed", "moved", "again", "grown", "kept", "configured"),
)


@frozen
class Step:
    """One fault.

    `who` is a broker, or 0 for the leader of `topic`:`partition` at that time; of a fault of
    clients it chooses one of them. `how` and `value` belong to the kind.
    """

    at_ms: int
    kind: str
    how: str = ""
    who: int = 0
    topic: str = ORDERS
    partition: int = 0
    for_ms: int = 0
    value: int = 0
    group: str = ""

    def __str__(self) -> str:
        """The fault in words, without its time."""
        leader = f"the leader of {self.topic}:{self.partition}"
        broker = f"broker {self.who}" if self.who else leader
        named = {"broker": broker, "how": self.how, "value": self.value, "group": self.group}
        said = KINDS[self.kind].says.format(partition=self.partition, **named)
        if self.kind in ("cut", "slow"):
            said += f" ({self.how})"
        return f"{said} for {self.for_ms / 1000:.1f} s" if self.for_ms else said


@frozen
class TopicPlan:
    """A topic that the run writes to."""

    partitions: int
    replicas: int = 3
    configs: Mapping[str, str] = field(factory=dict[str, str])
    keys: bool = False


@frozen
class GroupPlan:
    """A group that reads `orders`, processes and then commits."""

    name: str
    protocol: str
    members: int
    static: bool = False
    assignor: str = ""


@frozen
class ClientsPlan:
    """The clients: producers by name, groups, and transactional clients by place."""

    producers: tuple[str, ...]
    groups: tuple[GroupPlan, ...]
    transactional: tuple[str, ...] = ()
    applications: int = 0
    pause_ms: int = 100
    linger_ms: int = 0
    timeout_ms: int = 8_000


@frozen
class Plan:
    """All that a run is, but for what threads, sockets and processes do."""

    seed: int
    minutes: float
    target: str
    brokers: Mapping[str, str]
    topics: Mapping[str, TopicPlan]
    clients: ClientsPlan
    steps: tuple[Step, ...]

    @property
    def kinds(self) -> list[str]:
        """The kinds of faults that it has, in the table's order."""
        return [name for name in KINDS if any(step.kind == name for step in self.steps)]

    @property
    def session_ms(self) -> int:
        """After which a broker that is silent is fenced."""
        return int(self.brokers["broker.session.timeout.ms"])

    def without(self, *kinds: str) -> "Plan":
        """The same without some kinds of faults."""
        return evolve(self, steps=tuple(one for one in self.steps if one.kind not in kinds))

    def text(self) -> str:
        """The whole plan for people, the same bytes for the same seed."""
        return "".join(f"{line}\n" for line in self._lines())

    def _lines(self) -> Iterator[str]:
        yield f"seed {self.seed}, {self.minutes:g} minutes on {self.target}"
        yield from (f"  {name}={value}" for name, value in sorted(self.brokers.items()))
        for name, topic in self.topics.items():
            configs = "".join(f" {key}={value}" for key, value in sorted(topic.configs.items()))
            yield f"topic {name}: {topic.partitions} partitions, {topic.replicas} replicas{configs}"
        yield f"producers: {', '.join(self.clients.producers)}"
        for group in self.clients.groups:
            how = f"{group.members} {'static' if group.static else 'dynamic'} members"
            of = f" {group.assignor}" if group.assignor else ""
            yield f"group {group.name}: {group.protocol}, {how}{of}"
        if self.clients.transactional:
            places = [*self.clients.transactional, f"{self.clients.applications} applications"]
            yield f"transactional clients: {', '.join(places)}"
        rest = self.clients.pause_ms, self.clients.linger_ms, self.clients.timeout_ms
        yield "a record each {} ms, linger.ms={}, request.timeout.ms={}".format(*rest)
        for step in self.steps:
            yield f"{step.at_ms / 1000:8.3f} s  {step}"

    def as_json(self) -> bytes:
        """The plan as a file holds it, for `--replay`."""
        return orjson.dumps(asdict(self), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


class BadPlan(ValueError):
    """A file that is no plan."""


def read_plan(content: bytes) -> Plan:
    """Read what `as_json` wrote. Raises `BadPlan` with the field."""
    try:
        values: dict[str, Any] = orjson.loads(content)
        clients: dict[str, Any] = values.pop("clients")
        clients["groups"] = tuple(GroupPlan(**one) for one in clients["groups"])
        clients |= {name: tuple(clients[name]) for name in ("producers", "transactional")}
        topics = {name: TopicPlan(**one) for name, one in values.pop("topics").items()}
        steps = tuple(Step(**one) for one in values.pop("steps"))
        if unknown := [step.kind for step in steps if step.kind not in KINDS]:
            raise BadPlan(f"steps: kind: expected one of {', '.join(KINDS)}, found {unknown[0]!r}")
        return Plan(**values, topics=topics, clients=ClientsPlan(**clients), steps=steps)
    except (orjson.JSONDecodeError, AttributeError, TypeError) as wrong:
        raise BadPlan(f"expected a plan of `chaos real`: {wrong}") from None
    except KeyError as missing:
        raise BadPlan(f"expected the field {missing}") from None
