"""A node's observations of its own steps, named after the specs' actions.

Each follows the change that it names. An observer may read the machines as well: within one input
no variable of a partition's spec changes twice, except for the log and the high watermark. A
coordinator of groups may move these several times.
"""

from collections.abc import Sequence
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
    """A leader took note of a follower's log end; before, it knew incarnation `known`."""

    partition: TopicPartition
    request: FetchRequest
    diverging: bool
    known: int


class FetchAnswered(NamedTuple):
    """The leader answered a fetch that it had taken note of."""

    partition: TopicPartition
    request: FetchRequest


class AnswerTaken(NamedTuple):
    """A follower appended, or truncated its log; before, it ended at `end`."""

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
    """A leader sent a change of the ISR to the controller, or repeated it without an answer."""

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
    """A leader learned its own epoch's ISR from the metadata."""

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
    """A leader acknowledged a producer's batch at this offset."""

    partition: TopicPartition
    acks: int
    batch: Batch
    offset: int


class RecordsRead(NamedTuple):
    """A replica returned these records, from this offset on, to a consumer."""

    partition: TopicPartition
    offset: int
    records: Records


class SharesLoaded(NamedTuple):
    """A leader has the state of a share partition, and begins to give records to members."""

    partition: TopicPartition
    group_id: str
    leader_epoch: int
    start: int


class SharesAcquired(NamedTuple):
    """A leader gives a member records: first offset, last offset and delivery count of each run.

    Their locks last until a time.
    """

    partition: TopicPartition
    group_id: str
    leader_epoch: int
    member_id: str
    acquired: Sequence[tuple[int, int, int]]
    until_ms: int


class Refused(NamedTuple):
    """A refusal by a node, or of its own request: the action, and Kafka's name of the error."""

    what: str
    error: str


class Ignored(NamedTuple):
    """A message that was ignored, because it is out of date."""

    what: str


class Registered(NamedTuple):
    """The controller registered a process, which has this broker epoch from now on."""

    broker: int
    incarnation_id: int
    broker_epoch: int


class BrokerEpochTaken(NamedTuple):
    """A process learned its broker epoch: its first, or another one after its session ended."""

    broker: int
    incarnation_id: int
    broker_epoch: int


class Decided(NamedTuple):
    """A decision of the controller about a partition: the spec's action, its parameters, and the
    state after it.
    """

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
    """The decisions that hold once the store has applied this operation."""

    operation: object
    decided: tuple[Any, ...]


class SessionEnded(NamedTuple):
    """A broker's session at the controller timed out."""

    broker: int


class SessionResumed(NamedTuple):
    """A broker whose session had ended sent the controller a heartbeat again."""

    broker: int
