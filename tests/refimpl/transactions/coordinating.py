"""A log in memory under a transaction coordinator, and partitions that write markers."""

from collections.abc import Sequence
from typing import Any

from attrs import define, field

from refimpl.coordinator.operation import Answer, TimerKey
from refimpl.coordinator.runtime import CoordinatorState
from refimpl.errors import Refusal
from refimpl.machines.transaction_coordinator import TransactionMetadata
from refimpl.messages import transaction_coordination as m
from refimpl.messages.broker import TopicPartition
from refimpl.messages.controller import InitProducerIdResponse
from refimpl.messages.transactions import TxnMarker
from refimpl.records.coordinators import (
    TRANSACTION_RECORDS,
    CoordinatorRecord,
    read_record,
    write_record,
)
from refimpl.transactions.config import TransactionConfig
from refimpl.transactions.shard import TransactionCoordinator, TransactionShard, coordinator_of

NOW = 10**12
ID = "payments"
P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
OFFSETS = TopicPartition("__consumer_offsets", 3)
CONFIG = TransactionConfig()


@define(eq=False)
class Log:
    """Keys and values as bytes, as on disk."""

    pairs: list[tuple[bytes, bytes | None]] = field(factory=list[tuple[bytes, bytes | None]])
    high_watermark: int = 0
    #: With what it refuses, as long as it does
    refuses: Refusal | None = None

    @property
    def start(self) -> int:
        return 0

    @property
    def end(self) -> int:
        return len(self.pairs)

    def append(
        self, now: int, records: Sequence[CoordinatorRecord], transaction: object = None
    ) -> int:
        if self.refuses is not None:
            raise self.refuses
        self.pairs += [write_record(one) for one in records]
        return self.end - 1

    def read(self, offset: int, size: int) -> tuple[Sequence[tuple[int, CoordinatorRecord]], int]:
        """Three records at a time."""
        pairs = self.pairs[offset : offset + 3]
        kinds = TRANSACTION_RECORDS
        found = [(offset + at, read_record(kinds, *pair)) for at, pair in enumerate(pairs)]
        return found, offset + len(pairs)


def _offsets_of(group_id: str) -> TopicPartition:
    return OFFSETS


@define(eq=False)
class Conversation:
    """A coordinator, its log, and producers whose ids count on from 7."""

    log: Log = field(factory=Log)
    config: TransactionConfig = CONFIG
    now: int = NOW
    epoch: int = 1
    #: Everything is committed at once, unless a test says otherwise
    replicated: bool = True
    ids: list[int] = field(factory=lambda: [*range(7, 100)])
    decided: list[str] = field(factory=list[str])
    answers: dict[int, Any] = field(factory=dict[int, Any])
    timers: dict[TimerKey, int] = field(factory=dict[TimerKey, int])
    tokens: int = 0
    coordinator: TransactionCoordinator = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.coordinator = self.elected()
        self.load()

    @property
    def shard(self) -> TransactionShard:
        return self.coordinator.shard

    @property
    def metadata(self) -> TransactionMetadata:
        """The id's state as written."""
        return self.shard.store.ids.current[ID]

    def elected(self) -> TransactionCoordinator:
        """A coordinator that has yet to read its log."""
        shard = TransactionShard(
            *(self.config, self.epoch, lambda: self.ids.pop(0), _offsets_of, self.decided.append),
            level=lambda: self.config.transaction_version,
        )
        return coordinator_of(0, self.log, shard)

    def load(self) -> None:
        """Read the log to its end."""
        for _ in range(self.log.end + 2):
            if self.coordinator.state is CoordinatorState.LOADING:
                self.take(self.coordinator.load(self.now))

    def fail_over(self, lost: int = 0, *, epoch: int | None = None) -> None:
        """Another broker leads, without the last records."""
        self.take(self.coordinator.resign())
        del self.log.pairs[self.log.end - lost :]
        self.epoch = self.epoch + 1 if epoch is None else epoch
        self.decided.clear()
        self.coordinator = self.elected()
        self.load()

    def take(self, outputs: Sequence[Any]) -> None:
        for one in outputs:
            if isinstance(one, Answer):
                self.answers[one.token] = one.body
            elif hasattr(one, "at_ms"):
                self.timers[one.key] = one.at_ms
        if self.replicated and self.log.high_watermark < self.log.end:
            self.commit()

    def commit(self) -> None:
        """All followers have everything."""
        self.log.high_watermark = self.log.end
        self.take(self.coordinator.committed(self.log.end))
        if self.coordinator.state is CoordinatorState.LOADING:
            self.take(self.coordinator.load(self.now))

    def send(self, request: Any) -> int:
        """Answers under which number it is answered."""
        self.tokens += 1
        self.take(self.coordinator.handle(self.now, self.tokens, request))
        return self.tokens

    def ask(self, request: Any) -> Any:
        """The answer."""
        return self.answers[self.send(request)]

    # Producers

    def init(self, producer_id: int = -1, epoch: int = -1, **of: Any) -> InitProducerIdResponse:
        asked = m.InitTransactionalIdRequest(ID, 60_000, producer_id, epoch)
        return self.ask(asked._replace(**of))

    def add(self, *partitions: TopicPartition, at: tuple[int, int], **of: Any) -> str | None:
        """The error of the first partition."""
        asked = m.AddPartitionsToTxnRequest(ID, *at, partitions)._replace(**of)
        return self.ask(asked).partitions[0][1]

    def end(self, at: tuple[int, int], *, committed: bool = True, version: int = 2) -> Any:
        return self.ask(m.EndTxnRequest(ID, *at, committed, version))

    def begun(self, *partitions: TopicPartition) -> tuple[int, int]:
        """An initialised producer with an open transaction."""
        error, *at = self.init()
        assert error is None
        assert self.add(*partitions or (P0,), at=(at[0], at[1])) is None
        return at[0], at[1]

    # Markers

    def markers(self) -> list[TxnMarker]:
        """The markers that are owed, one for each id."""
        owed = self.shard.store.owed
        return [self.shard.marker(one, sorted(owed[one])) for one in owed]

    def write(self, *partitions: TopicPartition) -> None:
        """These partitions have written their markers."""
        for one in partitions:
            self.shard.written(ID, self.metadata.at, one)

    def complete(self) -> None:
        """All partitions have written their markers."""
        self.write(*self.metadata.partitions)
        self.take(self.coordinator.operate(self.now, lambda shard: shard.complete(self.now, ID)))
