"""Truncation: replicas of one partition, and the controller's record of it.

The controller's decisions reach replicas late, so the binding keeps all of them, as the spec does.
It keeps the requests under way whose sender has moved on, the answers that may come again, and the
ghost `committed`.
"""

# Parameters are named as in the spec, where a leader is `l`.
# ruff: noqa: E741

from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from typing import ClassVar

from properties.conformance.binding import (
    Bound,
    Environment,
    NoSuchChoice,
    OtherAction,
    each,
)
from properties.modules.descriptor import Module
from properties.modules.on_disk import LogOnDisk, ReplicaOnDisk
from properties.modules.replicated import Replicated, log_of
from properties.tla import Rec, Value
from refimpl.errors import Refusal
from refimpl.machines.brokers import BrokerRegistry
from refimpl.machines.controller import PartitionState
from refimpl.machines.log import Record
from refimpl.machines.messages import (
    AlterPartitionRequest,
    FetchRequest,
    FetchResponse,
    LeaderAndIsr,
)
from refimpl.machines.replica import Replica
from refimpl.machines.replica_log import UNDEFINED_EPOCH, EpochEnd
from refimpl.projection import TRUNCATION_REPLICA, by_replica


class Truncation(Replicated):
    """Replicas 1..N and the controller."""

    module = "Truncation"
    knobs: ClassVar = {
        "Rule": "kip320",
        "CheckEpochStart": True,
        "CheckIncarnation": True,
        "Unclean": False,
        "ResetFollowers": "always",
        "NumberFetches": True,
        "FenceRaisesEpoch": False,
        "Dropped": "none",
    }

    def __init__(self, constants: Mapping[str, Value]) -> None:
        super().__init__(constants)
        self.max_fetch: int = constants["MaxFetch"]
        self.lossy: str = constants["Lossy"]
        self.late_fetches: bool = constants["LateFetches"]
        self.late_answers: bool = constants["LateAnswers"]
        self.decisions: dict[int, LeaderAndIsr] = {}  # by epoch, as they were made
        self._record()
        self.late: set[FetchRequest] = set()
        self.answers: dict[Rec, FetchResponse] = {}
        self.earlier: dict[int, FetchRequest] = {}  # of each follower, the last but one

    # The leader

    def shrink_isr(self, l: int, f: int) -> None:
        leader = self.replicas[l - 1]
        request = leader.isr_without(f)
        self.state.check(request)
        if request.isr == self.state.isr:
            raise OtherAction  # in force already: an answer tells what AdoptIsr does
        self._alter_partition(leader, leader.shrink_isr(f))

    def expand_isr(self, l: int, f: int) -> None:
        leader = self.replicas[l - 1]
        self.state.check(leader.isr_with(f))
        self._alter_partition(leader, leader.expand_isr(f))

    def _alter_partition(self, leader: Replica, request: AlterPartitionRequest) -> None:
        """The leader asks, the controller agrees, and the leader receives the answer, in one step.

        AlterPartition specifies the steps between. A refused request is no step.
        """
        leader.take_isr_answer(request, self.state.alter_partition(request))
        self._record()

    # A follower and its leader

    def _ask(self, f: int, l: int) -> FetchResponse:
        """f asks and l answers; then copies of this fetch and the one before come, and are void."""
        leader, request = self.replicas[l - 1], self.replicas[f - 1].fetch_request()
        answer = leader.answer_fetch(request, self.max_fetch)
        if self.late_answers:
            self.answers[_answer(f, answer)] = answer
        for copy in (request, self.earlier.get(f, request)):
            with suppress(Refusal):
                leader.answer_fetch(copy, self.max_fetch)
        self.earlier[f] = request
        return answer

    def fetch_lost(self, f: int, l: int) -> None:
        if not self._agree(f, l):
            raise OtherAction
        self._ask(f, l)
        self.replicas[f - 1].fetch_request()  # it gives up and asks anew, which is lost as well

    def late_answer(self, f: int, choice: int) -> None:
        answers = [rec for rec in self.answers if rec["to"] == f]
        if choice >= len(answers):
            raise NoSuchChoice
        self.replicas[f - 1].take_answer(self.answers[answers[choice]])

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

    # Metadata received

    def _left_behind(self, replica: Replica) -> set[FetchRequest]:
        """A follower's last request may reach its leader after the follower has moved on."""
        if not self.late_fetches or not replica.up or replica.leads:
            return set()
        return {replica.next_fetch()}

    def _told(self, e: int) -> LeaderAndIsr:
        if e not in self.decisions:
            raise OtherAction
        return self.decisions[e]

    def become_leader(self, r: int, e: int) -> None:
        decision = self._told(e)
        left_behind = self._left_behind(self.replicas[r - 1])
        self.replicas[r - 1].become_leader(decision)
        self.late |= left_behind

    def become_follower(self, r: int, e: int) -> None:
        decision = self._told(e)
        left_behind = self._left_behind(self.replicas[r - 1])
        self.replicas[r - 1].become_follower(decision)
        self.late |= left_behind

    def adopt_isr(self, l: int) -> None:
        leader = self.replicas[l - 1]
        leader.adopt_isr(self.decisions[leader.epoch])

    # The controller

    def _record(self) -> None:
        self.decisions[self.state.leader_epoch] = self.state.decision

    def _new_epoch(self) -> None:
        if self.state.leader_epoch >= self.max_epoch:
            raise Bound

    def elect(self, r: int) -> None:
        self._new_epoch()
        if self.state.leader is None:
            self.state.elect(r)
        else:
            self.state.move_leader(r)
        self._record()

    def fence(self, b: int, r: int) -> None:
        """The broker registers again at once, because the spec has no sessions."""
        if b == self.state.leader and r in self.state.isr - {b}:
            self._new_epoch()
        if not self.state.fence(b, r):
            raise OtherAction  # it was not in the ISR: nothing to decide
        self._record()

    def go_offline(self, b: int) -> None:
        self._new_epoch()
        if self.max_restarts == 0:
            raise Environment
        self.state.go_offline(b)
        self._record()

    def elect_unclean(self, r: int) -> None:
        self._new_epoch()
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
        self.late |= left_behind
        # Its session ends and begins within the step, before the controller decides anything.
        self.state.brokers.fence(r)
        self.state.brokers.register(r, replica.incarnation)
        self.state.brokers.unfence(r)
        self.state.register(r, crashed=False)

    def load(self, state: Mapping[str, Value]) -> None:
        self.decisions = dict(_decisions(state["leaderAndIsr"]))
        now = self.decisions[len(self.decisions)]
        members = frozenset(self.ids)
        self.state = PartitionState(
            leader_epoch=now.leader_epoch,
            leader=now.leader,
            isr=now.isr,
            replicas=members,
            brokers=BrokerRegistry({r: state["incarnation"][r - 1] for r in self.ids}, members),
            partition_epoch=now.partition_epoch,
        )
        self.replicas = tuple(self._loaded(state, r) for r in self.ids)
        self.late = set(map(_fetch_request, state["late"]))
        self.answers = {rec: _response(rec) for rec in state["answers"]}
        self.earlier = {}
        self.committed = state["committed"]

    def _loaded(self, state: Mapping[str, Value], r: int) -> Replica:
        epoch, up = state["epoch"][r - 1], r in state["up"]
        decision, isr = self.decisions[epoch], state["isr"][r - 1]
        untold = up and decision.leader == r and isr != decision.isr
        log = log_of(state["log"][r - 1])
        if up and decision.leader == r:
            log.assign_epoch(epoch)
        ends = {f: end for f, end in enumerate(state["ends"][r - 1], start=1) if end >= 0}
        return Replica(
            id=r,
            log=log,
            high_watermark=state["highWatermark"][r - 1],
            epoch=epoch,
            partition_epoch=decision.partition_epoch - untold,
            leader=decision.leader if up else None,
            isr=isr,
            ends=ends,
            seen={f: state["seen"][r - 1][f - 1] for f in ends},
            incarnation=state["incarnation"][r - 1],
            asked=1,
            up=up,
        )


