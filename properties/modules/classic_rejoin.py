"""ClassicRejoin: a cooperative group, and its members that must join again.

All other steps are ClassicGroup's. A client's answer decides if it must rejoin. Its leader relies
on the partitions that the client claimed, which it may have revoked since.
"""

from collections import Counter
from collections.abc import Hashable, Mapping
from typing import ClassVar

from properties.conformance.binding import Bound, OtherAction
from properties.modules.classic_group import CONFIG, MEMBERS, ClassicMembers
from properties.modules.descriptor import Module
from properties.tla import Value
from refimpl.machines import classic_operations as operations
from refimpl.machines.classic_consumer import ClassicConsumer


class ClassicRejoin(ClassicMembers):
    """A coordinator's group and cooperative consumers, with the members that must join again."""

    module = "ClassicRejoin"
    knobs: ClassVar = {"Dropped": "none", "Rejoins": "all"}

    def __init__(self, constants: Mapping[str, Value]) -> None:
        super().__init__({**constants, "Cooperative": True})
        self.must: frozenset[int] = frozenset()

    def _assigned(self, m: int, assignment: bytes) -> None:
        if self._consumer(m).assigned(assignment):
            self.must |= {m}

    def _claims(self, consumer: ClassicConsumer) -> frozenset[Hashable]:
        return consumer.owned | consumer.missed

    def join(self, m: int, news: bool) -> None:
        before = self.group
        super().join(m, news)
        if self.group != before:  # otherwise it received its generation again
            self.must -= {m}

    def join_again(self, m: int) -> None:
        if m not in self.must:
            raise OtherAction
        step = operations.join(self.group, self._request(m, known=True, news=True), CONFIG)
        self._consumer(m).prepare_join()
        self._take(step)
        self.must -= {m}

    def sync_leader(self, m: int, to: tuple[int, ...]) -> None:
        if self.group.generation >= self.max_generation:
            claims = [(n, self._claims(one)) for n, one in self._claimants()]
            claimed = Counter(p for _, owned in claims for p in owned)
            for n, owned in claims:
                if any(claimed[p] == 1 and to[p - 1] != n for p in self.partitions if p in owned):
                    raise Bound
        super().sync_leader(m, to)

    def load(self, state: Mapping[str, Value]) -> None:
        super().load(state)
        for consumer, missed in zip(self.consumers, state["missed"], strict=True):
            consumer.missed = missed
        self.must = frozenset(m for m in self.ids if state["must"][m - 1])


def _there(c: ClassicRejoin, m: int) -> bool:
    """True if it is a member. Former members have no obligations."""
    return str(m) in c.group.members


def _missed(c: ClassicRejoin, m: int) -> frozenset[Hashable]:
    return c.consumers[m - 1].missed if _there(c, m) else frozenset()


ClassicRejoin.projection = {
    **MEMBERS,
    "missed": lambda c: tuple([_missed(c, m) for m in c.ids]),
    "must": lambda c: tuple([_there(c, m) and m in c.must for m in c.ids]),
}

MODULE = Module(binding=ClassicRejoin, machines=("classic_consumer",))
