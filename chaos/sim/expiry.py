"""The producers that a broker's logs have forgotten, as a run counts them."""

from collections import Counter
from collections.abc import Callable, Mapping

from attrs import define, field

from refimpl.machines.producer_state import ProducerState
from refimpl.messages.broker import TopicPartition


@define(eq=False)
class Expiry:
    """Counts the producers that expire in one process, and those of them that write again."""

    counts: Counter[str] = field(factory=Counter[str])
    #: Partition and producer id of those that have expired
    forgotten: set[tuple[TopicPartition, int]] = field(factory=set[tuple[TopicPartition, int]])

    def expire(
        self, states: Mapping[TopicPartition, ProducerState], expire: Callable[[], None]
    ) -> None:
        """Let producers expire, and count them."""
        before = _known(states)
        self.counts["forgotten producers that wrote again"] += len(before & self.forgotten)
        expire()
        gone = before - _known(states)
        self.counts["producers forgotten"] += len(gone)
        self.forgotten = (self.forgotten - before) | gone


def _known(states: Mapping[TopicPartition, ProducerState]) -> set[tuple[TopicPartition, int]]:
    return {(name, one) for name, state in states.items() for one in state.producers}
