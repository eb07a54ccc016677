"""The quota of partitions that a client creates and deletes (KIP-599)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refimpl.controller.errors import ApiError
from refimpl.controller.mutation_quotas import MUTATION, MutationQuotas
from refimpl.messages.cluster import ClusterMetadata, QuotasAltered
from refimpl.messages.controller import Mutator

NOW = 1_790_000_000_000
WINDOW_S = 11
STRICT, PERMISSIVE = Mutator("c"), Mutator("c", is_strict=False)


def quotas(bound: float | None = None, client_id: str | None = "c") -> MutationQuotas:
    metadata = ClusterMetadata()
    if bound is not None:
        entity = frozenset({("client-id", client_id)})
        metadata.apply(QuotasAltered(entity, {MUTATION: bound}))
    return MutationQuotas(metadata, WINDOW_S)


def take(quotas: MutationQuotas, mutator: Mutator | None, count: int, now: int) -> tuple[bool, int]:
    """True if the mutation is permitted, and the time its client is throttled."""
    quota = quotas.of(mutator, now)
    try:
        quota.take(count)
    except ApiError:
        return False, quota.throttle_ms
    return True, quota.throttle_ms


@pytest.mark.parametrize("mutator", [None, STRICT, Mutator("d"), Mutator(None)])
def test_who_has_no_quota_is_not_limited(mutator: Mutator | None) -> None:
    for limits in (quotas(), quotas(1.0, "e")):
        assert take(limits, mutator, 1 << 30, NOW) == take(limits, mutator, 1, NOW) == (True, 0)


def test_a_strict_request_is_served_while_nothing_is_owed_and_then_refused() -> None:
    limits = quotas(2.0)
    assert take(limits, STRICT, 30, NOW) == (True, 0)  # 22 tokens were there
    assert take(limits, STRICT, 1, NOW + 1_000) == (False, 3_000)
    assert take(limits, STRICT, 1, NOW + 3_999) == (False, 1)
    assert take(limits, STRICT, 1, NOW + 4_000) == (True, 0)


def test_a_permissive_request_is_served_and_throttled() -> None:
    limits = quotas(2.0)
    assert take(limits, PERMISSIVE, 22, NOW) == (True, 0)
    assert take(limits, PERMISSIVE, 2, NOW) == (True, 1_000)
    assert take(limits, PERMISSIVE, 2, NOW) == (True, 2_000), "though something is owed"
    assert take(limits, STRICT, 2, NOW) == (False, 2_000)


def test_all_topics_of_one_request_come_out_of_one_bucket() -> None:
    quota = quotas(1.0).of(STRICT, NOW)
    for count in (11, 1):
        quota.take(count)
    with pytest.raises(ApiError, match="THROTTLING_QUOTA_EXCEEDED"):
        quota.take(1)
    assert quota.throttle_ms == 1_000


def test_the_default_is_a_bucket_for_each_client() -> None:
    limits = quotas(1.0, None)
    assert take(limits, STRICT, 20, NOW) == (True, 0)
    assert not take(limits, STRICT, 1, NOW)[0]
    assert take(limits, Mutator("d"), 20, NOW) == (True, 0)


@given(
    st.lists(st.tuples(st.integers(0, 20_000), st.integers(1, 30), st.booleans()), max_size=40),
    st.sampled_from([0.5, 1.0, 7.0]),
)
def test_nobody_gets_more_than_the_rate_the_burst_and_the_last_request(
    requests: list[tuple[int, int, bool]], bound: float
) -> None:
    limits, now, taken, largest = quotas(bound), NOW, 0, 0
    for pause, count, waits in requests:
        now += pause
        is_taken, throttle_ms = take(limits, STRICT, count, now)
        if is_taken:
            taken, largest = taken + count, max(largest, count)
        elif waits:
            now += throttle_ms
            assert take(limits, STRICT, count, now + 1)[0]
            taken, largest = taken + count, max(largest, count)
        assert taken <= bound * (WINDOW_S + (now + 1 - NOW) / 1000) + largest
