"""The coordinator's assignors: what they promise, and a sample of what Kafka's own answered."""

from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from refimpl.groups.uniform_equal import in_set_order
from tests.refimpl.groups.assignor_cases import Case, answer_of, case_of, stored

GROUPS = st.integers(0, 2**32).map(case_of)


def test_the_stored_answers_are_those_of_kafka() -> None:
    sample = stored()
    assert {(one["assignor"], one["homogeneous"]) for one, _ in sample} == {
        *(("uniform", True), ("uniform", False), ("range", True), ("range", False)),
    }
    for case, answer in sample:
        assert answer_of(case) == answer


def test_numbers_are_in_the_order_of_a_hash_set_with_as_many_buckets_as_java_makes() -> None:
    """16 for up to 11 elements, which are at their number modulo that; then 32."""
    assert in_set_order([2, 17]) == [17, 2]
    assert in_set_order([*range(11), 17]) == [*range(11), 17]
    assert in_set_order([*range(2, 12), 17]) == [17, *range(2, 12)]


@given(GROUPS)
def test_each_partition_goes_to_one_member_that_subscribes_to_it(case: Case) -> None:
    found = answer_of(case)
    reads = {one["id"]: one["topics"] for one in case["members"]}
    owners = Counter((t, p) for topics in found.values() for t, ps in topics.items() for p in ps)
    readable = {
        (t, p) for topics in reads.values() for t in topics for p in range(case["topics"][t])
    }
    assert dict(owners) == dict.fromkeys(readable, 1)
    assert all(topic in reads[member] for member, topics in found.items() for topic in topics)


def sizes(found: Any) -> list[int]:
    return [sum(map(len, topics.values())) for topics in found.values()]


@given(GROUPS)
def test_uniform_is_even_and_moves_nothing_that_need_not_move(case: Case) -> None:
    everything = list(case["topics"])
    members = [{**one, "topics": everything} for one in case["members"]]
    equal = {**case, "assignor": "uniform", "homogeneous": True, "members": members}
    found = answer_of(equal)
    if any(case["topics"].values()):
        assert max(sizes(found)) - min(sizes(found)) <= 1
        again = [{**one, "target": found[one["id"]]} for one in members]
        assert answer_of({**equal, "members": again}) == found
