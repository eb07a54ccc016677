"""Numbers of errors, and what an answer says of leaders to who asked somebody else (KIP-951)."""

from collections.abc import Collection, Sequence
from functools import cache
from typing import Any

from refimpl.api.call import Served
from refimpl.messages.broker import TopicPartition
from refimpl.messages.cluster import BrokerRegistration
from refimpl.wire.errors import error_code
from refimpl.wire.writer import NodeEndpoint

MALFORMED = (
    "This most likely occurs because of a request being malformed by the client library or the "
    "message was sent to an incompatible broker. See the broker logs for more details."
)
"""Kafka's message of INVALID_REQUEST where it says no more."""

MOVED = frozenset(("NOT_LEADER_OR_FOLLOWER", "FENCED_LEADER_EPOCH"))


@cache
def code(name: str | None) -> int:
    """The number of an error."""
    return int(error_code(name))


def leader_of(broker: Served, name: TopicPartition) -> tuple[int, int] | None:
    """Id and epoch of the leader, if the broker knows one."""
    known = broker.node.metadata.partitions.get(name)
    if known is None or known.decision.leader is None:
        return None
    return known.decision.leader, known.decision.leader_epoch


def endpoint_of(broker: Served, one: BrokerRegistration) -> Any:
    """A broker's endpoint for who has come by this listener; its first one, if it has no such."""
    name = broker.listener_name
    return next((each for each in one.endpoints if each.listener == name), one.endpoints[0])


def endpoints_of(
    broker: Served, leaders: Collection[tuple[int, int] | None]
) -> Sequence[NodeEndpoint]:
    """The endpoints of these leaders."""
    if not leaders:
        return ()
    brokers = broker.node.metadata.brokers
    ids = sorted({leader[0] for leader in leaders if leader is not None} & brokers.keys())
    found: list[NodeEndpoint] = []
    for one in ids:
        if brokers[one].endpoints:
            where = endpoint_of(broker, brokers[one])
            found.append(NodeEndpoint(one, where.host, where.port, brokers[one].rack))
    return found
