"""Clients of both group protocols at one coordinator, as their libraries behave.

A client owns partitions step by step: it gives up first, in its own time, and then takes. Nobody is
silent for longer than its session, but for who has died, so a partition never has two owners.
"""

from collections.abc import Sequence
from typing import Any

from attrs import define, field

from refimpl.coordinator.operation import TimerKey
from refimpl.groups.classic import SESSION as CLASSIC_SESSION
from refimpl.groups.migration import SESSION
from refimpl.machines.consumer_membership import ConsumerMembership
from refimpl.messages import group as m
from refimpl.records.consumer_protocol import (
    ConsumerProtocolAssignment,
    OwnedTopic,
    Subscription,
    read_versioned,
    write_versioned,
)
from tests.refimpl.groups.test_consumer import GROUP, T
from tests.refimpl.groups.test_migration import JOIN_MS, SESSION_MS, Mixed

Numbers = frozenset[int]
NOTHING: Numbers = frozenset()
LOST = "UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION", "FENCED_MEMBER_EPOCH", "GROUP_ID_NOT_FOUND"


def topics_of(numbers: Numbers) -> tuple[OwnedTopic, ...]:
    return (OwnedTopic("t", tuple(sorted(numbers))),) if numbers else ()


def numbers_of(topics: Sequence[OwnedTopic]) -> Numbers:
    return frozenset(number for one in topics for number in one.partitions)


@define(eq=False)
class NewClient:
    """A client of the consumer protocol."""

    here: Mixed
    name: str
    alive: bool = False
    side: ConsumerMembership = field(factory=ConsumerMembership)

    @property
    def owned(self) -> Numbers:
        return frozenset(number for _, number in self.side.owned)

    @property
    def settled(self) -> bool:
        return self.side.epoch > 0 and self.side.owned == self.side.told

    def act(self) -> None:
        """Its next step: give up, take, or send a heartbeat."""
        self.alive = True
        if not self.side.owned <= self.side.told:
            self.side.revoke()
        elif self.side.owned != self.side.told:
            self.side.take()
        else:
            self._beat()

    def _beat(self) -> None:
        if self.side.epoch == 0:
            answer = self.here.join(self.name)
        else:
            parts = [m.TopicIdPartitions(T, tuple(sorted(self.owned)))] if self.owned else []
            answer = self.here.beat(self.name, self.side.epoch, topic_partitions=tuple(parts))
        if answer.error in LOST:
            self.side.fenced()
        elif answer.error is None:
            given = answer.assignment
            told = None if given is None else {(t, n): 0 for t, ns in given for n in ns}
            self.side.answered(answer.member_epoch, told)

    def leave(self) -> None:
        self.side.fenced()
        self.here.beat(self.name, -1)
        self.alive = False

    def die(self) -> None:
        """The next process of this client has another id (KIP-1082)."""
        self.side.fenced()
        self.alive, self.name = False, f"{self.name}+"

    def lives_as(self, id: str) -> bool:
        return self.alive and self.name == id

    def moved(self) -> None:
        """Its coordinator is another one."""


