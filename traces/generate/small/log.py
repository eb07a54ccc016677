"""Anomalies in the log: records lost, moved, doubled, made up; answers that go back."""

from traces.generate.small.fixture import TOPIC, Fixture, Line
from traces.generate.small.lines import calls, insert, located, scans, sends, without
from traces.generate.small.registry import Lines, NotHere, in_calls


@in_calls("L4", may="L3 P2")
def lost(fixture: Fixture, lines: Lines) -> None:
    victim = fixture.random.choice(sends(lines))
    without(lines, victim["records"][0]["id"], "scan", "poll", "process")


@in_calls("T1 L4", may="L3")
def torn(fixture: Fixture, lines: Lines) -> None:
    committed = {(x["process"], x["txn"]) for x in calls(lines, "txn_commit")}
    mine = [x for x in sends(lines, plain=False) if (x["process"], x["txn"]) in committed]
    without(lines, fixture.random.choice(mine)["records"][0]["id"], "scan", "poll", "process")


@in_calls("L2")
def duplicate(fixture: Fixture, lines: Lines) -> None:
    victim = fixture.random.choice(sends(lines))["records"][0]
    for scan in scans(lines):
        if scan["partitions"] == [f"{TOPIC}:{victim['partition']}"]:
            (name,) = scan["offsets"]
            scan["records"].append(victim | {"offset": scan["offsets"][name], "epoch": 1})
            scan["offsets"][name] += 1


@in_calls("L15 L1 L4 G8", may="L9 L16 P1 P2")
def truncated(fixture: Fixture, lines: Lines) -> None:
    read = {r["id"] for line in calls(lines, "poll") for r in line["records"]}
    read_sends = [line for line in sends(lines) if line["records"][0]["id"] in read]
    victim = fixture.random.choice(read_sends)["records"][0]
    stranger = {"topic": TOPIC, "partition": victim["partition"], "offset": victim["offset"]}
    late = lines["p0#0"][-1]["invoked_ns"] - 1
    attempt = {"op": "send", "outcome": "info", "invoked_ns": late}
    insert(lines, "p0#0", attempt | {"records": [stranger | {"id": 9_999}]})
    for scan in scans(lines):
        for record in scan["records"]:
            if record["id"] == victim["id"]:
                record["id"] = 9_999


@in_calls("L8 L1", may="L9 L16 P1")
def wrong_offset_answered(fixture: Fixture, lines: Lines) -> None:
    by_offset = {located(line): line for line in sends(lines)}
    pairs = [
        (line, by_offset[p, o + 1]) for (p, o), line in by_offset.items() if (p, o + 1) in by_offset
    ]
    one, two = fixture.random.choice(pairs)
    one["records"][0]["offset"] = two["records"][0]["offset"]


@in_calls("L5")
def phantom(fixture: Fixture, lines: Lines) -> None:
    for scan in scans(lines)[:1]:
        (name,) = scan["offsets"]
        partition = int(name.split(":")[1])
        record = {
            "topic": TOPIC,
            "partition": partition,
            "offset": scan["offsets"][name],
            "id": 8_888,
        }
        scan["records"].append(record)


@in_calls("L6", may="L16")
def denied(fixture: Fixture, lines: Lines) -> None:
    fixture.random.choice(sends(lines))["outcome"] = "fail"


@in_calls("L10", may="L9 L16 T3")
def read_before_sent(fixture: Fixture, lines: Lines) -> None:
    victim = lines["p1#0"][-2]
    late = max(line["returned_ns"] for line in calls(lines, "close")) + 10
    victim |= {"invoked_ns": late, "returned_ns": late + 1}


@in_calls("L9", may="L16")
def overtaken(fixture: Fixture, lines: Lines) -> None:
    by_partition: dict[int, list[Line]] = {}
    for line in sends(lines):
        by_partition.setdefault(located(line)[0], []).append(line)
    several = [mine for mine in by_partition.values() if len({x["process"] for x in mine}) > 1]
    ordered = sorted(several[0], key=lambda x: located(x)[1])
    later = ordered[-1]
    earlier = next(x for x in reversed(ordered) if x["process"] != later["process"])
    for before in lines[later["process"]][: later["seq"]]:
        before |= {"invoked_ns": 0, "returned_ns": 0}
    later |= {"invoked_ns": 1, "returned_ns": 2}
    earlier |= {"invoked_ns": 10}


@in_calls("L12")
def older_leader(fixture: Fixture, lines: Lines) -> None:
    for scan in scans(lines, "read_uncommitted"):
        if len(scan["records"]) > 1:
            scan["records"][-1]["epoch"] = 0
            return
    raise NotHere


@in_calls("L20")
def end_back(fixture: Fixture, lines: Lines) -> None:
    process = "scan-read_uncommitted#0"
    latest = next(x for x in lines[process] if x.get("query") == "latest")
    name = max(latest["offsets"], key=lambda p: latest["offsets"][p])
    lower = latest["offsets"] | {name: latest["offsets"][name] - 1}
    insert(lines, process, latest | {"offsets": lower})
