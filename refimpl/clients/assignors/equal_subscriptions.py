"""The sticky assignment where all members read the same topics: balanced to one, little moved.

With P partitions and M members each gets P // M, and P % M of them one more.
"""

from collections.abc import Sequence

from attrs import define, field

from refimpl.clients.assignors.claims import Claims
from refimpl.clients.assignors.model import Assignment, Member, Partition, Racks
from refimpl.clients.assignors.rack_info import RackInfo
from refimpl.java_hash import string_order


@define(eq=False)
class EqualSubscriptions:
    """The state of one assignment: who has how much, and who may still get more.

    `under` holds members with fewer than the minimum, `exact` those at the minimum that may get
    one more, `over` counts members above it. `transferred` are partitions whose new owner has to
    wait for the old one.
    """

    topics: Sequence[str]
    racks: Racks
    rack_info: RackInfo
    claims: Claims
    minimum: int = field(init=False)
    maximum: int = field(init=False)
    may_be_over: int = field(init=False)
    over: int = 0
    under: list[str] = field(factory=list[str])
    exact: list[str] = field(factory=list[str])
    assignment: Assignment = field(init=False)
    given_up: dict[Partition, str] = field(factory=dict[Partition, str])
    transferred: dict[Partition, str] = field(factory=dict[Partition, str])

    def __attrs_post_init__(self) -> None:
        members = len(self.claims.owned)
        total = sum(len(self.racks[topic]) for topic in self.topics)
        self.minimum, self.may_be_over = divmod(total, members)
        self.maximum = self.minimum + (self.may_be_over > 0)
        self.assignment = {member: [] for member in self.claims.owned}

    def assign(self) -> None:
        """Let members keep what they own up to their part, then deal out the rest."""
        for member in self.claims.owned:
            self._keep(member)
        kept = {partition for partitions in self.assignment.values() for partition in partitions}
        unassigned = [
            (topic, partition)
            for topic in sorted(self.topics, key=string_order)
            for partition in range(len(self.racks[topic]))
            if (topic, partition) not in kept
        ]
        self.under.sort(key=string_order)
        self.exact.sort(key=string_order)
        unassigned = self.rack_info.scarcest_first(unassigned)
        if self.rack_info.used:
            unassigned = self._deal_within_racks(unassigned)
        self._deal(unassigned)

    def _keep(self, member: str) -> None:
        """Keep the owned partitions: the maximum while somebody may have it, else the minimum."""
        owned: list[Partition] = []
        for partition in self.claims.owned[member]:
            if self.rack_info.mismatch(member, partition):
                self.given_up[partition] = member
            elif partition not in self.claims.disputed:
                owned.append(partition)
        owned.sort(key=lambda one: (one[1], string_order(one[0])))
        keeps = self.minimum
        if len(owned) < self.minimum:
            self.under.append(member)
        elif len(owned) >= self.maximum and self.over < self.may_be_over:
            keeps = self.maximum
            self._one_more_over()
        elif self.over < self.may_be_over:
            self.exact.append(member)
        self.assignment[member] += owned[:keeps]
        self.given_up.update(dict.fromkeys(owned[keeps:], member))

    def _one_more_over(self) -> None:
        self.over += 1
        if self.over == self.may_be_over:
            self.exact.clear()

    def _deal_within_racks(self, unassigned: list[Partition]) -> list[Partition]:
        """Deal partitions to members in their racks; the answer is what none of them could take."""
        left: list[Partition] = []
        position = 0
        for partition in unassigned:
            at = self.rack_info.next_in_rack(partition, self.under, position)
            if at >= 0:
                position = self._deal_to_under(partition, at)
            elif not self._deal_to_exact(partition):
                left.append(partition)
        return left

    def _deal_to_under(self, partition: Partition, at: int) -> int:
        """Give a partition to the member at a position of `under`; the position to go on from."""
        member = self.under[at]
        if self._give(member, partition) < self.minimum:
            at += 1
        else:
            del self.under[at]
            if self.minimum < self.maximum and self.over < self.may_be_over:
                self.exact.append(member)
        return at % len(self.under) if self.under else 0

    def _deal_to_exact(self, partition: Partition) -> bool:
        at = self.rack_info.next_in_rack(partition, self.exact, 0)
        if at < 0:
            return False
        self._give(self.exact.pop(at), partition)
        self._one_more_over()
        return True

    def _deal(self, unassigned: list[Partition]) -> None:
        """Deal partitions round, first to members under the minimum, then one each to the rest."""
        position = 0
        for partition in unassigned:
            if not self.under:
                self._give(self.exact.pop(0), partition)
                continue
            position %= len(self.under)
            member = self.under[position]
            if self._give(member, partition) == self.minimum:
                del self.under[position]
                self.exact.append(member)
            else:
                position += 1

    def _give(self, member: str, partition: Partition) -> int:
        self.assignment[member].append(partition)
        was = self.given_up.get(partition, member)
        if was != member or partition in self.claims.disputed:
            self.transferred[partition] = member
        return len(self.assignment[member])


def have_equal_subscriptions(members: Sequence[Member]) -> bool:
    """True if all members read the same topics.

    Unlike Kafka's, members that read nothing count too: Kafka's sticky assignors overlook those
    in front of the HashMap's order, and give them a part of the others' topics.
    """
    return len({frozenset(member.topics) for member in members}) <= 1
