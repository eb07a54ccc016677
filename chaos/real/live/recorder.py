"""A recorder of the steps of brokers that real clients write to, by the simulator's recorders."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from attrs import define, field

from chaos.recorders.group import GroupRecorder
from chaos.recorders.replication import (
    Registrations,
    Replication,
    partition_trace,
    partition_watchers,
)
from chaos.recording import BEYOND
from chaos.sim.addresses import OFFSETS
from refimpl.events import Json
from refimpl.machines.replica import Replica
from refimpl.messages import observations as o
from refimpl.messages.broker import TopicPartition

Hosts = Mapping[int, Any]
"""Broker hosts of `refimpl.edge` by broker: each has the `node` of its process."""


@define(eq=False)
class LiveRecorder:
    """Give its `observe` to a `Cluster`, and that one's `hosts` to it, before topics are made.

    Partitions of this topic are to be on brokers 1, 2 and 3, and brokers to be observed from their
    start on.
    """

    topic: str
    clock: Callable[[], int]
    hosts: Hosts = field(factory=dict[int, Any])
    partitions: dict[TopicPartition, Replication] = field(factory=dict[TopicPartition, Replication])
    groups: list[GroupRecorder] = field(factory=list[GroupRecorder])
    _registrations: Registrations = field(init=False)
    _watchers: dict[type, Callable[[int, Any], None]] = field(init=False)
    _of_groups: dict[type, list[Callable[[int, Any], None]]] = field(
        factory=dict[type, list[Callable[[int, Any], None]]]
    )

    def __attrs_post_init__(self) -> None:
        """Know what each observation is in the words of the spec."""
        self._registrations = Registrations(self.clock, self.partitions, self._replica)
        self._watchers = {
            **partition_watchers(self.clock, self.partitions, self._replica),
            **self._registrations.watchers(),
        }

    def record_group(self, group: GroupRecorder) -> None:
        """Record a group as well, without members yet."""
        self.groups.append(group)

        def watch(kind: type, watcher: Callable[[int, Any], None]) -> None:
            self._of_groups.setdefault(kind, []).append(watcher)

        group.attach(watch)

    def observe(self, who: int, seen: Any) -> None:
        """One observation of a node, or of the controller."""
        kind = seen.__class__
        for of_group in self._of_groups.get(kind, ()):
            of_group(who, seen)
        name: TopicPartition | None = getattr(seen, "partition", None)
        if name is not None and name.topic != self.topic:
            return
        if (kind is o.BecameLeader or kind is o.BecameFollower) and name not in self.partitions:
            self._new(seen.partition)
        watcher = self._watchers.get(kind)
        if watcher is not None:
            watcher(who, seen)

    def _new(self, name: TopicPartition) -> None:
        one = self.partitions[name] = Replication(partition_trace(name))
        self._registrations.join(one)

    def _replica(self, broker: int, name: TopicPartition) -> Replica | None:
        partition = self.hosts[broker].node.partitions.get(name)
        return None if partition is None else partition.replica

    def offsets_of(self, broker: int) -> Replica:
        """A broker's replica of the one partition of `__consumer_offsets`."""
        return self.hosts[broker].node.partitions[OFFSETS].replica

    def lines(self, run: str, constants: Mapping[str, Json]) -> Iterator[bytes]:
        """Everything as NDJSON, once the run is over."""
        for one in self.partitions.values():
            yield from one.trace.lines(run, constants)
        for group in self.groups:
            yield from group.trace().lines(run, group.constants(BEYOND))
