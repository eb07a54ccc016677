"""Numbers of errors, and what an answer says of leaders to who asked somebody else (KIP-951)."""

from collections.abc import Collection, Sequence
from functools import cache

from refimpl.api.call import Served
from refimpl.messages.broker import TopicPartition
from refimpl.wire.errors import error_code
from refimpl.wire.writer import Endpoint

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


def endpoints_of(broker: Served, leaders: Collection[tuple[int, int] | None]) -> Sequence[Endpoint]:
    """The endpoints of these leaders."""
    if not leaders:
        return ()
    brokers = broker.node.metadata.brokers
    ids = sorted({leader[0] for leader in leaders if leader is not None} & brokers.keys())
    return [
        Endpoint(one, *brokers[one].endpoints[0][1:3], brokers[one].rack)
        for one in ids
        if brokers[one].endpoints
    ]
