"""ConsumerGroup: a group's coordinator and its clients, with heartbeats whose answers are lost.

There is one topic, and every member subscribes to it. A target is computed in the spec's step, by
an assignor that returns the spec's choice; the binding lets no time pass.
"""

from collections.abc import Mapping
from typing import ClassVar

from properties.conformance.binding import Binding, Bound, Environment, OtherAction, each, of
from properties.modules.descriptor import Module
from properties.tla import Rec, Value
from refimpl.errors import Refusal
from refimpl.machines.consumer_draft import Decision
from refimpl.machines.consumer_group import (
    LEAVE_FOR_A_WHILE,
    ConsumerMember,
    Owned,
    Partition,
)
from refimpl.machines.consumer_group import ConsumerGroup as Group
from refimpl.machines.consumer_heartbeat import (
    Heartbeat,
    Rules,
    compute_target,
    fence,
    heartbeat,
    leave,
    may_compute,
)
from refimpl.machines.consumer_membership import ConsumerMembership
from refimpl.projection import (
    CONSUMER_GROUP,
    CONSUMER_MEMBERSHIP,
    CONSUMER_STATES,
    consumer_member,
)
from refimpl.records.schema import Uuid

TOPIC = Uuid(bytes(15) + b"\1")
PARTITIONS: tuple[Partition, ...] = tuple((TOPIC, number) for number in range(8))
NAMES = frozenset(("orders",))
REBALANCE_MS = 300_000
NOW, LATER_MS = 1, 1_000
NO_COMMIT = (0, 0, 0, 0)


class OneTopic:
    """The topics of the cluster: one, which never changes."""

    def ids(self, names: frozenset[str]) -> frozenset[Uuid]:
        return frozenset((TOPIC,)) if names else frozenset()

    def metadata_hash(self, names: frozenset[str]) -> int:
        return 0


