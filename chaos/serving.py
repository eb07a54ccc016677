"""What a broker does for clients: append, acknowledge when it may, and let them read."""

from collections import deque
from typing import Any

from attrs import define

from chaos import messages as m
from chaos.hosted import Hosted
from chaos.messages import Message
from chaos.world import World
from refimpl.errors import Refusal


@define(eq=False)
class Serving:
    """The clients' side of a broker's partitions."""

    id: int
    world: World
    hosted: list[Hosted]

    def produce(self, message: Message) -> Hosted | None:
        """Append a record, or refuse. Answers the partition if there is something new in it."""
        _, _, _, partition, _, value, acks = message
        hosted = self._hosts(partition)
        replica = hosted.replica
        if self.world.swarm.idempotence and replica.leads:
            known = hosted.producers.offset_of(value)
            if known is not None:
                self.world.counts["duplicates recognised"] += 1
                self._answer_known(hosted, message, known)
                return None
        try:
            offset = replica.write(value, acks_all=acks == "all")
        except Refusal as refusal:
            self._refuse(message, str(refusal))
            return None
        hosted.oracle.wrote(replica, offset)
        hosted.producers.wrote(value, offset)
        if hosted.trace is not None:
            hosted.trace.add(self.world.timeline.now, "Write", {"l": self.id})
        if acks == "all":
            hosted.parked.append((offset, message))
        else:
            self.acknowledge(hosted, message, offset)
        return hosted

    def _answer_known(self, hosted: Hosted, message: Message, offset: int) -> None:
        """The record is in the log already, and acknowledged as soon as it is committed.

        An offset of -1 is one that this producer has long passed, without the record.
        """
        if offset < 0:
            self._refuse(message, "OUT_OF_ORDER_SEQUENCE_NUMBER")
        elif message[6] != "all" or offset < hosted.replica.high_watermark:
            self.acknowledge(hosted, message, offset)
        else:
            hosted.parked.append((offset, message))
            if len(hosted.parked) > 1 and hosted.parked[-2][0] > offset:
                hosted.parked = deque(sorted(hosted.parked, key=lambda waiting: waiting[0]))

    def acknowledge(self, hosted: Hosted, request: Message, offset: int) -> None:
        _, producer, _, partition, attempt, value, acks = request
        if acks == "all":
            hosted.oracle.acked(hosted.replica, offset, value)
        if acks != "0":
            self.world.network.send(
                (m.PRODUCED, self.id, producer, partition, attempt, value, None, offset)
            )

    def _refuse(self, request: Message, error: str) -> None:
        _, producer, _, partition, attempt, value, acks = request
        self.world.counts[f"produce refused: {error}"] += 1
        if acks != "0":
            self.world.network.send(
                (m.PRODUCED, self.id, producer, partition, attempt, value, error, -1)
            )

    def read(self, message: Message) -> None:
        """Give a consumer what is below the high watermark, if we lead."""
        _, consumer, _, partition, number, offset = message
        hosted = self._hosts(partition)
        replica = hosted.replica
        records: Any = None
        if replica.leads:
            limit = min(self.world.swarm.read_limit, replica.high_watermark - offset)
            records = replica.log.slice(offset, limit) if limit > 0 else ()
            if records:
                hosted.oracle.read(replica, offset, records)
        self.world.network.send((m.RECORDS, self.id, consumer, partition, number, offset, records))

    def drop_parked(self, hosted: Hosted) -> None:
        """Who no longer leads can promise nothing: what waited here may be cut off."""
        for _, request in hosted.parked:
            self._refuse(request, "NOT_LEADER_OR_FOLLOWER")
        hosted.parked.clear()

    def _hosts(self, partition: int) -> Hosted:
        return self.hosted[partition]
