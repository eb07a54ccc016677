"""Several topics in one request, and several partitions of one topic."""

from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from refimpl.controller.errors import ApiError
from refimpl.controller.topics import (
    MOST_PARTITIONS,
    Defaults,
    check_growth,
    plan_partitions,
    plan_topic,
)
from refimpl.messages.controller import CreatableTopic, NewPartitions


def test_a_topic_that_would_shrink_makes_no_room_for_another_one() -> None:
    """The one that would shrink is refused by itself."""
    large, small = SimpleNamespace(partitions=range(6000)), SimpleNamespace(partitions=range(1))
    metadata: Any = SimpleNamespace(topics={"large": large, "small": small})
    shrinks, unknown = NewPartitions("large", 1), NewPartitions("another", MOST_PARTITIONS + 1)
    check_growth([NewPartitions("small", 1 + MOST_PARTITIONS), shrinks, unknown], metadata)
    for several in (
        [NewPartitions("small", 2 + MOST_PARTITIONS), shrinks],
        [NewPartitions("small", 1 + MOST_PARTITIONS), NewPartitions("large", 6001)],
    ):
        with pytest.raises(ApiError, match="excessively large"):
            check_growth(several, metadata)


@pytest.mark.parametrize("wrong", range(3))
def test_each_partition_that_is_assigned_by_hand_needs_somebody_who_is_active(wrong: int) -> None:
    metadata: Any = SimpleNamespace(
        brokers=dict.fromkeys((1, 2, 3)),
        topics={"t": SimpleNamespace(partitions={0: SimpleNamespace(replicas=(1, 2))})},
    )
    active, defaults, rng = {1, 2}, Defaults(), Random(0)
    right = [(1, 2), (3, 1), (2, 3)]
    assert plan_partitions(NewPartitions("t", 4, right), metadata, active, defaults, rng) == right
    made = CreatableTopic("new", assignments=[*enumerate(right)])
    assert plan_topic(made, metadata, active, defaults, rng) == right
    active = {1, 2, 3} - set(right[wrong])
    with pytest.raises(ApiError, match=f"partition {wrong + 1} are fenced"):
        plan_partitions(NewPartitions("t", 4, right), metadata, active, defaults, rng)
    with pytest.raises(ApiError, match=f"partition {wrong} are fenced"):
        plan_topic(made, metadata, active, defaults, rng)
