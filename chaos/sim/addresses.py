"""Addresses on the simulated network, and messages that do not travel over it.

Brokers have the spec's numbers; clients come after them.
"""

from typing import NamedTuple

from refimpl.messages.broker import Timer, TopicPartition
from refimpl.records.coordinators import OFFSETS_TOPIC, SHARE_TOPIC, TRANSACTIONS_TOPIC

CONTROLLER = STORE = 0
"""The controller or, if brokers are controllers, the store that elects them."""
BROKERS = (1, 2, 3)
NEMESIS = 4
PROGRESS = 5
FIRST_CLIENT = 6

TOPIC = "orders"
TOPIC_ID = b"orders".ljust(16, b"-")

GROUP = "g"
MISSING = "missing"
"""A topic that some members subscribe to, and that there is not."""
OFFSETS = TopicPartition(OFFSETS_TOPIC, 0)
OFFSETS_ID = b"offsets".ljust(16, b"-")

PAYMENTS, RECEIPTS = "payments", "receipts"
"""The topics that transactions write to; the second one has a single replica."""
APPLICATION = "app"
"""The group of the applications that read, process and write within transactions."""
STATE = tuple(TopicPartition(TRANSACTIONS_TOPIC, number) for number in range(2))
OUTPUTS = (TopicPartition(PAYMENTS, 0), TopicPartition(PAYMENTS, 1), TopicPartition(RECEIPTS, 0))

SHARE_GROUP = "sg"
"""The share group."""
SHARE_STATE = TopicPartition(SHARE_TOPIC, 0)

TOPIC_IDS = {
    TOPIC: TOPIC_ID,
    OFFSETS.topic: OFFSETS_ID,
    TRANSACTIONS_TOPIC: b"transactions".ljust(16, b"-"),
    PAYMENTS: b"payments".ljust(16, b"-"),
    RECEIPTS: b"receipts".ljust(16, b"-"),
    SHARE_TOPIC: b"share state".ljust(16, b"-"),
}
MOST_PARTITIONS = OFFSETS_NUMBER = 9
"""The topic has at most so many partitions, and so this is that of the offsets topic in a fault."""
NAMED = dict(enumerate((OFFSETS, *STATE, *OUTPUTS, SHARE_STATE), OFFSETS_NUMBER))
"""The partitions of other topics, by their numbers in a fault."""
SHARE_STATE_NUMBER = max(NAMED)


class Tick(NamedTuple):
    """A timer has fired, for a node with only one kind of timer."""


class ProcessTimer(NamedTuple):
    """A moment has come for a process, if it is still the one that set the timer."""

    process: int
    timer: Timer


class Restart(NamedTuple):
    """A process that has ended shall start again."""


TICK, RESTART = Tick(), Restart()
