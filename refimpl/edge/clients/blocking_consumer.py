"""`Consumer`: a consumer for one thread of an application; heartbeats go on in another."""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from queue import SimpleQueue
from threading import Lock
from types import TracebackType
from typing import Any, Self

from refimpl.clients.consumer.messages import (
    Called,
    CallListener,
    CloseConsumer,
    Input,
    Output,
    Poll,
    Unsubscribe,
)
from refimpl.edge.clients.async_consumer import Telling
from refimpl.edge.clients.consuming import (
    Committing,
    Consuming,
    OnCommit,
    Pair,
    T,
    told_offsets,
)
from refimpl.edge.clients.fetched import ConsumerRecord
from refimpl.edge.clients.loops import LoopThread
from refimpl.edge.clients.producing import now_ms
from refimpl.messages.broker import TopicPartition


class Consumer(Consuming):
    """Reads records from Kafka, with Kafka's names for its settings.

    with Consumer({"bootstrap.servers": "localhost:9092", "group.id": "g"}) as consumer:
        consumer.subscribe(["orders"])
        for record in consumer.poll(1):
            print(record.offset, record.value)
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        """Raises ConfigError for a setting that there is not, or a value that it does not take."""
        super().__init__(config)
        self._lock = Lock()
        self._outbox: deque[Output] = deque()
        self._thread = LoopThread("kafka-consumer")
        self._loop = self._thread.loop
        self._connections = self._connect()

    def __enter__(self) -> Self:
        """Nothing to do: connections are made when something is asked."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close."""
        self.close()

    def poll(self, timeout_s: float = 0.1) -> list[ConsumerRecord]:
        """Records, at most max.poll.records; none if there are none before the time-out.

        It also joins the group, calls the listener, and commits automatically.
        """
        self._raise_listener_error()
        self._must_have_partitions()
        inbox: SimpleQueue[Any] = SimpleQueue()
        output = self._ask(Poll(inbox, int(timeout_s * 1000)), inbox)
        return self._polled(output)

    def commit(self, offsets: Committing | None = None, *, timeout_s: float | None = None) -> None:
        """Commit offsets, or the positions of all that was returned, and wait until it is done."""
        self._must_be_open()
        inbox: SimpleQueue[Any] = SimpleQueue()
        output = self._ask(self._committing(inbox, offsets, True, timeout_s), inbox)
        self._told_commit(output, None)
        self._value(output)

    def commit_async(
        self, offsets: Committing | None = None, on_commit: OnCommit | None = None
    ) -> None:
        """Commit without waiting; the callback is called in the consumer's own thread."""
        self._must_be_open()
        telling = Telling(lambda output: self._told_commit(output, on_commit))
        self._give(self._committing(telling, offsets, False, None))

    def committed(
        self, partitions: Iterable[Pair], *, timeout_s: float | None = None
    ) -> dict[TopicPartition, int | None]:
        """The group's committed offsets, None where there is none."""
        inbox: SimpleQueue[Any] = SimpleQueue()
        output = self._ask(self._asking_committed(inbox, partitions, timeout_s), inbox)
        return told_offsets(self._value(output))

    def beginning_offsets(self, partitions: Iterable[Pair]) -> dict[TopicPartition, int]:
        """The first offsets that are there."""
        return self._offsets(self._ends(partitions, False))

    def end_offsets(self, partitions: Iterable[Pair]) -> dict[TopicPartition, int]:
        """The offsets behind the last records."""
        return self._offsets(self._ends(partitions, True))

    def offsets_for_times(self, times_ms: Mapping[Pair, int]) -> dict[TopicPartition, int | None]:
        """The first offsets whose records are as young; None where none is."""
        return self._offsets(times_ms)

    def _offsets(self, times: Mapping[Pair, int]) -> Any:
        inbox: SimpleQueue[Any] = SimpleQueue()
        return told_offsets(self._value(self._ask(self._asking(inbox, times, None), inbox)))

    def unsubscribe(self) -> None:
        """Give up all partitions, and leave the group."""
        self._must_be_open()
        inbox: SimpleQueue[Any] = SimpleQueue()
        self._value(self._ask(Unsubscribe(inbox), inbox))
        self._raise_listener_error()

    def close(self, timeout_s: float = 30) -> None:
        """Commit what is to be committed automatically, leave the group, and end."""
        if self._is_closed:
            return
        inbox: SimpleQueue[Any] = SimpleQueue()
        self._ask(CloseConsumer(inbox, int(timeout_s * 1000)), inbox)
        self._is_closed = True
        self._thread.end(self._disconnect())
        self._interceptors.close()
        self._raise_listener_error()

    # The machine

    def _ask(self, message: Input, inbox: "SimpleQueue[Any]") -> Any:
        """Give the machine a call, and call the listener until its result is there."""
        self._give(message)
        while isinstance(output := inbox.get(), CallListener):
            listen = self._listening(output)
            try:
                if listen is not None:
                    listen([*output.partitions])
            except Exception as error:
                self._listener_error = error
            self._give(Called())
        return output

    def _do(self, change: Callable[[int], T]) -> T:
        with self._lock:
            result = change(now_ms())
        self._wake()
        return result

    def _give(self, message: Input) -> None:
        """Give the machine an input. Connections and timers are the loop's own, which does all that
        the machine wants of it in the machine's order; results are anybody's.
        """
        with self._lock:
            outputs = self._machine.handle(now_ms(), message)
            self._outbox += [one for one in outputs if not hasattr(one, "handle")]
        if self._thread.is_current:
            self._carry_outbox()
        elif self._outbox:
            self._thread.loop.call_soon_threadsafe(self._carry_outbox)
        for one in outputs:
            if hasattr(one, "handle"):
                self._carry(one)

    def _carry_outbox(self) -> None:
        while self._outbox:
            self._carry(self._outbox.popleft())
