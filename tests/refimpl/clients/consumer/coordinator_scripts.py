"""Scripts for a member of a classic group, played step by step on ours and on Kafka's.

`Coordinators.java` is the other side. Both get the same answers to what they have sent.
"""

from collections.abc import Iterator, Mapping
from random import Random
from typing import Any

from attrs import define, evolve, field

from refimpl.clients.assignors import read_assignment, write_assignment
from refimpl.clients.consumer.classic import OUT, STABLE, ClassicMembership
from refimpl.clients.consumer.config import ConsumerConfig
from refimpl.clients.consumer.machine import ConsumerMachine
from refimpl.clients.consumer.messages import (
    CallDone,
    Called,
    CallFailed,
    CallListener,
    CloseConsumer,
    CommitOffsets,
    Disconnect,
    Disconnected,
    Poll,
    Unsubscribe,
)
from refimpl.clients.consumer.position import OffsetAndEpoch
from refimpl.clients.network import coordinator_at
from refimpl.messages import group as g
from refimpl.messages.broker import (
    FetchRequest,
    MetadataRequest,
    MetadataResponse,
    PartitionMetadata,
    Request,
    Response,
    Timer,
    TopicPartition,
)
from refimpl.records.consumer_protocol import (
    OwnedTopic,
    Subscription,
    read_versioned,
    write_versioned,
)
from tests.refimpl.clients.consumer.scripts import Events, Opener, Other, Step

LONG = 1 << 30
POLLS = 3
BACKOFF = 60_000
COORDINATOR = coordinator_at(1)
FENCED = "FENCED_INSTANCE_ID"
GONE = "NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE"
MEMBER = "UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION"
WRONG = {
    "FindCoordinator": ("COORDINATOR_NOT_AVAILABLE", "GROUP_AUTHORIZATION_FAILED"),
    "JoinGroup": (
        *(*GONE, "COORDINATOR_LOAD_IN_PROGRESS", "UNKNOWN_MEMBER_ID", "REBALANCE_IN_PROGRESS"),
        *("GROUP_MAX_SIZE_REACHED", "INCONSISTENT_GROUP_PROTOCOL", "GROUP_AUTHORIZATION_FAILED"),
        FENCED,
    ),
    "SyncGroup": (
        *(*GONE, *MEMBER, "REBALANCE_IN_PROGRESS", "GROUP_AUTHORIZATION_FAILED"),
        FENCED,
    ),
    "Heartbeat": (*(*GONE, *MEMBER, *["REBALANCE_IN_PROGRESS"] * 6, FENCED),),
    "OffsetCommit": (
        *(*GONE, *MEMBER, "REBALANCE_IN_PROGRESS", "COORDINATOR_LOAD_IN_PROGRESS"),
        *("REQUEST_TIMED_OUT", "UNKNOWN_TOPIC_OR_PARTITION", "GROUP_AUTHORIZATION_FAILED"),
        *("TOPIC_AUTHORIZATION_FAILED", "OFFSET_METADATA_TOO_LARGE", FENCED),
        "INVALID_COMMIT_OFFSET_SIZE",
    ),
}
"""Of each request the errors that Kafka's coordinator may answer with."""

Given = dict[str, Any]


