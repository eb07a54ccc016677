"""Anomalies in a share group: who holds a record, how often it was delivered, what became of it.

The fixture gets two members that share three records, accept one, give one back to be accepted by
the other, and reject one; and somebody who asks where the group starts.
"""

from traces.generate.small.fixture import Fixture, Line, during, name
from traces.generate.small.lines import insert
from traces.generate.small.registry import Lines, NotHere, in_calls

GROUP, FIRST, SECOND, ADMIN = "sharing", "s0#0", "s1#0", "sadmin#0"


@during
def share(w: Fixture) -> None:
    settings = {"lock_ms": 30_000, "delivery_limit": 5, "isolation": "read_committed"}
    w.meta.setdefault("share_groups", {})[GROUP] = settings
    while len(w.records(0, 0, True)) < 3:
        w.send("p0#0")
    one, two, three = w.records(0, 0, True)[:3]
    start(w, one["offset"])
    acquire(w, FIRST, 1, one, two, three)
    acknowledge(w, FIRST, "accept", one)
    acknowledge(w, FIRST, "release", two)
    start(w, two["offset"])
    acknowledge(w, FIRST, "renew", three)
    acknowledge(w, FIRST, "reject", three)
    acquire(w, SECOND, 2, two)
    acknowledge(w, SECOND, "accept", two)
    start(w, three["offset"] + 1)


def acquire(w: Fixture, process: str, count: int, *records: Line) -> None:
    counted = [record | {"delivery_count": count} for record in records]
    w.call(process, "acquire", records=counted, group=GROUP, member=process)


def acknowledge(w: Fixture, process: str, ack: str, record: Line) -> None:
    given = {key: record[key] for key in ("topic", "partition", "offset", "id")}
    w.call(process, "acknowledge", records=[given | {"ack": ack}], group=GROUP, member=process)


def start(w: Fixture, offset: int) -> None:
    w.call(ADMIN, "committed", partitions=[name(0)], offsets={name(0): offset}, group=GROUP)


def of(lines: Lines, process: str, op: str) -> list[Line]:
    return [line for line in lines[process] if line["op"] == op]


def given(lines: Lines, record: Line, count: int, after: Line) -> Line:
    """The second member is given a record right after something happened."""
    line = {"op": "acquire", "outcome": "ok", "group": GROUP, "member": SECOND}
    line |= {"records": [record | {"delivery_count": count}]}
    at = after["returned_ns"]
    return moved(lines, insert(lines, SECOND, line | {"invoked_ns": at, "returned_ns": at}), 0)


def moved(lines: Lines, added: Line, at: int) -> Line:
    """The second member's call is its first one, or the one after that."""
    lines[SECOND].remove(added)
    lines[SECOND].insert(at, added)
    return added


@in_calls("S1")
def lent_to_two(fixture: Fixture, lines: Lines) -> None:
    acquired = of(lines, FIRST, "acquire")[0]
    given(lines, acquired["records"][0], 2, acquired)


@in_calls("", allowed="S1")
def accepted_by_both(fixture: Fixture, lines: Lines) -> None:
    """A member loses a record with its leader; where another one accepts it, both are answered."""
    acquired = of(lines, FIRST, "acquire")[0]
    record = acquired["records"][0]
    lent = given(lines, record, 2, acquired)
    taken = {"op": "acknowledge", "outcome": "ok", "group": GROUP, "member": SECOND}
    taken |= {"records": [record | {"ack": "accept"}]}
    times = {"invoked_ns": lent["returned_ns"], "returned_ns": lent["returned_ns"]}
    moved(lines, insert(lines, SECOND, taken | times), 1)


@in_calls("S2", may="S5")
def lent_after_it_was_accepted(fixture: Fixture, lines: Lines) -> None:
    accepted = of(lines, FIRST, "acknowledge")[0]
    given(lines, of(lines, FIRST, "acquire")[0]["records"][0], 2, accepted)["invoked_ns"] += 1


@in_calls("S3")
def counted_again(fixture: Fixture, lines: Lines) -> None:
    of(lines, SECOND, "acquire")[0]["records"][0]["delivery_count"] = 1


@in_calls("S3")
def delivered_too_often(fixture: Fixture, lines: Lines) -> None:
    """A share group is given a record more often than its limit allows."""
    of(lines, SECOND, "acquire")[0]["records"][0]["delivery_count"] = 6


@in_calls("", allowed="S4")
def left_over(fixture: Fixture, lines: Lines) -> None:
    ack = of(lines, SECOND, "acknowledge")[0]
    ack["records"][0]["ack"] = "release"


@in_calls("S5")
def start_back(fixture: Fixture, lines: Lines) -> None:
    first, *_, last = of(lines, ADMIN, "committed")
    last["offsets"] = {name(0): first["offsets"][name(0)]}


@in_calls("S5")
def share_what_was_aborted(fixture: Fixture, lines: Lines) -> None:
    """A share group of committed records is given one of a transaction that was aborted."""
    victim = next((id for id in fixture.logs[0] if id in fixture.aborted), None)
    if victim is None:
        raise NotHere
    record = {"topic": "t", "partition": 0, "offset": fixture.logs[0].index(victim), "id": victim}
    start = of(lines, ADMIN, "committed")[0]
    given(lines, record, 1, start)
    acknowledged = {"op": "acknowledge", "outcome": "ok", "group": GROUP, "member": SECOND}
    late = {"invoked_ns": fixture.now + 1, "returned_ns": fixture.now + 2}
    insert(lines, SECOND, acknowledged | late | {"records": [record | {"ack": "accept"}]})
