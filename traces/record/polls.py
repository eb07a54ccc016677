"""Polls in their compact form: the numbers of all their records in one piece."""

from array import array
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from traces.record.entries import NO_ID, POLL, POLLED, SIZE, trailers
from traces.record.process import Process

Fields = dict[str, Any]
#: Topic, partition, offset, id, key, timestamp, leader epoch: what a client tells of a message.
Polled = tuple[str, int, int, Any, Any, int | None, int | None]

_BARE = POLL.size - SIZE.size
_TRAILERS = trailers(POLLED)


@dataclass(slots=True)
class Polls:
    """The polls of one process. What they share, and each partition, has its number."""

    process: Process
    _about: Fields | None = None
    _about_number: int = 0
    _partitions: dict[tuple[str, int], int] = field(default_factory=dict[tuple[str, int], int])
    _numbers: "count[int]" = field(default_factory=lambda: count(1))

    def write(
        self, messages: Iterable[Polled], about: Fields, seq: int, invoked: int, returned: int
    ) -> bool:
        """True if the compact form can hold it: ids are numbers, keys are bytes."""
        numbers: list[int] = []
        keys: list[bytes] = []
        extend, numbered, records = numbers.extend, self._partitions, 0
        size = _BARE
        for topic, partition, offset, id, key, stamp, epoch in messages:
            number = numbered.get((topic, partition)) or self._number(topic, partition)
            if key is None:
                length = -1
            elif type(key) is bytes:
                keys.append(key)
                size += (length := len(key))
            else:
                return False
            if id is None:
                id = NO_ID
            elif type(id) is not int:
                return False
            stamp = -1 if stamp is None else stamp
            extend((number, offset, id, stamp, -1 if epoch is None else epoch, length))
            records += 1
        context = self._about_number if about is self._about else self._share(about)
        size += 8 * len(numbers)
        packed = POLL.pack(size, context, records, seq, invoked, returned)
        parts = (packed, array("q", numbers).tobytes(), *keys, _TRAILERS[size & 7])
        self.process.journal.put(b"".join(parts))
        return True

    def _number(self, topic: str, partition: int) -> int:
        number = self._partitions[topic, partition] = next(self._numbers)
        self.process.write({"context": number, "topic": topic, "partition": partition})
        return number

    def _share(self, about: Fields) -> int:
        self._about, self._about_number = about, next(self._numbers)
        self.process.write({"context": self._about_number, "inside": about})
        return self._about_number
