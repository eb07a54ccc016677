"""Anomalies in producers and their transactions."""

from itertools import pairwise
from operator import itemgetter

from traces.generate.small.fixture import TOPIC, Fixture, Line, payload
from traces.generate.small.lines import calls, located, scans, sends
from traces.generate.small.registry import Lines, NotHere, in_calls


@in_calls("P1", may="L9 L10 L16")
def reordered(fixture: Fixture, lines: Lines) -> None:
    mine = [line for line in lines["p0#0"] if line["op"] == "send"]
    pairs = [(a, b) for a, b in pairwise(mine) if located(a)[0] == located(b)[0]]
    if not pairs:
        raise NotHere
    one, two = pairs[0]
    a, b = one["records"][0]["id"], two["records"][0]["id"]
    for line in calls(lines, "poll", "process", "scan"):
        for record in line["records"]:
            if record["id"] in (a, b):
                record["id"] = a + b - record["id"]
                record["hash"] = payload(record["id"])
    lower, higher = located(one)[1], located(two)[1]
    one["records"][0]["offset"], two["records"][0]["offset"] = higher, lower


@in_calls("T4", may="T3 T7")
def aborted_read(fixture: Fixture, lines: Lines) -> None:
    victim = fixture.random.choice(sorted(fixture.aborted))
    sent = next(x for x in sends(lines, plain=False) if x["records"][0]["id"] == victim)
    record = sent["records"][0]
    for scan in scans(lines, "read_committed"):
        if scan["partitions"] == [f"{TOPIC}:{record['partition']}"]:
            scan["records"].append(dict(record))
            scan["records"].sort(key=itemgetter("offset"))


@in_calls("T2", may="S5 T3 T8")
def leaked(fixture: Fixture, lines: Lines) -> None:
    ends = {(x["process"], x["txn"]): x for x in calls(lines, "txn_commit")}
    written = [x for x in sends(lines, plain=False) if (x["process"], x["txn"]) in ends]
    end = ends[written[0]["process"], written[0]["txn"]]
    end["invoked_ns"] = fixture.now + 100
    end["returned_ns"] = fixture.now + 101


@in_calls("T8", may="T2 T3 P3")
def overlapping(fixture: Fixture, lines: Lines) -> None:
    ends = [x for x in lines["t0#0"] if x["op"] == "txn_commit"]
    begins = {x["txn"]: x for x in lines["t0#0"] if x["op"] == "txn_begin"}
    end = ends[0]
    begin = begins[end["txn"]]
    other = {"transactional_id": "id-t0#0", "txn": 0, "outcome": "ok", "process": "t0#1"}
    at = begin["returned_ns"]
    end["invoked_ns"] = at + 10
    lines["t0#1"] = [
        other | {"seq": 0, "op": "txn_begin", "invoked_ns": at, "returned_ns": at + 1},
        other | {"seq": 1, "op": "txn_commit", "invoked_ns": at + 2, "returned_ns": at + 3},
        {"process": "t0#1", "seq": 2, "op": "close", "outcome": "ok"},
    ]


@in_calls("P3")
def zombie(fixture: Fixture, lines: Lines) -> None:
    last = [x for x in lines["t0#0"] if x["op"] == "send"][-1]
    _initialised_again(lines, 1, last["invoked_ns"] - 3, last["invoked_ns"] - 1)


@in_calls("P4")
def same_epoch(fixture: Fixture, lines: Lines) -> None:
    _initialised_again(lines, 0, fixture.now + 50, fixture.now + 51)


def _initialised_again(lines: Lines, epoch: int, invoked: int, returned: int) -> None:
    """Another process initialises the same transactional id, and stops."""
    init: Line = {"op": "init_producer", "outcome": "ok", "transactional_id": "id-t0#0"}
    init |= {"process": "t0#1", "seq": 0, "producer_id": 0, "producer_epoch": epoch}
    init |= {"invoked_ns": invoked, "returned_ns": returned}
    lines["t0#1"] = [init, {"process": "t0#1", "seq": 1, "op": "close", "outcome": "ok"}]


@in_calls("", allowed="P7")
def fenced_by_nobody(fixture: Fixture, lines: Lines) -> None:
    """A producer that no other has followed hears that it is fenced."""
    ends = [x for x in lines["t0#0"] if x["op"] == "txn_commit" and x["outcome"] == "ok"]
    if not ends:
        raise NotHere
    ends[-1] |= {"outcome": "info", "error": "PRODUCER_FENCED"}
