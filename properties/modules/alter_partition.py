"""AlterPartition: a leader's requests to change the ISR, and the controller that answers them.

The binding keeps every request and every answer, and may deliver each again at any later step. A
restarted follower receives its old epoch at once, because the spec has no time between.
"""

# Parameters are named as in the spec, where a leader is `l`.
# ruff: noqa: E741

from collections.abc import Mapping
from functools import cache
from typing import ClassVar

from properties.conformance.binding import Bound, Environment, NoSuchChoice, OtherAction, each
from properties.modules.descriptor import Module
from properties.modules.on_disk import LogOnDisk, ReplicaOnDisk
from properties.modules.replicated import Replicated, log_of
from properties.tla import Rec, Value
from refimpl.errors import IneligibleReplica
from refimpl.machines.brokers import BrokerRegistry
from refimpl.machines.controller import PartitionState
from refimpl.machines.messages import (
    UNKNOWN_EPOCH,
    AlterPartitionRequest,
    AlterPartitionResponse,
    FetchResponse,
    LeaderAndIsr,
)
from refimpl.machines.replica import INELIGIBLE_REPLICA, Replica
from refimpl.projection import ALTER_PARTITION_STATE, TRUNCATION_REPLICA, by_replica

OUTCOMES = {None: "done", INELIGIBLE_REPLICA: "ineligible"}
_STATE = tuple(ALTER_PARTITION_STATE.values())
NO_REQUEST = AlterPartitionRequest(0, 0, 0, 0, ())