@define(eq=False)
class Ours:
    """Our consumer; its heartbeats go when they are due."""

    given: Given
    now: int = 0
    machine: ConsumerMachine = field(init=False)
    topics: dict[str, int] = field(factory=lambda: {"t": 4, "u": 2}, init=False)
    asked: dict[int, Request] = field(factory=dict[int, Request], init=False)
    told: Events = field(factory=dict[str, Any], init=False)
    sent: list[Any] = field(factory=list[Any], init=False)
    calls: list[Any] = field(factory=list[Any], init=False)
    #: Results of commits, which the application hears of in its next call
    results: list[Any] = field(factory=list[Any], init=False)
    commits: list[Any] = field(factory=list[Any], init=False)
    #: Of each API the error of all its answers, while a call waits for them
    answers: Mapping[str, str] | None = None
    differs: bool = False
    #: Questions for committed offsets
    held: list[Request] = field(factory=list[Request], init=False)

    def __attrs_post_init__(self) -> None:
        given = dict(self.given)
        assignor = "cooperative-sticky" if given.pop("cooperative") else "range"
        del given["retry.backoff.ms"]
        settings = {
            "bootstrap.servers": "h:1",
            "group.id": "g",
            "partition.assignment.strategy": [assignor],
            **given,
        }
        config = evolve(
            ConsumerConfig.of(settings),
            retry_backoff_ms=BACKOFF,
            retry_backoff_max_ms=BACKOFF,
            reconnect_backoff_ms=0,
            reconnect_backoff_max_ms=0,
            request_timeout_ms=LONG,
            default_api_timeout_ms=LONG,
            metadata_max_age_ms=LONG,
            rebootstraps=False,
        )
        self.machine = ConsumerMachine(config, Opener(), (1,), lambda: 0.5)
        self.machine.metadata.update(0, self.metadata())

    @property
    def member(self) -> ClassicMembership | None:
        found = self.machine.membership
        return found if isinstance(found, ClassicMembership) else None

    @property
    def knows_coordinator(self) -> bool:
        coordinator = self.machine.coordinator
        return coordinator is not None and coordinator.target is not None

    def metadata(self) -> MetadataResponse:
        one = frozenset((1,))
        return MetadataResponse(
            [
                PartitionMetadata(TopicPartition(name, p), None, 1, 0, one)
                for name, count in self.topics.items()
                for p in range(count)
            ]
        )

    def play(self, step: Step) -> Events:
        """The events of one step."""
        self.told, self.sent, self.calls, self.commits = {}, [], [], []
        machine = self.machine
        machine.network._not_before = 0  # pyright: ignore[reportPrivateUsage]
        if step[0] in ("poll", "commit", "commit and wait", "close"):
            self.commits, self.results = self.results, []
        match step:
            case ["subscribe", topics]:
                machine.subscribe(self.now, topics)
                assert self.member is not None
                self.member.commits_twice = False
            case ["unsubscribe"]:
                self.give(Unsubscribe("unsubscribe"))
            case ["poll"]:
                for _ in range(POLLS):
                    self.forget_waits()
                    self.give(Poll("poll", 0))
                    self.commits += self.results
                    self.results = []
                    self.read_offsets()
            case ["answer", id, answer]:
                self.answer(self.asked.pop(id), answer)
            case ["disconnect"]:
                self.lose()
                self.give(Disconnected(COORDINATOR))
            case ["advance", ms]:
                self.now += ms
            case ["partitions", topic, count]:
                self.topics[topic] = count
                machine.metadata.update(self.now, self.metadata())
            case ["seek", name, offset]:
                if partition(name) in machine.positions:
                    machine.seek(partition(name), OffsetAndEpoch(offset))
            case ["commit"]:
                self.forget_waits()
                self.give(CommitOffsets("commit", retries=False))
            case ["commit and wait", answers, ms]:
                self.answers = answers
                self.give(CommitOffsets("wait", timeout_ms=ms))
                self.answers = None
            case _:
                self.answers = step[1]
                self.forget_waits()
                self.give(CloseConsumer("close", step[2]))
                self.now += step[2]
        if not machine.is_closed:
            self.give(Timer(self.now, ""))
        return {
            **self.told,
            "sent": self.sent,
            "calls": self.calls,
            "commits": self.commits,
            "assigned": sorted(map(str_of, machine.positions)),
        }

    def forget_waits(self) -> None:
        """There a poll that may not wait, waits for no backoff."""
        coordinator, member = self.machine.coordinator, self.member
        assert coordinator is not None
        coordinator._not_before = 0  # pyright: ignore[reportPrivateUsage]
        if member is not None:
            member.not_before = 0
        self.machine.lookups._not_before = 0  # pyright: ignore[reportPrivateUsage]
        for change in self.machine._changes:  # pyright: ignore[reportPrivateUsage]
            change.not_before = 0

    def lose(self) -> None:
        for number in [one for one, r in self.asked.items() if r.target == COORDINATOR]:
            del self.asked[number]
        self.held = [one for one in self.held if one.target != COORDINATOR]

    def read_offsets(self) -> None:
        """There nobody reads committed offsets while the group rebalances."""
        member = self.member
        if member is not None and member.state == STABLE and not member.rejoin:
            held, self.held = self.held, []
            for request in held:
                wanted = request.body.partitions
                rows = [g.FetchedOffset(name, None, 5, -1, "") for name, _ in wanted]
                self.respond(request, g.OffsetFetchResponse("g", None, rows))

    def give(self, message: Any) -> None:
        for output in self.machine.handle(self.now, message):
            match output:
                case Request():
                    self.ask(output)
                case Disconnect():
                    self.lose()
                case CallListener(_, kind, partitions):
                    self.calls.append([kind, sorted(map(str_of, partitions))])
                    self.give(Called())
                case CallDone("commit", offsets):
                    found = {str_of(name): at.offset for name, (at, _) in offsets.items()}
                    self.results.append(dict(sorted(found.items())))
                case CallFailed("commit", error):
                    self.results.append({"error": "COMMIT_FAILED" if error in MEMBER else error})
                case CallFailed("poll", error):
                    self.told.setdefault("errors", []).append(error)
                case CallFailed(_, error):
                    self.told["error"] = error
                case _:
                    pass

    def ask(self, request: Request) -> None:
        body = request.body
        match body:
            case MetadataRequest():
                self.respond(request, self.metadata())
            case g.OffsetFetchRequest():
                self.held.append(request)
            case FetchRequest():
                pass
            case _:
                told = request_told(body)
                self.sent.append({"id": request.correlation_id, **told})
                if self.answers is not None or told["api"] == "LeaveGroup":
                    error = (self.answers or {}).get(told["api"], "")
                    self.answer(request, {"error": error})
                else:
                    self.asked[request.correlation_id] = request

    def respond(self, request: Request, body: Any) -> None:
        self.give(Response(request.target, -1, request.correlation_id, body))

    def answer(self, request: Request, answer: Mapping[str, Any]) -> None:
        self.respond(request, answer_of(request.body, answer))


