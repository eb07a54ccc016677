"""Scripts for a consumer of its own partitions, played step by step on ours and on Kafka's.

`Consumers.java` is the other side. Both get the same answers to what they have sent.
"""

from collections.abc import Callable, Iterable
from random import Random
from typing import Any, NamedTuple

from attrs import define, evolve, field

from refimpl.clients.consumer.config import ConsumerConfig
from refimpl.clients.consumer.machine import ConsumerMachine
from refimpl.clients.consumer.messages import CallFailed, Poll, Polled
from refimpl.clients.consumer.position import OffsetAndEpoch, Position, Question
from refimpl.clients.consumer.records import Read
from refimpl.messages.broker import (
    FetchedPartition,
    FetchRequest,
    FetchResponse,
    ListedOffset,
    ListOffsetsRequest,
    ListOffsetsResponse,
    MetadataRequest,
    MetadataResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    PartitionMetadata,
    Request,
    Response,
    Timer,
    TopicPartition,
)

LONG = 1 << 30
OF_FETCH = (
    *("OFFSET_OUT_OF_RANGE", "OFFSET_OUT_OF_RANGE", "NOT_LEADER_OR_FOLLOWER"),
    *("FENCED_LEADER_EPOCH", "UNKNOWN_LEADER_EPOCH", "TOPIC_AUTHORIZATION_FAILED"),
    *("OFFSET_NOT_AVAILABLE", "KAFKA_STORAGE_ERROR", "UNKNOWN_SERVER_ERROR"),
)
OF_OFFSETS = (
    *("TOPIC_AUTHORIZATION_FAILED", "NOT_LEADER_OR_FOLLOWER", "LEADER_NOT_AVAILABLE"),
    *("FENCED_LEADER_EPOCH", "UNKNOWN_LEADER_EPOCH", "OFFSET_NOT_AVAILABLE"),
)

Step = list[Any]
Asked = dict[str, Any]
Events = dict[str, Any]


class Number(NamedTuple):
    """A record without anything but its offset."""

    offset: int


@define
class Numbers:
    """A batch of such records, written in one epoch."""

    offsets: list[int]
    leader_epoch: int
    producer_id: int = -1
    is_transactional: bool = False
    is_control: bool = False
    is_abort: bool = False

    @property
    def base_offset(self) -> int:
        return self.offsets[0]

    @property
    def next_offset(self) -> int:
        return self.offsets[-1] + 1

    def read(self, offset: int) -> Read:
        """Those from an offset on."""
        return Read([Number(one) for one in self.offsets if one >= offset])


class Opener:
    """A list of batches, as a broker sends them."""

    def batches(self, partition: TopicPartition, data: Any) -> Iterable[Any]:
        """The batches."""
        return data


@define(eq=False)
class PositionLikeKafka(Position):
    """A position with Kafka's rules where ours differ on purpose: docs/kafka-diff.md."""

    keeps_buffer: bool = True

    @property
    def question(self) -> Question:
        """There the answer of a reset counts, whoever leads by then."""
        leader = -1 if self.state == "resetting" else self.leader_epoch
        return self.state, self.strategy, self.offset, self.epoch, leader

    def hand_out(self, most: int) -> list[Any]:
        """There the next poll sees that nothing is left, if there were as many as it may have."""
        buffer = self.buffer
        records = super().hand_out(most)
        if len(records) == most:
            self.buffer = buffer
        return records

    def see_end(self) -> None:
        """An empty buffer may be fetched again; so may one that a poll finds and does not want."""
        if self.buffer is None or self.paused:
            return
        if (self.buffer.is_empty and self.is_fetchable) or self.state != "fetching":
            self.buffer = None