class AlterPartition(Replicated):
    """Replicas 1..N and the controller, and all messages they ever sent about the ISR."""

    module = "AlterPartition"
    knobs: ClassVar = {
        "MaximalIsr": True,
        "OnePending": True,
        "CheckPartitionEpoch": True,
        "CheckAlive": True,
        "CheckIncarnation": True,
        "CheckEpochStart": True,
        "MatchAnswer": True,
        "RaiseOnRefusal": True,
        "NewerOnly": True,
        "OnlyResent": False,
        "GiveUp": False,
        "FenceRaisesEpoch": False,
        "Unregistered": "named",
        "Dropped": "none",
    }

    def __init__(self, constants: Mapping[str, Value]) -> None:
        self.min_isr: int = constants["MinIsr"]
        self.elr_enabled: bool = constants["Elr"]
        self.several: bool = constants["Several"]
        super().__init__(constants)
        self.max_partition_epoch: int = constants["MaxPartitionEpoch"]
        self.leaders = {1: 1}  # by leader epoch
        self.requests: dict[Rec, AlterPartitionRequest] = {}
        self.answers: dict[Rec, tuple[AlterPartitionRequest, AlterPartitionResponse]] = {}

    def _created(self) -> PartitionState:
        return PartitionState.create(self.ids, min_isr=self.min_isr, elr_enabled=self.elr_enabled)

    def _replica(self, id: int) -> Replica:
        return Replica(id, min_isr=self.min_isr)

    def _ask(self, f: int, l: int) -> FetchResponse:
        return self.replicas[l - 1].answer_fetch(self.replicas[f - 1].fetch_request(), 1)

    # The ISR

    def shrink_isr(self, l: int, f: int) -> None:
        request = self.replicas[l - 1].shrink_isr(f)
        self.requests[_request(request, self.ids)] = request

    def shrink_isr_by_several(self, l: int, those: frozenset[int]) -> None:
        if not self.several:
            raise Bound
        if len(those) < 2:
            raise OtherAction
        request = self.replicas[l - 1].shrink_isr_by_several(those)
        self.requests[_request(request, self.ids)] = request

    def expand_isr(self, l: int, f: int) -> None:
        request = self.replicas[l - 1].expand_isr(f)
        self.requests[_request(request, self.ids)] = request

    def resend(self, l: int) -> None:
        raise Environment  # any request may come again, whether or not it was sent again

    def alter_partition(self, l: int, choice: int) -> None:
        """Errors other than INELIGIBLE_REPLICA change nothing on either side, and are no step."""
        asked = [rec for rec in self.requests if rec["leader"] == l]
        if choice >= len(asked):
            raise NoSuchChoice
        rec = asked[choice]
        request = self.requests[rec]
        changes = request.isr != self.state.isr
        try:
            self.state.check(request)
        except IneligibleReplica:
            changes = True
        if changes:
            self._bounded(0)
        response = self.state.alter_partition(request)
        self.answers[_response(rec, response)] = request, response

    def take_isr_answer(self, l: int, choice: int) -> None:
        answers = [rec for rec in self.answers if rec["to"]["leader"] == l]
        if choice >= len(answers):
            raise NoSuchChoice
        self.replicas[l - 1].take_isr_answer(*self.answers[answers[choice]])

    def forget(self, l: int) -> None:
        raise Environment  # a message that may still be accepted is never forgotten

    def told(self, r: int) -> None:
        self.replicas[r - 1].told(self.state.decision)

    # The controller on its own

    def _bounded(self, by: int) -> None:
        if (
            self.state.partition_epoch >= self.max_partition_epoch
            or self.state.leader_epoch + by > self.max_epoch
        ):
            raise Bound

    def fence(self, b: int, r: int) -> None:
        if b in self.state.isr:
            self._bounded(int(r != self.state.leader))
            self.state.fence(b, r)
            self.leaders[self.state.leader_epoch] = r
        elif b != r:
            raise OtherAction
        self.state.brokers.fence(b)

    def elect(self, r: int) -> None:
        self._bounded(1)
        if r == self.state.leader:
            raise OtherAction  # the same leader anew
        self.state.move_leader(r)
        self.leaders[self.state.leader_epoch] = r

    def restart(self, r: int) -> None:
        replica = self.replicas[r - 1]
        if replica.incarnation >= self.max_restarts:
            raise Bound
        if r in self.state.brokers.alive or r in self.state.isr or replica.leads:
            raise Environment
        known = LeaderAndIsr(
            replica.epoch, self.leaders[replica.epoch], frozenset(), replica.partition_epoch
        )
        replica.restart(0, 0)
        replica.told(known)

    def unfence(self, r: int) -> None:
        brokers, incarnation = self.state.brokers, self.replicas[r - 1].incarnation
        crashed = incarnation != brokers.epochs[r]
        if crashed and r in self.state.elr:
            self._bounded(0)
        brokers.register(r, incarnation)
        brokers.unfence(r)
        self.state.register(r, crashed=crashed)

    def load(self, state: Mapping[str, Value]) -> None:
        now, ids = state["state"], self.ids
        self.state = PartitionState(
            leader_epoch=now["epoch"],
            leader=now["leader"],
            isr=now["isr"],
            replicas=frozenset(ids),
            brokers=BrokerRegistry({r: state["registered"][r - 1] for r in ids}, state["alive"]),
            partition_epoch=now["partitionEpoch"],
            elr=state["elr"],
            min_isr=self.min_isr,
            elr_enabled=self.elr_enabled,
        )
        self.leaders = {**_leaders(state, ids), 1: 1, now["epoch"]: now["leader"]}
        incarnations = state["incarnation"]
        self.requests = {rec: _asked(rec, incarnations) for rec in state["requests"]}
        self.answers = {
            rec: (_asked(rec["to"], incarnations), _answered(rec)) for rec in state["answers"]
        }
        self.replicas = tuple(self._loaded(state, r) for r in ids)
        self.committed = state["committed"]

    def _loaded(self, state: Mapping[str, Value], r: int) -> Replica:
        epoch, pending = state["epoch"][r - 1], state["pending"][r - 1]
        log = log_of(state["log"][r - 1])
        if state["isr"][r - 1]:
            log.assign_epoch(epoch)
        return Replica(
            id=r,
            log=log,
            high_watermark=state["highWatermark"][r - 1],
            epoch=epoch,
            partition_epoch=state["partitionEpoch"][r - 1],
            leader=r if state["isr"][r - 1] else self.leaders[epoch],
            isr=state["isr"][r - 1],
            pending=_asked(pending, state["incarnation"]) if pending["leader"] else None,
            ends=_known(state["ends"][r - 1]),
            seen=_known(state["seen"][r - 1]),
            incarnation=state["incarnation"][r - 1],
            asked=1,
            up=True,
            min_isr=self.min_isr,
        )


