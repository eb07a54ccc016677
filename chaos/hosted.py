"""One partition at one broker: the machine, its disk, and the requests that surround it."""

from collections import deque

from attrs import define, field

from chaos.disk import Disk
from chaos.messages import Message
from chaos.partition_oracle import PartitionOracle
from chaos.producer_state import ProducerState
from chaos.protocol_events import Trace
from refimpl.machines.replica import Replica


@define(eq=False)
class Hosted:
    """One partition at one broker: the machine and what surrounds it."""

    partition: int
    replica: Replica
    oracle: PartitionOracle
    trace: Trace | None
    disk: Disk = field(factory=Disk)
    producers: ProducerState = field(factory=ProducerState)

    # As leader: acks=all requests that wait for the high watermark, and how far followers are
    parked: deque[tuple[int, Message]] = field(factory=deque[tuple[int, Message]])
    fetched: dict[int, tuple[int, int]] = field(factory=dict[int, tuple[int, int]])
    last_fetch: dict[int, tuple[int, int]] = field(factory=dict[int, tuple[int, int]])
    caught_up: dict[int, int] = field(factory=dict[int, int])
    late: set[tuple[int, int, int]] = field(factory=set[tuple[int, int, int]])

    # As follower: the request to each leader that has no answer yet
    asked: dict[int, int] = field(factory=dict[int, int])
    asked_at: int = 0
