"""One lie each, told in the trace of a world that keeps its promises.

`must` are the checks that have to see it; `may` are those that see it, too, for some worlds,
because it is their matter as well (a lost record is missing at the end, and below what was read,
if anything was read above it).
"""

import json
from collections.abc import Callable
from itertools import pairwise
from operator import itemgetter
from typing import Any

from attrs import frozen

from tests.traces.world import GROUP, TOPIC, Line, World

Lines = dict[str, list[Line]]


class NotHere(Exception):
    """This world has nothing that the lie could be told about."""


@frozen
class Mutation:
    """A lie and who has to notice it."""

    tell: Callable[[World, Lines], Lines]
    must: frozenset[str]
    may: frozenset[str] = frozenset()
    meta: Callable[[dict[str, Any]], None] | None = None


def calls(lines: Lines, *ops: str) -> list[Line]:
    return [line for mine in lines.values() for line in mine if line["op"] in ops]


def sends(lines: Lines, plain: bool = True) -> list[Line]:
    return [line for line in calls(lines, "send") if ("txn" in line) != plain]


def without(lines: Lines, id: int, *ops: str) -> None:
    for line in calls(lines, *ops):
        line["records"] = [r for r in line["records"] if r["id"] != id]


def scans(lines: Lines, isolation: str = "") -> list[Line]:
    return [line for line in calls(lines, "scan") if isolation in line["isolation"]]


def placed(line: Line) -> tuple[int, int]:
    return line["records"][0]["partition"], line["records"][0]["offset"]


def insert(lines: Lines, process: str, line: Line) -> Line:
    """A further line before the one that closes the file."""
    mine = lines[process]
    close = mine.pop()
    mine.append(line | {"process": process, "seq": close["seq"]})
    mine.append(close | {"seq": close["seq"] + 1})
    return mine[-2]


def lose(world: World, lines: Lines) -> Lines:
    victim = world.random.choice(sends(lines))
    without(lines, victim["records"][0]["id"], "scan", "poll", "process")
    return lines


def tear(world: World, lines: Lines) -> Lines:
    committed = {(x["process"], x["txn"]) for x in calls(lines, "txn_commit")}
    mine = [x for x in sends(lines, plain=False) if (x["process"], x["txn"]) in committed]
    without(lines, world.random.choice(mine)["records"][0]["id"], "scan", "poll", "process")
    return lines


def store_twice(world: World, lines: Lines) -> Lines:
    victim = world.random.choice(sends(lines))["records"][0]
    for scan in scans(lines):
        if scan["partitions"] == [f"{TOPIC}:{victim['partition']}"]:
            (place,) = scan["offsets"]
            scan["records"].append(victim | {"offset": scan["offsets"][place], "epoch": 1})
            scan["offsets"][place] += 1
    return lines


def replace(world: World, lines: Lines) -> Lines:
    """The log was cut and grew again: an acknowledged and read record gave way to another."""
    read = {r["id"] for line in calls(lines, "poll") for r in line["records"]}
    read_sends = [line for line in sends(lines) if line["records"][0]["id"] in read]
    victim = world.random.choice(read_sends)["records"][0]
    stranger = {"topic": TOPIC, "partition": victim["partition"], "offset": victim["offset"]}
    late = lines["p0#0"][-1]["invoked_ns"] - 1
    attempt = {"op": "send", "outcome": "info", "invoked_ns": late}
    insert(lines, "p0#0", attempt | {"records": [stranger | {"id": 9_999}]})
    for scan in scans(lines):
        for record in scan["records"]:
            if record["id"] == victim["id"]:
                record["id"] = 9_999
    return lines


def move_acknowledgement(world: World, lines: Lines) -> Lines:
    by_place = {placed(line): line for line in sends(lines)}
    pairs = [
        (line, by_place[p, o + 1]) for (p, o), line in by_place.items() if (p, o + 1) in by_place
    ]
    one, two = world.random.choice(pairs)
    one["records"][0]["offset"] = two["records"][0]["offset"]
    return lines


def phantom(world: World, lines: Lines) -> Lines:
    for scan in scans(lines)[:1]:
        (place,) = scan["offsets"]
        partition = int(place.split(":")[1])
        record = {
            "topic": TOPIC,
            "partition": partition,
            "offset": scan["offsets"][place],
            "id": 8_888,
        }
        scan["records"].append(record)
    return lines


