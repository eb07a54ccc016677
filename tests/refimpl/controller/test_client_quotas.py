"""Client quotas: which one counts, who shares it, and that waiting as told keeps the rate."""

from hypothesis import example, given
from hypothesis import strategies as st

from refimpl.controller.client_quotas import PRODUCE, ClientQuotas, Rate, quota_of
from refimpl.messages.cluster import ClusterMetadata, QuotasAltered
from refimpl.security.principals import ANONYMOUS_USER

NOW = 1_790_000_000_000
#: From the most special to the most general: who it is for, and whether another client shares it
ENTITIES: tuple[tuple[dict[str, str | None], bool], ...] = (
    ({"user": ANONYMOUS_USER, "client-id": "c"}, False),
    ({"user": ANONYMOUS_USER, "client-id": None}, False),
    ({"user": ANONYMOUS_USER}, True),
    ({"user": None, "client-id": "c"}, False),
    ({"user": None, "client-id": None}, False),
    ({"user": None}, True),
    ({"client-id": "c"}, False),
    ({"client-id": None}, False),
)


def quotas(*values: tuple[dict[str, str | None], float]) -> ClientQuotas:
    metadata = ClusterMetadata()
    for entity, bound in values:
        metadata.apply(QuotasAltered(frozenset(entity.items()), {PRODUCE: bound}))
    return ClientQuotas(metadata, 11, 1000)


def test_without_quotas_nobody_waits() -> None:
    assert quotas().throttle_ms(PRODUCE, "c", 1 << 40, NOW) == 0


@given(st.sets(st.sampled_from(range(len(ENTITIES))), min_size=1))
def test_the_most_special_quota_counts(there: set[int]) -> None:
    values = [(ENTITIES[number][0], 1000.0 * (number + 1)) for number in there]
    least = 1000 * (min(there) + 1)
    # 20 s worth of the quota, over 10 s of which nobody has heard yet: 10 s too many.
    assert quotas(*values).throttle_ms(PRODUCE, "c", 20 * least, NOW) == 10_000


def test_clients_of_a_user_share_the_users_quota_and_no_other() -> None:
    for entity, shared in ENTITIES:
        if entity.get("client-id", "c") == "c" and "client-id" in entity:
            continue
        both = quotas((entity, 1000.0))
        assert both.throttle_ms(PRODUCE, "c", 10_000, NOW) == 0
        assert (both.throttle_ms(PRODUCE, "d", 1_000, NOW) > 0) == shared


def test_who_has_no_name_is_the_client_with_the_empty_name() -> None:
    for entity, _ in ENTITIES:
        metadata = quotas((entity, 1000.0)).metadata
        assert quota_of(metadata, PRODUCE, None) == quota_of(metadata, PRODUCE, "")


@given(st.lists(st.tuples(st.integers(0, 5_000), st.integers(1, 5_000)), min_size=1, max_size=80))
@example([(0, 4_000)] * 1_000)
def test_who_waits_as_told_stays_at_the_quota(sent: list[tuple[int, int]]) -> None:
    """But for what fits into the windows of which nothing was known at first.

    Requests are small beside what a window may hold. Of larger ones this is not true, in Kafka
    neither: a request is forgotten with its window, before its time is over.
    """
    bound, now, total = 10_000.0, NOW, 0
    rate = Rate(11, 1000)
    for pause, amount in sent:
        now += pause
        rate.record(now, amount)
        total += amount
        now += rate.throttle_ms(now, bound)
    assert 1000 * total <= bound * (now - NOW + 11 * 1000)


def test_what_lies_behind_all_windows_is_forgotten() -> None:
    rate = Rate(11, 1000)
    rate.record(NOW, 1 << 30)
    rate.record(NOW + 11_000, 1)
    assert [amount for _, amount in rate.windows] == [1]


def limited(quota: str, bound: float, **entity: str | None) -> ClientQuotas:
    metadata = ClusterMetadata()
    named = {kind.replace("_", "-"): name for kind, name in entity.items()}
    metadata.apply(QuotasAltered(frozenset(named.items()), {quota: bound}))
    return ClientQuotas(metadata, 11, 1000)


def test_the_time_of_requests_is_a_percentage_and_waits_for_a_window_at_most() -> None:
    limits = limited("request_percentage", 1.0, client_id="c")
    # A percent of 10 s, over 10 s of which nobody has heard yet, is at the quota.
    assert limits.request_throttle_ms("c", 100_000_000, NOW) == 0
    assert limits.request_throttle_ms("c", 5_000_000, NOW) == 500
    assert limits.request_throttle_ms("c", 5_000_000_000, NOW) == 1_000
    assert limits.request_throttle_ms("d", 5_000_000_000, NOW) == 0


def test_connections_above_the_rate_wait_and_do_not_count() -> None:
    for name in ("10.0.0.1", None):
        limits = limited("connection_creation_rate", 2.0, ip=name)
        assert [limits.connection_throttle_ms("10.0.0.1", NOW) for _ in range(20)] == [0] * 20
        assert limits.connection_throttle_ms("10.0.0.1", NOW) == 500
        assert limits.connection_throttle_ms("10.0.0.1", NOW) == 500
        assert limits.connection_throttle_ms("10.0.0.2", NOW) == 0
    assert (
        limited("connection_creation_rate", 0.0, ip=None).connection_throttle_ms("x", NOW) == 1000
    )
