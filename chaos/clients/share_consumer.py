"""A member of a share group: it is given records, and acknowledges each of them.

It has a session at every leader of its partitions, with one request under way. A request without
an answer ends the session's connection, and the next one begins anew.
"""

from collections.abc import Callable, Iterable, Mapping
from random import Random
from typing import Any

from attrs import define, field, frozen

from chaos.clients.group_member import ANSWER_MS, BACK_OFF, LOOK_UP, RETRY_MS
from chaos.clients.leaders import Leaders
from chaos.sim.addresses import BROKERS, SHARE_GROUP, TICK, Restart, Tick
from chaos.sim.history import Call
from chaos.sim.share_messages import SharesAcknowledged, SharesAnswered, ShareSessionOver
from chaos.sim.simulation import Simulation
from refimpl.machines.share_partition import ACCEPT, REJECT, RELEASE, RENEW
from refimpl.messages import group as g
from refimpl.messages import share as s
from refimpl.messages.broker import MetadataResponse, Request, Response, TopicPartition

WAIT_MS = 60
NAMES = {ACCEPT: "accept", RELEASE: "release", REJECT: "reject", RENEW: "renew"}
"""The types of acknowledgements, as traces have them."""
Types = Mapping[TopicPartition, Mapping[int, int]]


@define(eq=False)
class Lent:
    """A record that the member holds, until it is done with it."""

    broker: int
    done_at: int
    #: True while an acknowledgement of it is under way
    acknowledged: bool = False


@frozen
class Sent:
    """A request to a leader that has no answer."""

    number: int
    broker: int
    at_ms: int
    types: Types
    #: In the history: the acknowledgements of each partition, and the moment
    calls: Mapping[TopicPartition, Call | None]
    made_ns: int


@define(eq=False)
class Session:
    """A share session at one broker; `connection` is the number of its connection."""

    broker: int
    connection: int
    epoch: int = 0
    partitions: frozenset[TopicPartition] = frozenset()
    sent: Sent | None = None


