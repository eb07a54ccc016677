"""All clients of a run: producers, groups, transactional clients, and an administrator."""

import signal
from collections import Counter
from importlib import import_module
from pathlib import Path
from random import Random
from threading import Lock
from typing import Any

from attrs import define, field

from chaos.real.campaign.effects import Effect
from chaos.real.campaign.plan import ORDERS, Plan, Step
from chaos.real.campaign.readers import GroupMembers, committed_to_the_end
from chaos.real.campaign.stage import Stage
from chaos.real.campaign.writers import Writer, written_in_one_life
from chaos.real.transacting.clients import Clients, places
from traces.record import recorded

DRAIN_S = 90.0


def administrator(bootstrap: str, folder: Path) -> Any:
    """An AdminClient, recorded."""
    library: Any = import_module("confluent_kafka.admin")
    return recorded(library.AdminClient, folder, of_admin(bootstrap), name="admin")


def of_admin(bootstrap: str) -> dict[str, Any]:
    """Settings of an administrator."""
    return {"bootstrap.servers": bootstrap, "log_level": 0, "socket.timeout.ms": 8_000}


@define(eq=False)
class RunClients:
    """The clients that a plan names; their addresses are the proxies'."""

    plan: Plan
    bootstrap: str
    #: The brokers' own addresses
    direct: str
    folder: Path
    writers: list[Writer] = field(factory=list[Writer], init=False)
    groups: dict[str, GroupMembers] = field(factory=dict[str, GroupMembers], init=False)
    transactional: Clients = field(init=False)
    _changing: Any = field(factory=Lock, init=False)

    def __attrs_post_init__(self) -> None:
        rng = Random(f"{self.plan.seed}/transactional")
        self.transactional = Clients(self.bootstrap, self.folder, rng)

    def start(self) -> None:
        """All begin."""
        where = (self.plan, self.bootstrap, self.folder)
        self.writers = [Writer(name, *where) for name in self.plan.clients.producers]
        self.groups = {one.name: GroupMembers(one, *where) for one in self.plan.clients.groups}
        for one in (*self.writers, *self.groups.values()):
            one.start()
        of_plan = self.plan.clients
        for place in places(ORDERS, of_plan.applications) if of_plan.transactional else ():
            if place.source or place.library in of_plan.transactional:
                self.transactional.start(place)

    def writes_once(self, topic: str, name: str) -> int:
        """A producer writes some records and leaves; how many were acknowledged."""
        return written_in_one_life(self.plan, self.bootstrap, topic, name)

    def look(self) -> None:
        """Replace transactional clients that were fenced. Raises RuntimeError if one broke."""
        with self._changing:
            self.transactional.look()

    def happens(self, kind: str, number: int, stage: Stage, for_ms: int) -> Effect:
        """A fault of a transactional client."""
        with self._changing:
            current = [*self.transactional.current.items()]
            place, one = current[number % len(current)]
            if kind == "client_crash":
                one.process.kill()
                one.process.wait()
            if kind != "client_pause":
                self.transactional.start(place)
                return Effect(1, "", one.name)
        if one.process.poll() is not None:
            return Effect.none(f"{one.name} had ended")
        one.process.send_signal(signal.SIGSTOP)
        try:
            stage.wait(for_ms)
        finally:
            one.process.send_signal(signal.SIGCONT)
        return Effect(1, "", one.name)

    def settle(self, stage: Stage) -> list[str]:
        """Everybody goes on, comes to an end and leaves; who does not, in sentences."""
        stuck = list[str]()
        if self.transactional.current:
            try:
                self.transactional.move(lambda: stage.wait(100))
            except TimeoutError as late:
                stuck.append(f"transactional clients do not go on: {late}")
            self.transactional.stop()
            stuck += [f"{name} does not end" for name in self.transactional.stuck]
        for writer in self.writers:
            writer.stop()
            stuck += [writer.failed] if writer.failed else []
        number = len(stage.replicas(ORDERS))
        for name, group in self.groups.items():
            drained = stage.until(
                DRAIN_S, lambda name=name: committed_to_the_end(name, self.direct, number)
            )
            if not drained:
                stuck.append(f"{name} has not committed all of {ORDERS} within {DRAIN_S:.0f} s")
            group.stop()
            stuck += group.failures
        return stuck

    def counts(self) -> Counter[str]:
        """The numbers of records acknowledged and processed, and of transactions that ended."""
        total = Counter[str]()
        for one in (*self.writers, *self.groups.values()):
            total += one.counts
        return total + self.transactional.done

    def kill(self) -> None:
        """No process stays behind."""
        self.transactional.kill()


def member(stage: Stage, step: Step) -> Effect:
    """A member leaves, and another one takes its place."""
    group: GroupMembers = stage.clients.groups[step.group]
    name = group.replace(step.value, lambda: stage.wait(step.for_ms))
    return Effect(1, "", name)


def client(stage: Stage, step: Step) -> Effect:
    """Something happens to a transactional client."""
    return stage.clients.happens(step.kind, step.value, stage, step.for_ms)
