"""The events of cues: observations of one broker's node, and its answers to clients.

The node says what it did; who asked for it, only the edge knows.
"""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

from attrs import define, field

from refimpl.coordinator.observations import CoordinatorOperation
from refimpl.coordinator.operation import Performed
from refimpl.edge.server.cues import Cues, Event
from refimpl.machines.classic_group import ClassicGroup
from refimpl.machines.consumer_group import ConsumerGroup
from refimpl.messages import group as g
from refimpl.messages.broker import FetchResponse, ProduceRequest, ProduceResponse, TopicPartition
from refimpl.messages.cluster import INTERNAL_TOPICS
from refimpl.messages.observations import HighWatermarkAdvanced, RecordsRead, Written
from refimpl.storage.format.batch import read_header
from refimpl.storage.replica.memory_records import whole

CHANGED = "changed"
"""An event of every operation on a group, for nobody but this room."""

Furthest = dict[TopicPartition, int]
"""Up to where records of a partition were committed, by any leader."""


@define(eq=False)
class Watch:
    """One broker, as cues see it."""

    broker: int
    cues: Cues
    furthest: Furthest
    #: The client of the request that is being handled
    _client: str | None = field(default=None, init=False)
    #: Requests that are not answered: the client, and how many records were sent to each partition
    _asked: dict[int, tuple[str | None, dict[TopicPartition, int]]] = field(
        factory=dict[int, tuple[str | None, dict[TopicPartition, int]]], init=False
    )
    _read: list[tuple[TopicPartition, int]] = field(
        factory=list[tuple[TopicPartition, int]], init=False
    )

    def requested(self, api: str, client_id: str | None) -> None:
        """A request came."""
        self.cues.happened(Event("requested", self.broker, client_id=client_id, api=api))

    def asked(self, number: int, body: Any, client_id: str | None) -> None:
        """A client's request is put to the node under this number."""
        sent: dict[TopicPartition, int] = {}
        if isinstance(body, ProduceRequest):
            sent = {name: _records_in(batch) for name, batch in body.batches}
        self._asked[number] = client_id, sent

    def handling(self, number: int | None) -> None:
        """The node handles this request now, or none."""
        self._client = None if number is None else self._asked.get(number, (None,))[0]

    def forget(self) -> None:
        """The process has ended: nobody will be answered."""
        self._asked.clear()
        self._read.clear()

    def observed(self, output: Any) -> None:
        """The node said what it did: cues are met at once, before anything else is carried out."""
        match output:
            case Written(partition, offset, end):
                self._happened("written", partition, end - offset, self._client)
            case HighWatermarkAdvanced(partition, old, new):
                counted = max(old, self.furthest.get(partition, 0))
                self.furthest[partition] = max(new, counted)
                self._happened("committed", partition, new - counted)
            case RecordsRead(partition, offset, records):
                self._read.append((partition, _after(records, offset)))
            case CoordinatorOperation(_, performed) if performed.error is None:
                for event in _of_group(self.broker, performed):
                    self.cues.happened(event)
            case _:
                pass

    def answering(self, number: int, body: Any) -> Callable[[], None]:
        """The node answers a client; call what is returned when the answer is on its way."""
        client_id, sent = self._asked.pop(number, (None, {}))
        told: list[tuple[str, TopicPartition, int]] = []
        if isinstance(body, FetchResponse):
            told = [("read", *one) for one in self._read]
            self._read.clear()
        elif isinstance(body, ProduceResponse):
            done = [one.partition for one in body.partitions if one.error is None]
            told = [("acknowledged", name, sent.get(name, 1)) for name in done]

        def later() -> None:
            for what, partition, count in told:
                self._happened(what, partition, count, client_id)

        return (lambda: _behind_the_answer(later)) if told else _nothing

    def _happened(
        self, what: str, partition: TopicPartition, count: int, client_id: str | None = None
    ) -> None:
        topic, number = partition
        if count > 0 and topic not in INTERNAL_TOPICS:
            self.cues.happened(Event(what, self.broker, count, topic, number, client_id))


def _nothing() -> None:
    pass


def _behind_the_answer(call: Callable[[], None]) -> None:
    """A connection sends its answers in the next turn of the loop; this comes in the one after."""
    loop = asyncio.get_running_loop()
    loop.call_soon(loop.call_soon, call)


def _records_in(batch: Any) -> int:
    try:
        return read_header(batch).record_count
    except Exception:  # whatever it is, the node refuses it
        return 1


def _after(records: Any, offset: int) -> int:
    """The number of records from an offset on, by the headers of their batches."""
    return sum(
        header.last_offset - max(header.base_offset, offset) + 1
        for header, _ in whole(records.data)
        if header.last_offset >= offset and not header.is_control
    )


def _of_group(broker: int, performed: Performed) -> Iterator[Event]:
    """The events that an operation on a group means to its members."""
    about, before, after = performed.about, performed.before, performed.after
    if group := getattr(about, "group_id", None):
        yield Event(CHANGED, broker, group=group)
    if isinstance(about, g.OffsetCommitRequest):
        for one in about.partitions:
            topic, partition = one.partition
            yield Event("offset_committed", broker, 1, topic, partition, group=about.group_id)
        return
    if group is None or after is None:
        return
    old = {} if before is None else getattr(before, "members", {})
    for id, member in after.members.items():
        if id not in old:
            client_id = getattr(member, "client_id", None) or member.said.client_id
            yield Event("joined", broker, client_id=client_id, group=group)
    if is_assigned(after) and not (before is not None and is_assigned(before, after)):
        yield Event("assigned", broker, group=group, members=len(after.members))


def is_assigned(group: Any, like: Any = None) -> bool:
    """True if all members of a group have received their assignments; if `like` is a later state of
    the group, in the same generation or epoch."""
    if isinstance(group, ClassicGroup):
        same = like is None or getattr(like, "generation", None) == group.generation
        return bool(group.members) and group.state == "Stable" and not group.unsynced and same
    if isinstance(group, ConsumerGroup):
        same = like is None or getattr(like, "epoch", None) == group.epoch
        return group.state == "Stable" and same
    return False
