"""What nodes say to each other and to themselves.

A message is a plain tuple, for the heap handles millions of them: its kind, who sent it, who gets
it, and the rest as the comment behind the kind says. Kinds are small numbers, by which a node
looks its handler up.
"""

from typing import Any, TypeAlias

Message: TypeAlias = tuple[Any, ...]

# To a node itself: a moment has come.
TICK = 0  # what a node does every few milliseconds
FAULT = 1  # index of the fault in the script
RESTART = 2

# Between brokers, and with the controller.
FETCH = 3  # partition, number of the request, FetchRequest
FETCHED = 4  # partition, number of the request, FetchAnswer, place in the trace
HEARTBEAT = 5  # incarnation, epoch of each replica (0 for one without a role)
TOLD = 6  # incarnation of the addressee, partition, LeaderAndIsr

# A producer and a leader.
PRODUCE = 7  # partition, attempt, value, acks
PRODUCED = 8  # partition, attempt, value, error or None, offset

# A consumer and a leader.
READ = 9  # partition, number, offset
RECORDS = 10  # partition, number, offset, records or None for "ask somebody else"

# A group member and its coordinator.
JOIN = 11  # boot of the member's process, newest generation that it has joined
ASSIGNED = 12  # boot, generation, {partition: (committed, place in the trace)}
ALIVE = 13  # boot, generation
REJOIN = 14  # boot
COMMIT = 15  # partition, OffsetCommit
COMMITTED = 16  # partition, OffsetCommit, error or None
LEAVE = 17  # boot

KINDS = 18
NAMES = (
    *("tick", "fault", "restart", "fetch", "fetched", "heartbeat", "told", "produce", "produced"),
    *("read", "records", "join", "assigned", "alive", "rejoin", "commit", "committed", "leave"),
)

# Who is who. Brokers bear the spec's numbers; clients follow behind.
CONTROLLER = 0
BROKERS = (1, 2, 3)
COORDINATOR = 4
NEMESIS = 5
JUDGE = 6
FIRST_CLIENT = 7
