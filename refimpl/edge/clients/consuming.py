"""The common part of both consumers: settings, and the calls that need no answer."""

import asyncio
import logging
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from random import Random
from typing import Any, TypeAlias, TypeVar

from refimpl.clients.config import read
from refimpl.clients.consumer.config import ConsumerConfig
from refimpl.clients.consumer.machine import CONSUMER as CONSUMER_TIMER
from refimpl.clients.consumer.machine import ConsumerMachine
from refimpl.clients.consumer.messages import (
    AskCommitted,
    AskOffsets,
    AutoCommitted,
    CallDone,
    CallFailed,
    CallListener,
    CommitOffsets,
    Disconnect,
    Input,
    Output,
    Polled,
)
from refimpl.clients.consumer.position import OffsetAndEpoch
from refimpl.clients.producer.messages import GroupMetadata
from refimpl.configs import CONSUMER, ConfigError
from refimpl.edge.clients.connections import Connections, addresses
from refimpl.edge.clients.deserializers import deserializer
from refimpl.edge.clients.fetched import BytesOpener, ConsumerRecord
from refimpl.edge.clients.interceptors import Interceptors
from refimpl.edge.clients.producing import now_ms
from refimpl.edge.clients.securing import client_security
from refimpl.messages.broker import EARLIEST, LATEST, Request, Timer, TopicPartition

log = logging.getLogger(__name__)
T = TypeVar("T")
Pair: TypeAlias = tuple[str, int]
Committing: TypeAlias = Mapping[Pair, "int | tuple[int, str]"]
OnCommit: TypeAlias = Callable[[Any, Any], Any]


class ConsumerError(Exception):
    """A call of a consumer has failed. `error` is Kafka's name of the reason."""

    def __init__(self, error: str, message: str, partitions: Iterable[Pair] = ()) -> None:
        """Says the error and the reason."""
        super().__init__(f"{error}: {message}" if message else error)
        self.error, self.partitions = error, tuple(partitions)


