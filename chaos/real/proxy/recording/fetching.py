"""Fetch and ListOffsets: what clients are given, and from where on they asked for it.

A client is given no more than it fetched, and may be given less: what it fetched before a rebalance
or a seek it throws away. So nothing that an application promises is judged by it. An offset that
does not follow what was fetched last is told as a seek.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from attrs import define, field, frozen

from chaos.real.proxy.recording.batches import batches_in, fetched
from chaos.real.proxy.recording.links import Link, Topics, code_of, placed
from refimpl.storage.format.batch import BatchHeader
from refimpl.storage.format.control import read_marker
from traces.record.entries import Line
from traces.record.process import Process, now

Answer = Callable[[Any], None]
_ISOLATION = ("read_uncommitted", "read_committed")
_SESSIONLESS, _NEW_SESSION = -1, 0
_NAMED_QUERIES = {-1: "latest", -2: "earliest"}


@frozen
class Asked:
    """A partition of a fetch session."""

    offset: int
    leader_epoch: int


Key = tuple[str, int]


@define
class FetchSession:
    """The partitions that a connection fetches: a request may name only what has changed."""

    topics: Topics
    asked: dict[Key, Asked] = field(factory=dict[Key, Asked], init=False)
    #: The ids of topics that are asked for by them
    ids: dict[str, str] = field(factory=dict[str, str], init=False)
    #: The offset at which each goes on
    due: dict[Key, int] = field(factory=dict[Key, int], init=False)

    def take(self, request: Any) -> None:
        """A request."""
        epoch = getattr(request, "session_epoch", _SESSIONLESS)
        if epoch in (_SESSIONLESS, _NEW_SESSION):
            self.asked.clear()
            self.ids.clear()
        self.ids |= self.topics.ids(request.topics)
        for topic in getattr(request, "forgotten_topics_data", ()):
            name = self.topics.name_of(topic)
            for number in topic.partitions:
                self.asked.pop((name or "", number), None)
        for topic in request.topics:
            name = self.topics.name_of(topic)
            if name is not None:
                for one in topic.partitions:
                    epoch = getattr(one, "current_leader_epoch", -1)
                    self.asked[name, one.partition] = Asked(one.fetch_offset, epoch)

    def moved(self) -> dict[Key, int]:
        """Offsets that do not follow what was fetched last; they are where it goes on now."""
        found = {k: one.offset for k, one in self.asked.items() if self.due.get(k) != one.offset}
        self.due |= found
        return found


def fetched_partitions(topics: Topics, answer: Any) -> Iterator[tuple[Key, Any]]:
    """The partitions of an answer that have records."""
    for topic in answer.responses:
        name = topics.name_of(topic)
        if name is not None:
            for one in topic.partitions:
                if not code_of(one) and one.records:
                    yield (name, one.partition_index), one


@define
class Reads:
    """All that is read, connection by connection."""

    topics: Topics
    _sessions: dict[Link, FetchSession] = field(factory=dict[Link, FetchSession], init=False)

    def gone(self, link: Link) -> None:
        """A connection is closed."""
        self._sessions.pop(link, None)

    def fetch(self, link: Link, request: Any) -> Answer | None:
        """A Fetch request, and the moves that its offsets show."""
        if getattr(request, "replica_id", -1) >= 0:
            return None
        session = self._sessions.setdefault(link, FetchSession(self.topics))
        session.take(request)
        isolation = _ISOLATION[getattr(request, "isolation_level", 0) == 1]
        process = _process(link, isolation, getattr(request, "rack_id", None))
        about: Line = {"topic_ids": dict(session.ids)} if session.ids else {}
        since = 0
        if moves := {placed(*key): offset for key, offset in session.moved().items()}:
            since = now()
            process.note("seek", since, partitions=list(moves), offsets=moves, **about)
        # A move inside of a call would make nobody sure of what the call returned.
        invoked = max(now(), since + 1)
        about["isolation"] = isolation
        asked = dict(session.asked)
        return lambda answer: self._fetched(session, process, asked, invoked, about, answer)

    def _fetched(
        self,
        session: FetchSession,
        process: Process,
        asked: Mapping[Key, Asked],
        invoked: int,
        about: Line,
        answer: Any,
    ) -> None:
        records: list[Line] = []
        marks: dict[str, dict[str, int]] = {}
        for key, one in fetched_partitions(self.topics, answer):
            at = asked.get(key)
            if at is None:
                continue
            session.due.pop(key, None)  # until it is read
            given, session.due[key] = _read(key[0], one, at.offset, about["isolation"])
            if given:
                records += given
                _mark(marks, placed(*key), one, at.leader_epoch)
        if records:
            process.note("poll", invoked, records=records, **about, **marks)

    def list_offsets(self, link: Link, request: Any) -> Answer | None:
        """A question for offsets of logs."""
        if request.replica_id >= 0:
            return None
        isolation = _ISOLATION[getattr(request, "isolation_level", 0) == 1]
        asked: dict[tuple[str | None, int], int] = {
            (self.topics.name_of(topic), one.partition_index): one.timestamp
            for topic in request.topics
            for one in topic.partitions
        }
        invoked = now()

        def answered(answer: Any) -> None:
            found: dict[int, dict[str, int]] = {}
            for topic in answer.topics:
                name = self.topics.name_of(topic)
                for one in topic.partitions:
                    query = asked.get((name, one.partition_index))
                    offset = getattr(one, "offset", -1)
                    if name is None or query is None or code_of(one) or offset < 0:
                        continue
                    if query >= 0 or query in _NAMED_QUERIES:
                        found.setdefault(query, {})[placed(name, one.partition_index)] = offset
            for query, offsets in found.items():
                process = _process(link, isolation, None)
                process.note(
                    "list_offsets",
                    invoked,
                    query=_NAMED_QUERIES.get(query, query),
                    offsets=offsets,
                    isolation=isolation,
                )

        return answered


def _process(link: Link, isolation: str, rack: str | None) -> Process:
    """The process of what a connection reads. No group is told, for no fetch tells one."""
    configured: Line = {"isolation": isolation, "group": ""}
    if rack is not None:
        configured["rack"] = rack
    return link.process(isolation.replace("_", "-"), "consumer", configured)


def _mark(marks: dict[str, dict[str, int]], name: str, one: Any, leader_epoch: int) -> None:
    """Add the numbers that an answer tells of a log beside its records.

    A broker takes these numbers before it reads, so records may lie above the high watermark that
    comes with them. No line tells the replica, then: C5 would take that for a breach.
    """
    told = {
        "high_watermark": one.high_watermark,
        "last_stable": one.last_stable_offset,
        "log_start": getattr(one, "log_start_offset", -1),
        "leader_epochs": leader_epoch,
    }
    for field_, value in told.items():
        if value >= 0:
            marks.setdefault(field_, {})[name] = value


def _read(topic: str, one: Any, since: int, isolation: str) -> tuple[list[Line], int]:
    """The records that a client takes from an answer, and the offset that it asks for next."""
    data = memoryview(one.records)
    records: list[Line] = []
    due = since
    aborted = Aborted(one.aborted_transactions or ()) if isolation == _ISOLATION[1] else None
    for position, header in batches_in(data):
        if header.next_offset <= since and header.magic == 2:
            continue
        due = max(due, header.next_offset)
        if header.is_control:
            if aborted is not None:
                aborted.ends(data[position : position + header.size], header)
        elif aborted is None or not aborted.hides(header):
            records += fetched(topic, one.partition_index, data, position, header, since)
    return records, due


class Aborted:
    """The aborted transactions of an answer, by which a client knows what to leave out."""

    def __init__(self, listed: Any) -> None:
        self._due = sorted((one.first_offset, one.producer_id) for one in listed)
        self._open: set[int] = set()

    def hides(self, header: BatchHeader) -> bool:
        """True for records of a transaction that was aborted."""
        self._begin(header)
        return header.is_transactional and header.producer_id in self._open

    def ends(self, data: memoryview, header: BatchHeader) -> None:
        """The marker of a transaction."""
        self._begin(header)
        marker = read_marker(data)
        if marker is not None and not marker.committed:
            self._open.discard(header.producer_id)

    def _begin(self, header: BatchHeader) -> None:
        while self._due and self._due[0][0] <= header.last_offset:
            self._open.add(self._due.pop(0)[1])
