"""Truncation: replicas of one partition, and the controller's record of it.

The controller's decisions reach replicas late, so the binding keeps all of them, as the spec does.
It keeps the requests under way whose sender has moved on, and the ghost `committed`. Answers that
were lost it keeps as well, and brings them too late: the spec says that they are void, and so has
nothing to say about them.
"""

# Parameters are named as in the spec, where a leader is `l`.
# ruff: noqa: E741

from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from typing import ClassVar

from properties.conformance.binding import (
    Binding,
    Bound,
    Environment,
    NoSuchChoice,
    OtherAction,
    each,
)
from properties.modules.descriptor import Module
from properties.modules.on_disk import LogOnDisk, ReplicaOnDisk
from properties.tla import Rec, Value
from refimpl.errors import InvalidRequest, Refusal
from refimpl.machines.controller import LeaderAndIsr, PartitionState, first_live
from refimpl.machines.log import Log, Record
from refimpl.machines.replica import FetchAnswer, FetchRequest, Replica
from refimpl.machines.replica_log import UNDEFINED_EPOCH
from refimpl.projection import TRUNCATION_REPLICA, by_replica


class Truncation(Binding):
    """Replicas 1..N and the controller."""

    module = "Truncation"
    knobs: ClassVar = {
        "Rule": "kip320",
        "CheckEpochStart": True,
        "CheckIncarnation": True,
        "Unclean": False,
        "ResetFollowers": "always",
    }

    def __init__(self, constants: Mapping[str, Value]) -> None:
        self.ids = tuple(range(1, constants["N"] + 1))
        self.nobody = (0,) * len(self.ids)
        self.max_records: int = constants["MaxRecords"]
        self.max_epoch: int = constants["MaxEpoch"]
        self.max_fetch: int = constants["MaxFetch"]
        self.max_restarts: int = constants["MaxRestarts"]
        self.lossy: str = constants["Lossy"]
        self.late_fetches: bool = constants["LateFetches"]
        self.state = PartitionState.create(self.ids)
        self.replicas = tuple(self._replica(id) for id in self.ids)
        self.replicas[0].become_leader(1, self.state.isr)
        for replica in self.replicas[1:]:
            replica.become_follower(1, 1)
        self.decisions: dict[int, LeaderAndIsr] = {}  # by epoch, as they were made
        self._record()
        self.late: set[FetchRequest] = set()
        self.lost: dict[int, FetchAnswer] = {}
        self.committed: tuple[int, ...] = ()

    def _replica(self, id: int) -> Replica:
        return Replica(id)

    # The leader

    def write(self, l: int) -> None:
        leader = self.replicas[l - 1]
        if leader.log.end >= self.max_records:
            raise Bound
        leader.write((leader.epoch, leader.log.end))

    def advance_high_watermark(self, l: int) -> None:
        leader = self.replicas[l - 1]
        new = leader.advance_high_watermark()
        if new > len(self.committed):
            self.committed = tuple([record.epoch for record in leader.log.records[:new]])

    def shrink_isr(self, l: int, f: int) -> None:
        leader = self.replicas[l - 1]
        isr = leader.shrink_isr(f)
        self.state.shrink_isr(l, leader.epoch, f)
        leader.adopt_isr(isr)
        self._record()

    def expand_isr(self, l: int, f: int) -> None:
        leader = self.replicas[l - 1]
        isr = leader.expand_isr(f)
        self.state.expand_isr(l, leader.epoch, f, leader.seen.get(f, 0))
        leader.adopt_isr(isr)
        self._record()

    # A follower and its leader

    def _request(self, f: int, l: int) -> tuple[FetchRequest, bool]:
        """What f asks of l, and whether their logs agree, before anybody has changed."""
        follower = self.replicas[f - 1]
        if follower.leader != l:
            raise OtherAction
        request = follower.fetch_request()
        leaves = self.replicas[l - 1].diverging(request.end, request.last_epoch)
        return request, leaves is None

    def _deliver(self, f: int, answer: FetchAnswer) -> None:
        """Bring an answer, and bring it again: a second copy must change nothing."""
        self.replicas[f - 1].take_answer(answer)
        with suppress(Refusal):
            self.replicas[f - 1].take_answer(answer)

    def _deliver_lost(self, r: int) -> None:
        """An answer that comes after its follower has moved on to a new epoch is void."""
        lost = self.lost.pop(r, None)
        if lost is not None:
            with suppress(Refusal):
                self.replicas[r - 1].take_answer(lost)

    def fetch(self, f: int, l: int) -> None:
        request, agrees = self._request(f, l)
        if not agrees:
            raise OtherAction
        self._deliver(f, self.replicas[l - 1].answer_fetch(request, self.max_fetch))

    def fetch_lost(self, f: int, l: int) -> None:
        request, agrees = self._request(f, l)
        if not agrees:
            raise OtherAction
        self.lost[f] = self.replicas[l - 1].answer_fetch(request, self.max_fetch)

    def truncate(self, f: int, l: int) -> None:
        request, agrees = self._request(f, l)
        if agrees:
            raise OtherAction
        self._deliver(f, self.replicas[l - 1].answer_fetch(request, self.max_fetch))

    def late_fetch(self, f: int, l: int, choice: int) -> None:
        if not self.late:
            raise NoSuchChoice
        requests = sorted(
            (m for m in self.late if m.replica == f),
            key=lambda m: (m.epoch, m.incarnation, m.end, m.last_epoch),
        )
        if choice >= len(requests):
            raise NoSuchChoice
        self.replicas[l - 1].answer_fetch(requests[choice], self.max_fetch)
        self.late.remove(requests[choice])

    # Being told

    def _left_behind(self, replica: Replica) -> set[FetchRequest]:
        """What a follower asked for last may still reach its leader after it has moved on."""
        if not self.late_fetches or not replica.up or replica.leads:
            return set()
        return {replica.fetch_request()}

    def _told(self, e: int) -> LeaderAndIsr:
        if e not in self.decisions:
            raise OtherAction
        return self.decisions[e]

    def become_leader(self, r: int, e: int) -> None:
        decision = self._told(e)
        if decision.leader != r:
            raise OtherAction
        left_behind = self._left_behind(self.replicas[r - 1])
        self.replicas[r - 1].become_leader(e, decision.isr)
        self.late |= left_behind
        self._deliver_lost(r)

    def become_follower(self, r: int, e: int) -> None:
        decision = self._told(e)
        if decision.leader is None:
            raise OtherAction
        left_behind = self._left_behind(self.replicas[r - 1])
        self.replicas[r - 1].become_follower(e, decision.leader)
        self.late |= left_behind
        self._deliver_lost(r)

    # The controller

    def _record(self) -> None:
        self.decisions[self.state.epoch] = self.state.decision

    def _decide(self) -> None:
        if self.state.epoch >= self.max_epoch:
            raise Bound

    def elect(self, r: int) -> None:
        self._decide()
        self.state.elect(r)
        self._record()

    def fence(self, b: int, r: int) -> None:
        self._decide()
        decided = self.state.fence(b, r)
        self.state.unfence(b)  # heard of again at once: the spec knows no sessions
        if not decided:
            raise InvalidRequest
        self._record()

    def go_offline(self, b: int) -> None:
        self._decide()
        if self.max_restarts == 0:
            raise Environment
        if first_live(self.ids, self.state.isr - {b}, self.state.alive) is not None:
            raise OtherAction  # there is a successor: this is Fence
        decided = self.state.fence(b, None)
        self.state.unfence(b)
        if not decided:
            raise InvalidRequest
        self._record()

    def elect_unclean(self, r: int) -> None:
        self._decide()
        self.state.elect_unclean(r)
        self._record()

    # The environment

    def restart(self, r: int, checkpoint: int, kept: int) -> None:
        replica = self.replicas[r - 1]
        if replica.incarnation >= self.max_restarts:
            raise Bound
        if kept < replica.log.end and (
            self.lossy == "none" or (self.lossy == "outside" and r in self.state.isr)
        ):
            raise Environment
        left_behind = self._left_behind(replica)
        replica.restart(checkpoint, kept)
        self.lost.pop(r, None)  # its connection ended with it
        self.late |= left_behind
        # Its session ends and begins within the step, before the controller decides anything.
        self.state.alive -= {r}
        self.state.register(r, crashed=False, incarnation=replica.incarnation)

    def load(self, state: Mapping[str, Value]) -> None:
        self.decisions = dict(_decisions(state["leaderAndIsr"]))
        now = self.decisions[len(self.decisions)]
        self.state = PartitionState(
            epoch=now.epoch,
            leader=now.leader,
            isr=now.isr,
            alive=frozenset(self.ids),
            incarnations=_some(state["incarnation"]),
        )
        self.replicas = tuple(self._loaded(state, r) for r in self.ids)
        self.lost = {}
        self.late = set(map(_fetch_request, state["late"]))
        self.committed = state["committed"]

    def _loaded(self, state: Mapping[str, Value], r: int) -> Replica:
        epoch, up = state["epoch"][r - 1], r in state["up"]
        log = Log([Record(e, (e, offset)) for offset, e in enumerate(state["log"][r - 1])])
        if up and self.decisions[epoch].leader == r:
            log.assign_epoch(epoch)
        return Replica(
            id=r,
            log=log,
            high_watermark=state["highWatermark"][r - 1],
            epoch=epoch,
            leader=self.decisions[epoch].leader if up else None,
            isr=state["isr"][r - 1],
            ends=_some(state["ends"][r - 1]),
            seen=_some(state["seen"][r - 1]),
            incarnation=state["incarnation"][r - 1],
            up=up,
        )