def partition(name: str) -> TopicPartition:
    """The partition of a name such as t-0."""
    return TopicPartition(name[0], int(name[2:]))


def str_of(one: Any) -> str:
    """The name of a partition."""
    return f"{one[0]}-{one[1]}"


def request_told(body: Any) -> dict[str, Any]:
    """A request as the other side tells of it."""
    match body:
        case g.FindCoordinatorRequest():
            return {"api": "FindCoordinator"}
        case g.JoinGroupRequest():
            ((name, metadata),) = body.protocols
            given, _ = read_versioned(Subscription, metadata)
            owned = [f"{one.topic}-{p}" for one in given.owned_partitions for p in one.partitions]
            return {
                "api": "JoinGroup",
                "member": body.member_id,
                "instance": body.group_instance_id,
                "protocol": name,
                "generation": given.generation_id,
                "topics": sorted(given.topics),
                "owned": sorted(owned),
            }
        case g.SyncGroupRequest():
            made = {
                member: sorted(map(str_of, read_assignment(data)))
                for member, data in body.assignments
            }
            return {"api": "SyncGroup", **of_member(body), "assignments": made}
        case g.HeartbeatRequest():
            return {"api": "Heartbeat", **of_member(body)}
        case g.LeaveGroupRequest():
            return {"api": "LeaveGroup", "member": body.members[0].member_id}
        case g.OffsetCommitRequest():
            offsets = {str_of(one.partition): one.offset for one in body.partitions}
            return {"api": "OffsetCommit", **of_member(body), "offsets": offsets}
        case _:
            raise AssertionError(body)


def of_member(body: Any) -> dict[str, Any]:
    return {"member": body.member_id, "generation": body.generation_id}


