"""Ways to find and to change the lines of a trace."""

from collections import Counter

from traces.generate.small.fixture import TOPIC, Line
from traces.generate.small.registry import Lines


def calls(lines: Lines, *ops: str) -> list[Line]:
    return [line for mine in lines.values() for line in mine if line["op"] in ops]


def sends(lines: Lines, plain: bool = True) -> list[Line]:
    """Sends to the topic that everybody knows, of what was sent once."""
    times = Counter(line["records"][0]["id"] for line in calls(lines, "send"))
    once = [line for line in calls(lines, "send") if times[line["records"][0]["id"]] == 1]
    mine = [line for line in once if line["records"][0]["topic"] == TOPIC]
    return [line for line in mine if ("txn" in line) != plain]


def without(lines: Lines, id: int, *ops: str) -> None:
    for line in calls(lines, *ops):
        line["records"] = [r for r in line["records"] if r["id"] != id]


def members(lines: Lines, *ops: str) -> list[Line]:
    """Calls of the two members of the group."""
    return [line for process in ("c0#0", "c1#0") for line in lines[process] if line["op"] in ops]


def ungiven(lines: Lines, id: int) -> None:
    """The group is never given a record."""
    for line in members(lines, "poll", "process"):
        line["records"] = [r for r in line["records"] if r["id"] != id]


def scans(lines: Lines, isolation: str = "") -> list[Line]:
    mine = [x for x in calls(lines, "scan") if x["partitions"][0].startswith(f"{TOPIC}:")]
    return [line for line in mine if isolation in line["isolation"]]


def located(line: Line) -> tuple[int, int]:
    return line["records"][0]["partition"], line["records"][0]["offset"]


def insert(lines: Lines, process: str, line: Line) -> Line:
    """A further line before the one that closes the file."""
    mine = lines[process]
    close = mine.pop()
    mine += [line | {"process": process, "seq": 0}, close]
    return mine[-2]