class Consuming(ABC):
    """One consumer's settings and its machine; a facade says how that is reached."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        """Raises ConfigError for a setting that there is not, or a value that it does not take."""
        values = read(config, CONSUMER, "consumer")
        if values["bootstrap.servers"] is None:
            raise ConfigError("bootstrap.servers is not given: name at least one broker")
        self._servers = addresses(values["bootstrap.servers"])
        self._setup_timeout_s = values["socket.connection.setup.timeout.ms"] / 1000
        self._security = client_security(values)
        self._interceptors = Interceptors(tuple(values["interceptor.classes"] or ()))
        self._config = ConsumerConfig.of(config)
        opener = BytesOpener(
            values["check.crcs"],
            deserializer("key.deserializer", values["key.deserializer"]),
            deserializer("value.deserializer", values["value.deserializer"]),
        )
        bootstrap = tuple(range(-1, -1 - len(self._servers), -1))
        epoch_ms = int(time.time() * 1000) - now_ms()
        self._machine = ConsumerMachine(
            self._config, opener, bootstrap, Random().random, epoch_ms=epoch_ms
        )
        self._listener: Any = None
        self._listener_error: Exception | None = None
        self._connections: Connections | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._is_closed = False
        self._interceptors.configure(dict(config))

    @abstractmethod
    def _do(self, change: Callable[[int], T]) -> T:
        """Call a function with the machine in hand, and do what follows from it."""

    @abstractmethod
    def _give(self, message: Input) -> None:
        """Give the machine an input, and do what follows from it."""

    def _connect(self) -> Connections:
        """The connections of this consumer; they are made when something is asked."""
        return Connections(
            self._config.client_id,
            self._servers,
            self._setup_timeout_s,
            self._security,
            self._give,
            self._give,
        )

    def _wake(self) -> None:
        """Come back to the machine now."""
        self._give(Timer(now_ms(), CONSUMER_TIMER))

    def _wake_at(self, at_ms: int) -> None:
        """Come back to the machine at a time."""
        if self._timer is not None:
            self._timer.cancel()
        assert self._loop is not None
        self._timer = self._loop.call_later(max(0, at_ms - now_ms()) / 1000, self._wake)

    async def _disconnect(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._connections is not None:
            connections, self._connections = self._connections, None
            await connections.end()

    # Calls without an answer

    def subscribe(
        self, topics: "str | Iterable[str] | re.Pattern[str]", listener: Any = None
    ) -> None:
        """Share topics, or all that a compiled pattern matches, with the rest of the group.

        A listener has `on_partitions_assigned`, `on_partitions_revoked` and `on_partitions_lost`,
        or some of them; they are called while the application polls.
        """
        self._must_be_open()
        if self._config.group_id is None:
            raise ConfigError("subscribe needs a group.id; without one, assign partitions")
        if not self._machine.is_subscribed and self._machine.positions:
            raise RuntimeError("partitions are assigned: unsubscribe before you subscribe")
        self._listener = listener
        if isinstance(topics, re.Pattern):
            self._do(lambda now: self._machine.subscribe(now, pattern=topics))
            return
        names = (topics,) if isinstance(topics, str) else tuple(topics)
        if not all(names) or not names:
            raise ValueError("subscribe needs the names of topics")
        self._do(lambda now: self._machine.subscribe(now, names))

    def assign(self, partitions: Iterable[Pair]) -> None:
        """Read these partitions, whoever else does. Replaces what was assigned before."""
        self._must_be_open()
        if self._machine.is_subscribed:
            raise RuntimeError("topics are subscribed: unsubscribe before you assign")
        names = [TopicPartition(*one) for one in partitions]
        self._do(lambda now: self._machine.assign(now, names))

    def assignment(self) -> list[TopicPartition]:
        """The partitions that it reads."""
        return self._do(lambda now: sorted(self._machine.positions))

    def subscription(self) -> frozenset[str]:
        """The topics that it is subscribed to."""
        return self._machine.topics

    def group_metadata(self) -> GroupMetadata:
        """Its place in the group now, for a producer's `send_offsets_to_transaction` (KIP-447)."""
        group, instance = self._config.group_id, self._config.group_instance_id
        if group is None:
            raise ConfigError("group_metadata needs a group.id")
        member = self._machine.membership
        if member is None:
            return GroupMetadata(group, group_instance_id=instance)
        generation = member.group_generation
        name = "" if generation < 0 else member.member_id
        return GroupMetadata(group, generation, name, instance)

    def seek(self, partition: Pair, offset: int) -> None:
        """Go on at this offset."""
        if offset < 0:
            raise ValueError(f"offset {offset}: expected 0 or more")
        (name,) = self._assigned([partition])
        self._do(lambda now: self._machine.seek(name, OffsetAndEpoch(offset)))

    def seek_to_beginning(self, partitions: Iterable[Pair]) -> None:
        """Go on at the first record that is there."""
        names = self._assigned(partitions)
        self._do(lambda now: self._machine.seek_by(names, "earliest"))

    def seek_to_end(self, partitions: Iterable[Pair]) -> None:
        """Go on behind the last record that is there."""
        names = self._assigned(partitions)
        self._do(lambda now: self._machine.seek_by(names, "latest"))

    def pause(self, partitions: Iterable[Pair]) -> None:
        """Return nothing from these partitions until they are resumed."""
        self._set_paused(partitions, True)

    def resume(self, partitions: Iterable[Pair]) -> None:
        """Return records of these partitions again."""
        self._set_paused(partitions, False)

    def paused(self) -> list[TopicPartition]:
        """The partitions that are paused."""
        positions = self._machine.positions
        return self._do(lambda now: sorted(one for one in positions if positions[one].paused))

    def position(self, partition: Pair) -> int | None:
        """The offset of the next record that poll returns; None while it is not known yet."""
        (name,) = self._assigned([partition])
        offset = self._do(lambda now: self._machine.positions[name].offset)
        return None if offset < 0 else offset

    def _set_paused(self, partitions: Iterable[Pair], paused: bool) -> None:
        names = self._assigned(partitions)

        def change(now: int) -> None:
            for name in names:
                self._machine.positions[name].paused = paused

        self._do(change)

    def _assigned(self, partitions: Iterable[Pair]) -> list[TopicPartition]:
        names = [TopicPartition(*one) for one in partitions]
        for name in names:
            if name not in self._machine.positions:
                raise ValueError(f"{name} is not assigned to this consumer")
        return names

    def _must_be_open(self) -> None:
        if self._is_closed:
            raise RuntimeError("this consumer is closed")

    # Messages for the machine

    def _must_have_partitions(self) -> None:
        self._must_be_open()
        if not self._machine.is_subscribed and not self._machine.positions:
            raise RuntimeError("nothing to poll: subscribe to topics, or assign partitions")

    def _committing(
        self, handle: Any, offsets: Committing | None, retries: bool, timeout_s: float | None
    ) -> CommitOffsets:
        wanted = None if offsets is None else dict(map(_committed, offsets.items()))
        return CommitOffsets(handle, wanted, retries, _ms(timeout_s))

    def _asking(
        self, handle: Any, times: Mapping[Pair, int], timeout_s: float | None
    ) -> AskOffsets:
        wanted = {TopicPartition(*one): at for one, at in times.items()}
        return AskOffsets(handle, wanted, _ms(timeout_s))

    def _ends(self, partitions: Iterable[Pair], at_end: bool) -> Mapping[Pair, int]:
        return dict.fromkeys(partitions, LATEST if at_end else EARLIEST)

    def _asking_committed(
        self, handle: Any, partitions: Iterable[Pair], timeout_s: float | None
    ) -> AskCommitted:
        names = [TopicPartition(*one) for one in partitions]
        return AskCommitted(handle, names, _ms(timeout_s))

    # Outputs

    def _carry(self, output: Output) -> None:
        """Do what the machine wants of its host, but for what an application waits for."""
        match output:
            case Request():
                if self._connections is not None:
                    self._connections.send(output)
            case Disconnect(node):
                if self._connections is not None:
                    self._connections.drop(node)
            case Timer(at_ms):
                self._wake_at(at_ms)
            case AutoCommitted(offsets):
                self._interceptors.on_commit(_told(offsets))
            case _:
                output.handle.put(output)

    def _polled(self, output: Polled | CallFailed) -> list[ConsumerRecord]:
        """The records of a poll. Raises ConsumerError; without records, the listener's error."""
        if isinstance(output, CallFailed):
            return self._value(output)
        if not output.records:
            self._raise_listener_error()
        return self._records(output)

    def _records(self, output: Polled) -> list[ConsumerRecord]:
        """The records of a poll, after all interceptors."""
        records = [one for _, part in output.records for one in part]
        return self._interceptors.on_consume(records) if records else records

    def _value(self, output: CallDone | CallFailed) -> Any:
        """The result of a call. Raises ConsumerError."""
        if isinstance(output, CallFailed):
            raise ConsumerError(output.error, output.message, output.partitions)
        return output.value

    def _told_commit(self, output: CallDone | CallFailed, on_commit: OnCommit | None) -> None:
        """Tell callback and interceptors what became of a commit."""
        error, offsets = None, None
        if isinstance(output, CallFailed):
            error = ConsumerError(output.error, output.message, output.partitions)
        else:
            offsets = _told(output.value)
            self._interceptors.on_commit(offsets)
        if on_commit is not None:
            try:
                on_commit(offsets, error)
            except Exception:
                log.warning("a callback of commit_async failed", exc_info=True)

    def _listening(self, call: CallListener) -> Callable[[list[TopicPartition]], Any] | None:
        """The method of the listener for a change, None if it has none."""
        return getattr(self._listener, f"on_partitions_{call.kind}", None)

    def _raise_listener_error(self) -> None:
        error, self._listener_error = self._listener_error, None
        if error is not None:
            raise error


def _committed(
    item: "tuple[Pair, int | tuple[int, str]]",
) -> tuple[TopicPartition, tuple[OffsetAndEpoch, str]]:
    name, value = item
    offset, metadata = (value, "") if isinstance(value, int) else value
    if offset < 0:
        raise ValueError(f"offset {offset}: expected 0 or more")
    return TopicPartition(*name), (OffsetAndEpoch(offset), metadata)


def _told(
    offsets: Mapping[TopicPartition, tuple[OffsetAndEpoch, str]],
) -> dict[TopicPartition, int]:
    return {name: at.offset for name, (at, _) in offsets.items()}


def told_offsets(found: Mapping[TopicPartition, Any]) -> dict[TopicPartition, int | None]:
    """Offsets by partition; None where there is none."""
    return {
        name: None if one is None or one.offset < 0 else one.offset for name, one in found.items()
    }


def _ms(timeout_s: float | None) -> int | None:
    return None if timeout_s is None else int(timeout_s * 1000)