def answer_of(body: Any, answer: Mapping[str, Any]) -> Any:
    """The message of an answer; none is a connection that has ended."""
    error = answer["error"] or None
    match body:
        case g.FindCoordinatorRequest():
            return g.FindCoordinatorResponse([g.FoundCoordinator("g", error, -1 if error else 1)])
        case g.JoinGroupRequest():
            member, leader = answer.get("member", ""), answer.get("leader", "")
            members = [
                g.JoinGroupMember(one["member"], None, metadata_of(one))
                for one in (answer.get("members", ()) if leader == member else ())
            ]
            generation = answer.get("generation", -1)
            name = body.protocols[0][0]
            return g.JoinGroupResponse(
                *(error, member, generation, "consumer", name, leader, False, members)
            )
        case g.SyncGroupRequest():
            assigned = [partition(one) for one in answer.get("assigned", ())]
            return g.SyncGroupResponse(error, b"" if error else write_assignment(assigned))
        case g.HeartbeatRequest():
            return g.HeartbeatResponse(error)
        case g.LeaveGroupRequest():
            return g.LeaveGroupResponse(error)
        case _:
            return g.OffsetCommitResponse([(one.partition, error) for one in body.partitions])


def metadata_of(one: Mapping[str, Any]) -> bytes:
    """The subscription of a member, as the leader hears of it."""
    topics: dict[str, list[int]] = {}
    for name in one["owned"]:
        topics.setdefault(name[0], []).append(int(name[2:]))
    owned = tuple(OwnedTopic(topic, tuple(found)) for topic, found in topics.items())
    given = Subscription(
        topics=tuple(one["topics"]),
        user_data=None,
        owned_partitions=owned,
        generation_id=one["generation"],
        rack_id=None,
    )
    return write_versioned(given, 3)


