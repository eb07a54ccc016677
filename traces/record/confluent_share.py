"""A share consumer of confluent-kafka, recorded."""

from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import Any, Self

from attrs import define

from traces.record.confluent_ids import PATIENCE_S, asking, of_its_own, reaching
from traces.record.ids import HEADER
from traces.record.process import now
from traces.record.topic_ids import TopicIds
from traces.record.wrapper import ClientOptions, Conf, Fields, RecordedClient, record

#: Polls that give nothing are one line, until it tells of so long.
SECOND = 1_000_000_000
Location = tuple[str, int]
_ABOUT = ("topic", "partition", "offset", "id")


@define(eq=False)
class _Sent:
    """An acknowledgement under way: a call of the trace, and what of it is not answered yet."""

    seq: int
    location: Location
    offsets: set[int]
    refused: str = ""


class ConfluentShareConsumer(RecordedClient):
    """A share consumer of confluent-kafka.

    In implicit mode what a poll returned is accepted with the next call that asks the broker, in
    explicit mode what the application has acknowledged by then. The answer comes later: with the
    callback, or as the result of `commit_sync`.
    """

    def __init__(self, client: Any, options: ClientOptions, conf: Conf) -> None:
        super().__init__(client, options)
        self._conf = conf
        self._ids = TopicIds(options.process, asking(conf))
        group = conf.get("group.id")
        self._group: Fields = {"group": group} if group else {}
        self._implicit = conf.get("share.acknowledgement.mode", "implicit") != "explicit"
        self._partitions: list[str] = []
        #: Acquired, and not acknowledged so far as the application or the next call tells
        self._held: dict[Location, dict[int, Fields]] = {}
        self._chosen: dict[Location, dict[int, Fields]] = {}
        self._sent: list[_Sent] = []
        self._users: Any = None
        self._asked = now()
        self._vain: tuple[int, int] | None = None
        options.process.before_end = self._end_wait
        client.set_acknowledgement_commit_callback(self._answered)

    def set_acknowledgement_commit_callback(self, callback: Any) -> None:
        """As the client's own; the recorder hears the answers first."""
        if callback is not None and not callable(callback):
            self._client.set_acknowledgement_commit_callback(callback)  # refuses it
        self._users = callback

    def subscribe(self, topics: list[str]) -> None:
        """As the client's own; the line tells the partitions of these topics, too."""
        invoked = now()
        self._client.subscribe(topics)
        self._partitions = self._partitions_of(topics)
        reported: Fields = {"partitions": self._partitions} if self._partitions else {}
        self._asked = invoked
        self._process.note("subscribe", invoked, topics=list(topics), **reported, **self._group)
        self._ids.met(topics)

    def unsubscribe(self) -> None:
        """As the client's own."""
        invoked = now()
        self._end_wait()
        self._client.unsubscribe()
        self._partitions = []
        self._process.note("subscribe", invoked, topics=[], **self._group)

    def poll(self, *args: Any, **more: Any) -> Any:
        """As the client's own; polls that give nothing are one line a second."""
        self._send()
        invoked = now()
        try:
            messages = self._client.poll(*args, **more)
        except Exception:
            self._end_wait()
            raise
        good = [message for message in messages if message.error() is None]
        if good:
            self._end_wait()
            self._acquired(good, invoked)
        elif len(messages):
            self._end_wait()
        else:
            self._waited(invoked)
        return messages

    def _acquired(self, messages: list[Any], invoked: int) -> None:
        """Records of a poll may have been asked for since the last poll that returned some."""
        records = [self._record(message) for message in messages]
        self._process.note("acquire", self._asked, records=records, **self._group)
        self._asked = invoked
        for one in records:
            location = one["topic"], one["partition"]
            about = {name: one[name] for name in _ABOUT if name in one}
            self._held.setdefault(location, {})[one["offset"]] = about

    def _record(self, message: Any) -> Fields:
        topic, key, headers = message.topic(), message.key(), message.headers()
        if self._id_of is None and headers is not None and headers[-1][0] == HEADER:
            id: Any = int.from_bytes(headers[-1][1], "big")
        else:
            id = self._id(topic, key, message.value(), headers)
        hashed = self._hash(message.value(), key, headers)
        reported = record(
            *(topic, message.partition(), message.offset(), id, key, message.timestamp()[1]),
            *(message.leader_epoch(), hashed),
        )
        return reported | {"delivery_count": message.delivery_count()}

    def _waited(self, invoked: int) -> None:
        begun = invoked if self._vain is None else self._vain[0]
        self._vain = begun, now()
        if self._vain[1] - begun >= SECOND:
            self._end_wait()

    def _end_wait(self) -> None:
        if self._vain is None or not self._partitions:
            self._vain = None
            return
        (begun, ended), self._vain = self._vain, None
        seq = self._process.next_seq()
        times = {"invoked_ns": begun, "returned_ns": ended}
        about = {"seq": seq, "op": "acquire", "outcome": "ok", **times, **self._group}
        self._process.write(about | {"records": [], "partitions": self._partitions})

    def acknowledge(self, message: Any, *args: Any, **more: Any) -> None:
        """As the client's own; it is recorded when it is sent."""
        self._client.acknowledge(message, *args, **more)
        self._choose((message.topic(), message.partition()), message.offset(), *args, **more)

    def acknowledge_offset(
        self, topic: str, partition: int, offset: int, *args: Any, **more: Any
    ) -> None:
        """As the client's own; it is recorded when it is sent."""
        self._client.acknowledge_offset(topic, partition, offset, *args, **more)
        self._choose((topic, partition), offset, *args, **more)

    def _choose(self, location: Location, offset: int, ack_type: Any = None) -> None:
        about = self._held.get(location, {}).pop(offset, None)
        chosen = self._chosen.setdefault(location, {})
        about = about or chosen.get(offset)
        if about is not None:
            chosen[offset] = about | {"ack": _name(ack_type)}

    def commit_sync(self, *args: Any, **more: Any) -> Any:
        """As the client's own, with the answers that it returns."""
        self._end_wait()
        mine = self._send()
        answers: Mapping[Any, Any] = self._client.commit_sync(*args, **more)
        for where, refused in answers.items():
            location = where.topic, where.partition
            for sent in [one for one in mine if one.location == location and one.offsets]:
                self._settle(sent, set(sent.offsets), refused)
        return answers

    def commit_async(self) -> None:
        """As the client's own; the answer comes with the callback."""
        self._end_wait()
        self._send()
        self._client.commit_async()

    def _send(self) -> list[_Sent]:
        """Acknowledgements that the next call sends, a call of the trace for each partition."""
        if self._implicit:
            for location, held in self._held.items():
                accepted = {offset: about | {"ack": "accept"} for offset, about in held.items()}
                self._chosen[location] = accepted | self._chosen.get(location, {})
            self._held = {}
        chosen, self._chosen = self._chosen, {}
        sent: list[_Sent] = []
        for location, records in chosen.items():
            if records:
                seq = self._process.call("acknowledge", records=[*records.values()], **self._group)
                sent.append(_Sent(seq, location, set(records)))
        self._sent += sent
        return sent

    def _answered(self, offsets: Mapping[Any, Iterable[int]], refused: Any) -> None:
        """An answer of the broker is about the oldest acknowledgement of each offset."""
        for where, several in offsets.items():
            left = set(several)
            for sent in [
                one for one in self._sent if one.location == (where.topic, where.partition)
            ]:
                mine = sent.offsets & left
                left -= mine
                self._settle(sent, mine, refused)
        if self._users is not None:
            self._users(offsets, refused)

    def _settle(self, sent: _Sent, answered: set[int], refused: Any) -> None:
        """With the last part of a call the call is answered: well, if all parts were."""
        if not answered:
            return
        sent.offsets -= answered
        if refused is not None:
            sent.refused = _error(refused)
        if sent.offsets:
            return
        self._sent = [one for one in self._sent if one is not sent]
        if sent.refused:
            self._process.answer(sent.seq, "info", error=sent.refused)
        else:
            self._process.answer(sent.seq, "ok")

    def _partitions_of(self, topics: list[str]) -> list[str]:
        """All partitions of these topics, if the cluster tells."""
        if asking(self._conf) is None:
            return []
        try:
            found = of_its_own(reaching(self._conf)).list_topics(timeout=PATIENCE_S).topics
            of = {topic: sorted(found[topic].partitions) for topic in topics}
            return [f"{topic}:{number}" for topic in topics for number in of[topic]]
        except (import_module("confluent_kafka").KafkaException, KeyError):
            return []

    def close(self) -> None:
        """As the client's own, with the acknowledgements that it sends."""
        with self._ending():
            self._send()
            self._client.close()
        self._ids.leave()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: Any) -> None:
        self.close()


def _name(ack_type: Any) -> str:
    """The word of the trace for a type of acknowledgement, as the library numbers it."""
    if ack_type is None:
        return "accept"
    return str(import_module("confluent_kafka").AcknowledgeType(ack_type).name).lower()


def _error(refused: Any) -> str:
    """Kafka's name of an error."""
    error = refused.args[0] if getattr(refused, "args", ()) else refused
    name = getattr(error, "name", None)
    return str(name()) if callable(name) else type(refused).__name__