@define(eq=False)
class Ours:
    """Our consumer, which does something only while it is polled, as Kafka's."""

    given: dict[str, Any]
    now: int = 0
    machine: ConsumerMachine = field(init=False)
    leaders: dict[int, tuple[int, int]] = field(init=False)
    asked: dict[int, Request] = field(factory=dict[int, Request], init=False)
    polls: int = 0
    differs: bool = False
    told: Events = field(factory=dict[str, Any], init=False)
    sent: list[Any] = field(factory=list[Any], init=False)

    def __attrs_post_init__(self) -> None:
        given = self.given
        settings = {
            "bootstrap.servers": "h:1",
            "auto.offset.reset": given["reset"],
            "max.poll.records": given["most"],
            "enable.auto.commit": False,
        }
        config = evolve(
            ConsumerConfig.of(settings),
            retry_backoff_ms=0,
            retry_backoff_max_ms=0,
            reconnect_backoff_ms=0,
            request_timeout_ms=LONG,
            rebootstraps=False,
        )
        self.machine = ConsumerMachine(config, Opener(), (1,), lambda: 0.5)
        self.leaders = {p: (1 + p % given["nodes"], 0) for p in range(given["partitions"])}
        self.machine.assign(0, [TopicPartition("t", p) for p in self.leaders])
        for name in self.machine.positions:
            self.machine.positions[name] = PositionLikeKafka()
        self.update()

    def update(self) -> None:
        self.machine.metadata.update(self.now, self.metadata())
        for name, one in self.machine.positions.items():
            one.learn(self.leaders[name.partition][1])

    def metadata(self) -> MetadataResponse:
        nodes = frozenset(range(1, self.given["nodes"] + 1))
        return MetadataResponse(
            [
                PartitionMetadata(TopicPartition("t", p), None, node, epoch, nodes)
                for p, (node, epoch) in self.leaders.items()
            ]
        )

    def play(self, step: Step) -> Events:
        """The events of one step."""
        self.told, self.sent = {}, []
        name = TopicPartition("t", step[1]) if len(step) > 1 else TopicPartition("t", 0)
        match step:
            case ["poll"]:
                self.poll()
            case ["answer", id, answer]:
                self.answer(self.asked.pop(id), answer)
            case ["advance", ms]:
                self.now += ms
            case ["leader", partition, node, epoch]:
                self.leaders[partition] = node, epoch
                self.update()
            case ["pause", _]:
                self.machine.positions[name].paused = True
            case ["resume", _]:
                self.machine.positions[name].paused = False
            case ["seek", _, offset, epoch]:
                self.machine.seek(name, OffsetAndEpoch(offset, epoch))
            case ["beginning", _]:
                self.machine.seek_by([name], "earliest")
            case _:
                self.machine.seek_by([name], "latest")
        positions = {str(p.partition): self.position(p) for p in self.machine.positions}
        return {**self.told, "sent": self.sent, "positions": positions}

    def position(self, name: TopicPartition) -> list[Any]:
        one = self.machine.positions[name]
        if one.state in ("resetting", "initializing"):
            return [one.state]
        return [one.state, one.offset, one.epoch]

    def poll(self) -> None:
        for _ in range(3):
            self.polls += 1
            self.give(Timer(self.now, ""))
            held = [one for one in self.machine.positions.values() if one.buffer is not None]
            for one in held:
                assert isinstance(one, PositionLikeKafka)
                one.see_end()
                # What is behind others in turn, and not wanted just now, is kept there.
                self.differs |= one.buffer is None and one.state != "fetching" and len(held) > 1
            self.give(Poll(self.polls, 0))
            if self.told:
                return

    def give(self, message: Any) -> None:
        for output in self.machine.handle(self.now, message):
            match output:
                case Request(_, node, number, MetadataRequest()):
                    answer = Response(node, -1, number, self.metadata())
                    self.machine.network.answered(self.now, answer)
                    self.give(Timer(self.now, ""))
                case Request(_, node, number, body):
                    self.asked[number] = output
                    self.sent.append({"id": number, "node": node, **request_told(body)})
                case Polled(_, records) if records:
                    rows = {str(p.partition): [one.offset for one in found] for p, found in records}
                    self.told["records"] = rows
                case CallFailed(_, error):
                    self.told["error"] = error
                case _:
                    pass

    def answer(self, request: Request, answer: Any) -> None:
        body: Any = None
        match request.body:
            case FetchRequest():
                body = FetchResponse([fetched(int(p), one) for p, one in answer.items()])
            case ListOffsetsRequest():
                body = ListOffsetsResponse(
                    [
                        ListedOffset(
                            TopicPartition("t", int(p)),
                            one["error"] or None,
                            *(one["offset"], -1, one["epoch"]),
                        )
                        for p, one in answer.items()
                    ]
                )
            case _:
                body = OffsetForLeaderEpochResponse(
                    [
                        (
                            TopicPartition("t", int(p)),
                            one["error"] or None,
                            one["epoch"],
                            one["offset"],
                        )
                        for p, one in answer.items()
                    ]
                )
        response = Response(request.target, -1, request.correlation_id, body)
        self.machine.network.answered(self.now, response)


def fetched(partition: int, one: Any) -> FetchedPartition:
    records = one["records"]
    batches = [Numbers([at for at, _ in records], records[0][1])] if records else []
    name = TopicPartition("t", partition)
    return FetchedPartition(
        *(name, one["error"] or None, 1000, 1000),
        records=batches,  # pyright: ignore[reportArgumentType]
        preferred_read_replica=one["replica"],
    )