def deny(world: World, lines: Lines) -> Lines:
    world.random.choice(sends(lines))["outcome"] = "fail"
    return lines


def send_later(world: World, lines: Lines) -> Lines:
    victim = lines["p1#0"][-2]
    late = max(line["returned_ns"] for line in calls(lines, "close")) + 10
    victim |= {"invoked_ns": late, "returned_ns": late + 1}
    return lines


def send_earlier(world: World, lines: Lines) -> Lines:
    """An acknowledgement that precedes the call of a send that got a lower offset."""
    by_partition: dict[int, list[Line]] = {}
    for line in sends(lines):
        by_partition.setdefault(placed(line)[0], []).append(line)
    several = [mine for mine in by_partition.values() if len({x["process"] for x in mine}) > 1]
    ordered = sorted(several[0], key=lambda x: placed(x)[1])
    later = ordered[-1]
    earlier = next(x for x in reversed(ordered) if x["process"] != later["process"])
    later |= {"invoked_ns": 1, "returned_ns": 2}
    earlier |= {"invoked_ns": 10}
    return lines


def swap_offsets(world: World, lines: Lines) -> Lines:
    """Two sends of one producer end up in the other order, everywhere."""
    mine = [line for line in lines["p0#0"] if line["op"] == "send"]
    one, two = next((a, b) for a, b in pairwise(mine) if placed(a)[0] == placed(b)[0])
    a, b = one["records"][0]["id"], two["records"][0]["id"]
    for line in calls(lines, "poll", "process", "scan"):
        for record in line["records"]:
            record["id"] = {a: b, b: a}.get(record["id"], record["id"])
    lower, higher = placed(one)[1], placed(two)[1]
    one["records"][0]["offset"], two["records"][0]["offset"] = higher, lower
    return lines


def show_aborted(world: World, lines: Lines) -> Lines:
    victim = world.random.choice(sorted(world.aborted))
    sent = next(x for x in sends(lines, plain=False) if x["records"][0]["id"] == victim)
    record = sent["records"][0]
    for scan in scans(lines, "read_committed"):
        if scan["partitions"] == [f"{TOPIC}:{record['partition']}"]:
            scan["records"].append(dict(record))
            scan["records"].sort(key=itemgetter("offset"))
    return lines


def commit_later(world: World, lines: Lines) -> Lines:
    """The commit of a transaction was requested only after everybody had read it."""
    ends = {(x["process"], x["txn"]): x for x in calls(lines, "txn_commit")}
    written = [x for x in sends(lines, plain=False) if (x["process"], x["txn"]) in ends]
    end = ends[written[0]["process"], written[0]["txn"]]
    end["invoked_ns"] = world.now + 100
    end["returned_ns"] = world.now + 101
    return lines


def overlap(world: World, lines: Lines) -> Lines:
    """Another process of the same transactional id commits inside a transaction of the first."""
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
    return lines


def fence(world: World, lines: Lines) -> Lines:
    """A successor was initialised before the old process made its last, acknowledged send."""
    last = [x for x in lines["t0#0"] if x["op"] == "send"][-1]
    init = {"op": "init_producer", "outcome": "ok", "transactional_id": "id-t0#0"}
    lines["t0#1"] = [
        init
        | {"process": "t0#1", "seq": 0, "producer_id": 0, "producer_epoch": 1}
        | {"invoked_ns": last["invoked_ns"] - 3, "returned_ns": last["invoked_ns"] - 1},
        {"process": "t0#1", "seq": 1, "op": "close", "outcome": "ok"},
    ]
    return lines


def lower_epoch(world: World, lines: Lines) -> Lines:
    """The successor got the epoch of its predecessor."""
    late = world.now + 50
    init = {"op": "init_producer", "outcome": "ok", "transactional_id": "id-t0#0"}
    lines["t0#1"] = [
        init
        | {"process": "t0#1", "seq": 0, "producer_id": 0, "producer_epoch": 0}
        | {"invoked_ns": late, "returned_ns": late + 1},
        {"process": "t0#1", "seq": 1, "op": "close", "outcome": "ok"},
    ]
    return lines


def older_leader(world: World, lines: Lines) -> Lines:
    for scan in scans(lines, "read_uncommitted"):
        if len(scan["records"]) > 1:
            scan["records"][-1]["epoch"] = 0
            return lines
    raise NotHere