@define(eq=False)
class ClassicClient:
    """A client of the classic protocol: eager, or cooperative (KIP-429)."""

    here: Mixed
    name: str
    cooperative: bool
    alive: bool = False
    id: str = ""
    generation: int = -1
    owned: Numbers = NOTHING
    told: Numbers = NOTHING
    #: The request that it waits for, and what it is then to do
    waits: int = 0
    phase: str = "join"
    assigned: int = 0

    @property
    def settled(self) -> bool:
        return self.phase == "beat" and self.owned == self.told

    def act(self) -> None:
        """Its next step; one that waits looks whether it is answered."""
        self.alive = True
        if self.waits:
            answer = self.here.answers.get(self.waits)
            if answer is not None:
                self.waits = 0
                (self._joined if self.phase == "join" else self._synced)(answer)
        elif self.phase == "revoke":
            self._take()
        elif self.phase == "join":
            self._join()
        else:
            self._beat()

    def _ask(self, request: Any) -> None:
        self.waits = self.here.asked + 1
        self.here.ask(request)

    def _join(self) -> None:
        if not self.cooperative:
            self.owned = NOTHING
        said = Subscription(topics=("t",), owned_partitions=topics_of(self.owned))
        protocol = "cooperative-sticky" if self.cooperative else "range"
        self._ask(
            m.JoinGroupRequest(
                *(GROUP, SESSION_MS, JOIN_MS, self.id, None, "consumer"),
                ((protocol, write_versioned(said, 1)),),
                client_id=self.name,
                requires_known_member_id=True,
            )
        )

    def _joined(self, answer: m.JoinGroupResponse) -> None:
        if answer.error == "MEMBER_ID_REQUIRED":
            self.id = answer.member_id
        elif answer.error in LOST:
            self._lose(answer.error)
        elif answer.error is None:
            self.id, self.generation, self.phase = answer.member_id, answer.generation_id, "sync"
            assignments = self._assign(answer.members) if answer.leader == self.id else ()
            self._ask(m.SyncGroupRequest(GROUP, self.generation, self.id, assignments=assignments))

    def _assign(self, members: Sequence[m.JoinGroupMember]) -> Sequence[tuple[str, bytes]]:
        """Each partition to who owns it, if that is its share; from others it is taken first."""
        claims = {
            one.member_id: numbers_of(
                read_versioned(Subscription, one.metadata)[0].owned_partitions
            )
            for one in members
        }
        self.assigned = self.here.topics.known["t"].partitions
        shares: dict[str, set[int]] = {id: set() for id in sorted(claims)}
        for number in range(self.assigned):
            shares[sorted(claims)[number % len(claims)]].add(number)
        for id, share in shares.items():
            others = {n for other, claimed in claims.items() if other != id for n in claimed}
            share -= others if self.cooperative else set()
        return [
            (
                id,
                write_versioned(
                    ConsumerProtocolAssignment(assigned_partitions=topics_of(frozenset(s))), 1
                ),
            )
            for id, s in shares.items()
        ]

    def _synced(self, answer: m.SyncGroupResponse) -> None:
        if answer.error in LOST:
            self._lose(answer.error)
        elif answer.error is not None:
            self.phase = "join"
        else:
            found = (
                read_versioned(ConsumerProtocolAssignment, answer.assignment)[0]
                if answer.assignment
                else None
            )
            self.told = numbers_of(found.assigned_partitions) if found else NOTHING
            self.phase = "revoke"
            if self.owned <= self.told:
                self._take()

    def _take(self) -> None:
        self.phase = "beat" if self.owned <= self.told else "join"
        self.owned = self.told

    def _beat(self) -> None:
        if self.assigned and self.assigned != self.here.topics.known["t"].partitions:
            self.phase, self.assigned = "join", 0  # who leads sees that the topic has grown
            return
        error = self.here.beats(self.id, self.generation)
        if error in LOST:
            self._lose(error)
        elif error is not None:
            self.phase = "join"

    def _lose(self, error: str | None) -> None:
        self.owned = self.told = NOTHING
        self.phase, self.waits, self.generation = "join", 0, -1
        self.id = "" if error != "ILLEGAL_GENERATION" else self.id

    def leave(self) -> None:
        self.owned = NOTHING
        if self.id:
            gone = (m.LeavingMember(self.id, None),)
            self.here.ask(m.LeaveGroupRequest(GROUP, gone))
        self.die()

    def die(self) -> None:
        self._lose(None)
        self.alive = False

    def lives_as(self, id: str) -> bool:
        """Also by an id of which it has not read yet."""
        reads = self.waits and not self.id and id.startswith(f"{self.name}-")
        return self.alive and (self.id == id or bool(reads))

    def moved(self) -> None:
        """Stop waiting: the answer does not come."""
        if self.waits:
            self.waits, self.phase = 0, "join"


@define(eq=False)
class Story:
    """A coordinator, two clients of each protocol, and what happens to them."""

    here: Mixed
    cooperative: bool
    clients: list[Any] = field(init=False)

    def __attrs_post_init__(self) -> None:
        classic = [ClassicClient(self.here, f"c{n}", self.cooperative) for n in range(2)]
        self.clients = [*classic, *(NewClient(self.here, f"n{n}") for n in range(2))]

    def happens(self, what: str, who: int) -> None:
        """One step, a millisecond after the last one."""
        one = self.clients[who]
        self.here.later(1)
        match what:
            case "act":
                one.act()
            case "leave" if one.alive:
                one.leave()
            case "die" if one.alive:
                one.die()
            case "expire":
                self._expire()
            case "fail over":
                self.here.start()
                for client in self.clients:
                    client.moved()
            case "grow" if self.here.topics.known["t"].partitions < 6:
                self.here.topics.has("t", T, self.here.topics.known["t"].partitions + 1)
            case _:
                pass
        self.one_owner()

    def _expire(self) -> None:
        """The sessions of those that are not there any more are over."""
        group = self.here.any_group
        known = () if group is None else (*group.members, *getattr(group, "pending", ()))
        gone = (id for id in known if not any(one.lives_as(id) for one in self.clients))
        for id in sorted(gone):
            for kind in (SESSION, CLASSIC_SESSION):
                key = TimerKey(kind, GROUP, id)
                self.here.took(self.here.here.due(self.here.now, key))
                self.here.took(self.here.here.committed(self.here.log.end))

    def one_owner(self) -> None:
        for one in self.clients:
            for other in self.clients:
                both = one.owned & other.owned
                assert one is other or not both, f"{one.name} and {other.name} own {set(both)}"

    def settles(self, *, everybody: bool) -> None:
        """When nothing happens any more, each partition has an owner, and everybody is a member,
        where the policy lets them."""
        alive = [one for one in self.clients if one.alive]
        quiet = 0
        for _ in range(200):
            self._expire()
            self.here.later(1)
            for one in alive:
                one.act()
                self.one_owner()
            settled = all(one.settled for one in alive) or not everybody
            done = settled and self._is_shared(alive)
            quiet = quiet + 1 if done else 0
            if quiet == 3:
                return
        state = [(one.name, set(one.owned), getattr(one, "phase", one.settled)) for one in alive]
        raise AssertionError(f"not settled: {state}, {self.here.any_group}")

    def _is_shared(self, alive: Sequence[Any]) -> bool:
        count = self.here.topics.known["t"].partitions
        owned = sorted(number for one in alive for number in one.owned)
        return not alive or owned == list(range(count))
