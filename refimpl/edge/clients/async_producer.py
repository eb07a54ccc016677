"""`AsyncProducer`: a producer for an event loop."""

import asyncio
from collections.abc import Mapping
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
from refimpl.edge.clients.producing import NO_OFFSETS, Producing, Sent, error_of, now_ms, offsets_of
from refimpl.edge.clients.records import OnDelivery, RecordMetadata, TransactionError
from refimpl.messages.broker import Request, Timer, TopicPartition


class AsyncProducer:
    """Sends records to Kafka, with Kafka's names for its settings.

    async with AsyncProducer({"bootstrap.servers": "localhost:9092"}) as producer:
        sent = await producer.send("orders", "hello", key="k")
        print((await sent).offset)
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        """Raises ConfigError for a setting that there is not, or a value that it does not take."""
        self._producing = Producing.of(config)
        self._machine = self._producing.machine
        self._connections: Connections | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._running = False
        self._accepting: dict[Sent, asyncio.Future[None]] = {}
        self._closed: asyncio.Future[None] | None = None

    async def __aenter__(self) -> Self:
        """Begin; connections are made when something is sent."""
        self._begin()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close, after all has been written; at once, if the block was left by an error."""
        await self.close(timeout_s=0 if error is not None else None)

    async def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        *,
        partition: int | None = None,
        headers: Any = None,
        timestamp_ms: int | None = None,
        on_delivery: OnDelivery | None = None,
    ) -> "asyncio.Future[RecordMetadata]":
        """Put a record into a batch, and return the future of its result.

        It waits while there is no metadata of the topic, or no memory (max.block.ms).
        """
        if self._closed is not None:
            raise RuntimeError("this producer is closed")
        loop = self._begin()
        record = self._producing.record(
            *(loop.create_future, on_delivery, topic, value, key, partition, headers, timestamp_ms)
        )
        machine = self._machine
        before = machine.waiting
        if machine.take(now_ms(), record) and not self._running:
            self._running = True
            loop.call_soon(self._run)  # others may append to the same batch first
        sent: Sent = record.handle
        if machine.waiting > before:
            accepted = self._accepting[sent] = loop.create_future()
            try:
                await accepted
            finally:
                self._accepting.pop(sent, None)
        return sent.future

    async def send_and_wait(self, topic: str, value: Any = None, **more: Any) -> RecordMetadata:
        """Send a record, and wait until it is written. Raises SendError."""
        return await (await self.send(topic, value, **more))

    async def flush(self) -> None:
        """Send all that is there, and wait until each has its result."""
        done = self._begin().create_future()
        self._give(Flush(done))
        await done

    async def init_transactions(self) -> None:
        """Take the transactional id: earlier producers of it are fenced, and what they left ends.

        Raises TransactionError, as all calls of transactions do.
        """
        await self._transact("init")

    def begin_transaction(self) -> None:
        """Begin a transaction, to which all records belong that are sent until it ends."""
        try:
            self._machine.begin_transaction()
        except InvalidTransactionState as refusal:
            error = refusal.cause or refusal.kafka_error
            raise TransactionError(error, str(refusal), abortable=refusal.abortable) from None

    async def send_offsets_to_transaction(
        self, offsets: Mapping[tuple[str, int], Any], group: GroupMetadata
    ) -> None:
        """Commit a group's next offsets with the transaction (KIP-447)."""
        await self._transact("offsets", offsets_of(offsets), group)

    async def commit_transaction(self) -> None:
        """Commit: wait until each record is written, and all of them may be read.

        After a time-out (max.block.ms) the same call goes on with it.
        """
        await self._transact("commit")

    async def abort_transaction(self) -> None:
        """Abort: no reader of committed records sees any of them."""
        await self._transact("abort")

    async def _transact(
        self,
        kind: Literal["init", "offsets", "commit", "abort"],
        offsets: Mapping[TopicPartition, Any] = NO_OFFSETS,
        group: GroupMetadata | None = None,
    ) -> None:
        done = self._begin().create_future()
        self._give(TransactionCall(done, kind, offsets, group))
        await done

    async def close(self, timeout_s: float | None = None) -> None:
        """Wait until each record has its result, and end. After the time-out the rest fails."""
        if self._loop is None:
            return
        if self._closed is None:
            self._closed = self._loop.create_future()
            timeout_ms = None if timeout_s is None else int(timeout_s * 1000)
            self._give(CloseProducer(self._closed, timeout_ms))
        await self._closed
        if self._timer is not None:
            self._timer.cancel()
        if self._connections is not None:
            connections, self._connections = self._connections, None
            await connections.end()
            self._producing.interceptors.close()

    def _begin(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
            self._connections = Connections(
                self._producing.config.client_id,
                self._producing.servers,
                self._producing.setup_timeout_s,
                self._producing.security,
                self._give,
                self._give,
            )
        return self._loop

    def _run(self) -> None:
        self._running = False
        self._give(Timer(now_ms(), DELIVERY))

    def _give(self, message: Input) -> None:
        for output in self._machine.handle(now_ms(), message):
            if isinstance(output, Delivered):
                self._settle(output)
            else:
                self._do(output)

    def _do(self, output: Output) -> None:
        match output:
            case Failed() | Delivered():
                self._settle(output)
            case Request():
                if self._connections is not None:
                    self._connections.send(output)
            case Timer(at_ms):
                self._wake_at(at_ms)
            case Accepted(sent):
                self._accepted(sent)
            case Flushed(done):
                if not done.done():
                    done.set_result(None)
            case TransactionDone(done):
                if not done.done():
                    done.set_result(None)
            case TransactionFailed(done):
                if not done.done():
                    done.set_exception(error_of(output))
            case Disconnect(node):
                if self._connections is not None:
                    self._connections.drop(node)

    def _settle(self, output: Delivered | Failed) -> None:
        future, metadata, error = self._producing.settle(output)
        if self._accepting:
            self._accepted(output.handle)
        if future.done():
            return
        if error is None:
            future.set_result(metadata)
        else:
            future.set_exception(error)
            future.exception()  # whoever looks at no future has asked for no warning

    def _accepted(self, sent: Sent) -> None:
        accepted = self._accepting.get(sent)
        if accepted is not None and not accepted.done():
            accepted.set_result(None)

    def _wake_at(self, at_ms: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        assert self._loop is not None
        self._timer = self._loop.call_later(max(0, at_ms - now_ms()) / 1000, self._run)
