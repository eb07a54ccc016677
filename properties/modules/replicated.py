"""The common part of Truncation and AlterPartition: one partition's replicas, fetching in steps."""

# Parameters are named as in the spec, where a leader is `l`.
# ruff: noqa: E741

from abc import abstractmethod
from collections.abc import Mapping

from properties.conformance.binding import Binding, Bound, OtherAction
from properties.tla import Value
from refimpl.machines.controller import PartitionState
from refimpl.machines.log import Log, Record
from refimpl.machines.messages import FetchResponse
from refimpl.machines.replica import Replica


class Replicated(Binding):
    """Replicas 1..N, the controller's record of them, and the ghost `committed`."""

    def __init__(self, constants: Mapping[str, Value]) -> None:
        self.ids = tuple(range(1, constants["N"] + 1))
        self.max_records: int = constants["MaxRecords"]
        self.max_epoch: int = constants["MaxEpoch"]
        self.max_restarts: int = constants["MaxRestarts"]
        self.state = self._created()
        self.replicas = tuple(self._replica(id) for id in self.ids)
        for replica in self.replicas:
            replica.told(self.state.decision)
        self.committed: tuple[int, ...] = ()

    def _created(self) -> PartitionState:
        return PartitionState.create(self.ids)

    def _replica(self, id: int) -> Replica:
        return Replica(id)

    def write(self, l: int) -> None:
        """As of a producer that does not ask for acks=all: of that DurableIsr and Acks speak."""
        leader = self.replicas[l - 1]
        if leader.log.end >= self.max_records:
            raise Bound
        leader.write((leader.epoch, leader.log.end), acks_all=False)

    def advance_high_watermark(self, l: int) -> None:
        leader = self.replicas[l - 1]
        new = leader.advance_high_watermark()
        if new > len(self.committed):
            self.committed = tuple([record.epoch for record in leader.log.records[:new]])

    def _agree(self, f: int, l: int) -> bool:
        """True if the logs agree in a fetch of f that l would answer."""
        follower, leader = self.replicas[f - 1], self.replicas[l - 1]
        if follower.leader != l:
            raise OtherAction
        request = follower.next_fetch()
        leader.check_fetch(request)
        return leader.diverging(request.end, request.last_epoch) is None

    @abstractmethod
    def _ask(self, f: int, l: int) -> FetchResponse:
        """f asks, and l answers."""

    def fetch(self, f: int, l: int) -> None:
        if not self._agree(f, l):
            raise OtherAction
        self.replicas[f - 1].take_answer(self._ask(f, l))

    def truncate(self, f: int, l: int) -> None:
        if self._agree(f, l):
            raise OtherAction
        self.replicas[f - 1].take_answer(self._ask(f, l))


def log_of(epochs: tuple[int, ...]) -> Log:
    """A log of records of these epochs, each of which bears epoch and offset."""
    return Log([Record(epoch, (epoch, offset)) for offset, epoch in enumerate(epochs)])