def _leaders(state: Mapping[str, Value], ids: tuple[int, ...]) -> dict[int, int]:
    """The leader of each epoch, by the replicas' own state; of two replicas, one leads."""
    if len(ids) != 2:
        return {}
    return {state["epoch"][r - 1]: r if state["isr"][r - 1] else 3 - r for r in ids}


def _known(numbers: tuple[int, ...]) -> dict[int, int]:
    """Numbers by replica, for the replicas with a known one."""
    return {r: number for r, number in enumerate(numbers, start=1) if number >= 0}


@cache
def _asked(m: Rec, incarnations: tuple[int, ...]) -> AlterPartitionRequest:
    """A request from its record; a leader does not restart in its epoch, so its own incarnation is
    the one that it has, or void anyway."""
    leader: int = m["leader"]
    own: int = incarnations[leader - 1]
    members = tuple(
        [(r, own if r == leader else m["incarnations"][r - 1]) for r in sorted(m["isr"])]
    )
    return AlterPartitionRequest(leader, own, m["epoch"], m["partitionEpoch"], members)


@cache
def _answered(m: Rec) -> AlterPartitionResponse:
    outcome, to = None if m["outcome"] == "done" else INELIGIBLE_REPLICA, m["to"]
    return AlterPartitionResponse(outcome, to["leader"], to["epoch"], m["isr"], m["partitionEpoch"])


@cache
def _request(m: AlterPartitionRequest | None, ids: tuple[int, ...]) -> Rec:
    """A request in the spec's words, or none; of the leader itself it says nothing."""
    if m is None:
        return _request(NO_REQUEST, ids)
    heard = dict(m.new_isr) | {m.broker_id: UNKNOWN_EPOCH}
    return Rec.of(
        leader=m.broker_id,
        epoch=m.leader_epoch,
        partitionEpoch=m.partition_epoch,
        isr=m.isr,
        incarnations=by_replica(heard, ids, UNKNOWN_EPOCH),
    )


@cache
def _response(to: Rec, answer: AlterPartitionResponse) -> Rec:
    return Rec.of(
        to=to,
        outcome=OUTCOMES[answer.error],
        partitionEpoch=answer.partition_epoch,
        isr=answer.isr,
    )


@cache
def _state(*values: Value) -> Rec:
    return Rec.of(**dict(zip(ALTER_PARTITION_STATE, values, strict=True)))


AlterPartition.projection = {
    **each(TRUNCATION_REPLICA, lambda c: c.replicas),
    "partitionEpoch": lambda c: tuple([r.partition_epoch for r in c.replicas]),
    "pending": lambda c: tuple([_request(r.pending, c.ids) for r in c.replicas]),
    "ends": lambda c: tuple([by_replica(r.ends, c.ids, -1) for r in c.replicas]),
    "seen": lambda c: tuple([by_replica(r.seen, c.ids, -1) for r in c.replicas]),
    "state": lambda c: _state(*[look(c.state) for look in _STATE]),
    "elr": lambda c: c.state.elr,
    "alive": lambda c: c.state.brokers.alive,
    "registered": lambda c: by_replica(c.state.brokers.epochs, c.ids),
    "requests": lambda c: frozenset(c.requests),
    "resent": lambda c: frozenset[Rec](),
    "answers": lambda c: frozenset(c.answers),
    "committed": lambda c: c.committed,
}


class AlterPartitionOnDisk(AlterPartition):
    """The same, on Kafka's files.

    A disk that comes back empty is one that has nothing but half of the first batch: that the log
    is then empty, and knows no epoch, is for recovery to find.
    """

    variant = "on disk"

    def _replica(self, id: int) -> Replica:
        return ReplicaOnDisk(id, log=LogOnDisk.new(), min_isr=self.min_isr)


MODULE = Module(
    binding=AlterPartition,
    on_disk=AlterPartitionOnDisk,
    machines=("log", "replica", "controller", "brokers"),
    recorded="Replication",
)
