"""The uniform assignor for members that subscribe to different topics.

Kafka's UniformHeterogeneousAssignmentBuilder: members keep partitions that they subscribe to, and
the rest goes to the least loaded. Then, topic by topic, the most loaded give to the least loaded.
"""

from collections.abc import Mapping, Sequence

from attrs import define, field

from refimpl.records.schema import Uuid

ROUNDS = 16
NOBODY = -1


def assign_different(
    targets: Mapping[str, Mapping[Uuid, Sequence[int]]],
    topics: Mapping[str, Sequence[Uuid]],
    partitions: Mapping[Uuid, int],
) -> dict[str, dict[Uuid, set[int]]]:
    """The target of each member; `targets` are the previous ones, in the order of Kafka's map."""
    plan = Plan.of(targets, topics, partitions)
    if not plan.owners:
        return {}
    plan.assign_the_rest()
    plan.balance()
    found: dict[str, dict[Uuid, set[int]]] = {member: {} for member in targets}
    members = list(targets)
    for topic, owners in plan.owners.items():
        for number, owner in enumerate(owners):
            if owner != NOBODY:
                found[members[owner]].setdefault(topic, set()).add(number)
    return found


@define
class Plan:
    """An assignment in the making. Members are numbers here."""

    #: Per topic, the owner of each partition
    owners: dict[Uuid, list[int]]
    #: Per topic, its subscribers, ascending
    subscribers: dict[Uuid, list[int]]
    #: Per member, the number of its partitions
    loads: list[int]

    @classmethod
    def of(
        cls,
        targets: Mapping[str, Mapping[Uuid, Sequence[int]]],
        topics: Mapping[str, Sequence[Uuid]],
        partitions: Mapping[Uuid, int],
    ) -> "Plan":
        """A plan in which each member keeps the partitions that it may."""
        members = list(targets)
        subscribers: dict[Uuid, list[int]] = {}
        for number, member in enumerate(members):
            for topic in topics[member]:
                subscribers.setdefault(topic, []).append(number)
        owners = {topic: [NOBODY] * partitions[topic] for topic in subscribers}
        loads = [0] * len(members)
        for number, member in enumerate(members):
            for topic, held in targets[member].items():
                if topic in topics[member]:
                    loads[number] += len(held)
                    for p in held:
                        owners[topic][p] = number
        return cls(owners, subscribers, loads)

    def in_order(self, topics: Sequence[Uuid]) -> list[Uuid]:
        """Topics with many partitions per subscriber first, then those with few subscribers."""

        def rank(topic: Uuid) -> tuple[float, int, int, int]:
            readers = len(self.subscribers[topic])
            return -(len(self.owners[topic]) / readers), readers, *_signed(topic)

        return sorted(topics, key=rank)

    def assign_the_rest(self) -> None:
        """Give each partition without an owner to its least loaded subscriber."""
        rest = {
            topic: [number for number, owner in enumerate(owners) if owner == NOBODY]
            for topic, owners in self.owners.items()
        }
        for topic in self.in_order([topic for topic, free in rest.items() if free]):
            levels = Levels.of(self.subscribers[topic], self.loads)
            for number in rest[topic]:
                self._give(topic, number, levels.least())

    def balance(self) -> None:
        """Balance topic by topic, until a whole round has moved nothing."""
        topics = self.in_order([one for one, who in self.subscribers.items() if len(who) > 1])
        last = -1
        for _ in range(ROUNDS):
            for index, topic in enumerate(topics):
                if index == last:
                    return
                if self._balance(topic) or last == -1:
                    last = index

    def _balance(self, topic: Uuid) -> int:
        """Let the most loaded subscribers give their last partitions to the least loaded."""
        levels = Levels.of(self.subscribers[topic], self.loads)
        if levels.imbalance <= 1:
            return 0
        held: dict[int, list[int]] = {}
        for number, owner in enumerate(self.owners[topic]):
            held.setdefault(owner, []).append(number)
        moved = 0
        while not levels.is_balanced():
            giver = levels.most()
            while giver is not None and not held.get(giver):
                levels.exclude()
                giver = levels.most()
            if giver is None:
                break
            number = held[giver].pop()
            taker = levels.least()
            if levels.is_balanced():
                break
            self._give(topic, number, taker)
            moved += 1
        return moved

    def _give(self, topic: Uuid, number: int, member: int) -> None:
        owner = self.owners[topic][number]
        if owner != NOBODY:
            self.loads[owner] -= 1
        self.owners[topic][number] = member
        self.loads[member] += 1


@define
class Levels:
    """Members by load: the least loaded are filled up level by level from the left, and the most
    loaded are emptied from the right.
    """

    members: list[int]
    loads: list[int]
    _least_end: int = 0
    _least_load: int = 0
    _next_least: int = 0
    _most_start: int = 0
    _most_end: int = 0
    _most_load: int = 0
    _next_most: int = 0
    imbalance: int = field(default=0, init=False)

    @classmethod
    def of(cls, members: Sequence[int], loads: list[int]) -> "Levels":
        """The subscribers of one topic; equal loads by number."""
        ranked = sorted(members, key=lambda member: (loads[member], member))
        count, low, high = len(ranked), loads[ranked[0]], loads[ranked[-1]]
        levels = cls(ranked, loads, 0, low - 1, 0, count, count, high + 1, count - 1)
        levels.imbalance = high - low
        return levels

    def is_balanced(self) -> bool:
        """True if no further move improves the balance."""
        return self._most_load - self._least_load <= 1

    def least(self) -> int:
        """The member that gets the next partition."""
        if self._next_least >= self._least_end:
            self._least_load += 1
            while (
                self._least_end < len(self.members)
                and self.loads[self.members[self._least_end]] == self._least_load
            ):
                self._least_end += 1
            self._next_least = 0
        self._next_least += 1
        return self.members[self._next_least - 1]

    def most(self) -> int | None:
        """The member that gives the next partition; None if no member can."""
        if self._next_most < self._most_start:
            if self._most_end <= self._most_start > 0:  # all of them were excluded
                self._most_load = self.loads[self.members[self._most_start - 1]]
            else:
                self._most_load -= 1
            while (
                self._most_start > 0
                and self.loads[self.members[self._most_start - 1]] == self._most_load
            ):
                self._most_start -= 1
            self._next_most = self._most_end - 1
        if self._next_most < 0:
            return None
        self._next_most -= 1
        return self.members[self._next_most + 1]

    def exclude(self) -> None:
        """Exclude the last giver, which has no partition of this topic to give."""
        here, end, members = self._next_most + 1, self._most_end - 1, self.members
        members[here], members[end] = members[end], members[here]
        self._most_end -= 1


def _signed(uuid: Uuid) -> tuple[int, int]:
    """A topic id's order in Java, whose UUID halves are signed."""
    return int.from_bytes(uuid[:8], signed=True), int.from_bytes(uuid[8:], signed=True)
