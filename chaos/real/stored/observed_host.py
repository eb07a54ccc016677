"""A broker process whose steps are written down.

A file gets a record for each input of the node that changed something of these topics. It is
written before anything is sent because of it, with one call of the system, so what the process did
before it was killed is there.
"""

import os
import pickle
import struct
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from attrs import define, field

from refimpl.edge.server.host import Answers
from refimpl.edge.server.stored_host import StoredBrokerHost
from refimpl.machines.replica import Replica
from refimpl.messages import observations as o
from refimpl.messages.broker import TopicPartition
from refimpl.metadata import contract as store
from refimpl.metadata.errors import MultiFailed

STEPS = (
    *(o.Written, o.HighWatermarkAdvanced, o.FetchHeard, o.FetchAnswered, o.AnswerTaken),
    *(o.BecameLeader, o.BecameFollower, o.IsrAsked, o.IsrAnswerTaken, o.IsrAdopted),
    *(o.IsrAnswered, o.Decided),
)
SIZE = struct.Struct(">I")


class ReplicaState(NamedTuple):
    """The state of a replica, as far as a trace of it holds that."""

    epoch: int
    isr: frozenset[int]
    partition_epoch: int
    leads: bool
    high_watermark: int
    incarnation: int
    end: int

    @classmethod
    def of(cls, replica: Replica) -> "ReplicaState":
        """Now."""
        return cls(
            replica.epoch,
            frozenset(replica.isr),
            replica.partition_epoch,
            replica.leads,
            replica.high_watermark,
            replica.incarnation,
            replica.log.end,
        )


class Intended(NamedTuple):
    """A controller asks the store for a write, by which this will be so."""

    number: int
    decided: tuple[Any, ...]


class StoreAnswered(NamedTuple):
    """The store's answer to such a request: whether the write was applied."""

    number: int
    applied: bool


class ObservedInput(NamedTuple):
    """The effects of one input of a node."""

    at_ns: int
    broker: int
    #: Whether a process begins here
    started: bool
    states: dict[TopicPartition, ReplicaState]
    seen: Sequence[Any]


@define(eq=False)
class ObservedHost(StoredBrokerHost):
    """A broker whose steps are written down."""

    topics: frozenset[str] = field(default=frozenset(), kw_only=True)
    file: int = field(default=-1, kw_only=True)
    _states: dict[TopicPartition, ReplicaState] = field(
        factory=dict[TopicPartition, ReplicaState], init=False
    )

    #: What a controller will have decided once the store has applied these operations
    _deciding: list[tuple[Any, tuple[Any, ...]]] = field(
        factory=list[tuple[Any, tuple[Any, ...]]], init=False
    )

    _numbers: dict[int, Any] = field(factory=dict[int, Any], init=False)
    _began: bool = field(default=False, init=False)

    async def start(self) -> None:
        """The first record is what was found."""
        await StoredBrokerHost.start(self)
        self._write(())

    def _delivered(self, output: Any) -> None:
        if isinstance(output, store.StoreResponse) and output.number in self._numbers:
            operation = self._numbers.pop(output.number)
            if isinstance(output.result, store.MultiDone | MultiFailed):
                applied = isinstance(output.result, store.MultiDone)
                self._write((StoreAnswered(output.number, applied),))
                self._deciding = [one for one in self._deciding if one[0] != operation]
        StoredBrokerHost._delivered(self, output)

    def _carry_out(self, outputs: Sequence[Any], before: Answers = ()) -> None:
        seen: list[Any] = []
        for output in outputs:
            if isinstance(output, o.Deciding):
                decided = tuple(one for one in output.decided if self._is_ours(one))
                if decided:
                    self._deciding.append((output.operation, decided))
            elif isinstance(output, store.StoreRequest):
                for operation, decided in self._deciding:
                    if output.operation == operation:
                        self._numbers[output.number] = operation
                        seen.append(Intended(output.number, decided))
            elif self._is_ours(output):
                seen.append(output)
        if self.up:
            self._write(seen)
        StoredBrokerHost._carry_out(self, outputs, before)

    def _is_ours(self, output: Any) -> bool:
        if isinstance(output, o.Registered):
            return True
        return isinstance(output, STEPS) and output.partition.topic in self.topics

    def _write(self, seen: Sequence[Any]) -> None:
        changed = {
            name: state
            for name, one in self.node.partitions.items()
            if name.topic in self.topics
            and (state := ReplicaState.of(one.replica)) != self._states.get(name)
        }
        if self._began and not (seen or changed):
            return
        self._states.update(changed)
        line = ObservedInput(time.monotonic_ns(), self.id, not self._began, changed, tuple(seen))
        self._began = True
        data = pickle.dumps(line)
        os.write(self.file, SIZE.pack(len(data)) + data)


def lines(path: Path) -> Iterator[ObservedInput]:
    """The lines that a broker's processes have written; the last one may be torn."""
    data, at = path.read_bytes(), 0
    while at + SIZE.size <= len(data):
        (size,) = SIZE.unpack_from(data, at)
        at += SIZE.size + size
        if at > len(data):
            return
        yield pickle.loads(data[at - size : at])