class ConsumerGroup(Binding):
    """One coordinator, clients 1..M, of which some are static, and a commit under way."""

    module = "ConsumerGroup"
    knobs: ClassVar = {
        "WaitUntilFree": True,
        "WaitUntilRevoked": True,
        "ReportWhenDone": True,
        "RejoinByZero": True,
        "Subset": True,
        "ReleaseFirst": True,
        "CommitBy": "assignment",
    }

    def __init__(self, constants: Mapping[str, Value]) -> None:
        self.ids = tuple(range(1, constants["M"] + 1))
        self.count: int = constants["P"]
        self.max_epoch: int = constants["MaxEpoch"]
        self.static: int = constants["Static"]
        self.max_life: int = constants["MaxLife"]
        self.commits: bool = constants["Commits"]
        self.batched: bool = constants["Batched"]
        self.late_joins: bool = constants["LateJoins"]
        self.group = Group("g", target_timestamp=NOW)
        self.life = [1 for _ in self.ids]
        self.clients = [ConsumerMembership() for _ in self.ids]
        self.abandoned: list[frozenset[int]] = [frozenset() for _ in self.ids]
        self.commit: tuple[int, int, int, int] | None = None

    @property
    def partitions(self) -> tuple[Partition, ...]:
        return PARTITIONS[: self.count]

    # Names

    def _name(self, m: int) -> str:
        return f"{m}.{self.life[m - 1]}"

    def _instance(self, m: int) -> str | None:
        return f"instance {m}" if m <= self.static else None

    def _known(self, m: int) -> ConsumerMember | None:
        return self.group.members.get(self._name(m))

    def _rules(self, target: tuple[int, ...] | None = None) -> Rules:
        """By which a target is computed at once, or by no heartbeat."""
        interval = LATER_MS if target is None else 0
        return Rules(OneTopic(), lambda _: self._wanted(target or ()), NOW, interval, refresh=False)

    def _wanted(self, target: tuple[int, ...]) -> dict[str, frozenset[Partition]]:
        return {
            self._name(m): frozenset(
                [p for p, owner in zip(self.partitions, target, strict=False) if owner == m]
            )
            for m in self.ids
        }

    def _request(self, m: int, epoch: int, owned: frozenset[Partition] | None) -> Heartbeat:
        """A full request or, if the owned partitions are omitted, one without anything else."""
        name, instance = self._name(m), self._instance(m)
        if owned is None:
            return Heartbeat(member_id=name, epoch=epoch, instance_id=instance)
        return Heartbeat(
            member_id=name,
            epoch=epoch,
            instance_id=instance,
            rebalance_timeout_ms=REBALANCE_MS,
            topic_names=NAMES,
            owned=owned,
        )

    def _heartbeat(self, m: int) -> Decision:
        """Send a heartbeat.

        A member that missed an answer reports everything. A member that has not yet revoked its
        partitions reports that it may own any of them.
        """
        client, here = self.clients[m - 1], self._known(m)
        owned = client.reported
        missed = here is None or (here.epoch, here.assigned.keys()) != (client.epoch, client.told)
        if missed and owned is None:
            owned = frozenset(self.partitions)
        return heartbeat(self.group, self._request(m, client.epoch, owned), self._rules())

    def _take_over(self, m: int, decision: Decision, *, lost: bool = False) -> None:
        self.group = decision.group
        if decision.member is not None and not lost:
            self.clients[m - 1].answered(decision.member.epoch, decision.assignment)

    # Members come and go

    def join(self, m: int, new_target: tuple[int, ...]) -> None:
        client = self.clients[m - 1]
        if self._known(m) is not None or client.epoch:
            raise OtherAction
        if self.group.epoch >= self.max_epoch:
            raise Bound
        if self.batched and new_target != self._target():
            raise OtherAction
        if not self.batched and not all(p == m or (p and self._known(p)) for p in new_target):
            raise Environment
        rules = self._rules(None if self.batched else new_target)
        self._take_over(m, heartbeat(self.group, self._request(m, 0, frozenset()), rules))

    def fence(self, m: int) -> None:
        if self.group.epoch >= self.max_epoch:
            raise Bound
        self.group = fence(self.group, [self._name(m)], self._rules()).group

    def compute_target(self, new_target: tuple[int, ...]) -> None:
        if not all(self._known(p) for p in new_target):
            raise Environment
        rules = self._rules(new_target)
        if not may_compute(self.group, rules):
            raise OtherAction
        self.group = compute_target(self.group, rules).group

    # Heartbeats

    def heartbeat(self, m: int, lost: bool) -> None:
        if not self.clients[m - 1].epoch:
            raise OtherAction
        self._take_over(m, self._heartbeat(m), lost=lost)

    def refused(self, m: int) -> None:
        if not self.clients[m - 1].epoch:
            raise OtherAction
        try:
            self._heartbeat(m)
        except Refusal:
            self.clients[m - 1].fenced()
        else:
            raise OtherAction

    def rejoin(self, m: int, lost: bool) -> None:
        here = self._known(m)
        if here is None or here.epoch == LEAVE_FOR_A_WHILE:
            raise OtherAction
        if self.clients[m - 1].epoch and not (self.late_joins and lost):
            raise Environment
        request = self._request(m, 0, frozenset())
        self._take_over(m, heartbeat(self.group, request, self._rules()), lost=lost)

    def leave_for_a_while(self, m: int) -> None:
        if m > self.static:
            raise Environment
        if not self.clients[m - 1].epoch:
            raise OtherAction
        request = self._request(m, LEAVE_FOR_A_WHILE, None)
        self.group = leave(self.group, request, self._rules()).group
        self.clients[m - 1].fenced()

    def take_over(self, m: int) -> None:
        if m > self.static:
            raise Environment
        if self._known(m) is None:
            raise OtherAction
        if self.life[m - 1] >= self.max_life:
            raise Bound
        self.life[m - 1] += 1
        request = self._request(m, 0, frozenset())
        try:
            decision = heartbeat(self.group, request, self._rules())
        except Refusal:
            self.life[m - 1] -= 1
            raise
        client = self.clients[m - 1]
        self.abandoned[m - 1] |= _numbers(client.owned)
        client.fenced()
        self._take_over(m, decision)

    # Clients

    def revoke(self, m: int) -> None:
        self.clients[m - 1].revoke()

    def take(self, m: int) -> None:
        self.clients[m - 1].take()

    # Commits

    def send_commit(self, m: int, p: int) -> None:
        client = self.clients[m - 1]
        if not self.commits or self.commit is not None or p not in _numbers(client.owned):
            raise Environment
        self.commit = m, self.life[m - 1], p, client.epoch

    def _check(self) -> None:
        if self.commit is None:
            raise OtherAction
        m, life, p, epoch = self.commit
        self.group.check_commit(f"{m}.{life}", epoch, [self.partitions[p - 1]])

    def take_commit(self) -> None:
        self._check()
        self.commit = None

    def refuse_commit(self) -> None:
        if self.commit is None:
            raise OtherAction
        try:
            self._check()
        except Refusal:
            self.commit = None
        else:
            raise OtherAction

    # States of the spec

    def load(self, state: Mapping[str, Value]) -> None:
        self.life = list(state["life"])
        members = {
            self._name(m): self._member(m, state["member"][m - 1])
            for m in self.ids
            if state["member"][m - 1]["epoch"]
        }
        target = {
            self._name(m): frozenset(
                [p for p, owner in zip(self.partitions, state["target"], strict=True) if owner == m]
            )
            for m in self.ids
            if self._name(m) in members
        }
        self.group = Group("g", state["groupEpoch"], 0, state["targetEpoch"], NOW, members, target)
        self.clients = [
            ConsumerMembership(epoch, self._set(told), self._set(owned))
            for epoch, told, owned in zip(
                state["heard"], state["told"], state["owned"], strict=True
            )
        ]
        self.abandoned = list(state["abandoned"])
        c = state["commit"]
        self.commit = (c["member"], c["life"], c["partition"], c["epoch"]) if c["member"] else None

    def _member(self, m: int, seen: Mapping[str, Value]) -> ConsumerMember:
        joined = heartbeat(Group("g"), self._request(m, 0, frozenset()), self._rules())
        return ConsumerMember(
            self._name(m),
            joined.group.members[self._name(m)].said,
            seen["epoch"],
            seen["previous"],
            CONSUMER_STATES.index(seen["state"]),
            self._owned(seen["assigned"]),
            self._owned(seen["pending"]),
        )

    def _owned(self, epochs: tuple[int, ...]) -> Owned:
        return {p: e for p, e in zip(self.partitions, epochs, strict=True) if e >= 0}

    def _seen(self, m: int) -> Rec:
        """A member as the spec has it; one that is not known has epoch 0."""
        return Rec.of(**consumer_member(self._known(m) or ConsumerMember(""), self.partitions))

    def _target(self) -> tuple[int, ...]:
        owners = {p: m for m in self.ids for p in self.group.target.get(self._name(m), ())}
        return tuple([owners.get(p, 0) for p in self.partitions])

    def _commit(self) -> Rec:
        member, life, partition, epoch = self.commit or NO_COMMIT
        return Rec.of(member=member, life=life, partition=partition, epoch=epoch)

    def _set(self, numbers: frozenset[int]) -> frozenset[Partition]:
        return frozenset([self.partitions[p - 1] for p in numbers])


def _numbers(owned: frozenset[Partition]) -> frozenset[int]:
    return frozenset([number + 1 for _, number in owned])


ConsumerGroup.projection = {
    **of(CONSUMER_GROUP, lambda c: c.group),
    **each(CONSUMER_MEMBERSHIP, lambda c: c.clients),
    "target": lambda c: c._target(),
    "member": lambda c: tuple([c._seen(m) for m in c.ids]),
    "life": lambda c: tuple(c.life),
    "abandoned": lambda c: tuple(c.abandoned),
    "commit": lambda c: c._commit(),
}

MODULE = Module(
    binding=ConsumerGroup,
    machines=(
        "consumer_group",
        "consumer_reconciliation",
        "consumer_heartbeat",
        "consumer_membership",
    ),
    recorded="ConsumerCoordinator",
)
