"""A consumer that shares partitions by one of Kafka's group protocols.

Both protocols share this code: it finds and asks the coordinator, reads a partition's committed
offset, and commits. It reacts to a coordinator's errors as Kafka's clients do.
"""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, Protocol

from attrs import define, field

from chaos.clients.consumer import Consumer, Part
from chaos.clients.member_process import identity
from chaos.sim.addresses import BROKERS, GROUP
from chaos.sim.group_messages import Assigned, CommitAnswered, FetchSent, Joined, OffsetFetched
from refimpl.errors import Refusal
from refimpl.machines.group import OffsetCommit
from refimpl.messages import group as g
from refimpl.messages.broker import Request, Response, TopicPartition
from refimpl.records.schema import NO_ID

RETRY_MS = 50
ANSWER_MS = 250

# The meaning of a coordinator's error, for every request
LOOK_UP = frozenset(("NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE"))
BACK_OFF = frozenset(("COORDINATOR_LOAD_IN_PROGRESS", "UNKNOWN_TOPIC_OR_PARTITION"))
ZOMBIE = frozenset(("UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION", "STALE_MEMBER_EPOCH"))
ANSWERS = (
    *(g.FindCoordinatorResponse, g.JoinGroupResponse, g.SyncGroupResponse, g.HeartbeatResponse),
    *(g.LeaveGroupResponse, g.ConsumerGroupHeartbeatResponse),
    *(g.OffsetCommitResponse, g.OffsetFetchResponse),
)


class PendingRequest(NamedTuple):
    """A request without an answer: its time, and its purpose."""

    at_ms: int
    handle: Callable[[Response, Any], None]
    about: Any = None


class CommitTag(NamedTuple):
    """The identity of a commit, carried in the metadata of the committed offset.

    `generation` is a member epoch in a consumer group.
    """

    member_id: str
    generation: int
    number: int

    def __str__(self) -> str:
        """The text in the metadata."""
        return f"{self.member_id} {self.generation} {self.number}"

    @classmethod
    def parse(cls, text: str) -> "CommitTag":
        """Read the text in the metadata."""
        member_id, generation, number = text.rsplit(" ", 2)
        return cls(member_id, int(generation), int(number))


class SimulatedMember(Protocol):
    """A member of the group in a run, as the nemesis and the oracles know it."""

    id: int
    up: bool
    paused_until: int
    #: The numbers of the partitions that it owns
    owned: tuple[int, ...]
    commits: int
    """Counts its commits, and each time that it begins to read a partition."""

    @property
    def member(self) -> int:
        """The member's number in the spec."""
        ...

    @property
    def member_id(self) -> str:
        """The name that the group has given it."""
        ...

    @property
    def group_generation(self) -> int:
        """The generation, or member epoch, that it believes to be in."""
        ...

    def handle(self, message: Any) -> None:
        """Handle any message."""
        ...

    def subscribe(self) -> None:
        """Send a subscription."""
        ...

    def crash(self) -> None:
        """The process ends."""
        ...

    def leave(self) -> None:
        """Leave in order."""
        ...

    def close(self) -> None:
        """The process ends in order, at the end of the run."""
        ...


