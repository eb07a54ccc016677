"""`AsyncConsumer`: a consumer for an event loop."""

import asyncio
import inspect
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Any, Self

from refimpl.clients.consumer.messages import (
    CallDone,
    Called,
    CallFailed,
    CallListener,
    CloseConsumer,
    Input,
    Poll,
    Polled,
    Unsubscribe,
)
from refimpl.edge.clients.consuming import (
    Committing,
    Consuming,
    OnCommit,
    Pair,
    T,
    told_offsets,
)
from refimpl.edge.clients.fetched import ConsumerRecord
from refimpl.edge.clients.producing import now_ms
from refimpl.messages.broker import TopicPartition


class Inbox:
    """The results of one call, in order."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[Any] = asyncio.Queue()

    def put(self, output: Any) -> None:
        """A result has come."""
        self._queue.put_nowait(output)

    async def get(self) -> Any:
        """The next result."""
        return await self._queue.get()

    def left(self) -> Any:
        """A result that nobody has taken, None if there is none."""
        return None if self._queue.empty() else self._queue.get_nowait()


class Telling:
    """A commit for which nobody waits; its callback is called."""

    def __init__(self, tell: Callable[[Any], None]) -> None:
        self.put = tell


class AsyncConsumer(Consuming):
    """Reads records from Kafka, with Kafka's names for its settings.

    async with AsyncConsumer({"bootstrap.servers": "localhost:9092", "group.id": "g"}) as consumer:
        consumer.subscribe(["orders"])
        for record in await consumer.poll(1):
            print(record.offset, record.value)
    """

    #: Records of a poll that was cancelled
    _left: Polled | None = None
    _polling: bool = False

    async def __aenter__(self) -> Self:
        """Begin; connections are made when something is asked."""
        self._begin()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close."""
        await self.close()

    async def poll(self, timeout_s: float = 0.1) -> list[ConsumerRecord]:
        """Records, at most max.poll.records; none if there are none before the time-out.

        It also joins the group, calls the listener, and commits automatically.
        """
        self._raise_listener_error()
        if self._left is not None:
            left, self._left = self._left, None
            return self._records(left)
        self._must_have_partitions()
        if self._polling:
            raise RuntimeError("another task polls already")
        inbox, self._polling = Inbox(), True
        try:
            output = await self._ask(Poll(inbox, int(timeout_s * 1000)), inbox)
        except asyncio.CancelledError:
            self._machine.cancel_poll()
            output = inbox.left()
            self._left = output if isinstance(output, Polled) else None
            raise
        finally:
            self._polling = False
        return self._polled(output)

    async def commit(
        self, offsets: Committing | None = None, *, timeout_s: float | None = None
    ) -> None:
        """Commit offsets, or the positions of all that was returned, and wait until it is done."""
        self._must_be_open()
        inbox = Inbox()
        output = await self._ask(self._committing(inbox, offsets, True, timeout_s), inbox)
        self._told_commit(output, None)
        self._value(output)

    def commit_async(
        self, offsets: Committing | None = None, on_commit: OnCommit | None = None
    ) -> None:
        """Commit without waiting; the callback hears of offsets or an error."""
        self._must_be_open()
        self._begin()
        telling = Telling(lambda output: self._told_commit(output, on_commit))
        self._give(self._committing(telling, offsets, False, None))

    async def committed(
        self, partitions: Iterable[Pair], *, timeout_s: float | None = None
    ) -> dict[TopicPartition, int | None]:
        """The group's committed offsets, None where there is none."""
        inbox = Inbox()
        output = await self._ask(self._asking_committed(inbox, partitions, timeout_s), inbox)
        return told_offsets(self._value(output))

    async def beginning_offsets(self, partitions: Iterable[Pair]) -> dict[TopicPartition, int]:
        """The first offsets that are there."""
        return await self._offsets(self._ends(partitions, False))

    async def end_offsets(self, partitions: Iterable[Pair]) -> dict[TopicPartition, int]:
        """The offsets behind the last records."""
        return await self._offsets(self._ends(partitions, True))

    async def offsets_for_times(
        self, times_ms: Mapping[Pair, int]
    ) -> dict[TopicPartition, int | None]:
        """The first offsets whose records are as young; None where none is."""
        return await self._offsets(times_ms)

    async def _offsets(self, times: Mapping[Pair, int]) -> Any:
        inbox = Inbox()
        return told_offsets(self._value(await self._ask(self._asking(inbox, times, None), inbox)))

    async def unsubscribe(self) -> None:
        """Give up all partitions, and leave the group."""
        self._must_be_open()
        inbox = Inbox()
        self._value(await self._ask(Unsubscribe(inbox), inbox))
        self._raise_listener_error()

    async def close(self, timeout_s: float = 30) -> None:
        """Commit what is to be committed automatically, leave the group, and end."""
        if self._is_closed:
            return
        if self._loop is not None:
            inbox = Inbox()
            await self._ask(CloseConsumer(inbox, int(timeout_s * 1000)), inbox)
        self._is_closed = True
        await self._disconnect()
        self._interceptors.close()
        self._raise_listener_error()

    # The machine

    async def _ask(self, message: Input, inbox: Inbox) -> Any:
        """Give the machine a call, and call the listener until its result is there."""
        self._begin()
        self._give(message)
        while True:
            output = await inbox.get()
            if not isinstance(output, CallListener):
                assert isinstance(output, Polled | CallDone | CallFailed)
                return output
            await self._call(output)
            self._give(Called())

    async def _call(self, call: CallListener) -> None:
        listen = self._listening(call)
        if listen is None:
            return
        try:
            result = listen([*call.partitions])
            if inspect.isawaitable(result):
                await result
        except Exception as error:
            self._listener_error = error

    def _begin(self) -> None:
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
            self._connections = self._connect()

    def _do(self, change: Callable[[int], T]) -> T:
        result = change(now_ms())
        if self._loop is not None:
            self._wake()
        return result

    def _give(self, message: Input) -> None:
        for output in self._machine.handle(now_ms(), message):
            self._carry(output)
