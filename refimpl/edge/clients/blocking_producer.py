"""`Producer`: a producer for threads, whose sender has a thread of its own, as Kafka's has."""

import asyncio
from collections.abc import Mapping
from concurrent.futures import Future
from threading import Condition
from types import TracebackType
from typing import Any, Literal, Self

from refimpl.clients.producer.errors import InvalidTransactionState
from refimpl.clients.producer.machine import DELIVERY
from refimpl.clients.producer.messages import (
    Accepted,
    CloseProducer,
    Delivered,
    Disconnect,
    Failed,
    Flush,
    Flushed,
    GroupMetadata,
    Input,
    Output,
    TransactionCall,
    TransactionDone,
    TransactionFailed,
)
from refimpl.edge.clients.connections import Connections
from refimpl.edge.clients.loops import LoopThread
from refimpl.edge.clients.producing import NO_OFFSETS, Producing, error_of, now_ms, offsets_of
from refimpl.edge.clients.records import OnDelivery, RecordMetadata, TransactionError
from refimpl.messages.broker import Request, Timer, TopicPartition


class Producer:
    """Sends records to Kafka, with Kafka's names for its settings; threads may share it.

    with Producer({"bootstrap.servers": "localhost:9092"}) as producer:
        print(producer.send("orders", "hello", key="k").result().offset)
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        """Raises ConfigError for a setting that there is not, or a value that it does not take."""
        self._producing = Producing.of(config)
        self._machine = self._producing.machine
        #: Held by whoever calls the machine; its waiters are sends without memory or metadata
        self._lock = Condition()
        self._running = False
        self._timer: asyncio.TimerHandle | None = None
        self._thread = LoopThread("kafka-producer")
        self._loop = self._thread.loop
        self._connections = Connections(
            self._producing.config.client_id,
            self._producing.servers,
            self._producing.setup_timeout_s,
            self._producing.security,
            self._give,
            self._give,
        )
        self._closed: Future[None] | None = None

    def __enter__(self) -> Self:
        """Nothing to do: connections are made when something is sent."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close, after all has been written; at once, if the block was left by an error."""
        self.close(timeout_s=0 if error is not None else None)

    def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        *,
        partition: int | None = None,
        headers: Any = None,
        timestamp_ms: int | None = None,
        on_delivery: OnDelivery | None = None,
    ) -> "Future[RecordMetadata]":
        """Put a record into a batch, and return the future of its result.

        It blocks while there is no metadata of the topic, or no memory (max.block.ms). The callback
        is called in the producer's own thread, and must not block it.
        """
        if self._closed is not None:
            raise RuntimeError("this producer is closed")
        record = self._producing.record(
            *(Future, on_delivery, topic, value, key, partition, headers, timestamp_ms)
        )
        with self._lock:
            wake = self._machine.take(now_ms(), record) and not self._running
            if wake:
                self._running = True
                self._loop.call_soon_threadsafe(self._run)
            while self._machine.waiting and not record.handle.future.done():
                if self._thread.is_current:
                    break
                self._lock.wait(1)
        return record.handle.future

    def flush(self, timeout_s: float | None = None) -> None:
        """Send all that is there, and wait until each has its result. Raises TimeoutError."""
        done: Future[None] = Future()
        self._loop.call_soon_threadsafe(self._give, Flush(done))
        done.result(timeout_s)

    def init_transactions(self) -> None:
        """Take the transactional id: earlier producers of it are fenced, and what they left ends.

        Raises TransactionError, as all calls of transactions do.
        """
        self._transact("init")

    def begin_transaction(self) -> None:
        """Begin a transaction, to which all records belong that are sent until it ends."""
        try:
            with self._lock:
                self._machine.begin_transaction()
        except InvalidTransactionState as refusal:
            error = refusal.cause or refusal.kafka_error
            raise TransactionError(error, str(refusal), abortable=refusal.abortable) from None

    def send_offsets_to_transaction(
        self, offsets: Mapping[tuple[str, int], Any], group: GroupMetadata
    ) -> None:
        """Commit a group's next offsets with the transaction (KIP-447)."""
        self._transact("offsets", offsets_of(offsets), group)

    def commit_transaction(self) -> None:
        """Commit: wait until each record is written, and all of them may be read.

        After a time-out (max.block.ms) the same call goes on with it.
        """
        self._transact("commit")

    def abort_transaction(self) -> None:
        """Abort: no reader of committed records sees any of them."""
        self._transact("abort")

    def _transact(
        self,
        kind: Literal["init", "offsets", "commit", "abort"],
        offsets: Mapping[TopicPartition, Any] = NO_OFFSETS,
        group: GroupMetadata | None = None,
    ) -> None:
        done: Future[None] = Future()
        call = TransactionCall(done, kind, offsets, group)
        self._loop.call_soon_threadsafe(self._give, call)
        done.result()

    def close(self, timeout_s: float | None = None) -> None:
        """Wait until each record has its result, and end. After the time-out the rest fails."""
        if self._closed is None:
            self._closed = Future()
            timeout_ms = None if timeout_s is None else int(timeout_s * 1000)
            self._loop.call_soon_threadsafe(self._give, CloseProducer(self._closed, timeout_ms))
            self._closed.result()
            self._thread.end(self._end())
            self._producing.interceptors.close()
        else:
            self._closed.result()

    # In the thread of the sender

    async def _end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        await self._connections.end()

    def _run(self) -> None:
        self._give(Timer(now_ms(), DELIVERY))

    def _give(self, message: Input) -> None:
        with self._lock:
            self._running = False
            outputs = self._machine.handle(now_ms(), message)
            self._lock.notify_all()
        for output in outputs:
            self._do(output)

    def _do(self, output: Output) -> None:
        match output:
            case Delivered() | Failed():
                future, metadata, error = self._producing.settle(output)
                if not future.set_running_or_notify_cancel():
                    return
                if error is None:
                    future.set_result(metadata)
                else:
                    future.set_exception(error)
            case Request():
                self._connections.send(output)
            case Timer(at_ms):
                if self._timer is not None:
                    self._timer.cancel()
                self._timer = self._loop.call_later(max(0, at_ms - now_ms()) / 1000, self._run)
            case Flushed(done) | TransactionDone(done):
                done.set_result(None)
            case TransactionFailed(done):
                done.set_exception(error_of(output))
            case Disconnect(node):
                self._connections.drop(node)
            case Accepted():
                pass
