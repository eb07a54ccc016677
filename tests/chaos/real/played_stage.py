"""A stage without processes: what faults do to it is written down."""

import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attrs import define, evolve, field

from chaos.real.campaign.draw import draw
from chaos.real.campaign.effects import Effect
from chaos.real.campaign.plan import BROKERS, Plan, Step
from chaos.real.campaign.stage import Stage
from chaos.real.kafka.asking import Replicas
from refimpl.edge.server.faults import Rule


@define(eq=False)
class FakeRule:
    """A rule that has met something at once."""

    proxies: "FakeProxies"
    where: int | None
    rule: Rule

    def met(self) -> int:
        return self.proxies.meets

    def end(self) -> None:
        self.proxies.rules.remove(self)


@define(eq=False)
class FakeProxies:
    """The rules that there are, and those that there were."""

    meets: int = 1
    rules: list[FakeRule] = field(factory=list[FakeRule])
    given: list[str] = field(factory=list[str])

    def of_clients(self, rule: Rule) -> FakeRule:
        return self._given(None, rule)

    def of_node(self, node: int, rule: Rule) -> FakeRule:
        return self._given(node, rule)

    def lift(self) -> None:
        self.rules.clear()

    def _given(self, where: int | None, rule: Rule) -> FakeRule:
        made = FakeRule(self, where, rule)
        self.rules.append(made)
        self.given.append(f"{rule.what} {rule.api} {rule.client_id} at {where}")
        return made


@define(eq=False)
class FakeTarget:
    """Nodes that run, are paused or are down."""

    proxies: Any = field(factory=FakeProxies)
    down: set[int] = field(factory=set[int])
    paused: set[int] = field(factory=set[int])
    done: list[str] = field(factory=list[str])

    @property
    def ports(self) -> Mapping[int, int]:
        return dict.fromkeys(BROKERS, 1)

    def running(self, node: int) -> bool:
        return node not in self.down

    def signal(self, node: int, number: int) -> None:
        assert self.running(node)
        self.done.append(f"{signal.Signals(number).name} {node}")
        (self.paused.add if number == signal.SIGSTOP else self.paused.discard)(node)

    def end(self, node: int, number: int) -> None:
        assert self.running(node)
        assert node not in self.paused
        self.done.append(f"{signal.Signals(number).name} {node}")
        self.down.add(node)

    def start(self, node: int) -> None:
        self.done.append(f"start {node}")
        self.down.discard(node)

    def empty(self, node: int) -> int:
        assert self.down == {node}
        self.done.append(f"empty {node}")
        return 1

    def copy(self, node: int) -> Path:
        assert self.down == {node}
        self.done.append(f"copy {node}")
        return Path(f"copy-of-{node}")

    def put_back(self, node: int, copy: Path) -> int:
        assert self.down == {node}
        assert copy == Path(f"copy-of-{node}")
        self.done.append(f"put_back {node}")
        return 1


@define(eq=False)
class FakeStage(Stage):
    """Nobody waits; broker 2 leads everywhere, and all replicas are in sync."""

    fake: FakeTarget = field(factory=FakeTarget)
    waited: list[float] = field(factory=list[float])

    def wait(self, for_ms: float) -> None:
        self.waited.append(for_ms)

    def replicas(self, topic: str) -> dict[int, Replicas]:
        return {0: Replicas(2, BROKERS, BROKERS), 1: Replicas(2, BROKERS, BROKERS)}

    def lacking(self) -> str:
        return f"{sorted(self.fake.down)} are down" if self.fake.down else ""


@define(eq=False)
class FakeClients:
    """Clients that only count how often somebody looks after them."""

    looks: int = 0

    def look(self) -> None:
        self.looks += 1


def stage_for(*steps: Step) -> FakeStage:
    """A stage for these faults."""
    fake = FakeTarget()
    return FakeStage(planned(*steps), fake, clients=FakeClients(), fake=fake)


def planned(*steps: Step) -> Plan:
    """A plan of no time."""
    return evolve(draw(1, 3, "kafka"), minutes=0, steps=steps)


def nothing(_: Stage, __: Step) -> Effect:
    """A fault that does nothing."""
    return Effect.none("there was nothing to do")


def something(_: Stage, __: Step) -> Effect:
    """A fault that does something."""
    return Effect(3)
