"""Anomalies in hand-overs, fetched offsets, static members and positions that clients move.

The fixture gets a hand-over after which the new owners read, a minute in which nothing happens, two
incarnations of a static member, and a reader of one partition that changes its replica, pauses,
and tells what the broker reported.
"""

from traces.generate.small.fixture import PARTITIONS, TOPIC, Fixture, Line, during, meta, name
from traces.generate.small.lines import calls, insert, located, members, scans, sends
from traces.generate.small.registry import Lines, NotHere, in_calls

NEAR, FRESH, OLD, NEW, STATIC = "near#0", "fresh#0", "st#0", "st#1", "static"
MINUTE = 60 * 10**9
PARTITION = name(0)


@during
def hand_over(w: Fixture) -> None:
    for consumer in ("c0", "c1"):
        w.meta["consumers"][consumer]["session_timeout_ms"] = 10_000
    before = dict(w.owners)
    while w.owners == before:
        w.rebalance()
    for partition in range(PARTITIONS):
        while not w.records(partition, w.position[partition], True):
            w.send("p0#0")
    for owner in ("c0#0", "c1#0"):
        w.poll(owner)
        w.commit(owner)
    w.now += MINUTE


@during
def nearest_replica(w: Fixture) -> None:
    while len(w.records(0, 0, True)) < 4:
        w.send("p0#0")
    records, end = w.records(0, 0, True), len(w.logs[0])
    reports = {
        "isolation": "read_committed",
        "high_watermark": {PARTITION: end},
        "log_start": {PARTITION: 0},
        "last_stable": {PARTITION: end},
        "leader_epochs": {PARTITION: 1},
    }
    w.call(NEAR, "assign", partitions=[PARTITION], offsets={PARTITION: 0})
    w.call(NEAR, "poll", records=records[:1], replica=2, **reports)
    w.call(NEAR, "poll", records=records[1:2], replica=2, **reports)
    w.call(NEAR, "pause", partitions=[PARTITION])
    w.call(NEAR, "resume", partitions=[PARTITION])
    w.call(NEAR, "poll", records=records[2:], replica=1, **reports)
    w.call(NEAR, "poll", records=[], replica=1, **reports)


@during
def fresh_group(w: Fixture) -> None:
    """Nothing was committed, so the reset policy decides; then a seek goes beyond the end."""
    w.meta["consumers"]["fresh"] = meta()["consumers"]["c0"] | {"group": "fresh"}
    member = {"group": "fresh", "generation": 1}
    w.call(FRESH, "assigned", partitions=[PARTITION], **member)
    w.call(FRESH, "committed", partitions=[PARTITION], offsets={}, **member)
    w.call(FRESH, "reset", offsets={PARTITION: 0}, reason="no_offset", group="fresh")
    end = len(w.logs[0])
    w.call(FRESH, "seek", offsets={PARTITION: end + 10})
    w.call(FRESH, "reset", offsets={PARTITION: end}, reason="out_of_range", group="fresh")


@during
def static_member(w: Fixture) -> None:
    w.meta["consumers"]["st"] = meta()["consumers"]["c0"] | {"group": STATIC}
    nothing = {"offsets": {PARTITION: 0}}
    for generation, process in enumerate((OLD, NEW), 1):
        member = {"group": STATIC, "generation": generation, "instance": "i"}
        w.call(process, "assigned", partitions=[PARTITION], **member)
        w.call(process, "commit", **nothing, **member)
    member = {"group": STATIC, "generation": 1, "instance": "i"}
    w.call(OLD, "commit", outcome="fail", error="FENCED_INSTANCE_ID", **nothing, **member)


def polls(lines: Lines) -> list[Line]:
    return [line for line in lines[NEAR] if line["op"] == "poll"]


@in_calls("G2")
def given_up_late(fixture: Fixture, lines: Lines) -> None:
    for line in lines["c1#0"]:
        if line["op"] == "revoked":
            for partition in line["partitions"]:
                first = _first_read_after(lines["c0#0"], line, partition)
                if first is not None:
                    line["returned_ns"] = first["returned_ns"] + 1
                    return
    raise NotHere


def _first_read_after(mine: list[Line], revoked: Line, partition: str) -> Line | None:
    """The first read of the partition by who was assigned it right after it was given up."""
    assigned = False
    for line in mine:
        if line["invoked_ns"] < revoked["invoked_ns"]:
            continue
        if partition in line.get("partitions", ()) and line["op"] in ("assigned", "revoked"):
            if line["op"] == "revoked":
                return None
            assigned = True
        parts = {f"{TOPIC}:{r['partition']}" for r in line.get("records", ())}
        if assigned and line["op"] == "poll" and partition in parts:
            return line
    return None


