"""A topic to which others may send, and a member that seeks past what it cannot process.

Where others were not recorded, what they sent is read, and nobody is known to have sent it.
"""

from typing import Any

from traces.generate.small.fixture import Fixture, Line, afterwards, meta
from traces.generate.small.registry import Lines, in_calls

SHARED, SENDER, MEMBER, GROUP, SCANNER = "shared", "own#0", "passer#0", "passing", "scan-shared#0"
FIRST = 70_001  # of ids that nothing else here has


@afterwards
def shared_topic(w: Fixture) -> None:
    """All who send were recorded; the third record cannot be processed."""
    w.meta["topics"][SHARED] = meta()["topics"]["t"] | {"partitions": 1, "senders": "all"}
    w.meta["producers"]["own"] = meta()["producers"]["p0"]
    w.meta["consumers"]["passer"] = meta()["consumers"]["c0"] | {"group": GROUP}
    log: list[Line] = [
        {"topic": SHARED, "partition": 0, "offset": n, "id": FIRST + n, "hash": FIRST + n}
        for n in range(4)
    ]
    for record in log:
        w.call(SENDER, "send", records=[record | {"key": "k"}])
    name = f"{SHARED}:0"
    about = {"group": GROUP, "generation": 1}
    reports: Line = {
        "high_watermark": {name: 4},
        "log_start": {name: 0},
        "leader_epochs": {name: 1},
    }
    reported = {"isolation": "read_committed", "replica": 1, "group": GROUP, **reports}
    w.call(MEMBER, "assigned", partitions=[name], **about)
    w.call(MEMBER, "committed", partitions=[name], offsets={}, **about)
    w.call(MEMBER, "poll", records=[record | {"epoch": 1} for record in log[:3]], **reported)
    w.call(MEMBER, "process", records=log[:2], group=GROUP)
    w.call(MEMBER, "seek", partitions=[name], offsets={name: 3})
    w.call(MEMBER, "poll", records=[record | {"epoch": 1} for record in log[3:]], **reported)
    w.call(MEMBER, "process", records=log[3:], group=GROUP)
    w.call(MEMBER, "commit", offsets={name: 4}, **about)
    for query, offset in (("earliest", 0), ("latest", 4)):
        w.call(SCANNER, "list_offsets", query=query, offsets={name: offset})
    for isolation in ("read_uncommitted", "read_committed"):
        found: dict[str, Any] = {"records": [record | {"epoch": 1} for record in log]}
        found |= {"partitions": [name], "offsets": {name: 4}, "isolation": isolation}
        w.call(SCANNER, "assign", partitions=[name], offsets={name: 0})
        w.call(SCANNER, "scan", **found)


def others_send(meta: dict[str, Any]) -> None:
    meta["topics"][SHARED]["senders"] = "some"


@in_calls("", meta=others_send)
def sent_by_others(fixture: Fixture, lines: Lines) -> None:
    """Somebody sent two of the records who was not recorded: no breach."""
    _not_sent_here(lines)


@in_calls("L5")
def sent_by_nobody(fixture: Fixture, lines: Lines) -> None:
    """All who send are said to have been recorded, so nobody sent two of the records."""
    _not_sent_here(lines)


def _not_sent_here(lines: Lines) -> None:
    """The process sent the first two records, and no more."""
    lines[SENDER] = [*lines[SENDER][:2], lines[SENDER][-1]]


@in_calls("G8")
def committed_past(fixture: Fixture, lines: Lines) -> None:
    """The member commits past a record that it did not process, and never sought past it."""
    mine = lines[MEMBER]
    mine[:] = [line for line in mine if line["op"] != "seek"]
