"""Anomalies in owners, commits and hand-overs of a group."""

from typing import Any

from traces.generate.small.fixture import GROUP, TOPIC, Fixture, Line, during, meta, name
from traces.generate.small.lines import insert, members, ungiven
from traces.generate.small.registry import Lines, NotHere, in_calls

MADE_AGAIN = "renewed"  # a group that is deleted, and one day expires: it has three lives
FIRST, DELETER, SECOND, THIRD = "l0#0", "a0#0", "l1#0", "l2#0"


@during
def made_again(w: Fixture) -> None:
    """Each life begins with generation 1 and without offsets; only one end is told."""
    for consumer in (FIRST, SECOND, THIRD):
        own = {"group": MADE_AGAIN, "session_timeout_ms": 10_000}
        w.meta["consumers"][consumer[:2]] = meta()["consumers"]["c0"] | own
        _a_life(w, consumer)
        if consumer == FIRST:
            w.call(DELETER, "delete_groups", group=MADE_AGAIN)


def _a_life(w: Fixture, consumer: str) -> None:
    member = {"group": MADE_AGAIN, "member": consumer, "generation": 1}
    records = w.records(1, 0, True)[: 2 * (consumer == FIRST)]
    given = {"group": MADE_AGAIN, "records": records}
    w.call(consumer, "subscribe", topics=[TOPIC], group=MADE_AGAIN)
    w.call(consumer, "assigned", partitions=[name(1)], **member)
    if consumer != THIRD:  # of what is gone without a word nobody knows where it went
        w.call(consumer, "committed", partitions=[name(1)], offsets={}, **member)
    if records:
        w.call(consumer, "poll", isolation="read_committed", **given)
        w.call(consumer, "process", **given)
    reached = max((r["offset"] + 1 for r in records), default=0)
    w.call(consumer, "commit", offsets={name(1): reached}, **member)
    w.call(consumer, "close")


@in_calls("G1", may="C4")
def two_owners_again(fixture: Fixture, lines: Lines) -> None:
    """A partition has two owners in a generation of a group's last life."""
    assigned = next(line for line in lines[THIRD] if line["op"] == "assigned")
    insert(lines, SECOND, assigned | {"member": SECOND})
    lines[SECOND][-1] |= _after(lines[THIRD])


def _after(mine: list[Line]) -> Line:
    last = max(line["returned_ns"] for line in mine)
    return {"invoked_ns": last + 1, "returned_ns": last + 2}


@in_calls("G7", may="G10 C6")
def deleted_comes_back(fixture: Fixture, lines: Lines) -> None:
    """A group is answered an offset that it committed before it was deleted."""
    last = next(line for line in lines[FIRST] if line["op"] == "commit")
    if not last["offsets"][name(1)]:
        raise NotHere
    answer = next(line for line in lines[SECOND] if line["op"] == "committed")
    answer["offsets"] = dict(last["offsets"])


def at_most_once(meta: dict[str, Any]) -> None:
    for consumer in meta["consumers"].values():
        consumer["commit_order"] = "commit_then_process"


@in_calls("G8")
def unprocessed(fixture: Fixture, lines: Lines) -> None:
    done = fixture.random.choice(members(lines, "process"))
    done["records"].remove(fixture.random.choice(done["records"]))


@in_calls("G9", may="G10", meta=at_most_once)
def given_again(fixture: Fixture, lines: Lines) -> None:
    poll = next(line for line in lines["c0#0"] if line["op"] == "poll")
    record = poll["records"][0]
    member = {"group": GROUP, "generation": 99, "member": "c0#0"}
    name = f"{TOPIC}:{record['partition']}"
    late = {"invoked_ns": fixture.now + 10, "returned_ns": fixture.now + 11, "outcome": "ok"}
    insert(lines, "c0#0", late | member | {"op": "assigned", "partitions": [name]})
    later = {"invoked_ns": fixture.now + 12, "returned_ns": fixture.now + 13, "outcome": "ok"}
    given = {"group": GROUP, "isolation": "read_committed", "records": [record]}
    insert(lines, "c0#0", later | given | {"op": "poll"})
    insert(lines, "c0#0", later | given | {"op": "process"})


