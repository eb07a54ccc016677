"""The promises of controllers and their writes, judged as the store applies each write.

An oracle has the name of its property in Controller's spec, if the spec has it.
"""

from collections import Counter
from typing import Any

from attrs import define, field

from chaos.oracles.violation import Violation
from chaos.sim.simulation import Simulation
from chaos.sim.store import Applied, StoreHost
from refimpl.controller import znodes
from refimpl.messages.broker import TopicPartition
from refimpl.messages.observations import ControllerElected, ControllerFenced
from refimpl.metadata.contract import Create, Delete, Multi, SetData, changes_of

DECIDED = (znodes.TOPICS, znodes.CONFIGS, znodes.DELETE_TOPICS, znodes.BROKER_EPOCHS)
"""Below these only the controller writes."""


@define(eq=False)
class ControlPlaneOracle:
    """Follows the store: the elected controller of each epoch, and each partition's last decision.

    `owner` is the session that won each controller epoch, `acting` the broker that claimed to be
    controller in an epoch.
    """

    simulation: Simulation
    store: StoreHost
    counts: Counter[str]
    epoch: int = 0
    owner: dict[int, int] = field(factory=dict[int, int])
    acting: dict[int, int] = field(factory=dict[int, int])
    decisions: dict[str, znodes.TopicPartitionStateZNode] = field(
        factory=dict[str, znodes.TopicPartitionStateZNode]
    )
    replicas: dict[str, dict[int, znodes.Assigned]] = field(
        factory=dict[str, dict[int, znodes.Assigned]]
    )

    def attach(self) -> None:
        """Judge the store's writes, and the brokers' claims."""
        self.simulation.watch(Applied, lambda _, seen: self._applied(seen))
        self.simulation.watch(ControllerElected, lambda _, seen: self._elected(seen))
        self.simulation.watch(ControllerFenced, lambda _, seen: self._fenced(seen))

    def _elected(self, seen: ControllerElected) -> None:
        self.counts["controllers elected"] += 1
        other = self.acting.setdefault(seen.controller_epoch, seen.broker)
        if other != seen.broker:
            raise Violation(
                "OneControllerPerEpoch",
                f"{other} and {seen.broker} act in controller epoch {seen.controller_epoch}",
            )

    def _fenced(self, seen: ControllerFenced) -> None:
        self.counts["controllers deposed"] += 1

    def _applied(self, seen: Applied) -> None:
        if isinstance(seen.write, Create | Delete | SetData | Multi):
            changes = changes_of(seen.write)
            for change in changes:
                if isinstance(change, SetData) and change.path == znodes.CONTROLLER_EPOCH:
                    self._claimed(seen, int(change.data))
            if any(_is_decision(change) for change in changes) and self.epoch:
                self._must_be_controller(seen)
            for change in changes:
                if isinstance(change, Create | SetData):
                    self._decided(change.path, change.data)
                elif isinstance(change, Delete):
                    self._deleted(change.path)

    def _claimed(self, seen: Applied, epoch: int) -> None:
        if epoch != self.epoch + 1:
            raise Violation("ControllerEpochAscends", f"from {self.epoch} to {epoch}")
        if self.store.believers():
            self.counts["controllers that do not know that they are deposed"] += 1
        self.epoch, self.owner[epoch] = epoch, seen.session

    def _must_be_controller(self, seen: Applied) -> None:
        if self.owner[self.epoch] != seen.session:
            raise Violation(
                "DeposedWritesNothing",
                f"broker {seen.broker} writes, and epoch {self.epoch} is another session's",
            )

    # Decisions

    def _decided(self, path: str, data: bytes) -> None:
        if not path.startswith(f"{znodes.TOPICS}/"):
            return
        topic = path.removeprefix(f"{znodes.TOPICS}/").split("/")[0]
        if path == f"{znodes.TOPICS}/{topic}":
            self._assigned(topic, znodes.topic_of(data)[1])
        elif path.endswith("/state"):
            self._judge(path, topic, znodes.state_of(data))

    def _deleted(self, path: str) -> None:
        """Another topic of that name begins anew."""
        self.decisions.pop(path, None)
        self.replicas.pop(path.removeprefix(f"{znodes.TOPICS}/"), None)

    def _assigned(self, topic: str, partitions: dict[int, znodes.Assigned]) -> None:
        """Count what begins and what ends."""
        for number, new in partitions.items():
            old = self.replicas.get(topic, {}).get(number)
            if old is not None and old != new:
                over = not (new.adding or new.removing)
                self.counts["reassignments over" if over else "reassignments begun"] += 1
        self.replicas[topic] = partitions

    def _judge(self, path: str, topic: str, new: znodes.TopicPartitionStateZNode) -> None:
        """Epochs only grow, the leader is in the ISR, and the ISR contains only replicas."""
        old, decision = self.decisions.get(path), new.decision
        self.decisions[path] = new
        if decision.leader is not None and decision.leader not in decision.isr:
            raise Violation("LeaderInIsr", f"{path}: {decision}")
        assigned = self.replicas.get(topic, {}).get(int(path.split("/")[-2]))
        if assigned is not None and not decision.isr <= set(assigned.replicas):
            raise Violation("IsrOfReplicas", f"{path}: {decision}, of {assigned.replicas}")
        if old is None:
            return
        before = old.decision
        if (
            decision.leader_epoch < before.leader_epoch
            or decision.partition_epoch <= before.partition_epoch
            or new.controller_epoch < old.controller_epoch
        ):
            raise Violation("NeverBack", f"{path}: {decision} after {before}")
        changed = decision.leader != before.leader
        if changed and decision.leader_epoch == before.leader_epoch:
            raise Violation("OneLeaderPerEpoch", f"{path}: {decision} after {before}")

    # The end

    def unfinished(self) -> str:
        """The work that was begun and has not ended, in words."""
        for topic, partitions in self.replicas.items():
            for number, one in partitions.items():
                path = znodes.state_path(TopicPartition(topic, number))
                last = self.decisions.get(path)
                leaderless = last is None or last.decision.leader is None  # judged elsewhere
                if (one.adding or one.removing) and not leaderless:
                    return f"{topic}:{number} is still being reassigned"
        believers = self.store.believers()
        if len(believers) != 1:
            return f"{len(believers)} controllers act: {believers}"
        watched = self.store.watched()
        deaf = [one for one, paths in watched.items() if znodes.CONTROLLER not in paths]
        return f"brokers that do not watch who is controller: {deaf}" if deaf else ""


def _is_decision(change: Any) -> bool:
    written = isinstance(change, Create | SetData | Delete)
    return written and any(change.path.startswith(f"{root}/") for root in DECIDED)
