"""Anomalies in what one consumer was given."""

from traces.generate.small.fixture import GROUP, TOPIC, Fixture, Line, name
from traces.generate.small.lines import members, scans, ungiven
from traces.generate.small.registry import Lines, NotHere, in_calls


@in_calls("C2", may="C1 G10 G9")
def reorder_poll(fixture: Fixture, lines: Lines) -> None:
    """One poll gives two records of a partition in the wrong order."""
    for poll in members(lines, "poll"):
        records = poll["records"]
        for i in range(len(records) - 1):
            if records[i]["partition"] == records[i + 1]["partition"]:
                records[i], records[i + 1] = records[i + 1], records[i]
                return
    raise NotHere


@in_calls("C1 G8")
def skipped(fixture: Fixture, lines: Lines) -> None:
    for poll in members(lines, "poll"):
        same = [r for r in poll["records"] if r["partition"] == poll["records"][0]["partition"]]
        if len(same) > 2:
            ungiven(lines, same[1]["id"])
            return
    raise NotHere


@in_calls("C4", may="G10")
def not_assigned(fixture: Fixture, lines: Lines) -> None:
    poll = [line for line in lines["c0#0"] if line["op"] == "poll"][-1]
    partition = f"{TOPIC}:{poll['records'][-1]['partition']}"
    mine = lines["c0#0"]
    at = mine.index(poll)
    times = {"invoked_ns": poll["invoked_ns"] - 1, "returned_ns": poll["invoked_ns"] - 1}
    member = {"group": GROUP, "generation": fixture.generation}
    mine.insert(at, {"process": "c0#0", "outcome": "ok", "op": "revoked"} | times | member)
    mine[at]["partitions"] = [partition]


@in_calls("C3")
def elsewhere(fixture: Fixture, lines: Lines) -> None:
    scan = next(x for x in scans(lines) if len(x["records"]) > 1)
    (partition,) = scan["offsets"]
    assign = next(x for x in lines[scan["process"]] if x["op"] == "assign")
    assign["offsets"][partition] = scan["records"][1]["offset"]


@in_calls("", allowed="C8")
def stands_still(fixture: Fixture, lines: Lines) -> None:
    """A reader of its own is given one record, and then nothing, though there is more."""
    records = fixture.records(0, 0, False)
    if len(records) < 2:
        raise NotHere
    location, reported = name(0), {"high_watermark": {name(0): len(fixture.logs[0])}, "replica": 1}
    reported |= {"isolation": "read_uncommitted", "leader_epochs": {location: 1}}
    calls: list[Line] = [
        {"op": "assign", "partitions": [location], "offsets": {location: 0}},
        {"op": "poll", "records": records[:1], **reported},
        *({"op": "poll", "records": [], **reported} for _ in range(3)),
        {"op": "close"},
    ]
    for n, call in enumerate(calls, 10):
        times = {"invoked_ns": fixture.now + 2 * n, "returned_ns": fixture.now + 2 * n + 1}
        head: Line = {"process": "z0#0", "seq": 0, "outcome": "ok"}
        lines.setdefault("z0#0", []).append(head | call | times)
