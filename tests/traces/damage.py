"""Random damage to a trace: no anomaly with a meaning, but anything that a file may come to say.

Whatever becomes of the trace, its lines stay well formed and the clock of a process never steps
back, because nothing else is a trace.
"""

from collections.abc import Callable
from random import Random
from typing import Any

from tests.traces.fixture import Line
from traces.generate.small import Lines

Harm = Callable[[Random, list[Line], Line], None]
_STEPS = (-500, -100, -20, -5, 5, 20, 100, 500)
_KEPT = ("process", "seq", "op", "outcome", "reason")
_ENDS = ("txn_commit", "txn_abort")


def _time(random: Random, mine: list[Line], line: Line) -> None:
    step = random.choice(_STEPS)
    for name in ("invoked_ns", "returned_ns"):
        if name in line:
            line[name] = max(1, line[name] + step)


def _outcome(random: Random, mine: list[Line], line: Line) -> None:
    line["outcome"] = random.choice(("ok", "fail", "info"))


def _offset(random: Random, mine: list[Line], line: Line) -> None:
    record = random.choice(line["records"])
    record["offset"] = max(0, record.get("offset", 0) + random.choice((-3, -1, 1, 2, 5)))


def _id(random: Random, mine: list[Line], line: Line) -> None:
    random.choice(line["records"])["id"] = random.randint(1, 60)


def _partition(random: Random, mine: list[Line], line: Line) -> None:
    random.choice(line["records"])["partition"] = random.randint(0, 1)


def _epoch(random: Random, mine: list[Line], line: Line) -> None:
    random.choice(line["records"])["epoch"] = random.randint(0, 2)


def _lose_record(random: Random, mine: list[Line], line: Line) -> None:
    line["records"].remove(random.choice(line["records"]))


def _move_record(random: Random, mine: list[Line], line: Line) -> None:
    records = line["records"]
    records.insert(random.randrange(len(records)), records.pop(random.randrange(len(records))))


def _generation(random: Random, mine: list[Line], line: Line) -> None:
    line["generation"] = max(0, line["generation"] + random.choice((-1, 1)))


def _isolation(random: Random, mine: list[Line], line: Line) -> None:
    line["isolation"] = random.choice(("read_committed", "read_uncommitted"))


def _answer(random: Random, mine: list[Line], line: Line) -> None:
    partition = random.choice(list(line["offsets"]))
    line["offsets"][partition] = max(
        0, (line["offsets"][partition] or 0) + random.choice((-4, -1, 1, 3))
    )


def _txn(random: Random, mine: list[Line], line: Line) -> None:
    line["txn"] = max(0, line["txn"] + random.choice((-1, 1)))


def _field(random: Random, mine: list[Line], line: Line) -> None:
    name = random.choice([name for name in line if name not in _KEPT] or ["clock"])
    line.pop(name, None)


def _clock(random: Random, mine: list[Line], line: Line) -> None:
    """The whole process had another clock, which was early or late."""
    step = random.choice((-800, 0, 800))
    for one in mine:
        one["clock"] = "elsewhere"
        for name in ("invoked_ns", "returned_ns"):
            if name in one:
                one[name] = max(1, one[name] + step)


def _lose_line(random: Random, mine: list[Line], line: Line) -> None:
    if len(mine) > 1:
        mine.remove(line)


def _swap_lines(random: Random, mine: list[Line], line: Line) -> None:
    other = random.choice(mine)
    i, j = mine.index(line), mine.index(other)
    mine[i], mine[j] = mine[j], mine[i]


def _end(random: Random, mine: list[Line], line: Line) -> None:
    line["op"] = random.choice(_ENDS)


HARMS: tuple[tuple[Harm, Callable[[Line], bool]], ...] = (
    (_time, lambda line: True),
    (_outcome, lambda line: True),
    (_field, lambda line: True),
    (_clock, lambda line: True),
    (_lose_line, lambda line: True),
    (_swap_lines, lambda line: True),
    *((harm, lambda line: bool(line.get("records"))) for harm in (_offset, _id, _partition)),
    *((harm, lambda line: bool(line.get("records"))) for harm in (_epoch, _lose_record)),
    (_move_record, lambda line: bool(line.get("records"))),
    (_generation, lambda line: "generation" in line),
    (_isolation, lambda line: "isolation" in line),
    (_answer, lambda line: bool(line.get("offsets"))),
    (_txn, lambda line: "txn" in line),
    (_end, lambda line: line["op"] in _ENDS),
)
_SETTINGS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("topics", "t", {"cleanup_policy": "compact"}),
    ("topics", "t", {"unclean_leader_election": True}),
    ("producers", "p0", {"idempotence": False, "acks": "1"}),
    ("consumers", "c0", {"commit_order": "commit_then_process"}),
)


def damage(random: Random, lines: Lines, meta: dict[str, Any]) -> None:
    """Up to six harms, in place."""
    for _ in range(random.randint(1, 6)):
        mine = lines[random.choice(list(lines))]
        line = random.choice(mine)
        fitting = [harm for harm, fits in HARMS if fits(line)]
        random.choice(fitting)(random, mine, line)
    if random.random() < 0.2:
        kind, name, settings = random.choice(_SETTINGS)
        meta[kind][name] |= settings
    for mine in lines.values():
        _mend(mine)
    meta["processes"] = list(lines)


def _mend(mine: list[Line]) -> None:
    """Number the lines again, and let no time be before one that was earlier in the program."""
    now = 0
    for seq, line in enumerate(mine):
        line["seq"] = seq
        for name in ("invoked_ns", "returned_ns"):
            if name in line:
                now = line[name] = max(now, line[name])
