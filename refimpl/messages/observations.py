"""What a node says about its own steps, for whoever watches: named after the specs' actions.

Each follows the change that it names. A watcher may look at the machines as well: within one input
no variable of a partition's spec changes twice, but for the log and the high watermark, which a
coordinator of groups may move several times.
"""

from typing import Any, NamedTuple

from refimpl.machines.messages import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    FetchRequest,
    LeaderAndIsr,
)
from refimpl.machines.replica_log import Batch, Records
from refimpl.messages.broker import TopicPartition


class Written(NamedTuple):
    """A leader appended from `offset` to below `end`."""

    partition: TopicPartition
    offset: int
    end: int


class HighWatermarkAdvanced(NamedTuple):
    """A leader moved its high watermark."""

    partition: TopicPartition
    old: int
    new: int


class FetchHeard(NamedTuple):
    """A leader heard where a follower's log ends; before, it had heard of incarnation `known`."""

    partition: TopicPartition
    request: FetchRequest
    diverging: bool
    known: int


class FetchAnswered(NamedTuple):
    """The leader answered a fetch that it had heard."""

    partition: TopicPartition
    request: FetchRequest


class AnswerTaken(NamedTuple):
    """A follower appended, or cut its log; before, it ended at `end`."""

    partition: TopicPartition
    number: int
    truncated: bool
    end: int
    high_watermark: int


class BecameLeader(NamedTuple):
    """A replica leads; before, it `led` or not, and had this high watermark."""

    partition: TopicPartition
    led: bool
    high_watermark: int


class BecameFollower(NamedTuple):
    """A replica follows; before, it ended at `end`."""

    partition: TopicPartition
    end: int


class Deleted(NamedTuple):
    """A broker has no replica of a partition any more, and no log of it."""

    partition: TopicPartition


class IsrAltered(NamedTuple):
    """A leader learned that the controller took `follower` into the ISR, or out of it."""

    partition: TopicPartition
    follower: int
    joined: bool


class IsrAsked(NamedTuple):
    """A leader put a change of the ISR to the controller; again, if no answer came."""

    partition: TopicPartition
    change: AlterPartitionRequest
    again: bool


class IsrAnswered(NamedTuple):
    """The controller answered such a request; `active` are the brokers that may be in an ISR."""

    partition: TopicPartition
    change: AlterPartitionRequest
    outcome: AlterPartitionResponse
    active: frozenset[int]


class IsrAnswerTaken(NamedTuple):
    """A leader took the answer to the change that was pending."""

    partition: TopicPartition


class IsrAdopted(NamedTuple):
    """A leader learned by the metadata what the ISR of its own epoch is."""

    partition: TopicPartition


class LogRestarted(NamedTuple):
    """A follower dropped its log, which ended at `end`, to begin anew at `start`."""

    partition: TopicPartition
    end: int
    start: int


class WentOffline(NamedTuple):
    """The log of a partition failed."""

    partition: TopicPartition


class Acknowledged(NamedTuple):
    """A leader told a producer that its batch is at this offset."""

    partition: TopicPartition
    acks: int
    batch: Batch
    offset: int


class RecordsRead(NamedTuple):
    """A replica gave a consumer these records, from this offset on."""

    partition: TopicPartition
    offset: int
    records: Records


class Refused(NamedTuple):
    """A node refused what it was asked, or was refused: `what` and Kafka's name of the error."""

    what: str
    error: str


class Ignored(NamedTuple):
    """A message that means nothing any more."""

    what: str


class Registered(NamedTuple):
    """The controller took a process's registration; it has this broker epoch from now on."""

    broker: int
    incarnation_id: int
    broker_epoch: int


class BrokerEpochTaken(NamedTuple):
    """A process learned its broker epoch: its first, or another one since a session has ended."""

    broker: int
    incarnation_id: int
    broker_epoch: int


class Decided(NamedTuple):
    """The controller made a decision about a partition: the spec's action and its parameters, and
    what is in force by it."""

    partition: TopicPartition
    action: str
    broker: int
    successor: int
    decision: LeaderAndIsr
    elr: frozenset[int]
    alive: frozenset[int]


class ControllerElected(NamedTuple):
    """A broker is controller, and has read everything; its writes are fenced by this version."""

    broker: int
    controller_epoch: int
    fence: int


class ControllerFenced(NamedTuple):
    """A broker knows that it is not controller any more."""

    broker: int
    controller_epoch: int


class Deciding(NamedTuple):
    """What will be so once the store has applied this operation."""

    operation: object
    decided: tuple[Any, ...]


class SessionEnded(NamedTuple):
    """The controller has not heard of a broker for too long."""

    broker: int


class SessionResumed(NamedTuple):
    """The controller heard again of a broker that it had given up."""

    broker: int