@define(eq=False)
class ShareConsumer:
    """One member; a crash ends its process, and another boot follows, with another member id."""

    id: int
    number: int
    simulation: Simulation
    topics: tuple[str, ...]
    names: Mapping[bytes, str]
    leaders: Leaders
    rng: Random
    up: bool = True
    boot: int = 0
    paused_until: int = 0
    #: True once it takes everything, and accepts it
    finishes: bool = False
    requests: int = 0
    coordinator: int | None = None
    member_epoch: int = 0
    assigned: frozenset[TopicPartition] = frozenset()
    sessions: dict[int, Session] = field(factory=dict[int, Session])
    lent: dict[TopicPartition, dict[int, Lent]] = field(
        factory=dict[TopicPartition, dict[int, Lent]]
    )
    #: The request to the coordinator that has no answer, 0 for none, and its time
    asked: int = 0
    asked_at: int = 0
    next_at: int = 0
    next_heartbeat: int = 0
    handlers: dict[type, Callable[[Response], None]] = field(init=False)

    def __attrs_post_init__(self) -> None:
        """Look the handlers up once."""
        self.handlers = {
            g.FindCoordinatorResponse: self._found,
            g.ShareGroupHeartbeatResponse: self._heard,
            s.ShareFetchResponse: self._fetched,
            s.ShareAcknowledgeResponse: self._acknowledged,
            MetadataResponse: lambda response: self.leaders.told(response.body),
        }

    @property
    def member_id(self) -> str:
        """The id of this process, which is its name in the history."""
        return f"s{self.number}#{self.boot}"

    @property
    def _now(self) -> int:
        return self.simulation.timeline.now

    def handle(self, message: Any) -> None:
        """Handle any message. A process that is down handles only the order to start."""
        kind = message.__class__
        if kind is Tick:
            every_ms = max(10, self.simulation.settings.share_work_ms // 2)
            self.simulation.timeline.at(self._now + every_ms, self.id, TICK)
            if self.up:
                self._tick(self._now)
        elif kind is Restart:
            self._restart()
        elif self.up:
            self.handlers[type(message.body)](message)

    def _tick(self, now: int) -> None:
        self._take_part(now)
        for session in list(self.sessions.values()):
            if session.sent is not None and now - session.sent.at_ms > ANSWER_MS + WAIT_MS:
                self.leaders.refresh()
                self._disconnect(session)
        if self.member_epoch:
            self._ask_leaders(now)

    # The group

    def _take_part(self, now: int) -> None:
        if self.asked and now - self.asked_at > ANSWER_MS:
            self.asked, self.coordinator = 0, None
        if self.asked or now < self.next_at:
            return
        if self.coordinator is None:
            broker = BROKERS[int(self.rng.random() * len(BROKERS))]
            self._ask(broker, g.FindCoordinatorRequest(g.GROUP, (SHARE_GROUP,)))
        elif not self.member_epoch or now >= self.next_heartbeat:
            self.next_heartbeat = now + self.simulation.settings.member_session_ms // 4
            names = None if self.member_epoch else self.topics
            about = SHARE_GROUP, self.member_id, self.member_epoch, None, names
            self._ask(self.coordinator, g.ShareGroupHeartbeatRequest(*about))

    def _ask(self, broker: int, body: Any) -> None:
        self.asked, self.asked_at = self._send(broker, body), self._now

    def _send(self, broker: int, body: Any) -> int:
        self.requests += 1
        self.simulation.network.send(Request(self.id, broker, self.requests, body))
        return self.requests

    def _found(self, response: Response) -> None:
        if response.correlation_id == self.asked:
            (found,) = response.body.coordinators
            self.asked = 0
            self.coordinator = found.node_id if found.error is None else None
            self.next_at = self._now + (RETRY_MS if found.error else 0)

    def _heard(self, response: Response) -> None:
        body: g.ShareGroupHeartbeatResponse = response.body
        if response.correlation_id != self.asked:
            return
        self.asked = 0
        if body.error is None:
            self.member_epoch = body.member_epoch
            if body.assignment is not None:
                self.assigned = frozenset(
                    TopicPartition(self.names[topic_id], number)
                    for topic_id, numbers in body.assignment
                    for number in numbers
                )
            return
        self.simulation.counts[f"share heartbeats refused: {body.error}"] += 1
        self.next_at = self._now + RETRY_MS
        if body.error in LOOK_UP:
            self.coordinator = None
        elif body.error not in BACK_OFF:  # the group has gone on without us
            self.member_epoch, self.assigned = 0, frozenset()

    # Leaders

    def _ask_leaders(self, now: int) -> None:
        wanted: dict[int, set[TopicPartition]] = {}
        for name in sorted(self.assigned):
            leader = self.leaders.of(name)
            if leader is not None:
                wanted.setdefault(leader, set()).add(name)
        for broker in {**dict.fromkeys(self.sessions), **dict.fromkeys(wanted)}:
            session = self.sessions.get(broker)
            if session is None:
                self.requests += 1
                connection = self.id * 100_000 + self.requests
                session = self.sessions[broker] = Session(broker, connection)
            if session.sent is None:
                self._request(now, session, frozenset(wanted.get(broker, ())))

    def _request(self, now: int, session: Session, wanted: frozenset[TopicPartition]) -> None:
        """Send the session's next request; it carries the acknowledgements that are due."""
        types: Types = self._due(now, session.broker) if session.epoch else {}
        renews = any(kind == RENEW for of in types.values() for kind in of.values())
        batches = {name: _batches(of) for name, of in types.items()}
        who = SHARE_GROUP, self.member_id, session.epoch
        calls = {name: self._call(name, of) for name, of in types.items()}
        history = self.simulation.history
        made_ns = 0 if history is None else history.moment()
        if types and self.rng.random() < 0.4:
            body: Any = s.ShareAcknowledgeRequest(*who, batches, is_renew=renews)
        elif renews:
            nothing = {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 0, "max_records": 0}
            body = s.ShareFetchRequest(*who, (), (), batches, **nothing, is_renew=True)
        elif not (wanted or types or session.partitions):
            return
        else:
            body = s.ShareFetchRequest(
                *(*who, sorted(wanted - session.partitions), sorted(session.partitions - wanted)),
                batches,
                max_wait_ms=WAIT_MS,
                max_bytes=50,
                max_records=self.rng.choice((1, 4, 20)),
                acquire_mode=int(self.rng.random() * 2),
                connection=session.connection,
            )
            session.partitions = wanted
        for name, of in types.items():
            sent_to = self.member_id, session.broker
            self.simulation.observe(self.id, SharesAcknowledged(*sent_to, name, of))
            for offset in of:
                self.lent[name][offset].acknowledged = True
        number = self._send(session.broker, body)
        session.sent = Sent(number, session.broker, now, types, calls, made_ns)
        session.epoch += 1

    def _due(self, now: int, broker: int) -> Types:
        """The acknowledgements of what it is done with."""
        found: dict[TopicPartition, dict[int, int]] = {}
        for name, of in self.lent.items():
            for offset, lent in of.items():
                if lent.broker == broker and lent.done_at <= now and not lent.acknowledged:
                    found.setdefault(name, {})[offset] = self._type()
        return found

    def _type(self) -> int:
        if self.finishes or self.simulation.settings.share_acknowledge == "implicit":
            return ACCEPT
        return self.rng.choices((ACCEPT, RELEASE, REJECT, RENEW), (80, 12, 3, 5))[0]

    # Answers

    def _answer_of(self, response: Response) -> tuple[Session, Sent] | None:
        session = self.sessions.get(response.source)
        sent = None if session is None else session.sent
        if session is None or sent is None or sent.number != response.correlation_id:
            return None
        session.sent = None
        error = response.body.error
        if error is not None:
            self.simulation.counts[f"share requests refused: {error}"] += 1
            for name in sent.types:
                self._told(sent, name, error)
            session.epoch, session.partitions = 0, frozenset()
        return session, sent

    def _fetched(self, response: Response) -> None:
        found = self._answer_of(response)
        if found is None:
            return
        session, sent = found
        body: s.ShareFetchResponse = response.body
        given = [one for one in body.partitions if one.acquired]
        for one in body.partitions:
            if one.error is not None:
                self.simulation.counts[f"share fetches refused: {one.error}"] += 1
                self.leaders.refresh()
            if one.partition in sent.types:
                self._told(sent, one.partition, one.acknowledge_error)
        for one in given:
            self._take(session, one)
        self._written_down(sent, given)

    def _take(self, session: Session, given: s.ShareFetchedPartition) -> None:
        of = self.lent.setdefault(given.partition, {})
        work_ms = self.simulation.settings.share_work_ms
        for first, last, count in given.acquired:
            counts = self.simulation.counts
            counts["records lent"] += last - first + 1
            if count > 1:
                counts["records lent again"] += last - first + 1
            for offset in range(first, last + 1):
                takes_ms = 0 if self.finishes else int(self.rng.expovariate(1 / work_ms))
                of[offset] = Lent(session.broker, self._now + takes_ms)

    def _acknowledged(self, response: Response) -> None:
        found = self._answer_of(response)
        if found is not None:
            _, sent = found
            for name, error, _ in response.body.partitions:
                self._told(sent, name, error)

    def _told(self, sent: Sent, name: TopicPartition, error: str | None) -> None:
        """The broker has answered acknowledgements; a renewed record is held on."""
        of, types = self.lent.get(name, {}), sent.types[name]
        self.simulation.counts[f"acknowledgements answered: {error}"] += 1
        for offset, kind in types.items():
            if offset not in of:
                continue
            if kind == RENEW and error is None:
                work_ms = self.simulation.settings.share_work_ms
                of[offset].acknowledged, of[offset].done_at = False, self._now + work_ms
            else:
                del of[offset]
        answered = SharesAnswered(self.member_id, sent.broker, name, types, error)
        self.simulation.observe(self.id, answered)
        self._completed(sent, name, error)

    # The process

    def _disconnect(self, session: Session) -> None:
        """Give a connection up; the broker may hear of that."""
        del self.sessions[session.broker]
        if (sent := session.sent) is not None:
            for name in sent.types:
                self._completed(sent, name, "DISCONNECTED")
        connection = session.connection
        self.simulation.observe(
            self.id, ShareSessionOver(self.member_id, session.broker, connection)
        )
        self._send(session.broker, s.ShareConnectionLost(connection))
        for of in self.lent.values():
            for offset in [o for o, lent in of.items() if lent.broker == session.broker]:
                del of[offset]

    def crash(self) -> None:
        """The process ends, and its connections with it."""
        self._note("crash")
        self._end()

    def _end(self) -> None:
        for session in list(self.sessions.values()):
            self._disconnect(session)
        self.up = False
        self.coordinator, self.member_epoch, self.assigned = None, 0, frozenset()
        self.lent.clear()
        self.asked = 0

    def leave(self) -> None:
        """End every session, leave the group, and end."""
        for session in self.sessions.values():
            about = SHARE_GROUP, self.member_id, s.FINAL_EPOCH
            self._send(session.broker, s.ShareFetchRequest(*about, (), (), {}))
        if self.coordinator is not None and self.member_epoch:
            about = SHARE_GROUP, self.member_id, -1
            self._send(self.coordinator, g.ShareGroupHeartbeatRequest(*about))
        self._note("close")
        self._end()

    def close(self) -> None:
        """The run is over."""
        if self.up:
            self._note("close")

    def _restart(self) -> None:
        if not self.up:
            self.up, self.paused_until = True, 0
            self.boot += 1
            self.next_at = self._now
            self.subscribe()

    def subscribe(self) -> None:
        """Send a subscription."""
        self._note("subscribe", topics=list(self.topics))

    # Writing down

    def _identity(self) -> dict[str, Any]:
        return {"group": SHARE_GROUP, "member": self.member_id}

    def _note(self, op: str, **fields: Any) -> None:
        if self.simulation.history is not None:
            self.simulation.history.note(self.member_id, op, **self._identity(), **fields)

    def _call(self, name: TopicPartition, types: Mapping[int, int]) -> Call | None:
        """Acknowledgements that are sent."""
        if self.simulation.history is None:
            return None
        records = [{**_place(name, offset), "ack": NAMES[kind]} for offset, kind in types.items()]
        about = self.member_id, "acknowledge"
        return self.simulation.history.invoke(*about, records=records, **self._identity())

    def _completed(self, sent: Sent, name: TopicPartition, error: str | None) -> None:
        """Acknowledgements that are answered; a copy of a refused request may have counted."""
        call, history = sent.calls[name], self.simulation.history
        if call is not None and history is not None:
            if error is None:
                history.complete(call)
            else:
                history.complete(call, "info", error=error)

    def _written_down(self, sent: Sent, given: Iterable[s.ShareFetchedPartition]) -> None:
        """A fetch that is answered with records."""
        if given and (history := self.simulation.history) is not None:
            records = [
                {**_place(one.partition, offset), "delivery_count": count}
                for one in given
                for first, last, count in one.acquired
                for offset in range(first, last + 1)
            ]
            made = self.member_id, "acquire", sent.made_ns
            history.complete(history.invoke(*made, records=records, **self._identity()))


def _place(name: TopicPartition, offset: int) -> dict[str, Any]:
    return {"topic": name.topic, "partition": name.partition, "offset": offset}


def _batches(types: Mapping[int, int]) -> list[s.AcknowledgementBatch]:
    """The types in runs of consecutive offsets."""
    found: list[s.AcknowledgementBatch] = []
    for offset in sorted(types):
        if found and found[-1].last_offset + 1 == offset:
            of = *found[-1].acknowledge_types, types[offset]
            found[-1] = s.AcknowledgementBatch(found[-1].first_offset, offset, of)
        else:
            found.append(s.AcknowledgementBatch(offset, offset, (types[offset],)))
    return found