def request_told(body: Any) -> dict[str, Any]:
    """A request as the other side tells of it."""
    match body:
        case FetchRequest():
            rows = {
                str(one.partition.partition): [one.fetch_offset, one.current_leader_epoch]
                for one in body.partitions
            }
            return {"api": "Fetch", "partitions": rows}
        case ListOffsetsRequest():
            rows = {str(one.partition.partition): [one.timestamp] for one in body.partitions}
            return {"api": "ListOffsets", "partitions": rows}
        case OffsetForLeaderEpochRequest():
            rows = {str(name.partition): [*epochs] for name, *epochs in body.partitions}
            return {"api": "OffsetForLeaderEpoch", "partitions": rows}
        case _:
            raise AssertionError(body)


Other = Callable[[Step], Events]


@define(eq=False)
class Script:
    """One script, whose answers are those to what was sent."""

    seed: int
    other: Other
    random: Random = field(init=False)
    given: dict[str, Any] = field(init=False)
    ours: Ours = field(init=False)
    #: Of each request its id here, its id there, and what it asks
    waiting: list[tuple[int, int, dict[str, Any]]] = field(
        factory=list[tuple[int, int, dict[str, Any]]], init=False
    )
    steps: list[Step] = field(factory=list[Step], init=False)
    records: int = 0
    shown: int = 12

    def __attrs_post_init__(self) -> None:
        self.random = random = Random(self.seed)
        partitions = random.randint(1, 3)
        self.given = {
            "partitions": partitions,
            "nodes": random.randint(1, partitions),
            "reset": random.choice(("earliest", "latest", "none")),
            "most": random.choice((1, 2, 500)),
        }
        self.trouble = random.choice((0.0, 0.1, 0.3))
        self.ours = Ours(self.given)

    trouble: float = 0.0

    def play(self, length: int) -> str | None:
        """The first step in which ours does something else, None if there is none."""
        self.other(["new", self.given])
        # There a partition without a position and without a reset keeps all others from records.
        for partition in range(self.given["partitions"]) if self.given["reset"] == "none" else ():
            if (found := self.compare(["seek", partition, 5, -1])) is not None:
                return found
        for _ in range(length):
            for step in self.draw():
                if self.is_out_of_turn(step):
                    return None
                if (found := self.compare(step)) is not None or self.ours.differs:
                    return found
        return None

    def compare(self, step: Step) -> str | None:
        self.steps.append(step)
        there = step
        if step[0] == "answer":
            mine, other, _ = self.waiting.pop(step[1])
            step, there = ["answer", mine, step[2]], ["answer", other, step[2]]
        ours, theirs = self.ours.play(step), self.other(there)
        if self.ours.differs:
            return None
        if "error" in ours or "error" in theirs:
            # There a poll that raises asks for nothing more.
            self.go_on(ours, self.ours.play(step))
            self.go_on(theirs, self.other(step))
        if step[0] != "poll":
            # There a poll looks at what was fetched, and here at metadata.
            ours.pop("positions")
            theirs.pop("positions")
        sent, asked = in_order(ours.pop("sent")), in_order(theirs.pop("sent"))
        if (ours, [one for _, one in sent]) != (theirs, [one for _, one in asked]):
            story = "\n".join(f"    {one}" for one in self.steps[-self.shown :])
            return f"{self.given}\n{story}\n  ours  {ours} {sent}\n  Kafka {theirs} {asked}"
        self.waiting += [(a, b, one) for (a, one), (b, _) in zip(sent, asked, strict=True)]
        self.records += sum(map(len, ours.get("records", {}).values()))
        return None

    def go_on(self, events: Events, more: Events) -> None:
        """Add what the next poll does."""
        more["sent"] = events["sent"] + more["sent"]
        # There one exception names all partitions whose logs were truncated.
        first, second = events.get("error"), more.get("error")
        events.update(more, errors=[first, None if second == first else second])
        events.pop("error", None)

    def is_out_of_turn(self, step: Step) -> bool:
        """There what was fetched is dropped in its turn, which may be later; and a reset that is
        asked for again is asked of the leader again.
        """
        positions = self.ours.machine.positions
        held = [p for p, one in positions.items() if one.buffer is not None]
        if step[0] == "answer":
            asked: Asked = self.waiting[int(step[1])][2]
            # What is to be asked already is asked there before what the answer leads to.
            if any(
                one.state in ("resetting", "validating") and one.asked != one.question
                for one in positions.values()
            ):
                return True
            rows: dict[str, list[int]] = asked["partitions"]
            return (
                bool(held)
                and asked["api"] == "Fetch"
                and any(
                    (one := positions[TopicPartition("t", int(p))]).offset != row[0]
                    or one.state != "fetching"
                    or one.buffer is not None  # of another leader: here the later one counts
                    for p, row in rows.items()
                )
            )
        if step[0] not in ("seek", "beginning", "end", "leader"):
            return False
        one = positions[TopicPartition("t", step[1])]
        again = step[0] != "leader" and one.state == "resetting"
        # There the follower of the old leader is kept while there is no position.
        again |= step[0] == "leader" and one.state == "resetting" and one.replica != -1
        # There a seek to where it stands drops nothing.
        again |= step[0] == "seek" and one.offset == step[2]
        return again or len(held) > 1 or any(positions[p].paused for p in held)

    def draw(self) -> list[Step]:
        random = self.random
        partition = random.randrange(self.given["partitions"])
        match random.randrange(12):
            case 0 | 1 | 2 | 3 | 4 | 5 if self.waiting:
                at = random.randrange(len(self.waiting))
                return [["answer", at, self.answer(self.waiting[at][2])], ["poll"]]
            case 6:
                kind = random.choice(("seek", "seek", "beginning", "end"))
                # There nobody is asked before metadata is of an epoch that was seen.
                epoch = random.randint(-1, self.ours.leaders[partition][1])
                more = [random.randrange(20), epoch] if kind == "seek" else []
                return [[kind, partition, *more]]
            case 7:
                return [[random.choice(("pause", "resume", "resume")), partition]]
            case 8 if random.random() < 0.5:
                node = random.randint(1, self.given["nodes"])
                # There a new leader is seen by a poll.
                epoch = self.ours.leaders[partition][1] + 1
                return [["leader", partition, node, epoch], ["poll"]]
            case _:
                return [["poll"]]

    def answer(self, asked: dict[str, Any]) -> Any:
        random, rows = self.random, asked["partitions"]
        if asked["api"] == "Fetch":
            # There an error waits until all that came before is returned.
            wrong = random.choice([*rows]) if random.random() < self.trouble else None
            if any(one.buffer is not None for one in self.ours.machine.positions.values()):
                wrong = None
                is_empty = False
            else:
                is_empty = wrong is not None or random.random() < 0.2
            return {p: self.fetched(row, p == wrong, is_empty) for p, row in rows.items()}
        answers: dict[str, Any] = {}
        state = "resetting" if asked["api"] == "ListOffsets" else "validating"
        for p in rows:
            one = self.ours.machine.positions[TopicPartition("t", int(p))]
            later = [other for _, _, other in self.waiting if other["api"] == asked["api"]]
            later = later[[other is asked for other in later].index(True) + 1 :]
            # There an error of an old question lets a new one be asked twice.
            is_void = one.state != state or any(p in other["partitions"] for other in later)
            wrong = random.random() < self.trouble and not is_void
            epoch = random.choice((-1, 0, 1)) if wrong else 0
            offset = -1 if epoch == -1 and random.random() < 0.5 else random.randrange(25)
            # There an error that is raised makes all other answers void.
            errors = OF_OFFSETS if len(rows) == 1 else OF_OFFSETS[1:]
            error = random.choice(errors) if wrong and random.random() < 0.7 else ""
            if asked["api"] == "ListOffsets" and offset < 0:
                offset = 3
            # There a reset leaves no epoch behind, and is not validated.
            epoch = -1 if asked["api"] == "ListOffsets" else epoch
            answers[p] = {"error": error, "offset": -1 if error else offset, "epoch": epoch}
        return answers

    def fetched(self, row: list[int], is_wrong: bool, is_empty: bool) -> dict[str, Any]:
        random, (offset, epoch) = self.random, row
        count = 0 if is_empty else random.randint(1, 4)
        records = [[offset + n, max(0, epoch)] for n in range(count)]
        error = random.choice(OF_FETCH) if is_wrong else ""
        moves = is_empty and not error and random.random() < 0.7
        replica = random.randint(1, self.given["nodes"]) if moves else -1
        return {"error": error, "records": records, "replica": replica}


def in_order(sent: list[Any]) -> list[tuple[int, dict[str, Any]]]:
    """Requests that have no order between nodes, each with its id."""
    rows = [(one["id"], {key: one[key] for key in ("node", "api", "partitions")}) for one in sent]
    return sorted(
        rows, key=lambda row: (row[1]["node"], row[1]["api"], str(sorted(row[1]["partitions"])))
    )
