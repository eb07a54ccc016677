"""The state of a transactional id: as Kafka writes it down, and as TransactionCoordinator has it.

Producer ids are numbered in the order in which they are given. The first epoch in the spec is 1,
for its first state is an id that nobody has been given; Kafka's is 0.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from attrs import define, field, frozen

from chaos.recorders.kafka_lines import Line
from refimpl.events import Json, as_set

NONE = -1
NOBODY, NO_TRANSACTION = 0, 0
#: The last epoch that Kafka gives
LAST_EPOCH = 32_766
PREPARED = frozenset(("PrepareCommit", "PrepareAbort"))
IDLE = frozenset(("Empty", "CompleteCommit", "CompleteAbort"))


class Identity(NamedTuple):
    """A producer id and epoch in the spec's numbers."""

    id: int
    epoch: int

    def as_json(self) -> Json:
        """As an event writes it."""
        return {"id": self.id, "epoch": self.epoch}


NO_IDENTITY = Identity(0, 0)
#: Before anybody was given an epoch
UNUSED = Identity(1, 0)


@frozen
class TransactionState:
    """A record of the spec's log of `__transaction_state`."""

    state: str = "Empty"
    at: Identity = UNUSED
    next: Identity = UNUSED
    last: Identity = NO_IDENTITY
    partitions: frozenset[int] = frozenset()
    transaction: int = NO_TRANSACTION
    by: int = NOBODY
    fences: bool = False

    @property
    def prepared(self) -> bool:
        """True if the end is decided, and markers are owed."""
        return self.state in PREPARED

    @property
    def owed(self) -> frozenset[int]:
        """The partitions that owe an answer as soon as this takes effect."""
        return self.partitions if self.prepared else frozenset()

    @property
    def seen(self) -> dict[str, Any]:
        """The part of it that Kafka has, too."""
        return {name: getattr(self, name) for name in ("state", "at", "next", "last", "partitions")}

    def looks_like(self, other: "TransactionState") -> bool:
        """True if Kafka's record of both is the same: it has neither `last` nor who did it."""
        mine = self.state, self.at, self.next, self.partitions
        return mine == (other.state, other.at, other.next, other.partitions)

    def as_json(self) -> Json:
        """As an event writes it."""
        return {
            "state": self.state,
            "at": self.at.as_json(),
            "next": self.next.as_json(),
            "last": self.last.as_json(),
            "partitions": as_set(self.partitions),
            "transaction": self.transaction,
            "by": self.by,
            "fences": self.fences,
        }


@define
class ProducerInstance:
    """An instance of the producer, as far as its requests and their answers tell."""

    number: int
    phase: str = "off"
    identity: Identity = NO_IDENTITY
    transaction: int = NO_TRANSACTION
    #: Its identity before this one
    before: Identity = NO_IDENTITY

    def given(self, identity: Identity) -> None:
        """It is answered, and may begin."""
        if identity != self.identity:
            self.before = self.identity
        self.phase, self.identity, self.transaction = "ready", identity, NO_TRANSACTION

    def as_json(self) -> dict[str, Json]:
        """As an event writes it."""
        return {
            "phase": self.phase,
            "as": self.identity.as_json(),
            "transaction": self.transaction,
        }


@define
class Numbers:
    """The spec's numbers of producer ids and partitions."""

    #: The spec's epoch of the first producer id less Kafka's
    above: int = 1
    ids: dict[int, int] = field(factory=dict[int, int])
    partitions: dict[str, int] = field(factory=dict[str, int])

    def identity(self, producer_id: int, epoch: int) -> Identity:
        """The spec's identity, NO_IDENTITY for none."""
        if producer_id == NONE or epoch == NONE:
            return NO_IDENTITY
        number = self.ids.setdefault(producer_id, len(self.ids) + 1)
        return Identity(number, epoch + (self.above if number == 1 else 0))

    def partition(self, name: str) -> int:
        """The spec's number of a partition."""
        return self.partitions.setdefault(name, len(self.partitions) + 1)

    def state(self, line: Line, ghosts: TransactionState) -> TransactionState:
        """The state that a line has; who did what in which transaction is that of another."""
        at = self.identity(line["pid"], line["pe"])
        rotates = line["next"] != NONE and kind(line) in PREPARED
        return TransactionState(
            kind(line),
            at,
            self.identity(line["next"], 0) if rotates else at,
            self.identity(line["pid"], line["lpe"]),
            frozenset(self.partition(one) for one in line["parts"]),
            ghosts.transaction,
            ghosts.by,
            ghosts.fences,
        )


def kind(line: Mapping[str, Any]) -> str:
    """The state's name: older versions write PrepareCommit, newer ones PREPARE_COMMIT."""
    name: str = line["state"]
    return "".join(word.capitalize() for word in name.split("_")) if name.isupper() else name
