"""A producer of aiokafka, recorded."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Any, Self

from traces.record.aio_ids import topic_ids
from traces.record.process import now
from traces.record.python_words import error_of, offsets_of
from traces.record.sends import RecordedProducer
from traces.record.wrapper import ClientOptions, Fields


class AioProducer(RecordedProducer):
    """A producer of aiokafka."""

    def __init__(self, client: Any, options: ClientOptions) -> None:
        super().__init__(client, options)
        self._ids = topic_ids(options.process, client)

    async def start(self) -> None:
        """As the client's own; a transactional producer learns its id and its epoch here."""
        if not self._named:
            await self._client.start()
            return
        seq = self._process.call("init_producer", **self._named)
        try:
            await self._client.start()
        except Exception as refusal:
            self._process.answer(seq, "info", error=error_of(refusal)[1])
            raise
        self._process.answer(seq, "ok", **self._known_as())

    def _known_as(self) -> Fields:
        manager = getattr(self._client, "_txn_manager", None)
        id, epoch = getattr(manager, "producer_id", -1), getattr(manager, "producer_epoch", -1)
        return {"producer_id": id, "producer_epoch": epoch} if id >= 0 else {}

    async def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Any = None,
    ) -> Any:
        """As the client's own; recorded from the call until its future is settled."""
        seq, headers = self._begin(topic, value, key, headers, partition)
        try:
            future = await self._client.send(topic, value, key, partition, timestamp_ms, headers)
        except Exception as refusal:  # nothing was put into a batch
            self._process.answer(seq, "fail", error=error_of(refusal)[1])
            raise
        cluster = getattr(getattr(self._client, "client", None), "cluster", None)
        self._knows_of(topic, len(getattr(cluster, "_partitions", {}).get(topic, ())))
        future.add_done_callback(partial(self._settled, seq))
        return future

    async def send_and_wait(self, *args: Any, **more: Any) -> Any:
        """As the client's own."""
        return await (await self.send(*args, **more))

    async def send_batch(self, *args: Any, **more: Any) -> Any:
        """Not recorded by message: a batch that is built by hand shows no messages."""
        raise NotImplementedError("send_batch cannot be recorded message by message: use send")

    def _settled(self, seq: int, future: Any) -> None:
        if future.cancelled():
            # Whoever waited has gone; the record is on its way all the same.
            self._process.answer(seq, "info", error="CancelledError")
        elif (error := future.exception()) is not None:
            self._not_stored(seq, *error_of(error))
        elif (stored := future.result()) is None:  # acks=0
            self._process.answer(seq, "info")
        else:
            self._stored(seq, stored.partition, stored.offset, stored.timestamp)

    async def begin_transaction(self) -> None:
        """As the client's own; a new transaction of the trace begins."""
        self._txn += 1
        self._inside({**self._named, "txn": self._txn})
        await self._transact("txn_begin", self._client.begin_transaction())

    async def send_offsets_to_transaction(self, offsets: Any, group_id: str) -> None:
        """As the client's own."""
        fields: Fields = {"offsets": offsets_of(offsets), "group": group_id}
        call = self._client.send_offsets_to_transaction(offsets, group_id)
        await self._transact("txn_offsets", call, fields)

    async def commit_transaction(self) -> None:
        """As the client's own."""
        await self._transact("txn_commit", self._client.commit_transaction())
        self._inside({})

    async def abort_transaction(self) -> None:
        """As the client's own."""
        await self._transact("txn_abort", self._client.abort_transaction())
        self._inside({})

    def transaction(self) -> AbstractAsyncContextManager[Self]:
        """As the client's own: commits, or aborts what an exception interrupts."""
        return self._transaction()

    @asynccontextmanager
    async def _transaction(self) -> AsyncGenerator[Self]:
        await self.begin_transaction()
        try:
            yield self
        except BaseException:
            manager = getattr(self._client, "_txn_manager", None)
            if not getattr(manager, "is_fatal_error", bool)():
                await self.abort_transaction()
            raise
        await self.commit_transaction()

    async def _transact(self, op: str, call: Awaitable[None], fields: Fields | None = None) -> None:
        seq = self._process.call(op, **self._named, txn=self._txn, **(fields or {}))
        try:
            await call
        except Exception as refusal:
            outcome = "fail" if op == "txn_begin" else "info"
            self._process.answer(seq, outcome, error=error_of(refusal)[1])
            raise
        self._process.answer(seq, "ok")

    async def stop(self) -> None:
        """As the client's own, and the end of the recording."""
        invoked = now()
        await self._client.stop()
        await asyncio.to_thread(self._ids.leave)
        self._process.end("close", invoked)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *raised: Any) -> None:
        await self.stop()
