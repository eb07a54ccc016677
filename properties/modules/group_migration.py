"""GroupMigration: a coordinator whose group changes its protocol, and clients of both protocols.

There is one topic, and every member subscribes to it. A member's process bears its number and its
life. Joins and syncs that wait have tokens, which are the members' numbers. What one answer makes a
client send at once, such as the sync after a join, belongs to the same step.
"""

from collections.abc import Iterable, Mapping
from typing import ClassVar

from attrs import evolve

from properties.conformance.binding import Binding, Bound, Environment, OtherAction
from properties.modules.consumer_group import LATER_MS, NAMES, NOW, PARTITIONS, REBALANCE_MS, TOPIC
from properties.modules.consumer_group import OneTopic as TopicIds
from properties.modules.descriptor import Module
from properties.tla import Rec, Value
from refimpl.machines import classic_group_errors
from refimpl.machines import classic_operations as operations
from refimpl.machines import consumer_classic_member as classic_member
from refimpl.machines.classic_group import ClassicGroup, Config, Step
from refimpl.machines.classic_member import ClassicGroupMember, JoinRequest, SyncRequest
from refimpl.machines.consumer_classic_member import assignment, metadata_of, partitions
from refimpl.machines.consumer_draft import Decision
from refimpl.machines.consumer_group import (
    NEW_MEMBER,
    ConsumerGroup,
    ConsumerMember,
    Owned,
    Partition,
)
from refimpl.machines.consumer_heartbeat import (
    Heartbeat,
    Rules,
    compute_target,
    fence,
    heartbeat,
    leave,
    may_compute,
)
from refimpl.machines.group_migration import (
    Policy,
    downgrade,
    may_downgrade,
    may_succeed,
    settled,
    upgrade,
    written,
)
from refimpl.projection import CONSUMER_STATES
from refimpl.records.consumer_protocol import (
    ConsumerProtocolAssignment,
    OwnedTopic,
    Subscription,
    read_versioned,
    write_versioned,
)
from refimpl.records.schema import Uuid

GROUP, ASSIGNOR = "g", "cooperative-sticky"
NO_MEMBER = ("none", 0, "stable", frozenset[int](), frozenset[int](), frozenset[int]())
PHASES = {"PreparingRebalance": "joining", "CompletingRebalance": "assigning", "Stable": "stable"}
STATES = {phase: state for state, phase in PHASES.items()}


class OneNamedTopic(TopicIds):
    """The topics of the cluster: one, by its id and by its name."""

    def id_of(self, name: str) -> Uuid | None:
        return TOPIC

    def name_of(self, topic_id: Uuid) -> str | None:
        return next(iter(NAMES))


TOPICS = OneNamedTopic()


