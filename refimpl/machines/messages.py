"""Messages between replicas and the controller, under Kafka's names.

Spec: Fetch in Truncation; requests and answers in AlterPartition.
"""

from typing import NamedTuple

from attrs import frozen

from refimpl.machines.replica_log import EpochEnd, Records

UNKNOWN_EPOCH = -1
"""The broker epoch of an ISR member from which the leader has received no fetch (KIP-903)."""


class FetchRequest(NamedTuple):
    """A follower's fetch from its log end offset.

    The epochs let the leader see whether the logs agree. `number` counts the requests of this
    incarnation; the answer bears it too.
    """

    replica: int
    incarnation: int
    number: int
    epoch: int
    end: int
    last_epoch: int


class FetchResponse(NamedTuple):
    """The records of the leader of `epoch` from `start` on; or, if the logs differ, where to
    truncate.

    `diverging` is the leader's largest epoch not above the follower's last, and its end offset
    (KIP-595's answer to KIP-279's question). `incarnation` and `number` name the request that this
    answers.
    """

    incarnation: int
    number: int
    epoch: int
    start: int
    records: Records
    high_watermark: int
    diverging: EpochEnd | None = None


@frozen
class LeaderAndIsr:
    """A decision of the controller: the leader of this leader epoch, and the ISR.

    The partition epoch grows with every change, the leader epoch with those of the controller's own
    (KIP-497).
    """

    leader_epoch: int
    leader: int | None
    isr: frozenset[int]
    partition_epoch: int = 0


@frozen
class AlterPartitionRequest:
    """A leader's request to change the ISR, on condition that nothing else has changed (KIP-497).

    `new_isr` holds each member with the broker epoch of its fetches (KIP-903), in order.
    """

    broker_id: int
    broker_epoch: int
    leader_epoch: int
    partition_epoch: int
    new_isr: tuple[tuple[int, int], ...]

    @property
    def isr(self) -> frozenset[int]:
        """The members alone."""
        return frozenset([member for member, _ in self.new_isr])


@frozen
class AlterPartitionResponse:
    """The partition as the controller has it after the request, and the reason of a refusal.

    `error` is Kafka's name of the reason, None for none.
    """

    error: str | None
    leader_id: int | None
    leader_epoch: int
    isr: frozenset[int]
    partition_epoch: int