@define(eq=False)
class Script:
    """One script, whose answers are those to what was sent."""

    seed: int
    other: Other
    random: Random = field(init=False)
    given: Given = field(init=False)
    ours: Ours = field(init=False)
    #: Of each request its id here, its id there, and what it asks
    waiting: list[tuple[int, int, dict[str, Any]]] = field(
        factory=list[tuple[int, int, dict[str, Any]]], init=False
    )
    steps: list[Step] = field(factory=list[Step], init=False)
    seen: set[str] = field(factory=set[str], init=False)
    #: The topics that it assigned as the leader
    assigned_topics: set[str] | None = None
    subscribed: list[str] = field(factory=list[str], init=False)
    generation: int = 0
    trouble: float = 0.0
    was_found: bool = False
    shown: int = 20

    def __attrs_post_init__(self) -> None:
        self.random = random = Random(self.seed)
        self.given = {
            "cooperative": random.random() < 0.5,
            "retry.backoff.ms": BACKOFF,
            "heartbeat.interval.ms": 300_000,
            "session.timeout.ms": 1_000_000,
            "max.poll.interval.ms": 1_300_000,
            "enable.auto.commit": random.random() < 0.6,
            "auto.commit.interval.ms": 500_000,
        }
        if random.random() < 0.25:
            self.given["group.instance.id"] = "i"
        self.trouble = random.choice((0.0, 0.1, 0.3))
        self.ours = Ours(self.given)

    def play(self, length: int) -> str | None:
        """The first step in which ours does something else, None if there is none."""
        self.other(["new", self.given])
        self.subscribed = ["t"]
        for step in (["subscribe", ["t"]], ["poll"]):
            if (found := self.compare(step)) is not None:
                return found
        while len(self.steps) < length:
            for step in self.draw():
                if (found := self.compare(step)) is not None or self.ours.differs:
                    return found
        return self.compare(["close", {}, 1000]) if self.random.random() < 0.5 else None

    def compare(self, step: Step) -> str | None:
        self.steps.append(step)
        # There the result of the last lookup is that of the next one, unless a poll comes between.
        if not self.ours.knows_coordinator:
            if step[0] == "commit" and self.was_found:
                return None
            self.was_found = self.was_found and step[0] != "poll"
        if self.is_otherwise(step):
            self.ours.differs = True
            return None
        there = step
        if step[0] == "answer":
            mine, other, asked = self.waiting.pop(step[1])
            step, there = ["answer", mine, step[2]], ["answer", other, step[2]]
            if self.is_void(asked, step[2]["error"]):
                self.ours.differs = True
                return None
            if asked["api"] == "FindCoordinator":
                self.was_found = True
        ours, theirs = self.ours.play(step), self.other(there)
        if self.ours.differs:
            return None
        # There an eager member is told each time that it gives up what it owns, or nothing.
        theirs["calls"] = [one for one in theirs["calls"] if one != ["revoked", []]]
        if step[0] == "close":
            # There a callback of a commit may be forgotten then, and heartbeats have ended before.
            for events in ours, theirs:
                events.pop("commits")
                asked_for = [one for one in events["sent"] if one["api"] != "FindCoordinator"]
                events["sent"] = asked_for
        if FENCED in ours.get("errors", ()) and FENCED in theirs.get("errors", ()):
            # There nothing happens any more, or a new thread of heartbeats sleeps beside the old.
            self.ours.differs = True
            return None
        sent, heard = in_order(ours.pop("sent")), in_order(theirs.pop("sent"))
        if (ours, [one for _, one in sent]) != (theirs, [one for _, one in heard]):
            story = "\n".join(f"    {one}" for one in self.steps[-self.shown :])
            return f"{self.given}\n{story}\n  ours  {ours} {sent}\n  Kafka {theirs} {heard}"
        if step[0] not in ("close", "commit and wait"):
            self.waiting += [(a, b, one) for (a, one), (b, _) in zip(sent, heard, strict=True)]
        self.waiting = [one for one in self.waiting if one[0] in self.ours.asked]
        self.seen |= {one["api"] for _, one in sent} | {one[0] for one in ours["calls"]}
        self.seen |= {"error " + one for one in ours.get("errors", ())}
        return None

    @property
    def is_waiting(self) -> bool:
        """True if the coordinator has a request."""
        return any(one["api"] != "FindCoordinator" for _, _, one in self.waiting)

    def is_void(self, asked: dict[str, Any], error: str) -> bool:
        """There a member that is out waits for the answer to what it asked as a member: a join,
        or the commit before it; and a commit of an earlier generation costs the next one.
        """
        if error not in (*MEMBER, FENCED) or asked["api"] not in ("Heartbeat", "OffsetCommit"):
            return False
        member = self.ours.member
        is_old = member is not None and asked["generation"] != member.group_generation
        return self.waits or (asked["api"] == "OffsetCommit" and is_old)

    @property
    def waits(self) -> bool:
        """True while a rebalance is under way, up to what the application hears of it."""
        member = self.ours.member
        changes = self.ours.machine._changes  # pyright: ignore[reportPrivateUsage]
        return any(one.committing for one in changes) or (
            member is not None
            and (member.is_joining or member.taken is not None or member.error is not None)
        )

    def is_otherwise(self, step: Step) -> bool:
        """There nobody hears of what is lost or given up, or of a refusal, before a lookup; a
        member that is out leaves without a word; a fenced one cannot commit; and a close takes the
        result of an old lookup.
        """
        member = self.ours.member
        if step[0] == "unsubscribe" and self.waits:
            return True
        if not self.ours.knows_coordinator and self.was_found and step[0] == "close":
            return True
        if member is not None and member.is_fenced and step[0] == "commit":
            return True
        if step[0] == "poll":
            changes = self.ours.machine._changes  # pyright: ignore[reportPrivateUsage]
            is_told = bool(changes) and not changes[0].commits
            is_told |= member is not None and member.error is not None
            return is_told and not self.ours.knows_coordinator
        if member is None or member.state != OUT:
            return False
        return step[0] in ("close", "unsubscribe") and member.is_member

    def draw(self) -> Iterator[Step]:
        """The next steps, which most often go on with what was begun."""
        random = self.random
        match random.randrange(24):
            case 0 | 1 | 2 | 3 | 4 | 5 | 6 | 7 | 8 | 9 if self.waiting:
                yield self.answer_one(random.randrange(len(self.waiting)))
            case 10 | 11 | 12 if self.ours.knows_coordinator:
                yield ["advance", random.choice((60_000, 60_000, 100_000, 300_000, 300_000))]
            case 13 | 14:
                owned = sorted(self.ours.machine.positions) or [TopicPartition("t", 0)]
                yield ["seek", str_of(random.choice(owned)), random.randrange(6, 90)]
            case 15 | 16:
                yield ["commit"]
            case 17 if random.random() < 0.3:
                if random.random() < 0.2:
                    yield ["unsubscribe"]
                self.subscribed = random.choice((["t"], ["t", "u"], ["u"]))
                yield ["subscribe", self.subscribed]
            case 18 if random.random() < self.trouble and self.is_waiting:
                yield ["disconnect"]
            case 19 if random.random() < self.trouble:
                yield from self.rest(is_heard=random.random() < 0.6)
            case _:
                yield ["poll"]

    def rest(self, *, is_heard: bool) -> Iterator[Step]:
        """Time without a poll, up to the end of the session or of max.poll.interval.ms."""
        for _ in range(5):
            if not self.ours.knows_coordinator:
                return
            yield ["advance", 300_000]
            while is_heard and self.waiting:
                yield self.answer_one(0)

    def answer_one(self, at: int) -> Step:
        return ["answer", at, self.answer(self.waiting[at][2])]

    def answer(self, asked: dict[str, Any]) -> dict[str, Any]:
        random, api = self.random, asked["api"]
        if random.random() < self.trouble:
            error = random.choice(WRONG[api])
            if error != FENCED or "group.instance.id" in self.given:
                return {"error": error}
        match api:
            case "JoinGroup":
                return self.joined(asked)
            case "SyncGroup":
                self.see_assignment(asked)
                return {"error": "", "assigned": self.assigned(asked)}
            case "Heartbeat" if random.random() < 0.3:
                return {"error": "REBALANCE_IN_PROGRESS"}
            case _:
                return {"error": ""}

    def joined(self, asked: dict[str, Any]) -> dict[str, Any]:
        member = asked["member"]
        if not member and "group.instance.id" not in self.given and self.random.random() < 0.7:
            return {"error": "MEMBER_ID_REQUIRED", "member": f"m{len(self.steps)}"}
        member = member or f"m{len(self.steps)}"
        self.generation += 1
        answer = {"error": "", "member": member, "generation": self.generation}
        if self.random.random() < 0.7:
            return {**answer, "leader": "x"}
        self.assigned_topics = {*asked["topics"], "t"}
        me = {"member": member, **{key: asked[key] for key in ("topics", "owned", "generation")}}
        other = {"member": "x", "topics": ["t"], "owned": [], "generation": self.generation - 1}
        return {**answer, "leader": member, "members": [me, other]}

    def see_assignment(self, asked: dict[str, Any]) -> None:
        """There a member that led before joins once more, if what it then knew of topics has
        changed.
        """
        if not asked["assignments"] and self.assigned_topics is not None:
            self.ours.differs = self.assigned_topics != {*self.subscribed}
            self.assigned_topics = None

    def assigned(self, asked: dict[str, Any]) -> list[str]:
        if asked["member"] in asked["assignments"]:
            return asked["assignments"][asked["member"]]
        topics = {"t": 4, "u": 2}
        all = [f"{topic}-{p}" for topic in self.subscribed for p in range(topics[topic])]
        return sorted(one for one in all if self.random.random() < 0.6)


def in_order(sent: list[Any]) -> list[tuple[int, dict[str, Any]]]:
    """Requests in the order in which they were sent, each with its id."""
    return [(one["id"], {key: one[key] for key in one if key != "id"}) for one in sent]