class GroupMigration(Binding):
    """One coordinator, and members 1..M that come with either protocol."""

    module = "GroupMigration"
    knobs: ClassVar = {
        "KeepClaimed": True,
        "DowngradeTo": "held",
        "RejoinAll": True,
        "Dropped": "none",
    }

    def __init__(self, constants: Mapping[str, Value]) -> None:
        self.ids = tuple(range(1, constants["M"] + 1))
        self.partitions = PARTITIONS[: constants["P"]]
        self.static: int = constants["Static"]
        self.max_life: int = constants["MaxLife"]
        self.max_epoch: int = constants["MaxEpoch"]
        self.policy = {
            (True, True): Policy.BIDIRECTIONAL,
            (True, False): Policy.UPGRADE,
            (False, True): Policy.DOWNGRADE,
            (False, False): Policy.DISABLED,
        }[constants["Upgrades"], constants["Downgrades"]]
        self.consumer_max: int = constants["ConsumerMax"]
        self.config = Config(initial_delay_ms=0, max_size=constants["ClassicMax"])
        self.group: ClassicGroup | ConsumerGroup | None = None
        self.fresh = False
        self.life = [1 for _ in self.ids]
        self.waiting: frozenset[int] = frozenset()
        self.told: list[frozenset[Partition]] = [frozenset() for _ in self.ids]
        self.owned: list[frozenset[Partition]] = [frozenset() for _ in self.ids]

    # Names

    def _name(self, m: int) -> str:
        return f"{m}.{self.life[m - 1]}"

    def _kind(self) -> str:
        if self.group is None:
            return "none"
        return "classic" if isinstance(self.group, ClassicGroup) else "consumer"

    def _number(self, name: str | None) -> int:
        return int(name.partition(".")[0]) if name else 0

    def _instance(self, m: int) -> str | None:
        return f"instance {m}" if m <= self.static else None

    def _known(self, m: int) -> bool:
        return self.group is not None and self._name(m) in self.group.members

    # What is there

    def _classic(self) -> ClassicGroup:
        if not isinstance(self.group, ClassicGroup):
            raise OtherAction
        return self.group

    def _consumer(self) -> ConsumerGroup:
        if not isinstance(self.group, ConsumerGroup):
            raise OtherAction
        return self.group

    def _is_member(self, m: int) -> None:
        if not self._known(m):
            raise OtherAction
        if m in self.waiting:
            raise Environment

    def _is_new(self, m: int) -> None:
        if self._known(m):
            raise OtherAction

    def _has_an_epoch_left(self) -> None:
        epoch = 0 if self.group is None else self._epoch()
        if epoch >= self.max_epoch:
            raise Bound

    def _has_a_life_left(self, m: int) -> None:
        if m > self.static:
            raise Environment
        if self.life[m - 1] >= self.max_life:
            raise Bound

    def _epoch(self) -> int:
        if isinstance(self.group, ClassicGroup):
            return self.group.generation
        return 0 if self.group is None else self.group.epoch

    # Requests

    def _rules(self, target: tuple[int, ...] | None = None) -> Rules:
        """By which a target is computed if one is due, or by no request."""

        def assign(group: ConsumerGroup) -> Mapping[str, frozenset[Partition]]:
            return {
                name: frozenset(
                    p
                    for p, owner in zip(self.partitions, target or (), strict=True)
                    if owner == self._number(name)
                )
                for name in group.members
            }

        interval = LATER_MS if target is None else 0
        return Rules(TOPICS, assign, NOW, interval, self.consumer_max, refresh=False)

    def _subscription(self, owned: Iterable[Partition]) -> tuple[tuple[str, bytes], ...]:
        numbers = tuple([number for _, number in sorted(owned)])
        topics = tuple([OwnedTopic(name, numbers) for name in NAMES if numbers])
        said = Subscription(topics=tuple(NAMES), owned_partitions=topics)
        return ((ASSIGNOR, write_versioned(said, 1)),)

    def _join(self, m: int, *, new: bool = False) -> JoinRequest:
        return JoinRequest(
            token=m,
            member="" if new else self._name(m),
            protocols=self._subscription(() if new else self.owned[m - 1]),
            instance=self._instance(m),
            new_id=self._name(m),
            rebalance_ms=REBALANCE_MS,
            knows=False,
        )

    def _first_heartbeat(self, m: int) -> Heartbeat:
        return Heartbeat(
            member_id=self._name(m),
            epoch=0,
            instance_id=self._instance(m),
            rebalance_timeout_ms=REBALANCE_MS,
            topic_names=NAMES,
            owned=frozenset(),
        )

    # A classic group

    def _step(self, step: Step, *asked: int) -> None:
        """The group after a step. Who is answered a join asks for its assignment, but the leader,
        who assigns first.
        """
        self.group = step.group
        answered = {token for token, _ in step.answers}
        self.waiting = frozenset([*self.waiting, *asked]) - answered
        if step.group.state == "Empty":
            self.group = None
        if step.group.state == "CompletingRebalance":
            for m in sorted(self.ids):
                if self._known(m) and self._name(m) != step.group.leader:
                    request = SyncRequest(m, self._name(m), step.group.generation)
                    self.group = operations.sync(self.group or step.group, request).group
                    self.waiting |= {m}
        self.fresh = False

    def join_classic(self, m: int) -> None:
        self._is_new(m)
        if isinstance(self.group, ConsumerGroup):
            raise OtherAction
        self._has_an_epoch_left()
        group = self.group or ClassicGroup()
        step = operations.join(group, self._join(m, new=True), self.config)
        if group.state == "Empty":  # the first member waits no longer than for others
            step = operations.join_expired(step.group, self.config)
        self._step(step, m)

    def _rejoin(self, m: int) -> tuple[ClassicGroup, JoinRequest]:
        group = self._classic()
        self._is_member(m)
        self._has_an_epoch_left()
        if self.owned[m - 1] != self.told[m - 1]:
            raise Environment
        return group, self._join(m)

    def rejoin(self, m: int) -> None:
        group, request = self._rejoin(m)
        same = group.members[self._name(m)].protocols == request.protocols
        if group.state == "CompletingRebalance" or (group.state == "Stable" and same):
            raise OtherAction
        step = operations.join(group, request, self.config)
        if self._name(m) not in step.group.members:
            raise classic_group_errors.ClassicGroupFull(len(group.members), self.config.max_size)
        self._step(step, m)

    def turn_away(self, m: int) -> None:
        group, request = self._rejoin(m)
        if group.state != "PreparingRebalance":
            raise OtherAction
        step = operations.join(group, request, self.config)
        if self._name(m) in step.group.members:
            raise OtherAction
        self._step(step)
        self._forgets(m)

    def complete(self, new_target: tuple[int, ...]) -> None:
        group = self._classic()
        if group.state != "CompletingRebalance" or group.leader is None:
            raise OtherAction
        said = {m: self._said(m) for m in self.ids if self._known(m)}
        for number, owner in enumerate(new_target, start=1):
            claims = [m for m in said if number in said[m]]
            if owner not in (claims and [0, *claims]) and (claims or owner not in said):
                raise Environment
        assigned = [
            (self._name(m), assignment(self._of(new_target, m), TOPICS, 1))
            for m in self.ids
            if self._known(m)
        ]
        leader = self._number(group.leader)
        request = SyncRequest(leader, group.leader, group.generation, assignments=tuple(assigned))
        self._step(operations.sync(group, request), leader)
        self.told = [self._of(new_target, m) for m in self.ids]

    def leave_classic(self, m: int) -> None:
        group = self._classic()
        self._is_member(m)
        self._has_an_epoch_left()
        leaving = ((self._name(m), self._instance(m)),)
        self._step(operations.leave(group, m, leaving))
        self._forgets(m)

    def _forgets(self, m: int) -> None:
        self.told[m - 1] = self.owned[m - 1] = frozenset()

    # To the consumer protocol

    def _upgraded(self, m: int, target: tuple[int, ...], instance: str | None) -> Decision:
        """The group with a first member of the consumer protocol, and who is answered."""
        group = self._classic()
        made = upgrade(GROUP, group, TOPICS, self._rules(), self.policy, instance)
        decision = heartbeat(made.decision.group, self._first_heartbeat(m), self._rules(target))
        self.waiting -= {token for token, _ in made.answers}
        return decision

    def upgrade(self, m: int, new_target: tuple[int, ...]) -> None:
        self._is_new(m)
        self._has_an_epoch_left()
        if not all(p == m or (p and self._known(p)) for p in new_target):
            raise Environment
        self._answered(m, self._upgraded(m, new_target, self._instance(m)))

    def upgrade_by(self, m: int, new_target: tuple[int, ...]) -> None:
        self._classic()
        self._has_a_life_left(m)
        if not self._known(m):
            raise OtherAction
        self._has_an_epoch_left()
        if not all(not p or self._known(p) for p in new_target):
            raise Environment
        before = self.waiting
        self.life[m - 1] += 1
        try:
            decision = self._upgraded(m, new_target, self._instance(m))
        except Exception:
            self.life[m - 1] -= 1
            raise
        computed = decision.group.epoch > self._epoch()
        all_assigned = all(new_target)
        if (computed and not all_assigned) or self._target(decision.group) != new_target:
            self.life[m - 1] -= 1
            self.waiting = before
            raise Environment
        self.owned[m - 1] = frozenset()
        self._answered(m, decision)
        # The target that the group brought along counts as computed now: the next is its own step.
        self.group = evolve(decision.group, target_timestamp=NOW)

    # A consumer group

    def _answered(self, m: int, decision: Decision) -> None:
        self.group, self.fresh = decision.group, False
        self.told[m - 1] = frozenset(decision.group.members[self._name(m)].assigned)

    def enter(self, m: int, protocol: str) -> None:
        group = self._consumer()
        self._is_new(m)
        self._has_an_epoch_left()
        if protocol == "classic":
            decision = self._classic_join(group, m, new=True)
        else:
            decision = heartbeat(group, self._first_heartbeat(m), self._rules())
        self._answered(m, decision)

    def _classic_join(self, group: ConsumerGroup, m: int, *, new: bool = False) -> Decision:
        decision = classic_member.join(group, self._join(m, new=new), TOPICS, self._rules())
        assert decision is not None
        return decision

    def compute_target(self, new_target: tuple[int, ...]) -> None:
        group = self._consumer()
        if not all(p and self._known(p) for p in new_target):
            raise Environment
        rules = self._rules(new_target)
        if not may_compute(group, rules):
            raise OtherAction
        self.group = compute_target(group, rules).group

    def beat(self, m: int) -> None:
        group = self._consumer()
        self._is_member(m)
        member = group.members[self._name(m)]
        if member.is_classic:
            if self.owned[m - 1] != self.told[m - 1]:
                raise Environment
            decision = self._classic_join(group, m)
        else:
            request = evolve(self._first_heartbeat(m), epoch=member.epoch, owned=self.owned[m - 1])
            decision = heartbeat(group, request, self._rules())
        self._answered(m, decision)

    def take_over(self, m: int) -> None:
        group = self._consumer()
        self._has_a_life_left(m)
        self._is_member(m)
        to_consumer = group.members[self._name(m)].is_classic
        self.life[m - 1] += 1
        try:
            if to_consumer:
                decision = heartbeat(group, self._first_heartbeat(m), self._rules())
            else:
                if may_succeed(group, self._join(m, new=True), self.policy, self.config.max_size):
                    raise OtherAction
                decision = self._classic_join(group, m, new=True)
        except Exception:
            self.life[m - 1] -= 1
            raise
        self.owned[m - 1] = frozenset()
        self._answered(m, decision)

    # To the classic protocol

    def leave_consumer(self, m: int) -> None:
        group = self._consumer()
        self._is_member(m)
        self._has_an_epoch_left()
        gone = {self._name(m)}
        if may_downgrade(group, gone, self.policy, self.config.max_size):
            made = downgrade(group, gone, TOPICS)
            self._step(operations.downgraded(made, self.config, None, stale=True))
            self.fresh = True
        else:
            if group.members[self._name(m)].is_classic:
                left, _ = classic_member.leave(group, [(self._name(m), self._instance(m))])
                decision = fence(group, left, self._rules())
            else:
                request = Heartbeat(
                    member_id=self._name(m), epoch=-1, instance_id=self._instance(m)
                )
                decision = leave(group, request, self._rules())
            self.group = decision.group if decision.group.members else None
        self._forgets(m)

    def succeed(self, m: int) -> None:
        group = self._consumer()
        self._has_a_life_left(m)
        self._is_member(m)
        self._has_an_epoch_left()
        self.life[m - 1] += 1
        request = self._join(m, new=True)
        if not may_succeed(group, request, self.policy, self.config.max_size):
            self.life[m - 1] -= 1
            raise OtherAction
        made = downgrade(group, (), TOPICS, request)
        step = operations.downgraded(made, self.config, request, stale=not settled(group))
        self._forgets(m)
        self._step(step, m)
        if step.group.state == "Stable":
            mine = step.group.members[self._name(m)]
            self.told[m - 1] = self._given(mine)

    def failover(self) -> None:
        if not self.fresh:
            raise OtherAction
        stored = evolve(written(self._classic()), state="Stable")
        self.group = operations.loaded(stored, self.config).group

    # Clients

    def obey(self, m: int) -> None:
        if m in self.waiting:
            raise Environment
        if self.owned[m - 1] == self.told[m - 1]:
            raise OtherAction
        self.owned[m - 1] = self.told[m - 1]

    # States of the spec

    def _of(self, target: tuple[int, ...], m: int) -> frozenset[Partition]:
        return frozenset(p for p, owner in zip(self.partitions, target, strict=True) if owner == m)

    def _set(self, numbers: Iterable[int]) -> frozenset[Partition]:
        return frozenset(self.partitions[p - 1] for p in numbers)

    def _given(self, member: ClassicGroupMember) -> frozenset[Partition]:
        if not member.assignment:
            return frozenset()
        told, _ = read_versioned(ConsumerProtocolAssignment, member.assignment)
        return frozenset(partitions(told.assigned_partitions, TOPICS))

    def _said(self, m: int) -> frozenset[int]:
        """The partitions that a classic member said it owns when it joined last."""
        assert self.group is not None
        member = self.group.members[self._name(m)]
        if isinstance(member, ClassicGroupMember):
            protocols = member.protocols
        else:
            protocols = classic_member.protocols_of(member)
        if not protocols:
            return frozenset()
        said, _ = read_versioned(Subscription, protocols[0][1])
        return _numbers(partitions(said.owned_partitions, TOPICS))

    def _seen(self, m: int) -> Rec:
        if not self._known(m):
            return _record(*NO_MEMBER)
        assert self.group is not None
        member = self.group.members[self._name(m)]
        if isinstance(member, ClassicGroupMember):
            given = _numbers(self._given(member))
            return _record("classic", 0, "stable", given, frozenset(), self._said(m))
        return _record(
            "classic" if member.is_classic else "consumer",
            member.epoch,
            CONSUMER_STATES[member.state],
            _numbers(member.assigned),
            _numbers(member.pending),
            self._said(m),
        )

    def _target(self, group: ClassicGroup | ConsumerGroup | None) -> tuple[int, ...]:
        owners = dict[Partition, int]()
        if isinstance(group, ConsumerGroup):
            owners = {p: self._number(name) for name in group.target for p in group.target[name]}
        return tuple([owners.get(p, 0) for p in self.partitions])

    def load(self, state: Mapping[str, Value]) -> None:
        self.life = list(state["life"])
        self.fresh, self.waiting = state["fresh"], state["waiting"]
        self.told = [self._set(one) for one in state["told"]]
        self.owned = [self._set(one) for one in state["owned"]]
        members = {
            m: state["member"][m - 1]
            for m in self.ids
            if state["member"][m - 1]["protocol"] != "none"
        }
        if state["kind"] == "none":
            self.group = None
        elif state["kind"] == "classic":
            self.group = self._loaded_classic(state, members)
        else:
            target = state["target"]
            self.group = ConsumerGroup(
                *(GROUP, state["epoch"], 0, state["targetEpoch"], NOW),
                {self._name(m): self._loaded_member(m, seen) for m, seen in members.items()},
                {self._name(m): self._of(target, m) for m in members},
            )

    def _loaded_classic(
        self, state: Mapping[str, Value], members: Mapping[int, Mapping[str, Value]]
    ) -> ClassicGroup:
        phase, waiting = state["phase"], self.waiting
        led, assigning = state["leader"], phase == "assigning"
        found = {
            self._name(m): ClassicGroupMember(
                self._name(m),
                self._subscription(self._set(seen["said"])),
                self._instance(m),
                rebalance_ms=REBALANCE_MS,
                assignment=assignment(self._set(seen["assigned"]), TOPICS, 1),
                join=m if phase == "joining" and m in waiting else None,
                sync=m if assigning and m in waiting else None,
            )
            for m, seen in members.items()
        }
        return ClassicGroup(
            state=STATES[phase],  # type: ignore[arg-type]
            generation=state["epoch"],
            protocol_type="consumer",
            protocol=ASSIGNOR,
            leader=self._name(led) if led else None,
            members=found,
            unsynced=frozenset([self._name(led)]) if assigning else frozenset(),
        )

    def _loaded_member(self, m: int, seen: Mapping[str, Value]) -> ConsumerMember:
        classic = metadata_of(45_000, self._subscription(self._set(seen["said"])))
        said = evolve(
            NEW_MEMBER,
            instance_id=self._instance(m),
            rebalance_timeout_ms=REBALANCE_MS,
            subscribed_topic_names=tuple(NAMES),
            classic_member_metadata=classic if seen["protocol"] == "classic" else None,
        )
        return ConsumerMember(
            *(self._name(m), said, seen["epoch"], seen["epoch"]),
            CONSUMER_STATES.index(seen["state"]),
            self._held(seen["assigned"], seen["epoch"]),
            self._held(seen["pending"], seen["epoch"]),
        )

    def _held(self, numbers: frozenset[int], epoch: int) -> Owned:
        return dict.fromkeys(sorted(self._set(numbers)), epoch)


