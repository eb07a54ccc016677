"""DurableIsr: the controller's rules for elections, brokers that crash, and their logs.

The spec has no messages. A leader knows at once the controller's decisions, its followers' logs,
and the acknowledged records. So the binding delivers every decision to all running brokers, and
asks the leader as if it had received every fetch (`_informed`).
"""

# Parameters are named as in the spec, where a leader is `l`.
# ruff: noqa: E741

from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from typing import ClassVar

from attrs import evolve

from properties.conformance.binding import Binding, Bound, Environment, OtherAction, each, of
from properties.modules.descriptor import Module
from properties.modules.on_disk import LogOnDisk, ReplicaOnDisk
from properties.tla import Value
from refimpl.errors import Refusal
from refimpl.machines.brokers import BrokerRegistry
from refimpl.machines.controller import PartitionState
from refimpl.machines.log import Log, Record
from refimpl.machines.messages import AlterPartitionRequest
from refimpl.machines.replica import Replica
from refimpl.projection import DURABLE_ISR_CONTROLLER, DURABLE_ISR_REPLICA


class DurableIsr(Binding):
    """Brokers 1..N with one replica each, and the controller."""

    module = "DurableIsr"
    knobs: ClassVar = {"Dropped": "none"}

    def __init__(self, constants: Mapping[str, Value]) -> None:
        self.ids = tuple(range(1, constants["N"] + 1))
        self.min_isr: int = constants["MinIsr"]
        self.max_records: int = constants["MaxRecords"]
        self.max_crashes: int = constants["MaxCrashes"]
        self.max_stops: int = constants["MaxStops"]
        self.max_elections: int = constants["MaxElections"]
        self.elr_enabled: bool = constants["Elr"]
        self.detect_crash: bool = constants["DetectCrash"]
        self.flush_each: bool = constants["FlushEach"]
        self.unclean: bool = constants["Unclean"]
        self.last_known_leader: bool = constants["LastKnownLeader"]
        self.move_leaders: bool = constants["MoveLeaders"]
        self.state = PartitionState.create(
            self.ids,
            min_isr=self.min_isr,
            elr_enabled=self.elr_enabled,
            unclean_election=self.unclean,
            last_known_leader=self.last_known_leader,
        )
        self.replicas = tuple([self._replica(id) for id in self.ids])
        self.crashed: frozenset[int] = frozenset()
        self.acked: tuple[int, ...] = ()
        self.written = self.crashes = self.stops = self.elections = 0
        self._tell(self.ids)

    def _replica(self, id: int) -> Replica:
        return Replica(id, min_isr=self.min_isr)

    def _tell(self, brokers: tuple[int, ...]) -> None:
        """The controller's decision reaches the running brokers at once."""
        for r in brokers:
            if r in self.state.brokers.alive:
                with suppress(Refusal):  # nothing new, or no leader
                    self.replicas[r - 1].told(self.state.decision)

    @contextmanager
    def _informed(self, l: int, ends: Mapping[int, int]) -> Generator[Replica]:
        """The leader, within the block, as if it had always led and had received these ends.

        It is the same object, with all its other state. The start of its epoch represents records
        that may have been acknowledged earlier; here it knows them.
        """
        leader = self.replicas[l - 1]
        kept = leader.high_watermark, leader.epoch, leader.ends, leader.newest
        known = len(self.acked), 0, dict(ends), dict[int, tuple[int, int]]()
        leader.high_watermark, leader.epoch, leader.ends, leader.newest = known
        try:
            yield leader
        finally:
            leader.high_watermark, leader.epoch, leader.ends, leader.newest = kept

    def _common(self, f: int, l: int) -> int:
        """The length of the common prefix of f's and the leader's logs."""
        mine, theirs = self.replicas[f - 1].log, self.replicas[l - 1].log
        same = 0
        for a, b in zip(mine.records, theirs.records, strict=False):
            if a != b:
                break
            same += 1
        return same

    # The leader

    def write(self, l: int) -> None:
        if self.written >= self.max_records:
            raise Bound
        self.replicas[l - 1].write(self.written + 1)
        self.written += 1

    def acknowledge(self, l: int) -> None:
        """Acknowledge one record at a time, as a producer sees it; the high watermark may be
        further on."""
        followers = self.replicas[l - 1].isr - {l}
        with self._informed(l, {f: self._common(f, l) for f in followers}) as leader:
            leader.advance_high_watermark()
        told = leader.log.records[: len(self.acked) + 1]
        self.acked = tuple([_number(record) for record in told])

    def fetch(self, f: int, l: int) -> None:
        leader, follower = self.replicas[l - 1], self.replicas[f - 1]
        if follower.leader != l or follower.log.records[:] == leader.log.records[:]:
            raise OtherAction
        request = follower.fetch_request()
        rounds = self.max_records if self._common(f, l) < follower.log.end else 1
        for _ in range(rounds):  # the spec cuts everything in one step
            follower.take_answer(leader.answer_fetch(request, 1))
            if self._common(f, l) == follower.log.end:
                break
            request = follower.fetch_request()

    # The controller

    def shrink_isr(self, l: int, f: int) -> None:
        self._alter_partition(l, self.replicas[l - 1].isr_without(f))

    def expand_isr(self, l: int, f: int) -> None:
        leader, follower = self.replicas[l - 1], self.replicas[f - 1]
        seen, leader.seen = leader.seen, dict(leader.seen)
        try:
            with self._informed(l, {}) as informed:
                with suppress(Refusal):
                    informed.answer_fetch(follower.next_fetch()._replace(epoch=0), 0)
                request = informed.isr_with(f)
        finally:
            leader.seen = seen
        request = evolve(request, leader_epoch=leader.epoch)
        self.state.check(request)
        leader.answer_fetch(follower.fetch_request(), 0)  # now it has received its fetch
        self._alter_partition(l, request)

    def _alter_partition(self, l: int, request: AlterPartitionRequest) -> None:
        """The leader asks, the controller agrees, and the leader learns it, in one step."""
        self.state.check(request)
        leader = self.replicas[l - 1]
        leader.pending = request
        leader.take_isr_answer(request, self.state.alter_partition(request))

    def _elects(self) -> None:
        if self.elections >= self.max_elections:
            raise Bound

    def elect(self, r: int) -> None:
        self._elects()
        self.state.elect(r)
        self.elections += 1
        self._tell(self.ids)

    def elect_last_known(self, r: int) -> None:
        self._elects()
        self.state.elect_last_known(r)
        self.elections += 1
        self._tell(self.ids)

    def elect_unclean(self, r: int) -> None:
        self._elects()
        self.state.elect_unclean(r)
        self.elections += 1
        self._tell(self.ids)

    def move_leader(self, r: int) -> None:
        self._elects()
        if not self.move_leaders:
            raise Environment
        if r == self.state.leader:
            raise OtherAction  # the same leader anew
        self.state.move_leader(r)
        self.elections += 1
        self._tell(self.ids)

    # The environment

    def _gone(self, r: int, kept: int) -> None:
        self.state.brokers.fence(r)
        if self.state.remove(r):
            self._tell(self.ids)
        self.replicas[r - 1].restart(0, kept)

    def crash(self, r: int, kept: int) -> None:
        end = self.replicas[r - 1].log.end
        if kept > end or (self.flush_each and kept < end):
            raise Environment
        if self.crashes >= self.max_crashes:
            raise Bound
        self._gone(r, kept)
        self.crashes += 1
        self.crashed |= {r}

    def stop(self, r: int) -> None:
        if self.stops >= self.max_stops:
            raise Bound
        self._gone(r, self.replicas[r - 1].log.end)
        self.stops += 1

    def restart(self, r: int) -> None:
        self.state.brokers.register(r, self.replicas[r - 1].incarnation)
        self.state.brokers.unfence(r)
        self.state.register(r, crashed=self.detect_crash and r in self.crashed)
        self.crashed -= {r}
        self._tell(self.ids)

    def load(self, state: Mapping[str, Value]) -> None:
        """Each record was written in an epoch of its own: the spec does not say, and this fits."""
        epochs = dict.fromkeys(self.ids, 0)
        for r in frozenset(self.ids) - state["up"]:
            epochs[r] = -1  # it restarts as a newer incarnation than the one that was registered
        self.state = PartitionState(
            leader_epoch=state["written"] + 1,
            leader=state["leader"] or None,
            isr=state["isr"],
            replicas=frozenset(self.ids),
            brokers=BrokerRegistry(epochs, state["up"]),
            elr=state["elr"],
            min_isr=self.min_isr,
            elr_enabled=self.elr_enabled,
            unclean_election=self.unclean,
            last_known_leader=self.last_known_leader,
            last_known=state["lastKnown"] or None,
        )
        self.replicas = tuple([self._loaded(r, log) for r, log in enumerate(state["log"], start=1)])
        self.crashed, self.acked = state["crashed"], state["acked"]
        self.written, self.crashes = state["written"], state["crashes"]
        self.stops, self.elections = state["stops"], state["elections"]

    def _loaded(self, r: int, log: tuple[int, ...]) -> Replica:
        now = self.state.decision
        up = now.leader is not None and r in self.state.brokers.alive
        records = Log([Record(number, number) for number in log])
        if up and now.leader == r:
            records.assign_epoch(now.leader_epoch)
        return Replica(
            id=r,
            log=records,
            epoch=now.leader_epoch,
            leader=now.leader if up else None,
            isr=now.isr if up and now.leader == r else frozenset(),
            up=up,
            min_isr=self.min_isr,
        )


def _number(record: Record) -> int:
    """Records are numbered as they were written."""
    assert isinstance(record.value, int)
    return record.value


DurableIsr.projection = {
    **each(DURABLE_ISR_REPLICA, lambda c: c.replicas),
    **of(DURABLE_ISR_CONTROLLER, lambda c: c.state),
    "crashed": lambda c: c.crashed,
    "acked": lambda c: c.acked,
    "written": lambda c: c.written,
    "crashes": lambda c: c.crashes,
    "stops": lambda c: c.stops,
    "elections": lambda c: c.elections,
}


class DurableIsrOnDisk(DurableIsr):
    """The same, on Kafka's files."""

    variant = "on disk"

    def _replica(self, id: int) -> Replica:
        return ReplicaOnDisk(id, log=LogOnDisk.new(), min_isr=self.min_isr)


MODULE = Module(
    binding=DurableIsr,
    on_disk=DurableIsrOnDisk,
    machines=("log", "replica", "controller", "brokers"),
)
