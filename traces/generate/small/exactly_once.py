"""Anomalies in producers' sessions, and about transactions that carry a group's offsets.

The fixture gets a producer whose sends tell its session, a record that was sent again in another
session, a group whose offsets go with transactions: committed, aborted, committed again; and one
whose partition goes to another member in between, so that its former owner is refused.
"""

from traces.generate.small.fixture import TOPIC, Fixture, Line, during, meta, name, payload
from traces.generate.small.lines import calls, scans, without
from traces.generate.small.registry import Lines, NotHere, in_calls

NUMBERED, AGAIN, WRITER, READER, OFFSETS = "n0#0", "n1#0", "x0#0", "y0#0", "exact"
HANDED, INSTANCES = "handed", (("h0#0", "i0#0"), ("h1#0", "i1#0"))
SESSION = {"producer_id": 70, "producer_epoch": 0}


@during
def sessions(w: Fixture) -> None:
    safe = meta()["producers"]["p0"]
    w.meta["producers"] |= {"n0": safe, "n1": safe, "x0": safe | {"transaction_timeout_ms": 1000}}
    for producer in ("t0", "t1"):
        w.meta["producers"][producer]["transaction_timeout_ms"] = 1000
    for _ in range(6):
        w.send(NUMBERED, **SESSION)
    w.ids += 1  # refused, so the application sends it again: another session
    refused = {"topic": TOPIC, "partition": 0, "id": w.ids, "hash": payload(w.ids)}
    w.call(NUMBERED, "send", outcome="fail", records=[refused], **SESSION)
    w.logs[0].append(w.ids)
    w.call(AGAIN, "send", records=[refused | {"offset": len(w.logs[0]) - 1}])


@during
def exactly_once(w: Fixture) -> None:
    member = {"group": OFFSETS, "generation": 1}
    own = {"group": OFFSETS, "session_timeout_ms": 10_000}
    w.meta["consumers"]["y0"] = meta()["consumers"]["c0"] | own
    tid = {"transactional_id": "id-x0"}
    w.call(WRITER, "init_producer", producer_id=80, producer_epoch=0, **tid)
    w.call(READER, "subscribe", topics=[TOPIC], group=OFFSETS)
    w.call(READER, "assigned", partitions=[name(0), name(1)], **member)
    w.call(READER, "committed", partitions=[name(0)], offsets={}, **member)
    position = committed = 0
    for txn, commit in enumerate((True, False, True)):
        for record in w.records(0, position, True)[:1] if txn < 2 else ():
            w.call(READER, "poll", records=[record], isolation="read_committed", group=OFFSETS)
            w.call(READER, "process", records=[record], group=OFFSETS)
            position = record["offset"] + 1
        w.call(WRITER, "txn_begin", txn=txn, **tid)
        moved = {**member, "member": READER, "offsets": {name(0): position}}
        w.call(WRITER, "txn_offsets", txn=txn, **tid, **moved)
        w.call(WRITER, "txn_commit" if commit else "txn_abort", txn=txn, **tid)
        committed = position if commit else committed
        answer = {"partitions": [name(0)], "offsets": {name(0): committed}}
        w.call(READER, "committed", **answer, **member)


@during
def handed_over(w: Fixture) -> None:
    """Each instance is a consumer and a producer; the first one's worker commits too late."""
    for epoch, (consumer, producer) in enumerate(INSTANCES, 4):
        w.meta["consumers"][consumer[:2]] = meta()["consumers"]["c0"] | {"group": HANDED}
        w.meta["producers"][producer[:2]] = meta()["producers"]["p0"]
        member = {"group": HANDED, "generation": epoch, "member": consumer}
        w.call(consumer, "assigned", partitions=[name(0)], **member)
        tid = {"transactional_id": f"id-{producer}", "txn": 0}
        w.call(producer, "txn_begin", **tid)
        w.call(producer, "txn_offsets", offsets={name(0): 0}, **tid, **member)
        w.call(producer, "txn_commit", **tid)
    (consumer, producer), _ = INSTANCES
    late = {"group": HANDED, "generation": 4, "member": consumer, "offsets": {name(0): 0}}
    tid = {"transactional_id": f"id-{producer}", "txn": 1}
    refused = {"outcome": "fail", "error": "ILLEGAL_GENERATION"}
    w.call(producer, "txn_begin", **tid)
    w.call(producer, "txn_offsets", **late, **tid, **refused)
    w.call(producer, "txn_abort", **tid)


@in_calls("G12")
def of_a_former_owner(fixture: Fixture, lines: Lines) -> None:
    _, late = (x for x in lines[INSTANCES[0][1]] if x["op"] == "txn_offsets")
    assert late.pop("error") == "ILLEGAL_GENERATION"
    late["outcome"] = "ok"


def answers(lines: Lines) -> list[Line]:
    """The group's answers: before, after a commit, after an abort, after a commit."""
    return [line for line in lines[READER] if line["op"] == "committed"]


@in_calls("P2")
def gap_in_a_session(fixture: Fixture, lines: Lines) -> None:
    """A record of a session never arrived, and a later one to its partition did."""
    sent = [line for line in lines[NUMBERED] if line["op"] == "send" and line["outcome"] == "ok"]
    partitions = [line["records"][0]["partition"] for line in sent]
    # Sequence numbers are counted by partition.
    again = (n for n, partition in enumerate(partitions) if partition in partitions[n + 1 :])
    index = next(again, None)
    if index is None:
        raise NotHere
    first = sent[index]
    without(lines, first["records"][0]["id"], "scan", "poll", "process")
    first |= {"outcome": "info"}
    del first["records"][0]["offset"]


@in_calls("", allowed="P5 L2")
def stored_by_two(fixture: Fixture, lines: Lines) -> None:
    refused = lines[NUMBERED][-2]
    refused["outcome"] = "info"
    record = refused["records"][0]
    for scan in scans(lines):
        if scan["partitions"] == [name(0)]:
            scan["records"].append(record | {"offset": scan["offsets"][name(0)], "epoch": 1})
            scan["offsets"][name(0)] += 1


@in_calls("T7", may="C1 C3 C5 G6 G8 G10")
def hide_what_was_committed(fixture: Fixture, lines: Lines) -> None:
    """A reader of committed records does not get a committed one that lies between others."""
    ends = {(x["process"], x["txn"]) for x in calls(lines, "txn_commit")}
    for send in calls(lines, "send"):
        if (send["process"], send.get("txn")) in ends:
            id = send["records"][0]["id"]
            for line in calls(lines, "poll", "process", "scan"):
                if line.get("isolation") != "read_uncommitted":
                    line["records"] = [r for r in line["records"] if r["id"] != id]
            return
    raise NotHere


@in_calls("T9")
def answered_what_was_aborted(fixture: Fixture, lines: Lines) -> None:
    _, first, undone, last = answers(lines)
    assert undone["offsets"] == first["offsets"] != last["offsets"]
    undone["offsets"] = last["offsets"]


@in_calls("T9")
def answered_without_what_was_committed(fixture: Fixture, lines: Lines) -> None:
    _, first, _, last = answers(lines)
    last["offsets"] = first["offsets"]


@in_calls("", allowed="G3")
def without_an_owner(fixture: Fixture, lines: Lines) -> None:
    next(x for x in lines[READER] if x["op"] == "assigned")["partitions"] = [name(0)]
