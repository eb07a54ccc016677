"""The common part of all wrapped clients: they are the client, plus a journal."""

from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import get_ident
from typing import Any, Self

from traces.record.digest import digest
from traces.record.ids import Id, IdOf, id_in, text
from traces.record.polls import Fields, Polled, Polls
from traces.record.process import Process, now
from traces.record.topic_ids import TopicIds

Conf = Mapping[str, Any]  # of a client, in its library's words


@dataclass(frozen=True, slots=True)
class ClientOptions:
    """Options of the application for the recording of one client."""

    process: Process
    id_of: IdOf | None = None
    configured: Mapping[str, Any] = field(default_factory=dict[str, Any])
    hashes: bool = False


class RecordedClient:
    """A client whose calls are written down; all else is the client's own."""

    def __init__(self, client: Any, options: ClientOptions) -> None:
        self._client = client
        self._process = options.process
        self._id_of = options.id_of
        self._configured = options.configured
        self._hashes = options.hashes
        self._ids = TopicIds(options.process, None)

    @property
    def recorded_as(self) -> str:
        """The name of the process in the trace."""
        return self._process.name

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def __len__(self) -> int:
        return len(self._client)

    def __bool__(self) -> bool:
        return True

    @contextmanager
    def _ending(self) -> Generator[None]:
        """The client is closed in here; one whose close raises, as when it was fenced, crashed."""
        invoked = now()
        try:
            yield
        except Exception:
            self._process.end("crash", invoked)
            raise
        self._process.end("close", invoked)

    def _id(self, topic: str, key: Any, value: Any, headers: Any) -> Id | None:
        if self._id_of is None:
            return id_in(headers)
        id = self._id_of(topic, key, value, headers)
        # No file of ours holds a larger number; as text it is as good a name.
        return id if type(id) is not int or abs(id) < 2**63 else str(id)

    def _hash(self, value: Any, key: Any, headers: Any) -> int | None:
        """The hash of the content of a message, if that was asked for."""
        return digest(value, key, headers) if self._hashes else None


class RecordedConsumer(RecordedClient):
    """The common part of all consumers: the application tells when it is done with records."""

    _isolation: Fields

    def __init__(self, client: Any, options: ClientOptions) -> None:
        super().__init__(client, options)
        self._last_poll: tuple[int, list[Any]] = -1, []
        self._polls = Polls(options.process)
        self._poller: object = None
        # What is the same on every poll, as long as the group is.
        self._about: Fields | None = None
        self._about_group: Fields | None = None
        group = options.configured.get("group")
        instance = options.configured.get("group_instance_id")
        self._instance: Fields = {"instance": instance} if instance else {}
        self._group: Fields = {"group": group, **self._instance} if group else {}

    @contextmanager
    def process(self, *messages: Any) -> Generator[None]:
        """The application handles these records in the block; one that raises has not done so."""
        invoked = now()
        yield
        self._processed(messages, invoked)

    def processed(self, *messages: Any) -> None:
        """The application is done with these records."""
        self._processed(messages, None)

    def _processed(self, messages: Iterable[Any], invoked: int | None) -> None:
        messages, (seq, polled) = list(messages), self._last_poll
        if any(message is None for message in messages):
            raise TypeError("processed: expected messages, found None: that poll returned nothing")
        if messages == polled:
            # Nothing is written twice: settling puts in the records of that poll.
            held = {"records_of": seq}
        else:
            held = {"records": [self.record_of(message) for message in messages]}
        self._process.note("process", invoked, **held, **self._by(), **self._grouped())

    def _caller(self) -> object:
        """The caller: a thread, or a task if the client awaits."""
        return get_ident()

    def _by(self) -> Fields:
        """That another thread or task than the one that polls makes a call of the application.

        Then the order of the two calls in the file says nothing about who waited for whom.
        """
        return {"other_thread": True} if self._poller not in (None, self._caller()) else {}

    def _polled(self, messages: list[Any], invoked: int) -> None:
        """A poll that returned with these messages takes its place when it returns."""
        process, self._poller = self._process, self._caller()
        seq, returned = process.next_seq(), now()
        self._last_poll = seq, messages
        if self._about is None or self._group is not self._about_group:
            self._about, self._about_group = {**self._isolation, **self._group}, self._group
        about = self._about
        if not self._hashes:
            polled = [self.polled(message) for message in messages]
            if self._polls.write(polled, about, seq, invoked, returned):
                return
        records = [self.record_of(message) for message in messages]
        times = {"invoked_ns": invoked, "returned_ns": returned}
        line: Fields = {"seq": seq, "op": "poll", "outcome": "ok", **times, "records": records}
        process.write(line | about)

    def record_of(self, message: Any) -> Fields:
        """A message of the library as a record of the trace."""
        hashed = self._hash(*self.content(message)) if self._hashes else None
        return record(*self.polled(message), hashed)

    def polled(self, message: Any) -> Polled:
        """The fields of a message, as the library tells them."""
        raise NotImplementedError

    def content(self, message: Any) -> tuple[Any, Any, Any]:
        """Value, key and headers of a message."""
        raise NotImplementedError

    def _grouped(self) -> Fields:
        """The fields that name the group, where there is one."""
        return self._group

    def __enter__(self) -> Self:
        self._client.__enter__()
        return self

    def __exit__(self, *raised: Any) -> None:
        self._client.__exit__(*raised)
        self._process.end()


def record(
    topic: str,
    partition: int,
    offset: int,
    id: Id | None,
    key: Any,
    timestamp: int | None,
    epoch: int | None,
    hashed: int | None = None,
) -> Fields:
    """A record that was delivered; what is not known is left out."""
    fields: Fields = {"topic": topic, "partition": partition, "offset": offset}
    if id is not None:
        fields["id"] = id
    if key is not None:
        fields["key"] = text(key)
    if timestamp is not None and timestamp >= 0:
        fields["timestamp"] = timestamp
    if epoch is not None and epoch >= 0:
        fields["epoch"] = epoch
    if hashed is not None:
        fields["hash"] = hashed
    return fields
