"""A consumer that speaks the classic group protocol to the brokers (KIP-62, KIP-394, KIP-429).

What it reads, processes and commits is as in `Consumer`; how it becomes a member, and what a
coordinator's errors make it do, is as in Kafka's clients.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from attrs import define, field

from chaos.clients.consumer import Consumer, Part
from chaos.sim.addresses import BROKERS, GROUP, TICK, TOPIC
from chaos.sim.group_messages import Assigned, CommitAnswered, FetchSent, Joined, OffsetFetched
from refimpl.assignors import (
    ASSIGNORS,
    PROTOCOL_TYPE,
    Assignor,
    read_assignment,
    unracked,
    write_assignment,
)
from refimpl.broker import group_messages as g
from refimpl.broker.messages import (
    FetchResponse,
    MetadataResponse,
    Request,
    Response,
    TopicPartition,
)
from refimpl.errors import Refusal
from refimpl.machines.group import OffsetCommit
from refimpl.storage.schema import NO_ID

UNKNOWN, FINDING, JOINING, SYNCING, STABLE = "unknown", "finding", "joining", "syncing", "stable"
RETRY_MS = 50
ANSWER_MS = 250
NO_GENERATION = -1

# What an error of a coordinator means, whatever was asked
LOOK_UP = frozenset(("NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE"))
BACK_OFF = frozenset(("COORDINATOR_LOAD_IN_PROGRESS",))
FENCED = frozenset(("UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION"))


class Asked(NamedTuple):
    """A request without an answer: when it was sent, and what was going on."""

    at_ms: int
    handle: Callable[[Response, Any], None]
    about: Any = None


class CommitTag(NamedTuple):
    """Which commit it is: carried in the metadata of the committed offset."""

    member_id: str
    generation: int
    number: int


@define(eq=False)
class GroupMember(Consumer):
    """One member; `joined` counts its assignments, so that what is late is known as such."""

    coordinator: int | None = None
    state: str = UNKNOWN
    member_id: str = ""
    group_generation: int = NO_GENERATION
    protocol: str | None = None
    asked_for: dict[int, Asked] = field(factory=dict[int, Asked])
    next_at: int = 0
    assignments: int = 0
    commits: int = 0
    #: Partitions that are ours and whose committed offsets are not known yet
    fetching: set[int] = field(factory=set[int])

    def __attrs_post_init__(self) -> None:
        """Look up once who handles what; a coordinator's answers go by what was asked."""
        self.handlers = {
            FetchResponse: self._records,
            MetadataResponse: self._told,
        } | dict.fromkeys(
            (
                *(g.FindCoordinatorResponse, g.JoinGroupResponse, g.SyncGroupResponse),
                *(g.HeartbeatResponse, g.LeaveGroupResponse),
                *(g.OffsetCommitResponse, g.OffsetFetchResponse),
            ),
            self._answered,
        )

    def _told(self, response: Response) -> None:
        self.leaders.told(response.body)

    @property
    def assignor(self) -> Assignor:
        """What the group assigns with."""
        return ASSIGNORS[self.simulation.settings.assignor]

    @property
    def _now(self) -> int:
        return self.simulation.timeline.now

    # Time

    def _tick(self) -> None:
        timeline, settings = self.simulation.timeline, self.simulation.settings
        now = timeline.now
        timeline.at(now + settings.work_ms, self.id, TICK)
        if not self.up:
            return
        self._give_up(now)
        if self.coordinator is None:
            if now >= self.next_at:
                self._find()
        elif self.state == UNKNOWN:
            if now >= self.next_at:
                self._join()
        elif self.state == STABLE:
            if now >= self.next_heartbeat:
                self.next_heartbeat = now + settings.member_session_ms // 4
                who = self.group_generation, self.member_id
                self._ask_coordinator(g.HeartbeatRequest(GROUP, *who), self._heartbeat_answered)
            if self.fetching and now >= self.next_at:
                self._fetch_offsets()
        for partition in self.owned:
            if partition not in self.fetching:
                self._work(self.parts[partition])

    def _give_up(self, now: int) -> None:
        """Who does not answer in time is not asked any more: the connection counts as gone."""
        waits = {JOINING: self._rebalance_ms + ANSWER_MS, SYNCING: self._rebalance_ms + ANSWER_MS}
        patience = waits.get(self.state, ANSWER_MS)
        late = [number for number, one in self.asked_for.items() if now - one.at_ms > patience]
        if late:
            for number in late:
                del self.asked_for[number]
            self.coordinator = None
            if self.state != STABLE:
                self.state = UNKNOWN

    @property
    def _rebalance_ms(self) -> int:
        return 2 * self.simulation.settings.member_session_ms

    # Asking

    def _ask_coordinator(
        self, body: Any, handle: Callable[[Response, Any], None], about: Any = None
    ) -> None:
        if self.coordinator is not None:
            self._ask_broker(self.coordinator, body, handle, about)
        elif self.state != STABLE:
            self.state = UNKNOWN  # once it is found, all begins again

    def _ask_broker(
        self, broker: int, body: Any, handle: Callable[[Response, Any], None], about: Any
    ) -> None:
        self.requests += 1
        self.asked_for[self.requests] = Asked(self._now, handle, about)
        self.simulation.network.send(Request(self.id, broker, self.requests, body))

    def _answered(self, response: Response) -> None:
        asked = self.asked_for.pop(response.correlation_id, None)
        if asked is not None:
            asked.handle(response, asked.about)

    def _find(self) -> None:
        self.next_at = self._now + RETRY_MS
        broker = BROKERS[int(self.simulation.rng.random() * len(BROKERS))]
        self._ask_broker(broker, g.FindCoordinatorRequest(g.GROUP, (GROUP,)), self._found, None)

    def _found(self, response: Response, about: Any) -> None:
        (found,) = response.body.coordinators
        self.coordinator = found.node_id if found.error is None else None

    def _troubled(self, error: str) -> bool:
        """Whether an error is about the coordinator: look it up again, or give it time."""
        if error in LOOK_UP:
            self.coordinator = None
        elif error not in BACK_OFF:
            return False
        self.simulation.counts[f"coordinator: {error}"] += 1
        self.next_at = self._now + RETRY_MS
        return True

    # Joining

    def _join(self) -> None:
        """Be in the next generation. Who gives everything up first commits what it has done."""
        if self.owned and not self.assignor.cooperative:
            self._revoke(self.owned)
        self.state, self.joining = JOINING, True
        metadata = self.assignor.subscription(
            (TOPIC,), [(TOPIC, one) for one in self.owned], self.group_generation
        )
        session_ms = self.simulation.settings.member_session_ms
        body = g.JoinGroupRequest(
            *(GROUP, session_ms, self._rebalance_ms, self.member_id, None, PROTOCOL_TYPE),
            ((self.assignor.name, metadata),),
            client_id=f"c{self.member - 1}",
        )
        self._ask_coordinator(body, self._join_answered)

    def _join_answered(self, response: Response, about: Any) -> None:
        body: g.JoinGroupResponse = response.body
        if self.state != JOINING:
            return
        self.state = UNKNOWN
        match body.error:
            case None:
                self._sync(body)
            case "MEMBER_ID_REQUIRED":
                self.member_id = body.member_id
                self._join()
            case "UNKNOWN_MEMBER_ID":
                self._lose(forget=True)
            case error:
                self._refused(error)

    def _sync(self, body: g.JoinGroupResponse) -> None:
        """Ask for the assignment; the leader makes it."""
        self.member_id, self.group_generation = body.member_id, body.generation_id
        self.state, self.protocol = SYNCING, body.protocol_name
        assignments: Sequence[tuple[str, bytes]] = ()
        if body.leader == body.member_id:
            members = [self.assignor.member(one.member_id, one.metadata) for one in body.members]
            topics = unracked({TOPIC: self.simulation.settings.partitions})
            made = self.assignor.assign(members, topics)
            assignments = [(member, write_assignment(parts)) for member, parts in made.items()]
        who = self.group_generation, self.member_id, None, PROTOCOL_TYPE, self.protocol
        self._ask_coordinator(g.SyncGroupRequest(GROUP, *who, assignments), self._synced)

    def _synced(self, response: Response, about: Any) -> None:
        body: g.SyncGroupResponse = response.body
        if self.state != SYNCING:
            return
        self.state = UNKNOWN
        if body.error in FENCED:
            self._lose(forget=body.error == "UNKNOWN_MEMBER_ID")
        elif body.error is not None:
            self._refused(body.error)
        else:
            self._take_over([partition for _, partition in read_assignment(body.assignment)])

    def _refused(self, error: str) -> None:
        if not self._troubled(error):
            self.simulation.counts[f"rejoins: {error}"] += 1

    def _take_over(self, assigned: list[int]) -> None:
        """Own what is assigned, once what is not has been given up."""
        self.state, self.joining = STABLE, False
        self.next_heartbeat = self._now
        self.assignments += 1
        given_up = tuple(one for one in self.owned if one not in assigned)
        added = [one for one in assigned if one not in self.owned]
        self._revoke(given_up)
        self.generation = self.assignments
        self.owned = tuple(sorted(assigned))
        self.fetching |= set(added)
        names = tuple(self.owned)
        self._say(Assigned(self.member, self.member_id, self.group_generation, names))
        if self.simulation.history is not None:
            self._note("assigned", partitions=self._names(tuple(added)))
        if added:
            self._fetch_offsets()
        if given_up:
            self._join()  # what was given up is somebody's in the next generation

    def _revoke(self, partitions: tuple[int, ...]) -> None:
        """Give partitions up, after a last commit that nobody waits for."""
        if not partitions:
            return
        for partition in partitions:
            if partition not in self.fetching:
                self._commit(self.parts[partition])
        self._drop(partitions)
        if self.simulation.history is not None:
            self._note("revoked", partitions=self._names(partitions))

    def _lose(self, *, forget: bool) -> None:
        """The group has gone on without us: nothing is ours any more."""
        lost = self.owned
        self._drop(lost)
        self.group_generation = NO_GENERATION
        if forget:
            self.member_id = ""
        self.state, self.joining = UNKNOWN, True
        if lost:
            self.simulation.counts["members that lost their partitions"] += 1
            if self.simulation.history is not None:
                self._note("lost", partitions=self._names(lost))

    def _drop(self, partitions: tuple[int, ...]) -> None:
        self.owned = tuple(one for one in self.owned if one not in partitions)
        self.fetching -= set(partitions)
        for partition in partitions:
            part = self.parts[partition]
            part.buffer.clear()
            part.current, part.asked = None, 0

    # Committed offsets

    def _fetch_offsets(self) -> None:
        self.next_at = self._now + RETRY_MS
        wanted = [(self.parts[one].name, NO_ID) for one in sorted(self.fetching)]
        body = g.OffsetFetchRequest(GROUP, wanted)
        self._ask_coordinator(body, self._offsets_fetched, (self.assignments, self.requests + 1))
        self._say(FetchSent(self.member, self.requests))

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
                self._begin(partition, max(one.offset, 0))

    def _begin(self, partition: int, committed: int) -> None:
        part = self.parts[partition]
        self.commits += 1  # counts the machine's generations: it wants news each time
        part.member.join(self.commits, committed)
        part.buffer.clear()
        part.current, part.commit, part.asked = None, None, 0
        if self.simulation.history is not None:
            offsets = {self._name(partition): committed}
            self._note("committed", partitions=[self._name(partition)], offsets=offsets)
        self._say(
            Joined(partition, self.member, self.assignments, self.group_generation, committed)
        )

    # Commits

    def _send_commit(self, part: Part) -> None:
        assert part.commit is not None
        self.commits += 1
        tag = CommitTag(self.member_id, self.group_generation, self.commits)
        offset = g.CommittedPartition(part.name, part.commit.offset, metadata=repr(tuple(tag)))
        who = self.member_id, self.group_generation, None
        body = g.OffsetCommitRequest(GROUP, *who, (offset,))
        self._ask_coordinator(body, self._commit_answered, (part.commit, tag))

    def _commit_answered(self, response: Response, about: tuple[OffsetCommit, CommitTag]) -> None:
        commit, tag = about
        name: TopicPartition
        ((name, error),) = response.body.partitions
        part = self.parts[name.partition]
        self._complete(part, commit, error)
        if error is None:
            self._say(CommitAnswered(name.partition, self.member, tag))
            try:
                part.member.take_answer(commit)
            except Refusal:
                self.simulation.counts["commit answers of an old generation"] += 1
                return
            waits = self.simulation.settings.commit_when == "before"
            if waits and name.partition in self.owned and name.partition not in self.fetching:
                self._work(part)
            return
        self.simulation.counts[f"commits refused: {error}"] += 1
        if error in FENCED:
            self.simulation.counts["commits of an old generation"] += 1
            if (tag.member_id, tag.generation) == (self.member_id, self.group_generation):
                self._lose(forget=error == "UNKNOWN_MEMBER_ID")
        elif not self._troubled(error) and self.state == STABLE:
            self._join()

    def _heartbeat_answered(self, response: Response, about: Any) -> None:
        error = response.body.error
        if error is None or self.state != STABLE or self._troubled(error):
            return
        if error in FENCED:
            self._lose(forget=error == "UNKNOWN_MEMBER_ID")
        self._join()

    # The process

    def leave(self) -> None:
        """Go in order: commit, tell the coordinator, and end."""
        self._revoke(self.owned)
        if self.member_id and self.coordinator is not None:
            body = g.LeaveGroupRequest(GROUP, (g.LeavingMember(self.member_id),))
            self._ask_coordinator(body, lambda response, about: None)
        self.close()
        self._forget()

    def crash(self) -> None:
        """The process ends; what it sent is still under way."""
        Consumer.crash(self)
        self._forget()

    def _forget(self) -> None:
        self.coordinator, self.state, self.protocol = None, UNKNOWN, None
        self.member_id, self.group_generation = "", NO_GENERATION
        self.owned, self.joining = (), True
        self.asked_for.clear()
        self.fetching.clear()
        for part in self.parts:
            part.buffer.clear()
            part.current, part.commit, part.asked = None, None, 0

    def _begin_process(self) -> None:
        self.next_at = self._now

    def _identity(self) -> dict[str, Any]:
        return {
            "group": GROUP,
            "member": self.member_id or f"c{self.member - 1}",
            "generation": self.group_generation,
        }
