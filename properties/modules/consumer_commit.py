"""ConsumerCommit: a group's coordinator, its members, and the commits under way between them."""

from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from typing import ClassVar

from properties.conformance.binding import Binding, Bound, NoSuchChoice, each, of
from properties.modules.descriptor import Module
from properties.tla import Rec, Value
from refimpl.errors import Refusal
from refimpl.machines.group import CommitCoordinator, CommittingMember, OffsetCommit
from refimpl.projection import CONSUMER_COMMIT_COORDINATOR, CONSUMER_COMMIT_MEMBER


class ConsumerCommit(Binding):
    """One coordinator, members 1..M, and a network that delivers late or never."""

    module = "ConsumerCommit"
    knobs: ClassVar = {"Fence": True, "Fifo": True, "Dropped": "none"}

    def __init__(self, constants: Mapping[str, Value]) -> None:
        self.ids = tuple(range(1, constants["M"] + 1))
        self.log_end: int = constants["LogEnd"]
        self.max_generation: int = constants["MaxGeneration"]
        self.max_processed: int = constants["MaxProcessed"]
        self.commit_when = constants["CommitWhen"]
        self.coordinator = CommitCoordinator()
        self.members = tuple([CommittingMember(id, self.commit_when) for id in self.ids])
        self.requests: dict[OffsetCommit, bool] = {}  # and whether it was answered
        self.processed = [0] * self.log_end

    # The coordinator

    def rebalance(self, m: int) -> None:
        if self.coordinator.generation >= self.max_generation:
            raise Bound
        self.coordinator.rebalance(m)

    def receive_commit(self, m: int, offset: int, choice: int) -> None:
        under_way = sorted(
            (c for c, answered in self.requests.items() if not answered and c.member == m),
            key=lambda c: c.generation,
        )
        candidates = [c for c in under_way if c.offset == offset]
        if choice >= len(candidates):
            raise NoSuchChoice
        commit = candidates[choice]
        self.coordinator.receive_commit(commit)
        self.requests[commit] = True
        self._answer(commit)

    def _answer(self, commit: OffsetCommit) -> None:
        with suppress(Refusal):  # its sender may have moved on
            self.members[commit.member - 1].take_answer(commit)

    # A member

    def join(self, m: int) -> None:
        self.members[m - 1].join(*self.coordinator.join(m))
        for commit, answered in self.requests.items():
            if answered and commit.member == m:  # an answer comes again, and too late: it is void
                self._answer(commit)

    def poll(self, m: int) -> None:
        self.members[m - 1].poll(self.log_end)

    def process(self, m: int) -> None:
        member = self.members[m - 1]
        if member.position and self.processed[member.position - 1] >= self.max_processed:
            raise Bound
        self.processed[member.process()] += 1

    def send_commit(self, m: int) -> None:
        self.requests[self.members[m - 1].send_commit()] = False

    # The environment

    def crash(self, m: int) -> None:
        self.members[m - 1].crash()

    def load(self, state: Mapping[str, Value]) -> None:
        self.requests = {
            OffsetCommit(c["member"], c["generation"], c["offset"]): c["answered"]
            for c in state["requests"]
        }
        received: dict[tuple[int, int], int] = {}
        for c, answered in self.requests.items():
            if answered:
                sender = (c.member, c.generation)
                received[sender] = max(c.offset, received.get(sender, 0))
        self.coordinator = CommitCoordinator(
            state["generation"], state["owner"] or None, state["committed"], received
        )
        self.members = tuple([self._loaded(state, m) for m in self.ids])
        self.processed = list(state["processed"])

    def _loaded(self, state: Mapping[str, Value], m: int) -> CommittingMember:
        generation = state["joined"][m - 1]
        sent = [c.offset for c in self.requests if (c.member, c.generation) == (m, generation)]
        return CommittingMember(
            id=m,
            commit_when=self.commit_when,
            generation=generation,
            position=state["position"][m - 1],
            done=state["done"][m - 1],
            last=state["last"][m - 1],
            sent=max(sent, default=0),
            answered=self.coordinator.received.get((m, generation), 0),
        )


@cache
def _request(c: OffsetCommit, answered: bool) -> Rec:
    return Rec.of(member=c.member, generation=c.generation, offset=c.offset, answered=answered)


ConsumerCommit.projection = {
    **of(CONSUMER_COMMIT_COORDINATOR, lambda c: c.coordinator),
    **each(CONSUMER_COMMIT_MEMBER, lambda c: c.members),
    "requests": lambda c: frozenset([_request(*one) for one in c.requests.items()]),
    "processed": lambda c: tuple(c.processed),
}

MODULE = Module(
    binding=ConsumerCommit,
    machines=("group",),
)