@cache
def _decisions(made: tuple[Rec, ...]) -> Mapping[int, LeaderAndIsr]:
    """A partition epoch, which the spec does not have.

    It grows by two with the leader epoch, and is one less at a leader without the current ISR.
    """
    return {
        e: LeaderAndIsr(e, one["leader"] or None, one["isr"], 2 * e)
        for e, one in enumerate(made, start=1)
    }


@cache
def _fetch_request(m: Rec) -> FetchRequest:
    last = m["last"] or UNDEFINED_EPOCH
    return FetchRequest(m["from"], m["incarnation"], 1, m["epoch"], m["end"], last)


@cache
def _response(a: Rec) -> FetchResponse:
    """The answer to a fetch that its follower, just loaded, does not wait for."""
    records = [Record(e, (e, offset)) for offset, e in enumerate(a["records"], start=a["start"])]
    diverging = EpochEnd(*a["diverging"]) if a["diverging"] else None
    return FetchResponse(0, 1, a["epoch"], a["start"], records, a["highWatermark"], diverging)


def _answer(to: int, answer: FetchResponse) -> Rec:
    """An answer's content in the spec's words, with 0 for an epoch without an end."""
    leaves = answer.diverging
    return Rec.of(
        to=to,
        epoch=answer.epoch,
        start=answer.start,
        records=tuple([record.epoch for record in answer.records]),
        highWatermark=answer.high_watermark if leaves is None else 0,
        diverging=() if leaves is None else (leaves.epoch if leaves.end else 0, leaves.end),
    )


@cache
def _decision(leader: int | None, isr: frozenset[int]) -> Rec:
    return Rec.of(leader=leader or 0, isr=isr)


@cache
def _request(m: FetchRequest) -> Rec:
    named = {"from": m.replica, "epoch": m.epoch, "incarnation": m.incarnation}
    return Rec.of(**named, end=m.end, last=max(m.last_epoch, 0))


Truncation.projection = {
    **each(TRUNCATION_REPLICA, lambda c: c.replicas),
    "ends": lambda c: tuple([by_replica(r.ends, c.ids, -1) for r in c.replicas]),
    "seen": lambda c: tuple([by_replica(r.seen, c.ids) for r in c.replicas]),
    "up": lambda c: frozenset([r.id for r in c.replicas if r.up]),
    "leaderAndIsr": lambda c: tuple([_decision(d.leader, d.isr) for d in c.decisions.values()]),
    "late": lambda c: frozenset([_request(m) for m in c.late]),
    "answers": lambda c: frozenset(c.answers),
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
    machines=("log", "replica", "controller", "brokers"),
    recorded="Replication",
)
