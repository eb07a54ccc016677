"""Produce: what clients send, and what they are answered."""

from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from typing import Any
from uuid import UUID

from attrs import define, field

from chaos.real.proxy.recording.batches import is_numbered, sent
from chaos.real.proxy.recording.links import INTERNAL, Link, Topics, code_of, name_of
from chaos.real.proxy.recording.sessions import Batch, Place, Session, Sessions
from refimpl.storage.format.batch import read_header
from refimpl.wire.messages import read_response
from refimpl.wire.produce import FIRST_WITH_IDS as _BY_ID
from refimpl.wire.produce import ProduceData, ProduceRequest, read_produce
from traces.record.entries import Line
from traces.record.errors import send_outcome
from traces.record.process import Process
from traces.record.topic_ids import in_our_words

PRODUCE, FIRST_VERSION = 0, 3
NO_TIME = -1
#: How many sends of a topic are remembered that may never be answered
_OPEN = 10_000
_ACKS = {-1: "all", 0: "0", 1: "1"}
#: Takes the answer of one partition: its error, offset and time
Answered = Callable[[int, int, int], None]


@define
class Stamps:
    """The sources of records' times, topic by topic: brokers tell in answers if they set them.

    The id of a record that nobody has numbered depends on that. If it changes while the answer to
    a send is out, that send is left without an id.
    """

    _known: dict[str, bool] = field(factory=dict[str, bool], init=False)
    _open: dict[str, OrderedDict[tuple[str, int], Callable[[], None]]] = field(
        factory=dict[str, OrderedDict[tuple[str, int], Callable[[], None]]], init=False
    )

    def of(self, topic: str) -> bool | None:
        """As far as is known."""
        return self._known.get(topic)

    def opens(self, topic: str, call: tuple[str, int], unname: Callable[[], None]) -> None:
        """A send is out whose record was named by what is known now."""
        out = self._open.setdefault(topic, OrderedDict())
        out[call] = unname
        if len(out) > _OPEN:  # whose connection is closed is never answered
            out.popitem(last=False)

    def closes(self, topic: str, call: tuple[str, int]) -> None:
        """It was answered."""
        self._open.get(topic, OrderedDict()).pop(call, None)

    def told(self, topic: str, *, stamped: bool) -> None:
        """A broker has stored records, and said whether it set their times."""
        if self._known.get(topic, stamped) != stamped:
            for unname in self._open.pop(topic, OrderedDict()).values():
                unname()
        self._known[topic] = stamped


@define
class Sends:
    """All sends; the answers to a request come together."""

    topics: Topics
    sessions: Sessions
    stamps: Stamps = field(factory=Stamps, init=False)

    def produce(
        self, link: Link, version: int, frame: bytes, position: int
    ) -> Callable[[bytes, int], None]:
        """A Produce request."""
        request = read_produce(frame, position, version)
        answers: dict[tuple[str | bytes, int], Answered] = {}
        for one in request.data:
            if (topic := self._named(one.topic)) is None or not len(one.records):
                continue
            answers[one.topic, one.partition] = self._send(link, request, topic, one)
        return partial(self._produced, version, answers)

    def _named(self, topic: str | bytes) -> str | None:
        if isinstance(topic, bytes):
            return self.topics.named(UUID(bytes=topic))
        return None if topic in INTERNAL else topic

    def _send(self, link: Link, request: ProduceRequest, topic: str, one: ProduceData) -> Answered:
        header = read_header(one.records)
        ids: Line = {}
        if isinstance(one.topic, bytes):
            ids["topic_ids"] = {topic: in_our_words(UUID(bytes=one.topic))}
        if is_numbered(header):
            session = self.sessions.of(
                link, header.producer_id, header.producer_epoch, request.transactional_id
            )
            about = session.within() if header.is_transactional else session.about()
            about |= {"producer_epoch": header.producer_epoch} | ids
            return self._numbered(session, (topic, one.partition), header, one, about)
        acks = _ACKS.get(request.acks, str(request.acks))
        configured = {"acks": acks, "idempotence": False}
        process = link.process(f"sends-{acks}", "producer", configured)
        return self._plain(process, (topic, one.partition), one, ids)

    def _numbered(
        self, session: Session, place: Place, header: Any, one: ProduceData, about: Line
    ) -> Answered:
        epoch, first = header.producer_epoch, header.base_sequence
        batch = session.known(place, epoch, first, header.record_count)
        if batch is None:
            records = sent(*place, one.records, stamped=None)
            seq = session.process.call("send", records=records, **about)
            batch = Batch(seq, first, header.record_count)
            session.sends(place, epoch, batch)
        return lambda code, offset, stamp: session.answer(batch, code, (place[1], offset, stamp))

    def _plain(self, process: Process, place: Place, one: ProduceData, ids: Line) -> Answered:
        topic, partition = place
        known = self.stamps.of(topic)
        records = sent(*place, one.records, stamped=known)
        seq = process.call("send", records=records, **ids)
        call = process.name, seq
        unnamed: list[Line] = []

        def unname() -> None:
            """Leave it open: its record is stored under one id or the other, or not at all."""
            unnamed.extend({n: v for n, v in one.items() if n != "id"} for one in records)
            process.answer(seq, "info", records=unnamed)

        if known is not None:
            self.stamps.opens(topic, call, unname)

        def answered(code: int, offset: int, stamp: int) -> None:
            if unnamed:
                return
            self.stamps.closes(topic, call)
            if code:
                # This attempt is a call of its own, so what refuses it refuses all of it.
                outcome = send_outcome(code, 0)
                again: Line = {}
                if known is None and outcome == "fail":  # no reader needs to know its id again
                    again = {"records": sent(*place, one.records, stamped=False)}
                process.answer(seq, outcome, error=name_of(code), **again)
                return
            stamped = stamp != NO_TIME
            named: Line = {}
            if stamped != known:
                named = {"records": sent(*place, one.records, stamped=stamped)}
            process.answer(seq, "ok", at=(partition, offset, stamp), **named)
            self.stamps.told(topic, stamped=stamped)

        return answered

    def _produced(
        self,
        version: int,
        answers: dict[tuple[str | bytes, int], Answered],
        frame: bytes,
        position: int,
    ) -> None:
        found = read_response(PRODUCE, version, frame, position)
        for topic in found.responses:
            key = topic.topic_id.bytes if version >= _BY_ID else topic.name
            for one in topic.partition_responses:
                answered = answers.get((key, one.index))
                if answered is not None:
                    answered(code_of(one), one.base_offset, _time(one.log_append_time))


def _time(found: Any) -> int:
    """A time in ms, -1 for none."""
    return NO_TIME if found is None else round(found.timestamp() * 1000)
