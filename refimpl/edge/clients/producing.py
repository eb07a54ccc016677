"""The common part of both producers: settings, serializers, interceptors around the machine."""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any, cast

from attrs import define, field

from refimpl.clients.config import read
from refimpl.clients.producer.accumulator import ToAppend
from refimpl.clients.producer.config import ProducerConfig
from refimpl.clients.producer.machine import ProducerMachine
from refimpl.clients.producer.messages import Delivered, Failed, TransactionFailed
from refimpl.configs import PRODUCER, ConfigError
from refimpl.edge.clients.batches import BytesBatches
from refimpl.edge.clients.connections import addresses
from refimpl.edge.clients.interceptors import Interceptors
from refimpl.edge.clients.records import (
    OnDelivery,
    ProducerRecord,
    RecordMetadata,
    SendError,
    TransactionError,
)
from refimpl.edge.clients.securing import ClientSecurity, client_security
from refimpl.edge.clients.serializers import Serializer, serializer
from refimpl.messages.broker import TopicPartition
from refimpl.storage.format.compression import Codec

log = logging.getLogger(__name__)
NO_OFFSETS: Mapping[TopicPartition, Any] = {}


class Sent:
    """A record that was given to the machine, and who waits for its result."""

    __slots__ = ("callback", "future", "timestamp")

    def __init__(self, future: Any, callback: OnDelivery | None, timestamp: int) -> None:
        self.future, self.callback, self.timestamp = future, callback, timestamp


def now_ms() -> int:
    """The clock of time-outs, which does not go back."""
    return int(time.monotonic() * 1000)


@define(eq=False)
class Producing:
    """One producer's settings, and the way of a record through them."""

    config: ProducerConfig
    servers: Sequence[tuple[str, int]]
    setup_timeout_s: float
    security: ClientSecurity
    key: Serializer
    value: Serializer
    interceptors: Interceptors
    machine: ProducerMachine = field(init=False)

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> "Producing":
        """Read settings. Raises ConfigError with one sentence."""
        values = read(given, PRODUCER, "producer")
        servers = values["bootstrap.servers"]
        if servers is None:
            raise ConfigError("bootstrap.servers is not given: name at least one broker")
        interceptors = Interceptors(tuple(values["interceptor.classes"] or ()))
        made = cls(
            ProducerConfig.of(given),
            addresses(servers),
            values["socket.connection.setup.timeout.ms"] / 1000,
            client_security(values),
            serializer("key.serializer", values["key.serializer"]),
            serializer("value.serializer", values["value.serializer"]),
            interceptors,
        )
        interceptors.configure(dict(given))
        return made

    def __attrs_post_init__(self) -> None:
        """Make the machine; its chance is this process's own."""
        bootstrap = tuple(range(-1, -1 - len(self.servers), -1))
        codec = Codec[self.config.compression_type.upper()]
        batches = BytesBatches(codec, self.config.transactional_id is not None)
        self.machine = ProducerMachine(self.config, batches, bootstrap, Random().random)

    def record(
        self,
        make_future: Callable[[], Any],
        on_delivery: OnDelivery | None,
        topic: str,
        value: Any,
        key: Any,
        partition: int | None,
        headers: Any,
        timestamp_ms: int | None,
    ) -> ToAppend:
        """A record in bytes. Raises what a serializer raises, and ValueError for a bad argument."""
        if self.interceptors.objects:
            record = ProducerRecord(topic, value, key, partition, headers or (), timestamp_ms)
            record = self.interceptors.on_send(record)
            topic, value, key, partition = record.topic, record.value, record.key, record.partition
            headers, timestamp_ms = record.headers, record.timestamp_ms
        if not topic:
            raise ValueError("a record needs the name of a topic")
        if partition is not None and partition < 0:
            raise ValueError(f"partition {partition}: expected 0 or more")
        at = int(time.time() * 1000) if timestamp_ms is None else timestamp_ms
        if at < 0:
            raise ValueError(f"timestamp {at}: expected 0 or more")
        sent = Sent(make_future(), on_delivery, at)
        key = key if key is None else self.key(key)
        content = self.value(value)
        headers = _headers(headers) if headers else ()
        return ToAppend(topic, partition, key, content, headers, at, sent)

    def settle(self, output: Delivered | Failed) -> tuple[Any, RecordMetadata | None, Any]:
        """The future of a record, and its result; callbacks have been called."""
        sent: Sent = output.handle
        metadata, error = None, None
        if isinstance(output, Delivered):
            _, (topic, partition), offset, append_time = output
            time_ms = sent.timestamp if append_time < 0 else append_time
            metadata = RecordMetadata(topic, partition, offset, time_ms)
        else:
            _, (topic, partition), name, message, certain = output
            error = SendError(name, message, topic, partition, certain=certain)
        if sent.callback is not None:
            try:
                sent.callback(metadata, error)
            except Exception:
                log.warning("on_delivery failed for a record of %s", topic, exc_info=True)
        if self.interceptors.objects:
            self.interceptors.on_acknowledgement(metadata, error)
        return sent.future, metadata, error


def offsets_of(offsets: Mapping[tuple[str, int], Any]) -> dict[TopicPartition, Any]:
    """Offsets of an application: a number, or a number and metadata. Raises ValueError."""
    found: dict[TopicPartition, Any] = {}
    for name, value in offsets.items():
        offset, metadata = (value, "") if isinstance(value, int) else value
        if offset < 0:
            raise ValueError(f"offset {offset}: expected 0 or more")
        found[TopicPartition(*name)] = offset, -1, metadata
    return found


def error_of(output: TransactionFailed) -> TransactionError:
    """The error that an application sees."""
    return TransactionError(output.error, output.message, abortable=output.abortable)


def _headers(given: Any) -> tuple[tuple[str, bytes | None], ...]:
    pairs: Any = cast("Any", given).items() if isinstance(given, Mapping) else given
    found: list[tuple[str, bytes | None]] = []
    for name, value in pairs:
        if not isinstance(name, str) or not (value is None or isinstance(value, bytes)):
            raise TypeError(f"header {name!r}: expected a text and bytes or None")
        found.append((name, value))
    return tuple(found)