@define(eq=False)
class GroupMember(Consumer):
    """One member. `assignments` counts its assignments, so that it recognizes late answers."""

    coordinator: int | None = None
    member_id: str = ""
    asked_for: dict[int, PendingRequest] = field(factory=dict[int, PendingRequest])
    next_at: int = 0
    next_heartbeat: int = 0
    assignments: int = 0
    commits: int = 0

    def __attrs_post_init__(self) -> None:
        """Look the handlers up once; a coordinator's answers are dispatched by their request."""
        Consumer.__attrs_post_init__(self)
        self.handlers |= dict.fromkeys(ANSWERS, self._answered)

    @property
    def group_generation(self) -> int:
        """The generation, or member epoch, that it believes to be in."""
        raise NotImplementedError

    @property
    def instance(self) -> str | None:
        """The instance id of a static member (KIP-345): its next process takes its place."""
        static = self.simulation.settings.static_members and self.group == GROUP
        return f"i{self.member}" if static else None

    @property
    def _rebalance_ms(self) -> int:
        return 2 * self.simulation.settings.member_session_ms

    # Time

    def _take_part(self, now: int) -> None:
        self._give_up(now)
        if self.coordinator is not None:
            self._be_member(now)
            if self.fetching and now >= self.next_at:
                self._fetch_offsets()
        elif now >= self.next_at:
            self._find()

    def _be_member(self, now: int) -> None:
        """Send the coordinator the requests that the protocol requires now."""
        raise NotImplementedError

    def _give_up(self, now: int) -> None:
        """Give a connection up if the oldest request on it is not answered in time."""
        if not self.asked_for:
            return
        patience, oldest = self._patience_ms(), next(iter(self.asked_for.values()))
        if now - oldest.at_ms <= patience:
            return
        late = [number for number, one in self.asked_for.items() if now - one.at_ms > patience]
        if late:
            for number in late:
                del self.asked_for[number]
            self.coordinator = None
            self._unanswered()

    def _patience_ms(self) -> int:
        return ANSWER_MS

    def _unanswered(self) -> None:
        """Every unanswered request must be sent again."""
        raise NotImplementedError

    # Asking

    def _ask_coordinator(
        self, body: Any, handle: Callable[[Response, Any], None], about: Any = None
    ) -> None:
        if self.coordinator is not None:
            self._ask_broker(self.coordinator, body, handle, about)
        else:
            self._unanswered()  # once it is found, all begins again

    def _ask_broker(
        self, broker: int, body: Any, handle: Callable[[Response, Any], None], about: Any
    ) -> None:
        self.requests += 1
        self.asked_for[self.requests] = PendingRequest(self.simulation.timeline.now, handle, about)
        self.simulation.network.send(Request(self.id, broker, self.requests, body))

    def _answered(self, response: Response) -> None:
        asked = self.asked_for.pop(response.correlation_id, None)
        if asked is not None:
            asked.handle(response, asked.about)

    def _find(self) -> None:
        self.next_at = self.simulation.timeline.now + RETRY_MS
        broker = BROKERS[int(self.simulation.rng.random() * len(BROKERS))]
        self._ask_broker(
            broker, g.FindCoordinatorRequest(g.GROUP, (self.group,)), self._found, None
        )

    def _found(self, response: Response, about: Any) -> None:
        (found,) = response.body.coordinators
        self.coordinator = found.node_id if found.error is None else None

    def _troubled(self, error: str) -> bool:
        """True if an error is about the coordinator. Look it up again, or wait."""
        if error in LOOK_UP:
            self.coordinator = None
        elif error not in BACK_OFF:
            return False
        self.simulation.counts[f"coordinator: {error}"] += 1
        self.next_at = self.simulation.timeline.now + RETRY_MS
        return True

    # Owned partitions

    def _own(self, owned: Iterable[int], left: str) -> None:
        """Own these partitions from now on; all others have been `left`."""
        now = tuple(sorted(owned))
        gone = tuple([one for one in self.owned if one not in now])
        if now:
            self._know(now[-1])
        self.owned = now
        self.fetching -= set(gone)
        for partition in gone:
            part = self.parts[partition]
            part.buffer.clear()
            part.current, part.asked = None, 0
        if gone and left == "lost":
            self.simulation.counts["members that lost their partitions"] += 1
        if gone and self.simulation.history is not None:
            self._note(left, partitions=self._names(gone))

    def _commit_all(self, partitions: Iterable[int]) -> None:
        """Commit the processed records of revoked partitions, without waiting for the answer."""
        for partition in partitions:
            if partition not in self.fetching:
                self._commit(self.parts[partition])

    def _took_over(self, added: tuple[int, ...]) -> None:
        """These are ours as well now; where to begin is to be asked."""
        self.assignments += 1
        self.fetching |= set(added)
        who = self.member, self.member_id, self.group_generation
        self._say(Assigned(*who, self.owned))
        if self.simulation.history is not None:
            self._note("assigned", partitions=self._names(added))
        if added and self.coordinator is not None:
            self._fetch_offsets()

    # Committed offsets

    def _fetch_offsets(self) -> None:
        self.next_at = self.simulation.timeline.now + RETRY_MS
        wanted = [(self.parts[one].name, NO_ID) for one in sorted(self.fetching)]
        body = g.OffsetFetchRequest(self.group, wanted, *self._reader())
        self._ask_coordinator(body, self._offsets_fetched, (self.assignments, self.requests + 1))
        self._say(FetchSent(self.member, self.requests))

    def _reader(self) -> tuple[str | None, int]:
        """Member id and epoch of the reader of committed offsets, if the protocol names them."""
        return None, -1

    def _offsets_fetched(self, response: Response, about: tuple[int, int]) -> None:
        body: g.OffsetFetchResponse = response.body
        assignment, number = about
        if body.error is not None:
            self._troubled(body.error)
            return
        for one in body.partitions:
            partition = one.partition.partition
            if one.error is None:
                self._say(OffsetFetched(partition, self.member, number, one.offset))
            ours = partition in self.fetching and assignment == self.assignments
            if one.error is None and ours:
                self.fetching.discard(partition)
                committed = max(one.offset, 0)
                if self.simulation.history is not None:
                    offsets = {self._name(partition): committed}
                    self._note("committed", partitions=[self._name(partition)], offsets=offsets)
                self._begin(partition, committed)

    def _begin(self, partition: int, offset: int) -> None:
        part = self.parts[partition]
        self.commits += 1  # counts the machine's generations, because each time it needs the change
        part.member.join(self.commits, offset)
        part.buffer.clear()
        part.current, part.commit, part.asked = None, None, 0
        self._say(Joined(partition, self.member, self.group_generation, offset))

    # Commits

    def _send_commit(self, part: Part) -> None:
        assert part.commit is not None
        self.commits += 1
        tag = CommitTag(self.member_id, self.group_generation, self.commits)
        offset = g.CommittedPartition(part.name, part.commit.offset, metadata=str(tag))
        who = self.member_id, self.group_generation, self.instance
        body = g.OffsetCommitRequest(self.group, *who, (offset,))
        self._ask_coordinator(body, self._commit_answered, (part.commit, tag))

    def _commit_answered(self, response: Response, about: tuple[OffsetCommit, CommitTag]) -> None:
        commit, tag = about
        name: TopicPartition
        ((name, error),) = response.body.partitions
        part = self.parts[name.partition]
        self._complete(part, commit, error)
        if error is None:
            self._commit_taken(part, commit, tag)
            return
        self.simulation.counts[f"commits refused: {error}"] += 1
        if error in ZOMBIE:
            self.simulation.counts["commits of an old generation"] += 1
        if not self._troubled(error):
            self._commit_refused(tag, error)

    def _commit_taken(self, part: Part, commit: OffsetCommit, tag: CommitTag) -> None:
        partition = part.name.partition
        self._say(CommitAnswered(partition, self.member, tag))
        try:
            part.member.take_answer(commit)
        except Refusal:
            self.simulation.counts["commit answers of an old generation"] += 1
            return
        waits = self.simulation.settings.commit_when == "before"
        if waits and partition in self.owned and partition not in self.fetching:
            self._work(part)

    def _commit_refused(self, tag: CommitTag, error: str) -> None:
        """The group does not take our commits, not only for the time being."""

    # The process

    def leave(self) -> None:
        """Leave in order: commit, send LeaveGroup or its equivalent, and end."""
        self._commit_all(self.owned)
        self._own((), "revoked")
        leaving = self._leaving()
        if self.member_id and self.coordinator is not None and leaving is not None:
            self._ask_coordinator(leaving, lambda response, about: None)
        self.close()
        self._forget()

    def _leaving(self) -> Any:
        """The request by which it leaves, None if it ends without a word."""
        raise NotImplementedError

    def _restart(self) -> None:
        Consumer._restart(self)
        self.next_at = self.simulation.timeline.now

    def _forget(self) -> None:
        Consumer._forget(self)
        self.coordinator, self.member_id = None, ""
        self.asked_for.clear()

    def _identity(self) -> dict[str, Any]:
        member = self.member_id or f"c{self.member - 1}"
        return identity(self.group, member, self.group_generation, self.instance)
