"""Reassignments as they are asked for, and quotas: which requests are plans, and which are none."""

from typing import Any

import pytest

from refimpl.controller.errors import ApiError
from refimpl.controller.quotas import plan_quotas
from refimpl.controller.reassignments import ongoing, plan_move
from refimpl.machines.messages import LeaderAndIsr
from refimpl.messages import controller as c
from refimpl.messages.broker import TopicPartition
from refimpl.messages.cluster import (
    BrokerRegistration,
    ClusterMetadata,
    PartitionRegistration,
    TopicCreated,
)

T_ID = b"t" * 16
STILL, ADDS, REMOVES, BOTH = (TopicPartition("t", number) for number in range(4))
MOVES = {
    STILL: ((1, 2), (), ()),
    ADDS: ((1, 2, 3), (3,), ()),
    REMOVES: ((1, 2), (), (2,)),
    BOTH: ((3, 1), (3,), (1,)),
}


def metadata() -> ClusterMetadata:
    found = ClusterMetadata()
    for broker in (1, 2, 3):
        found.apply(BrokerRegistration(broker, 1, 1))
    found.apply(TopicCreated("t", T_ID))
    for name, (replicas, adding, removing) in MOVES.items():
        decision = LeaderAndIsr(1, replicas[0], frozenset(replicas), 1)
        found.apply(PartitionRegistration(name, T_ID, decision, replicas, adding, removing))
    return found


def planned(name: TopicPartition, *replicas: int, factor: bool = True) -> Any:
    """The target; of nobody: taking the move back."""
    wanted = c.ReassignablePartition(name, replicas or None)
    here, target = plan_move(wanted, metadata(), may_change_factor=factor)
    assert here.partition == name
    return target


def refused(name: TopicPartition, *replicas: int, factor: bool = True) -> str:
    with pytest.raises(ApiError) as error:
        planned(name, *replicas, factor=factor)
    return str(error.value)


def test_what_moves_can_be_taken_back_and_nothing_else() -> None:
    assert [planned(name) for name in (ADDS, REMOVES, BOTH)] == [None] * 3
    assert refused(STILL) == "NO_REASSIGNMENT_IN_PROGRESS"


def test_the_target_is_who_is_named() -> None:
    assert planned(STILL, 3, 1, 2) == (3, 1, 2)
    assert refused(STILL, 9).startswith("INVALID_REPLICA_ASSIGNMENT")


def test_the_replication_factor_is_that_without_whom_is_removed() -> None:
    assert planned(STILL, 2, 3, factor=False) == (2, 3)
    assert planned(REMOVES, 3, factor=False) == (3,)
    assert refused(BOTH, 2, 3, factor=False) == (
        "INVALID_REPLICATION_FACTOR: The replication factor is changed from 1 to 2"
    )
    assert planned(BOTH, 2, 3) == (2, 3)


def test_who_is_not_there_does_not_move() -> None:
    unknown = "UNKNOWN_TOPIC_OR_PARTITION: Unable to find "
    assert refused(TopicPartition("u", 0), 1) == unknown + "a topic named u."
    assert refused(TopicPartition("t", 9), 1) == unknown + "partition t:9."


def test_all_that_moves_is_listed_or_what_is_asked_for_of_it() -> None:
    partitions = metadata().partitions
    moving = [c.OngoingReassignment(name, *MOVES[name]) for name in (ADDS, REMOVES, BOTH)]
    assert ongoing(partitions, None) == moving
    asked = (BOTH, STILL, TopicPartition("u", 0))
    assert ongoing(partitions, asked) == moving[2:]


# Quotas (KIP-546)

RATE = "producer_byte_rate"
APP = (("client-id", "app"),)


def quotas(
    *operations: tuple[str, float | None], of: Any = APP, repeated: bool = False, **known: float
) -> dict[str, float]:
    alteration = c.QuotaAlteration(of, operations)
    entity, values = plan_quotas(alteration, {frozenset(of): known}, is_repeated=repeated)
    assert entity == frozenset(of)
    return dict(values)


def test_single_quotas_change_and_others_stay() -> None:
    assert quotas((RATE, 2.0), producer_byte_rate=1.0, request_percentage=5.0) == {
        RATE: 2.0,
        "request_percentage": 5.0,
    }
    assert quotas((RATE, None), producer_byte_rate=1.0) == {}
    assert quotas((RATE, None)) == {}


@pytest.mark.parametrize(
    ("of", "says"),
    [
        ((), "Invalid empty client quota entity"),
        ((("user", "a"), ("user", "b")), "duplicate entity entry user"),
        ((("group", "g"),), "Unhandled client quota entity type: group"),
        ((("user", ""),), "Empty user not supported"),
        ((("ip", "127.0.0.1"), ("user", "a")), "IP entity should"),
    ],
)
def test_an_entity_that_cannot_be_is_refused(of: Any, says: str) -> None:
    with pytest.raises(ApiError, match=says):
        quotas((RATE, 1.0), of=of)


def test_who_is_named_twice_keeps_what_it_has() -> None:
    duplicate = r"Ignoring duplicate entity ClientQuotaEntity\(entries={client-id=app}\)"
    with pytest.raises(ApiError, match=duplicate):
        quotas((RATE, 1.0), repeated=True)
    with pytest.raises(ApiError, match=duplicate):
        quotas((RATE, 1.0), (RATE, 2.0))


def test_each_kind_of_entity_has_its_own_quotas() -> None:
    for of in (APP, (("user", None),), (("user", "a"), ("client-id", None))):
        assert quotas((RATE, 1.0), of=of) == {RATE: 1.0}
    address = (("ip", "127.0.0.1"),)
    assert quotas(("connection_creation_rate", 1.0), of=address) == {
        "connection_creation_rate": 1.0
    }
    for key, of in (("connection_creation_rate", APP), (RATE, address), ("speed", APP)):
        with pytest.raises(ApiError, match="INVALID_REQUEST"):
            quotas((key, 1.0), of=of)
    for value in (0.0, -1.0, 1.5):
        with pytest.raises(ApiError, match="INVALID_REQUEST"):
            quotas((RATE, value))
