"""The consumer's assignors: what they promise, and a sample of what Kafka's own answered."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from attrs import evolve
from hypothesis import example, given
from hypothesis import strategies as st

from refimpl.clients.assignors import ASSIGNORS, Assignment, Member, read_assignment, unracked
from refimpl.clients.assignors.protocol import write_assignment
from refimpl.errors import CorruptBatch
from tests.refimpl.clients.assignors.cases import Case, case_of, members_of, racks_of
from tests.refimpl.clients.assignors.stored import answer_of, stored

GROUPS = st.integers(0, 2**32).map(case_of)
#: Rebalances after the first in which members of different subscriptions have all partitions
MORE = 6
STICKY, COOPERATIVE = ASSIGNORS["sticky"], ASSIGNORS["cooperative-sticky"]


def readable(case: Case) -> set[tuple[str, int]]:
    """All partitions that somebody reads."""
    read = {topic for member in case["members"] for topic in member["topics"]}
    return {(t, p) for t, parts in case["topics"].items() if t in read for p in range(len(parts))}


def after(members: Sequence[Member], assignment: Assignment) -> list[Member]:
    """The members as they rejoin, each with what it was given."""
    generation = 1 + max(member.generation for member in members)
    return [
        evolve(
            member,
            owned=tuple(assignment[member.id]),
            owned_generation=generation,
            generation=generation,
        )
        for member in members
    ]


def as_sets(assignment: Assignment) -> Mapping[str, set[Any]]:
    return {member: set(partitions) for member, partitions in assignment.items()}


def spread(assignment: Assignment) -> int:
    sizes = [len(partitions) for partitions in assignment.values()]
    return max(sizes) - min(sizes)


def test_the_stored_answers_are_those_of_kafka() -> None:
    sample = stored()
    assert {case["assignor"] for case, _ in sample} == set(ASSIGNORS)
    for case, answer in sample:
        assert answer_of(case) == answer


@given(GROUPS)
def test_each_partition_goes_to_one_member_that_reads_its_topic(case: Case) -> None:
    members, racks = members_of(case), racks_of(case)
    for assignor in ASSIGNORS.values():
        assignment = assignor.assign(members, racks)
        assert set(assignment) == {member.id for member in members}
        given_out = Counter(p for partitions in assignment.values() for p in partitions)
        assert set(given_out.values()) <= {1}
        if not assignor.cooperative:
            assert given_out.keys() == readable(case)
        for member in members:
            assert {topic for topic, _ in assignment[member.id]} <= set(member.topics)


@given(GROUPS)
def test_members_with_equal_subscriptions_get_equally_many_but_for_one(case: Case) -> None:
    everything = tuple(case["topics"])
    members = [evolve(member, topics=everything) for member in members_of(case)]
    racks = racks_of(case)
    for name in ("roundrobin", "sticky"):
        assert spread(ASSIGNORS[name].assign(members, racks)) <= 1
    assignment = ASSIGNORS["range"].assign(members, racks)
    for topic in everything:
        of_topic = {m: [p for p in parts if p[0] == topic] for m, parts in assignment.items()}
        assert spread(of_topic) <= 1


@given(GROUPS)
def test_nothing_moves_where_nothing_changed(case: Case) -> None:
    members = [evolve(member, rack=None) for member in members_of(case)]
    racks = racks_of(case)
    first = STICKY.assign(members, racks)
    again = after(members, first)
    assert as_sets(STICKY.assign(again, racks)) == as_sets(first)
    assert as_sets(COOPERATIVE.assign(again, racks)) == as_sets(first)


@given(GROUPS)
def test_a_partition_moves_only_after_its_owner_has_given_it_up(case: Case) -> None:
    members, racks = members_of(case), racks_of(case)
    assignment = COOPERATIVE.assign(members, racks)
    for member in members:
        others = {p for other in members if other is not member for p in other.owned}
        assert not set(assignment[member.id]) & others - set(member.owned)


@given(GROUPS)
@example(case_of(1067155))  # another order of the members that read less moves one partition again
def test_cooperative_rebalances_hand_over_what_the_first_revoked(case: Case) -> None:
    """The second does so where all members read the same; else, as in Kafka, more may be needed."""
    members = [evolve(member, rack=None) for member in members_of(case)]
    racks = racks_of(case)
    equal = len({frozenset(member.topics) for member in members}) == 1
    assigned = COOPERATIVE.assign(members, racks)
    for turn in range(1 if equal else MORE):
        members = after(members, assigned)
        assigned = COOPERATIVE.assign(members, racks)
        if handed_out(assigned) == readable(case):
            break
        assert not equal, f"rebalance {turn + 2} revokes again"
    assert handed_out(assigned) == readable(case)
    for member in members:
        assert set(member.owned) <= set(assigned[member.id])


def handed_out(assignment: Assignment) -> set[tuple[str, int]]:
    return {partition for partitions in assignment.values() for partition in partitions}


def test_a_member_that_reads_nothing_gets_nothing() -> None:
    """Kafka's sticky assignors overlook such members in front of the HashMap's order."""
    members = [Member(id="a", topics=()), Member(id="b", topics=("orders",))]
    for assignor in ASSIGNORS.values():
        assignment = assignor.assign(members, unracked({"orders": 2}))
        assert assignment == {"a": [], "b": [("orders", 0), ("orders", 1)]}


def test_a_claim_on_a_partition_that_is_gone_is_ignored() -> None:
    """Kafka's sticky assignors throw an IllegalStateException here."""
    topics, owned = ("a", "b"), {"a": (("a", 1), ("b", 0)), "b": (("b", 1), ("b", 2))}
    members = [
        Member(id=name, topics=topics, owned=parts, owned_generation=1, generation=1)
        for name, parts in owned.items()
    ]
    assignment = STICKY.assign(members, unracked({"a": 1, "b": 3}))
    assert as_sets(assignment) == {"a": {("b", 0), ("a", 0)}, "b": {("b", 1), ("b", 2)}}


def test_a_stale_claim_counts_only_while_the_topic_is_read() -> None:
    """Kafka's sticky assignors give `c` what it does not read, or throw a NullPointerException."""
    owned = tuple(("t", partition) for partition in range(6))
    members = [
        Member(id="a", topics=("t",), owned=owned, owned_generation=5, generation=5),
        Member(id="b", topics=("t",)),
        Member(id="c", topics=("u",), owned=owned[:2], owned_generation=4, generation=4),
    ]
    assignment = STICKY.assign(members, unracked({"t": 6, "u": 1}))
    assert assignment["c"] == [("u", 0)]
    assert len(assignment["a"]) == len(assignment["b"]) == 3


@pytest.mark.parametrize("assignor", ASSIGNORS.values(), ids=list(ASSIGNORS))
def test_metadata_that_is_no_subscription_is_refused(assignor: Any) -> None:
    with pytest.raises(CorruptBatch, match="bytes wanted at byte 0"):
        assignor.member("m", b"\x00")


def test_an_assignment_reads_back() -> None:
    partitions = (("b", 1), ("b", 0), ("a", 7))
    assert read_assignment(write_assignment(partitions)) == partitions
    assert read_assignment(b"") == ()
