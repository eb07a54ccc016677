"""Anomalies in owners, commits and hand-overs of a group."""

from typing import Any

from traces.generate.small.fixture import GROUP, TOPIC, Fixture, Line
from traces.generate.small.lines import insert, members, ungiven
from traces.generate.small.registry import Lines, NotHere, in_calls


def at_most_once(meta: dict[str, Any]) -> None:
    for consumer in meta["consumers"].values():
        consumer["commit_order"] = "commit_then_process"


@in_calls("G8")
def unprocessed(fixture: Fixture, lines: Lines) -> None:
    done = fixture.random.choice(members(lines, "process"))
    done["records"].remove(fixture.random.choice(done["records"]))


@in_calls("G9", meta=at_most_once)
def given_again(fixture: Fixture, lines: Lines) -> None:
    poll = next(line for line in lines["c0#0"] if line["op"] == "poll")
    record = poll["records"][0]
    member = {"group": GROUP, "generation": 99}
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
    mine = lines[other]
    mine.insert(1, assigned | {"process": other})
    mine[1] |= {"invoked_ns": mine[0]["returned_ns"], "returned_ns": mine[0]["returned_ns"]}
    mine[1] |= {"invoked_ns": assigned["invoked_ns"], "returned_ns": assigned["returned_ns"]}
    for seq, line in enumerate(mine):
        line["seq"] = seq


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


def _first_poll(mine: list[Line], name: str) -> list[Line]:
    """What a new owner is given by its first poll, if it polls before it has to give up."""
    for line in mine:
        if line["op"] in ("revoked", "assigned") and name in line["partitions"]:
            return []
        if line["op"] == "poll":
            return [r for r in line["records"] if f"{TOPIC}:{r['partition']}" == name]
    return []
