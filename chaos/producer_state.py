"""What an idempotent producer's leader knows: which of its records are in the log.

It is derived from the log, as Kafka's is, so that a new leader knows the same. A value says who
made it and as which: producer * STRIDE + sequence.
"""

from attrs import define, field

from refimpl.machines.replica_log import ReplicaLog

STRIDE = 1_000_000


@define(eq=False)
class ProducerState:
    """Per producer the newest sequence in the log, and where its records are."""

    newest: dict[int, int] = field(factory=dict[int, int])
    offsets: dict[int, int] = field(factory=dict[int, int])

    def rebuild(self, log: ReplicaLog) -> None:
        """Read the log from its start."""
        self.newest, self.offsets = {}, {}
        for offset, record in enumerate(log.records):
            if isinstance(record.value, int):
                self.wrote(record.value, offset)

    def wrote(self, value: int, offset: int) -> None:
        """A record was appended."""
        self.newest[value // STRIDE] = value
        self.offsets[value] = offset

    def offset_of(self, value: int) -> int | None:
        """Where this record is; -1 if its producer has passed it; None if it is news."""
        if value > self.newest.get(value // STRIDE, -1):
            return None
        return self.offsets.get(value, -1)
