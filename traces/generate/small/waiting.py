"""A share group that is stuck: records wait while its member polls, and nobody holds any.

The fixture gets a member that takes all that is there, and then polls in vain; and somebody who
asks where the partition ends, and where the group starts.
"""

from traces.generate.small.fixture import TOPIC, Fixture, Line, during, name
from traces.generate.small.registry import Lines, in_calls

GROUP, MEMBER, ADMIN = "waiting", "w0#0", "wadmin#0"
MS = 1_000_000
LOCK_MS, STUCK_MS, WAITS_MS = 1, 4, 8
_VAIN: Line = {"op": "acquire", "records": [], "partitions": [name(0)]}


@during
def wait(w: Fixture) -> None:
    w.meta.setdefault("share_groups", {})[GROUP] = {
        **{"lock_ms": LOCK_MS, "delivery_limit": 5, "stuck_ms": STUCK_MS},
        "isolation": "read_committed",
    }
    fields = {"group": GROUP, "member": MEMBER}
    w.call(MEMBER, "subscribe", topics=[TOPIC], partitions=[name(0)], **fields)
    there = w.records(0, 0, True)
    w.call(MEMBER, "acquire", records=[r | {"delivery_count": 1} for r in there], **fields)
    location = ("topic", "partition", "offset", "id")
    accepted = [{key: r[key] for key in location} | {"ack": "accept"} for r in there]
    w.call(MEMBER, "acknowledge", records=accepted, **fields)
    end = {name(0): len(w.logs[0])}
    for _ in range(2 * WAITS_MS):
        asked = {"query": "latest", "offsets": end, "isolation": "read_committed"}
        w.call(ADMIN, "list_offsets", **asked)
        w.call(ADMIN, "committed", partitions=[name(0)], offsets=end, group=GROUP)
        polled = w.call(MEMBER, "acquire", records=[], partitions=[name(0)], **fields)
        w.now += MS // 2
        polled["returned_ns"] = w.now - 1
    w.close(MEMBER)


def mine(lines: Lines, op: str) -> list[Line]:
    return [line for line in lines[MEMBER] if line["op"] == op]


def waits(lines: Lines) -> Line:
    """The last record is given to nobody, and the group starts there; the record."""
    given, *_ = mine(lines, "acquire")
    (accepted,) = mine(lines, "acknowledge")
    record = given["records"].pop()
    accepted["records"].pop()
    _starts(lines, record["offset"])
    return record


@in_calls("S6")
def stuck(fixture: Fixture, lines: Lines) -> None:
    waits(lines)


@in_calls("S6")
def stuck_until_it_left(fixture: Fixture, lines: Lines) -> None:
    """A record that was given back waits, too: its member is given it no more."""
    (accepted,) = mine(lines, "acknowledge")
    accepted["records"][-1]["ack"] = "release"
    _starts(lines, accepted["records"][-1]["offset"])


@in_calls("")
def not_stuck_as_it_is_held(fixture: Fixture, lines: Lines) -> None:
    """Another member holds it, and renews its lock, so that the first one waits."""
    record = waits(lines)
    subscribed, given, *polls = lines[MEMBER]
    renewed: Line = {"op": "acknowledge", "records": [record | {"ack": "renew"}]}
    calls: list[tuple[Line, Line]] = [({"op": "acquire", "records": [record]}, given)]
    for poll in (one for one in polls if one["op"] == "acquire"):
        calls += [(renewed, poll), (_VAIN, poll)]
    _another(lines, subscribed, calls)


@in_calls("")
def not_stuck_as_it_is_accepted(fixture: Fixture, lines: Lines) -> None:
    """The start that is told lags behind."""
    (accepted,) = mine(lines, "acknowledge")
    _starts(lines, accepted["records"][-1]["offset"])


@in_calls("")
def not_stuck_as_it_is_below_the_start(fixture: Fixture, lines: Lines) -> None:
    """An administrator has moved the start beyond it, for all that is told."""
    record = waits(lines)
    _starts(lines, record["offset"] + 1)


