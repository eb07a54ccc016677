"""The calls that the consumers of aiokafka and kafka-python share."""

from abc import abstractmethod
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from traces.record.process import now
from traces.record.python_words import names, offsets_of
from traces.record.wrapper import Fields, RecordedConsumer


class PythonConsumer(RecordedConsumer):
    """Subscriptions, assignments and positions, which neither library awaits."""

    @abstractmethod
    def _membership(self) -> Fields:
        """Group, member and generation, as far as the client knows them."""

    def content(self, message: Any) -> tuple[Any, Any, Any]:
        """Value, key and headers of a message."""
        return message.value, message.key, message.headers

    def unsubscribe(self) -> None:
        """As the client's own."""
        invoked = now()
        self._client.unsubscribe()
        self._process.note("subscribe", invoked, topics=[], **self._grouped())

    def write_assigned(self, partitions: Any) -> None:
        """A rebalance gave partitions to this member."""
        self._process.note("assigned", partitions=names(partitions), **self._membership())

    @contextmanager
    def giving_up(self, op: str, partitions: Any) -> Generator[None]:
        """A rebalance takes them; the line follows what the application still did with them."""
        invoked, held = now(), self._membership()
        try:
            yield
        finally:
            if partitions:  # the first rebalance of all takes nothing, and says so
                self._process.note(op, invoked, partitions=names(partitions), **held)

    def assign(self, partitions: Any) -> None:
        """As the client's own."""
        invoked = now()
        self._client.assign(partitions)
        self._process.note("assign", invoked, partitions=names(partitions))

    def seek(self, partition: Any, offset: int) -> None:
        """As the client's own."""
        invoked = now()
        self._client.seek(partition, offset)
        at = offsets_of({partition: offset})
        self._process.note("seek", invoked, partitions=names([partition]), offsets=at)