@cache
def _decisions(made: tuple[Rec, ...]) -> Mapping[int, LeaderAndIsr]:
    return {
        e: LeaderAndIsr(e, one["leader"] or None, one["isr"]) for e, one in enumerate(made, start=1)
    }


@cache
def _fetch_request(m: Rec) -> FetchRequest:
    return FetchRequest(
        m["from"], m["incarnation"], m["epoch"], m["end"], m["last"] or UNDEFINED_EPOCH
    )


def _some(numbers: tuple[int, ...]) -> dict[int, int]:
    """Numbers by replica, without those that say nothing."""
    return {r: number for r, number in enumerate(numbers, start=1) if number}


@cache
def _decision(leader: int | None, isr: frozenset[int]) -> Rec:
    return Rec.of(leader=leader or 0, isr=isr)


@cache
def _request(m: FetchRequest) -> Rec:
    named = {"from": m.replica, "epoch": m.epoch, "incarnation": m.incarnation}
    return Rec.of(**named, end=m.end, last=max(m.last_epoch, 0))


Truncation.projection = {
    **each(TRUNCATION_REPLICA, lambda c: c.replicas),
    "ends": lambda c: tuple(
        [by_replica(r.ends, c.ids) if r.ends else c.nobody for r in c.replicas]
    ),
    "seen": lambda c: tuple(
        [by_replica(r.seen, c.ids) if r.seen else c.nobody for r in c.replicas]
    ),
    "up": lambda c: frozenset([r.id for r in c.replicas if r.up]),
    "leaderAndIsr": lambda c: tuple([_decision(d.leader, d.isr) for d in c.decisions.values()]),
    "late": lambda c: frozenset([_request(m) for m in c.late]),
    "committed": lambda c: c.committed,
}


class TruncationOnDisk(Truncation):
    """The same, on Kafka's files."""

    variant = "on disk"

    def _replica(self, id: int) -> Replica:
        return ReplicaOnDisk(id, log=LogOnDisk.new())


MODULE = Module(
    binding=Truncation,
    on_disk=TruncationOnDisk,
    machines=("log", "replica", "controller"),
    recorded="orders:{partition}",
)