@in_calls("")
def not_stuck_for_so_short(fixture: Fixture, lines: Lines) -> None:
    """A lock of which nobody tells may still hold it."""
    waits(lines)
    polls = _vain(lines)
    late = polls[0]["invoked_ns"] + (2 * STUCK_MS + LOCK_MS) * MS // 2
    for line in polls:
        if line["returned_ns"] > late:
            lines[MEMBER].remove(line)


@in_calls("")
def not_stuck_as_nobody_polls(fixture: Fixture, lines: Lines) -> None:
    """A member that does something else for a while takes its time."""
    waits(lines)
    polls = _vain(lines)
    gone = polls[len(polls) // 2 - 1 : len(polls) // 2 + 4]
    lines[MEMBER] = [line for line in lines[MEMBER] if not any(line is one for one in gone)]


@in_calls("")
def not_stuck_as_no_leader_answers(fixture: Fixture, lines: Lines) -> None:
    """A partition of which nobody is told the end for a while may have had no leader."""
    waits(lines)
    _unanswered(lines, "list_offsets")


@in_calls("")
def not_stuck_as_no_coordinator_answers(fixture: Fixture, lines: Lines) -> None:
    """A group of which nobody is told the start for a while may have had no coordinator."""
    waits(lines)
    _unanswered(lines, "committed")


@in_calls("")
def not_stuck_as_it_is_not_committed(fixture: Fixture, lines: Lines) -> None:
    """The record lies behind an open transaction, or is on one replica only, for all they know."""
    record = waits(lines)
    for line in lines[ADMIN]:
        if line["op"] == "list_offsets":
            line["offsets"] = {name(0): record["offset"]}


@in_calls("")
def not_stuck_as_it_was_just_written(fixture: Fixture, lines: Lines) -> None:
    """Only at the end is somebody told that the record is committed."""
    record = waits(lines)
    asked = [line for line in lines[ADMIN] if line["op"] == "list_offsets"]
    for line in asked[: -len(asked) // 4]:
        line["offsets"] = {name(0): record["offset"]}


@in_calls("")
def not_stuck_as_a_member_came(fixture: Fixture, lines: Lines) -> None:
    """A partition may pass to another member while members come and go."""
    waits(lines)
    middle, *later = _vain(lines)[len(_vain(lines)) // 2 :]
    _another(lines, middle, [(_VAIN, poll) for poll in later])


def _another(lines: Lines, joins: Line, calls: list[tuple[Line, Line]]) -> None:
    """A second member subscribes, makes calls and leaves; each call is made when a line was."""
    fields = {"process": "w1#0", "group": GROUP, "member": "w1#0", "outcome": "ok"}
    subscribes = {"op": "subscribe", "topics": [TOPIC], "partitions": [name(0)]}
    several = (subscribes, joins), *calls
    lines["w1#0"] = [fields | call | {"seq": 0} | _times(when) for call, when in several]
    close = {"op": "close", "process": "w1#0", "outcome": "ok", "seq": 0}
    lines["w1#0"].append(close | {"invoked_ns": lines["w1#0"][-1]["returned_ns"]})


def _vain(lines: Lines) -> list[Line]:
    """The member's polls that gave it nothing."""
    return [line for line in mine(lines, "acquire") if not line["records"]]


def _starts(lines: Lines, offset: int) -> None:
    for line in lines[ADMIN]:
        if line["op"] == "committed":
            line["offsets"] = {name(0): offset}


def _unanswered(lines: Lines, op: str) -> None:
    asked = [line for line in lines[ADMIN] if line["op"] == op]
    for line in asked[len(asked) // 2 - 2 : len(asked) // 2 + 3]:
        line["outcome"], line["error"] = "info", "_TIMED_OUT"
        del line["offsets"]


def _times(line: Line) -> Line:
    return {name: line[name] for name in ("invoked_ns", "returned_ns")}
