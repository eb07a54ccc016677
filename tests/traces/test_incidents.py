"""Findings of one cause are told once, and what has two causes is told twice."""

from typing import Any

from traces.verdicts.incidents import FaultSpan, FoundIn, incidents

SECOND = 1_000_000_000
LOSS = ("L1", "L3", "L4", "L15")


def found(check: str, first: int = 0, last: int | None = None, **more: Any) -> FoundIn:
    ranges = ((first, first if last is None else last),)
    fields: dict[str, Any] = {"partition": ("orders", 0), "broken": 1, "ranges": ranges, **more}
    return FoundIn(check=check, **fields)


def at(second: float, **more: Any) -> dict[str, Any]:
    ns = int(second * SECOND)
    return {"since": ns, "until": ns, "reported": ns, **more}


def test_a_loss_that_five_checks_see_is_one_incident() -> None:
    order = found("P1", ranges=((10, 10), (13, 13)))
    (one,) = incidents([*(found(check, 10, 12) for check in LOSS), order])
    assert list(one.checks) == ["L4", "L3", "L1", "L15", "P1"]
    assert one.partitions == {("orders", 0): ((10, 13),)}


def test_two_losses_far_apart_are_two_incidents() -> None:
    lost = [found(check, first, first + 2) for check in LOSS for first in (10, 500)]
    assert [one.partitions[("orders", 0)] for one in incidents(lost)] == [
        ((10, 12),),
        ((500, 502),),
    ]


def test_single_records_with_a_record_between_them_are_two_incidents() -> None:
    assert len(incidents([found("L4", 5), found("L4", 6)])) == 1
    assert len(incidents([found("L4", 5), found("L4", 7)])) == 2


def test_a_hole_that_is_small_beside_what_is_lost_does_not_part_it() -> None:
    assert len(incidents([found("L4", 0, 99), found("L4", 110, 200)])) == 1
    assert len(incidents([found("L4", 0, 99), found("L4", 200, 300)])) == 2


def test_other_partitions_are_other_incidents_where_no_fault_tells_of_one_cause() -> None:
    lost = [found("L4", 10, partition=("orders", n), **at(5)) for n in (0, 1, 2)]
    assert len(incidents(lost)) == 3
    (one,) = incidents(lost, [FaultSpan(6 * SECOND, "kill -9 broker 2")])
    assert list(one.partitions) == [("orders", 0), ("orders", 1), ("orders", 2)]
    assert [fault.what for fault in one.faults] == ["kill -9 broker 2"]
    assert one.size == 3


def test_a_fault_long_before_or_after_is_not_the_cause() -> None:
    lost = [found("L4", 10, partition=("orders", n), **at(60)) for n in (0, 1)]
    for second in (1, 120):
        several = incidents(lost, [FaultSpan(second * SECOND, "kill -9 broker 2")])
        assert [one.faults for one in several] == [(), ()]


def test_two_losses_of_a_partition_beside_one_fault_stay_two() -> None:
    lost = [
        found("L4", first, partition=("orders", n), **at(5)) for n in (0, 1) for first in (1, 90)
    ]
    several = incidents(lost, [FaultSpan(6 * SECOND, "kill -9 broker 2")])
    assert [list(one.partitions.values()) for one in several] == [
        [((1, 1),), ((1, 1),)],
        [((90, 90),), ((90, 90),)],
    ]


def test_losses_after_two_faults_are_two_incidents() -> None:
    faults = [FaultSpan(6 * SECOND, "kill -9 broker 1"), FaultSpan(66 * SECOND, "kill -9 broker 2")]
    lost = [found("L4", n, partition=("orders", p), **at(n)) for p in (0, 1) for n in (5, 65)]
    assert [one.faults[0].what for one in incidents(lost, faults)] == [
        "kill -9 broker 1",
        "kill -9 broker 2",
    ]


def test_the_nearest_faults_come_first_and_lasting_ones_count_while_they_last() -> None:
    faults = [
        FaultSpan(1 * SECOND, "cut off broker 3", until=55 * SECOND),
        FaultSpan(58 * SECOND, "stop broker 1"),
        FaultSpan(61 * SECOND, "kill broker 2"),
    ]
    (one,) = incidents([found("L4", 1, **at(60))], faults)
    assert [fault.what for fault in one.faults] == [
        "kill broker 2",
        "stop broker 1",
        "cut off broker 3",
    ]


def test_a_redelivery_that_is_allowed_says_nothing_of_a_loss_at_the_same_offsets() -> None:
    again = found("G9", 0, 100, group="billing", broken=0, allowed=101)
    loss, other = incidents([again, found("L4", 10, 12)])
    assert (list(loss.checks), loss.violated) == (["L4"], True)
    assert (list(other.checks), other.violated, other.groups) == (["G9"], False, ("billing",))


def test_a_breach_that_clients_saw_belongs_to_the_loss_at_the_same_offsets() -> None:
    (one,) = incidents([found("C1", 9, 13, group="billing"), found("L4", 10, 12)])
    assert list(one.checks) == ["L4", "C1"]


def test_what_two_groups_did_at_the_same_offsets_is_two_incidents() -> None:
    assert len(incidents([found("G9", 5, group="billing"), found("G9", 5, group="audit")])) == 2


def test_owners_too_many_are_told_apart_by_time() -> None:
    owners = [
        found("G1", ranges=(), partition=("orders", n), group="billing", **at(second))
        for n in (0, 1)
        for second in (5, 5.2, 60)
    ]
    early, late = incidents(owners)
    assert (early.size, late.size) == (4, 2)
    assert list(early.partitions) == [("orders", 0), ("orders", 1)]


def test_what_is_violated_comes_first_and_then_what_is_worst() -> None:
    several = [
        found("L9", 1),
        found("L4", 50, broken=0, allowed=900),
        found("L4", 100),
        found("L4", 200, 300, broken=101),
    ]
    assert [(one.main, one.size, one.violated) for one in incidents(several)] == [
        ("L4", 101, True),
        ("L4", 1, True),
        ("L9", 1, True),
        ("L4", 900, False),
    ]


def test_of_a_promise_that_is_violated_only_the_violations_count() -> None:
    (one,) = incidents([found("L4", 10, 12, broken=1, allowed=2)])
    assert one.checks == {"L4": 1}
