"""A cluster in which all is well, and a bug that is put into it."""

import os
import pickle
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from attrs import define, field, frozen

from chaos.clients.producer import SimulatedProducer
from chaos.oracles.deletion import DeletionOracle
from chaos.oracles.group import GroupPartition
from chaos.oracles.partition import PartitionOracle
from chaos.oracles.violation import Violation
from chaos.sim.addresses import TICK, TOPIC
from chaos.sim.hosts import BrokerHost
from chaos.sim.settings import Settings
from chaos.simulator import Run, build
from properties.mutants.edits import patched
from refimpl.machines.controller import PartitionState
from refimpl.machines.log import Record
from refimpl.machines.messages import FetchRequest, LeaderAndIsr
from refimpl.machines.replica import Replica
from refimpl.messages import observations as o
from refimpl.messages.broker import TopicPartition
from refimpl.storage.replica.memory import RecordBatch
from tests.chaos.oracle_sites import Patches

EVERYBODY = frozenset((1, 2, 3))


@define
class Cluster:
    """A run that came well to its end: what a bug finds."""

    run: Run
    name: TopicPartition = field(factory=lambda: TopicPartition(TOPIC, 0))

    @property
    def oracle(self) -> PartitionOracle:
        return self.run.partitions[0]

    @property
    def state(self) -> PartitionState:
        state = self.oracle.state
        assert isinstance(state, PartitionState)
        return state

    @property
    def group(self) -> GroupPartition:
        return self.run.group.partitions[0]

    @property
    def producer(self) -> SimulatedProducer:
        return self.run.progress.producers[0]

    @property
    def deletion(self) -> DeletionOracle:
        assert self.run.progress.deletion is not None
        return self.run.progress.deletion

    @property
    def brokers(self) -> Sequence[BrokerHost]:
        assert self.run.progress.availability is not None
        return self.run.progress.availability.brokers

    @property
    def leader(self) -> Replica:
        return self.oracle.replicas[1]

    @property
    def follower(self) -> Replica:
        return self.oracle.replicas[2]

    def append(self, record: Record) -> None:
        """Everybody has one record more."""
        for replica in self.oracle.replicas.values():
            if isinstance(record.value, int):
                replica.log.append(record.epoch, RecordBatch((record.value,)))
            else:  # as a log in memory has it already
                replica.log.extend((record,))

    def observe(self, who: int, kind: type, *of: Any) -> None:
        """Somebody says that it made a step of this partition."""
        partition = self.name if kind.__module__ == o.__name__ else 0
        self.run.simulation.observe(who, kind(partition, *of))

    def taken(self, *, truncated: bool = False, end: int | None = None, old: int) -> None:
        """The follower took an answer; before, it ended at `end`, with high watermark `old`."""
        before = self.follower.log.end if end is None else end
        self.observe(2, o.AnswerTaken, 1, truncated, before, old)

    def heard(self, *, epoch: int = 1, known: int = 0) -> None:
        """The leader heard a fetch of the follower."""
        request = FetchRequest(2, 0, 1, epoch, self.follower.log.end, 1)
        self.observe(1, o.FetchHeard, request, False, known)

    def decided(self, action: str, isr: frozenset[int], *, leader: int = 2, **of: Any) -> None:
        """The controller decided something, in a new epoch."""
        decision = LeaderAndIsr(2, leader, isr, 2)
        elr, alive = of.get("elr", frozenset[int]()), of.get("alive", EVERYBODY)
        self.observe(0, o.Decided, action, leader, 0, decision, elr, alive)

    def commits_alone(self, isr: frozenset[int]) -> None:
        """The leader writes one record more, and counts it as committed by this ISR."""
        leader, old = self.leader, self.leader.high_watermark
        leader.isr = isr
        leader.log.extend((Record(1, "late"),))
        leader.high_watermark = leader.log.end
        self.observe(1, o.HighWatermarkAdvanced, old, leader.log.end)

    def finish(self) -> None:
        """The time to get well is over, and everything is read."""
        self.run.simulation.timeline.now += self.run.settings.calm_ms + 1
        self.run.progress.handle(TICK)


Bug = Callable[[Cluster], None]


@frozen
class Case:
    """A bug, and the settings of the cluster that has it."""

    bug: Bug
    settings: dict[str, Any] = field(factory=dict[str, Any])

    def violation(self, without: Patches | None = None) -> Violation | None:
        """The violation reported for the bug, with these functions patched once it is there."""
        few: dict[str, Any] = {"partitions": 1, "fault_ms": 200, "files": False}
        run = _run(Settings(**few | self.settings))
        reads, writes = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                with open(writes, "wb") as file:
                    pickle.dump(self._reported(run, without or {}), file)
            finally:  # the stack above belongs to the parent
                os._exit(0)
        os.close(writes)
        with open(reads, "rb") as file:
            reported = pickle.load(file)
        os.waitpid(child, 0)
        if isinstance(reported, Violation | None):
            return reported
        raise reported

    def _reported(self, run: Run, without: Patches) -> BaseException | None:
        """All that is raised, in a process that nothing comes back from."""
        try:
            with patched(without):
                self.bug(Cluster(run))
        except BaseException as error:
            return error
        return None


@cache
def _run(settings: Settings) -> Run:
    """A run that is well: bugs are put into copies of it, each in a process forked here."""
    run = build(settings, ()).go()
    assert run.violation is None
    assert run.complete
    assert len(run.partitions[0].log.committed) > 5
    return run


CASES: dict[str, list[Case]] = {}


def breaks(*names: str, **settings: Any) -> Callable[[Bug], Bug]:
    """This bug, with these settings, is found at these sites."""

    def register(bug: Bug) -> Bug:
        for name in names:
            CASES.setdefault(name, []).append(Case(bug, settings))
        return bug

    return register
