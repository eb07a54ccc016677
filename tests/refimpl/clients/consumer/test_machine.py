"""The consumer's machine, without brokers: what its application receives."""

from collections.abc import Iterable
from typing import Any

from refimpl.clients.consumer.config import ConsumerConfig
from refimpl.clients.consumer.machine import ConsumerMachine
from refimpl.clients.consumer.messages import Poll, Polled, Refused
from refimpl.clients.consumer.position import Offset
from refimpl.messages.broker import TopicPartition

ORDERS = TopicPartition("orders", 0), TopicPartition("orders", 1)


class NoOpener:
    """Nothing is ever fetched."""

    def batches(self, partition: TopicPartition, data: Any) -> Iterable[Any]:
        """Refuse."""
        raise NotImplementedError


def test_a_seek_makes_errors_of_the_position_before_void() -> None:
    """A fetch may fail once more between a poll that has ended and the seek that follows it."""
    config = ConsumerConfig.of({"bootstrap.servers": "h:1"})
    machine = ConsumerMachine(config, NoOpener(), (-1,), lambda: 0.5)
    machine.assign(0, ORDERS)
    for name in ORDERS:
        machine.seek(name, Offset(99))
        machine.fail("OFFSET_OUT_OF_RANGE", "there is no such offset", (name,))
    machine.seek(ORDERS[0], Offset(1))
    answers = [machine.handle(now, Poll(now, 0)) for now in (1, 2)]
    told = [one for outputs in answers for one in outputs if isinstance(one, Refused | Polled)]
    sentence = "there is no such offset"
    assert told == [Refused(1, "OFFSET_OUT_OF_RANGE", sentence, (ORDERS[1],)), Polled(2)]