def answer_back(world: World, lines: Lines) -> Lines:
    process = "scan-read_uncommitted#0"
    latest = next(x for x in lines[process] if x.get("query") == "latest")
    place = max(latest["offsets"], key=lambda p: latest["offsets"][p])
    lower = latest["offsets"] | {place: latest["offsets"][place] - 1}
    insert(lines, process, latest | {"offsets": lower})
    return lines


def reorder_poll(world: World, lines: Lines) -> Lines:
    for poll in calls(lines, "poll"):
        records = poll["records"]
        for i in range(len(records) - 1):
            if records[i]["partition"] == records[i + 1]["partition"]:
                records[i], records[i + 1] = records[i + 1], records[i]
                return lines
    raise NotHere


def skip(world: World, lines: Lines) -> Lines:
    """The group is never given a record between two that it is."""
    for poll in calls(lines, "poll"):
        same = [r for r in poll["records"] if r["partition"] == poll["records"][0]["partition"]]
        if len(same) > 2:
            without(lines, same[1]["id"], "poll", "process")
            return lines
    raise NotHere


def forget_to_process(world: World, lines: Lines) -> Lines:
    records = [r for line in calls(lines, "process") for r in line["records"]]
    without(lines, world.random.choice(records)["id"], "process")
    return lines


def deliver_again(world: World, lines: Lines) -> Lines:
    """A record is given to the group, and processed, a second time after a rebalance."""
    poll = next(line for line in lines["c0#0"] if line["op"] == "poll")
    record = poll["records"][0]
    member = {"group": GROUP, "generation": 99}
    place = f"{TOPIC}:{record['partition']}"
    late = {"invoked_ns": world.now + 10, "returned_ns": world.now + 11, "outcome": "ok"}
    insert(lines, "c0#0", late | member | {"op": "assigned", "partitions": [place]})
    later = {"invoked_ns": world.now + 12, "returned_ns": world.now + 13, "outcome": "ok"}
    given = {"group": GROUP, "isolation": "read_committed", "records": [record]}
    insert(lines, "c0#0", later | given | {"op": "poll"})
    insert(lines, "c0#0", later | given | {"op": "process"})
    return lines


def read_after_losing_it(world: World, lines: Lines) -> Lines:
    """The last poll of a partition comes after the partition was revoked."""
    poll = [line for line in lines["c0#0"] if line["op"] == "poll"][-1]
    place = f"{TOPIC}:{poll['records'][-1]['partition']}"
    mine = lines["c0#0"]
    at = mine.index(poll)
    times = {"invoked_ns": poll["invoked_ns"] - 1, "returned_ns": poll["invoked_ns"] - 1}
    member = {"group": GROUP, "generation": world.generation}
    mine.insert(at, {"process": "c0#0", "outcome": "ok", "op": "revoked"} | times | member)
    mine[at]["partitions"] = [place]
    for seq, line in enumerate(mine):
        line["seq"] = seq
    return lines


def start_elsewhere(world: World, lines: Lines) -> Lines:
    scan = next(x for x in scans(lines) if len(x["records"]) > 1)
    (place,) = scan["offsets"]
    assign = next(x for x in lines[scan["process"]] if x["op"] == "assign")
    assign["offsets"][place] = scan["records"][1]["offset"]
    return lines


def two_owners(world: World, lines: Lines) -> Lines:
    assigned = world.random.choice(calls(lines, "assigned"))
    other = {"c0#0": "c1#0", "c1#0": "c0#0"}[assigned["process"]]
    # Before anything else, so that no position of the other's is touched by it.
    mine = lines[other]
    mine.insert(1, assigned | {"process": other})
    mine[1] |= {"invoked_ns": mine[0]["returned_ns"], "returned_ns": mine[0]["returned_ns"]}
    mine[1] |= {"invoked_ns": assigned["invoked_ns"], "returned_ns": assigned["returned_ns"]}
    for seq, line in enumerate(mine):
        line["seq"] = seq
    return lines


def commit_back(world: World, lines: Lines) -> Lines:
    commit = [x for x in lines["c0#0"] if x["op"] == "commit"][-1]
    insert(
        lines,
        "c0#0",
        commit
        | {"offsets": {p: o - 1 for p, o in commit["offsets"].items()}}
        | {"invoked_ns": world.now + 10, "returned_ns": world.now + 11},
    )
    return lines