@in_calls("G1", may="C4")
def two_owners(fixture: Fixture, lines: Lines) -> None:
    assigned = fixture.random.choice(members(lines, "assigned"))
    other = {"c0#0": "c1#0", "c1#0": "c0#0"}[assigned["process"]]
    # Before anything else, so that no position of the other's is touched by it.
    lines[other].insert(1, assigned | {"process": other})


@in_calls("G5")
def committed_back(fixture: Fixture, lines: Lines) -> None:
    commit = [x for x in lines["c0#0"] if x["op"] == "commit"][-1]
    insert(
        lines,
        "c0#0",
        commit
        | {"offsets": {p: o - 1 for p, o in commit["offsets"].items()}}
        | {"invoked_ns": fixture.now + 10, "returned_ns": fixture.now + 11},
    )


@in_calls("G6", may="G5 G7 G10")
def committed_beyond(fixture: Fixture, lines: Lines) -> None:
    commit = members(lines, "commit")[0]
    name, _ = max(commit["offsets"].items())
    partition = int(name.split(":")[1])
    visible = [id for id in fixture.logs[partition] if id is not None and id not in fixture.aborted]
    commit["offsets"][name] = fixture.logs[partition].index(visible[-1]) + 1


@in_calls("G4")
def unfenced(fixture: Fixture, lines: Lines) -> None:
    commit = [x for x in lines["c0#0"] if x["op"] == "commit"][-1]
    old = commit | {"generation": fixture.generation - 1}
    insert(lines, "c0#0", old | {"invoked_ns": fixture.now + 10, "returned_ns": fixture.now + 11})


@in_calls("G10 G8")
def resumed_late(fixture: Fixture, lines: Lines) -> None:
    for owner in ("c0#0", "c1#0"):
        for at, line in enumerate(lines[owner]):
            if line["op"] == "committed" and line["offsets"]:
                first = _first_poll(lines[owner][at + 1 :], line["partitions"][0])
                if len(first) > 1:
                    ungiven(lines, first[0]["id"])
                    return
    raise NotHere


@in_calls("G10")
def resumed_below(fixture: Fixture, lines: Lines) -> None:
    """A new owner is answered what its group had committed, and is given the record below it."""
    for owner in ("c0#0", "c1#0"):
        for at, line in enumerate(lines[owner]):
            if line["op"] != "committed" or not line["offsets"]:
                continue
            ((location, offset),) = line["offsets"].items()
            partition, mine = int(location.split(":")[1]), lines[owner][at + 1 :]
            below = [r for r in fixture.records(partition, 0, True) if r["offset"] < offset]
            if below and _first_poll(mine, location):
                poll = next(x for x in mine if x["op"] == "poll" and _of(x, partition))
                first = next(r for r in poll["records"] if r["partition"] == partition)
                poll["records"].insert(poll["records"].index(first), below[-1])
                return
    raise NotHere


@in_calls("G13")
def committed_before_processing(fixture: Fixture, lines: Lines) -> None:
    """The application is done with what it was given last only after it has committed it."""
    for owner in ("c0#0", "c1#0"):
        mine = lines[owner]
        for at, line in enumerate(mine):
            done = [n for n in range(at) if mine[n]["op"] == "process" and mine[n]["records"]]
            moved = [n for n in range(at) if mine[n]["op"] in ("assigned", "revoked")]
            if line["op"] != "commit" or not done or max(moved, default=-1) > done[-1]:
                continue
            if _covers(line, mine[done[-1]]["records"][0]):
                late = mine.pop(done[-1])
                late["invoked_ns"] = late["returned_ns"] = line["returned_ns"] + 1
                mine.insert(at, late)
                return
    raise NotHere


def _covers(commit: Line, record: Line) -> bool:
    location = f"{record['topic']}:{record['partition']}"
    return commit["offsets"].get(location, 0) > record["offset"]


def _of(poll: Line, partition: int) -> bool:
    return any(r["topic"] == TOPIC and r["partition"] == partition for r in poll["records"])


def _first_poll(mine: list[Line], name: str) -> list[Line]:
    """The records of a new owner's first poll, if it polls before it has to give up."""
    for line in mine:
        if line["op"] in ("revoked", "assigned") and name in line["partitions"]:
            return []
        if line["op"] == "poll":
            return [r for r in line["records"] if f"{TOPIC}:{r['partition']}" == name]
    return []