@in_calls("G7", may="G8 G10")
def reported_otherwise(fixture: Fixture, lines: Lines) -> None:
    mine = members(lines, "commit")
    for line in members(lines, "committed"):
        for partition, offset in line["offsets"].items():
            written = {commit["offsets"].get(partition) for commit in mine}
            never = [o for o in range(offset) if o not in written]
            if never:
                line["offsets"][partition] = never[0]
                return
    raise NotHere


@in_calls("G11", may="G4 G5")
def both_of_one_name(fixture: Fixture, lines: Lines) -> None:
    last = lines[OLD][-2]
    assert last.pop("error") == "FENCED_INSTANCE_ID"
    last |= {"outcome": "ok", "generation": 2}


@in_calls("C4")
def read_while_paused(fixture: Fixture, lines: Lines) -> None:
    """A reader is given records of a partition that it had paused."""
    lines[NEAR] = [line for line in lines[NEAR] if line["op"] != "resume"]


@in_calls("C5 C2")
def read_again_at_another_replica(fixture: Fixture, lines: Lines) -> None:
    """A reader that changes to another replica is given a record once more."""
    _, before, after, *_ = polls(lines)
    after["records"] = [*before["records"], *after["records"]]


@in_calls("L11")
def lower_watermark(fixture: Fixture, lines: Lines) -> None:
    """A follower that is read from tells a lower high watermark than before."""
    second = polls(lines)[1]
    second["high_watermark"] = {PARTITION: second["records"][0]["offset"] + 1}


@in_calls("", may="L11", allowed="C7")
def stale(fixture: Fixture, lines: Lines) -> None:
    polls(lines)[3]["high_watermark"] = {PARTITION: 1}


@in_calls("", allowed="T11")
def still_open(fixture: Fixture, lines: Lines) -> None:
    sent = [x for mine in lines.values() for x in mine if x["op"] == "send" and "txn" in x]
    first = [x["records"][0]["offset"] for x in sent if x["records"][0]["partition"] == 0]
    end = polls(lines)[0]
    early = [
        x["records"][0]["offset"]
        for x in sent
        if x["records"][0]["partition"] == 0 and x["returned_ns"] + MINUTE // 2 < end["invoked_ns"]
    ]
    if not first or not early:
        raise NotHere
    polls(lines)[3]["last_stable"] = {PARTITION: min(early)}


@in_calls("", allowed="T11")
def never_readable(fixture: Fixture, lines: Lines) -> None:
    """A transaction was committed, and the last scan of what is committed ends before it.

    Its producer tells how long a transaction may last: else it may be open, as far as one can see.
    """
    producers = fixture.meta["producers"]
    timed = {name for name, of in producers.items() if "transaction_timeout_ms" in of}
    ends = {(x["process"], x["txn"]) for x in calls(lines, "txn_commit") if x["outcome"] == "ok"}
    kept = [
        x
        for x in sends(lines, plain=False)
        if (x["process"], x["txn"]) in ends and x["process"].partition("#")[0] in timed
    ]
    if not kept:
        raise NotHere
    number, offset = located(fixture.random.choice(kept))
    name = f"{TOPIC}:{number}"
    scan = next(x for x in scans(lines, "read_committed") if x["partitions"] == [name])
    scan["records"] = [one for one in scan["records"] if one["offset"] < offset]
    scan["offsets"] = {name: offset}
    mine = lines[scan["process"]]
    for line in mine[mine.index(scan) :]:
        line["invoked_ns"] += 2 * MINUTE
        line["returned_ns"] += 2 * MINUTE


@in_calls("C6")
def reset_in_spite_of_a_commit(fixture: Fixture, lines: Lines) -> None:
    """A member begins where its policy says, though the group had committed."""
    answer = next(line for line in lines[FRESH] if line["op"] == "committed")
    member = {"group": "fresh", "generation": 1, "offsets": {PARTITION: 0}}
    when = {"invoked_ns": answer["invoked_ns"], "returned_ns": answer["returned_ns"]}
    line = insert(lines, FRESH, {"op": "commit", "outcome": "ok"} | member | when)
    lines[FRESH].remove(line)
    lines[FRESH].insert(2, line)


@in_calls("C6")
def reset_out_of_a_good_position(fixture: Fixture, lines: Lines) -> None:
    line = [line for line in lines[FRESH] if line["op"] == "reset"][1]
    next(line for line in lines[FRESH] if line["op"] == "seek")["offsets"] = line["offsets"]


@in_calls("C6")
def truncated_without_a_cause(fixture: Fixture, lines: Lines) -> None:
    [line for line in lines[FRESH] if line["op"] == "reset"][1]["reason"] = "truncation"