def commit_beyond(world: World, lines: Lines) -> Lines:
    """The first commit covers more than had been delivered by then."""
    commit = calls(lines, "commit")[0]
    place, _ = max(commit["offsets"].items())
    partition = int(place.split(":")[1])
    visible = [id for id in world.logs[partition] if id is not None and id not in world.aborted]
    commit["offsets"][place] = world.logs[partition].index(visible[-1]) + 1
    return lines


def zombie_commit(world: World, lines: Lines) -> Lines:
    """A commit of the generation before the last is accepted at the very end."""
    commit = [x for x in lines["c0#0"] if x["op"] == "commit"][-1]
    old = commit | {"generation": world.generation - 1}
    insert(lines, "c0#0", old | {"invoked_ns": world.now + 10, "returned_ns": world.now + 11})
    return lines


def resume_too_late(world: World, lines: Lines) -> Lines:
    """A new owner asks what was committed, and begins above it."""
    for owner in ("c0#0", "c1#0"):
        for at, line in enumerate(lines[owner]):
            if line["op"] == "committed" and line["offsets"]:
                first = _first_poll(lines[owner][at + 1 :], line["partitions"][0])
                if len(first) > 1:
                    without(lines, first[0]["id"], "poll", "process")
                    return lines
    raise NotHere


def _first_poll(mine: list[Line], place: str) -> list[Line]:
    """What a new owner is given by its first poll, if it polls before it has to give up."""
    for line in mine:
        if line["op"] in ("revoked", "assigned") and place in line["partitions"]:
            return []
        if line["op"] == "poll":
            return [r for r in line["records"] if f"{TOPIC}:{r['partition']}" == place]
    return []


def at_most_once(meta: dict[str, Any]) -> None:
    for consumer in meta["consumers"].values():
        consumer["commit_order"] = "commit_then_process"


def _m(
    tell: Callable[[World, Lines], Lines],
    must: str,
    may: str = "",
    meta: Callable[[dict[str, Any]], None] | None = None,
) -> Mutation:
    return Mutation(tell, frozenset(must.split()), frozenset(may.split()), meta)


MUTATIONS: dict[str, Mutation] = {
    "lose": _m(lose, "L4", "L3"),
    "tear": _m(tear, "T1 L4", "L3"),
    "store_twice": _m(store_twice, "L2"),
    "replace": _m(replace, "L15 L1 L4 G8", "L9 P1"),
    "move_acknowledgement": _m(move_acknowledgement, "L8 L1", "L9 P1"),
    "phantom": _m(phantom, "L5"),
    "deny": _m(deny, "L6"),
    "send_later": _m(send_later, "L10", "L9 T3"),
    "send_earlier": _m(send_earlier, "L9"),
    "swap_offsets": _m(swap_offsets, "P1", "L9 L10"),
    "show_aborted": _m(show_aborted, "T4", "T3"),
    "commit_later": _m(commit_later, "T2", "T3 T8"),
    "overlap": _m(overlap, "T8", "T2 T3 P3"),
    "fence": _m(fence, "P3"),
    "lower_epoch": _m(lower_epoch, "P4"),
    "older_leader": _m(older_leader, "L12"),
    "answer_back": _m(answer_back, "L20"),
    "reorder_poll": _m(reorder_poll, "C2", "C1 G10 G9"),
    "skip": _m(skip, "C1 G8"),
    "forget_to_process": _m(forget_to_process, "G8"),
    "deliver_again": _m(deliver_again, "G9", meta=at_most_once),
    "read_after_losing_it": _m(read_after_losing_it, "C4", "G10"),
    "start_elsewhere": _m(start_elsewhere, "C3"),
    "two_owners": _m(two_owners, "G1", "C4"),
    "commit_back": _m(commit_back, "G5"),
    "commit_beyond": _m(commit_beyond, "G6", "G5 G10"),
    "zombie_commit": _m(zombie_commit, "G4"),
    "resume_too_late": _m(resume_too_late, "G10 G8"),
}


def told(world: World, mutation: Mutation) -> tuple[Lines, dict[str, Any]]:
    """The trace with the lie in it, and the configuration under which it is one."""
    # Through JSON, because a copy would keep the records that lines of one call share.
    lines, meta = json.loads(json.dumps([world.lines, world.meta]))
    lines = mutation.tell(world, lines)
    meta["processes"] = list(lines)
    if mutation.meta is not None:
        mutation.meta(meta)
    return lines, meta