def _numbers(owned: Iterable[Partition]) -> frozenset[int]:
    return frozenset([number + 1 for _, number in owned])


def _record(
    protocol: str,
    epoch: int,
    state: str,
    assigned: frozenset[int],
    pending: frozenset[int],
    said: frozenset[int],
) -> Rec:
    return Rec.of(
        protocol=protocol,
        epoch=epoch,
        state=state,
        assigned=assigned,
        pending=pending,
        said=said,
    )


GroupMigration.projection = {
    "kind": lambda c: c._kind(),
    "phase": lambda c: PHASES[c.group.state] if isinstance(c.group, ClassicGroup) else "stable",
    "epoch": lambda c: c._epoch(),
    "targetEpoch": lambda c: c.group.target_epoch if isinstance(c.group, ConsumerGroup) else 0,
    "target": lambda c: c._target(c.group),
    "leader": lambda c: c._number(c.group.leader) if isinstance(c.group, ClassicGroup) else 0,
    "fresh": lambda c: c.fresh,
    "member": lambda c: tuple([c._seen(m) for m in c.ids]),
    "life": lambda c: tuple(c.life),
    "waiting": lambda c: c.waiting,
    "told": lambda c: tuple([_numbers(one) for one in c.told]),
    "owned": lambda c: tuple([_numbers(one) for one in c.owned]),
}

MODULE = Module(
    binding=GroupMigration,
    machines=("group_migration", "consumer_classic_member"),
)
