"""Several topics in one request, and several partitions of one topic."""

from types import SimpleNamespace
from typing import Any

import pytest

from refimpl.controller.errors import ApiError
from refimpl.controller.topics import MOST_PARTITIONS, check_growth
from refimpl.messages.controller import NewPartitions


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
