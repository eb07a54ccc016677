"""Random client operations on a small log: a run that keeps its promises, then random corruptions.

An `Operation` is what one process did between an invocation and a completion. The run is made by a
single log per partition, so that it is correct; `corrupt` then changes anything that a recording
may come to say, and keeps only what makes it a recording: times of a process go forward, and a
process that was not answered does nothing more.
"""

from random import Random
from typing import Any

from attrs import define, field

Step = list[Any]  # ["send", key, offset or None, value], or ["poll", {key: [[offset, value], ...]}]


@define(eq=False)
class Operation:
    """One operation; `more` are the optional keys of its completion."""

    process: int
    f: str
    kind: str
    inv: int
    ret: int
    steps: list[Step] = field(factory=list[Step])
    listed: list[int] = field(factory=list[int])
    more: dict[str, Any] = field(factory=dict[str, Any])


@define
class _Run:
    random: Random
    logs: dict[int, list[tuple[int, int]]] = field(factory=dict[int, list[tuple[int, int]]])
    ends: dict[int, int] = field(factory=dict[int, int])
    values: int = 0
    aborted: set[int] = field(factory=set[int])
    now: int = 0
    operations: list[Operation] = field(factory=list[Operation])

    def operation(self, process: int, f: str, steps: list[Step], **more: Any) -> Operation:
        inv = self.now + self.random.randint(1, 3)
        ret = inv + self.random.randint(1, 6)
        self.now = inv + self.random.randint(0, 2)
        mine = [o for o in self.operations if o.process == process]
        if mine and mine[-1].ret >= inv:
            shift = mine[-1].ret + 1 - inv
            inv, ret = inv + shift, ret + shift
        made = Operation(process, f, "ok", inv, ret, steps, more=more)
        self.operations.append(made)
        return made

    def send(self, key: int) -> Step:
        self.values += 1
        offset = self.ends.get(key, 0) + (self.random.random() < 0.15)  # a marker in between
        self.ends[key] = offset + 1
        self.logs.setdefault(key, []).append((offset, self.values))
        return ["send", key, offset, self.values]

    def poll(self, process: int, positions: dict[int, int], most: int) -> Step:
        """A reader with an odd number is given nothing of an aborted transaction."""
        hidden = self.aborted if process % 2 else set[int]()
        given: dict[int, list[list[int]]] = {}
        for key in sorted(positions):
            stored = [(o, v) for o, v in self.logs.get(key, []) if v not in hidden]
            found = [[o, v] for o, v in stored if o >= positions[key]]
            found = found[: self.random.randint(0, most)]
            if found:
                given[key] = found
                positions[key] = found[-1][0] + 1
        return ["poll", given]


def run(random: Random, transactions: float = 0.1, aborts: float = 0.0) -> list[Operation]:
    """A run that keeps its promises; such a share of its operations are transactions, and such a
    share of those abort."""
    w, keys = _Run(random), list(range(1, random.randint(2, 3)))
    at = {process: dict.fromkeys(keys, 0) for process in (10, 11)}
    grouped = random.random() < 0.5
    for process in at:
        w.operation(process, "assign", []).listed = list(keys)
    for _ in range(random.randint(2, 12)):
        drawn, producer, reader = random.random(), random.randint(0, 1), random.choice(list(at))
        more: dict[str, Any] = {"group": "g", "generation": 1} if grouped else {}
        if drawn < 0.4:
            sent = [w.send(random.choice(keys)) for _ in range(random.randint(1, 2))]
            w.operation(producer, "send", sent)
        elif drawn < 0.4 + transactions:
            steps = [w.send(random.choice(keys)) for _ in range(random.randint(1, 2))]
            if random.random() < 0.5:
                steps.append(["poll", {}])
            made = w.operation(producer + 20, "txn", steps)
            if aborts and random.random() < aborts:
                made.kind = "fail"
                w.aborted |= {s[3] for s in steps if s[0] == "send"}
        elif drawn < 0.9:
            polls = [w.poll(reader, at[reader], 3) for _ in range(random.choice((1, 1, 1, 2)))]
            w.operation(reader, "poll", polls, **more)
            if grouped and random.random() < 0.3:
                w.operations[-1].more["committed"] = dict(at[reader])
        else:
            w.operation(reader, "assign", []).listed = list(keys)
    w.now += 20
    for process in at:
        hidden = w.aborted if process % 2 else set[int]()
        while any(
            o >= at[process][k] and v not in hidden for k in keys for o, v in w.logs.get(k, [])
        ):
            w.operation(process, "poll", [w.poll(process, at[process], 8)], **more_of(grouped))
    return w.operations


def more_of(grouped: bool) -> dict[str, Any]:
    return {"group": "g", "generation": 1} if grouped else {}


def corrupt(random: Random, operations: list[Operation], again: bool = False) -> None:
    """Up to four corruptions, in place; with `again` applications may send a record once more."""
    while again and random.random() < 0.4:
        _send_again(random, operations)
    for _ in range(random.randint(0, 4)):
        _CORRUPTIONS[random.randrange(len(_CORRUPTIONS))](random, operations)
    _mend(operations)


def _with(operations: list[Operation], *kinds: str) -> list[tuple[Operation, Step]]:
    return [(o, s) for o in operations for s in o.steps if s[0] in kinds]


def _offset(random: Random, operations: list[Operation]) -> None:
    sends = _with(operations, "send")
    if sends:
        _, step = random.choice(sends)
        step[2] = max(0, (step[2] or 0) + random.choice((-2, -1, 1, 2)))


def _send_again(random: Random, operations: list[Operation]) -> None:
    sends = _with(operations, "send")
    if sends:
        one, step = random.choice(sends)
        began = one.ret + random.randint(1, 30)
        known = random.choice((None, (step[2] or 0) + random.randint(1, 4)))
        kind, process = random.choice(("ok", "info", "fail")), random.randint(0, 3)
        steps = [["send", step[1], known, step[3]]]
        operations.append(Operation(process, "send", kind, began, began + 3, steps))


def _forget_offset(random: Random, operations: list[Operation]) -> None:
    sends = _with(operations, "send")
    if sends:
        random.choice(sends)[1][2] = None


def _outcome(random: Random, operations: list[Operation]) -> None:
    one = random.choice(operations)
    one.kind = random.choice(("ok", "fail", "info"))


def _lists(operations: list[Operation]) -> list[list[list[int]]]:
    return [several for _, s in _with(operations, "poll") for several in s[1].values() if several]


def _drop(random: Random, operations: list[Operation]) -> None:
    lists = _lists(operations)
    if lists:
        mine = random.choice(lists)
        mine.pop(random.randrange(len(mine)))


def _drop_everywhere(random: Random, operations: list[Operation]) -> None:
    lists = _lists(operations)
    if lists:
        gone = random.choice(random.choice(lists))
        for mine in lists:
            mine[:] = [r for r in mine if r[1] != gone[1]]


def _twice(random: Random, operations: list[Operation]) -> None:
    lists = _lists(operations)
    if lists:
        mine = random.choice(lists)
        mine.insert(random.randrange(len(mine) + 1), list(random.choice(mine)))


def _swap(random: Random, operations: list[Operation]) -> None:
    lists = [mine for mine in _lists(operations) if len(mine) > 1]
    if lists:
        mine = random.choice(lists)
        at = random.randrange(len(mine) - 1)
        mine[at], mine[at + 1] = mine[at + 1], mine[at]


def _move(random: Random, operations: list[Operation]) -> None:
    lists = _lists(operations)
    if lists:
        record = random.choice(random.choice(lists))
        record[0] = max(0, record[0] + random.choice((-2, -1, 1, 2)))


def _value(random: Random, operations: list[Operation]) -> None:
    lists = _lists(operations)
    if lists:
        record = random.choice(random.choice(lists))
        record[1] = max(1, record[1] + random.choice((-1, 1)))


def _time(random: Random, operations: list[Operation]) -> None:
    one, step = random.choice(operations), random.choice((-30, -8, 8, 30))
    one.inv, one.ret = max(0, one.inv + step), max(1, one.ret + step)


def _listing(random: Random, operations: list[Operation]) -> None:
    assigns = [o for o in operations if o.f == "assign"]
    one = random.choice(assigns)
    one.listed = random.choice(([], [1], [2], [1, 2]))
    if random.random() < 0.4:
        one.more["seek-to-beginning?"] = True


def _rebalance(random: Random, operations: list[Operation]) -> None:
    polls = [o for o in operations if o.f == "poll"]
    if polls:
        random.choice(polls).more["rebalance-log"] = [{"keys": [random.choice((1, 2))]}]


def _commit(random: Random, operations: list[Operation]) -> None:
    polls = [o for o in operations if "group" in o.more]
    if polls:
        random.choice(polls).more["committed"] = {1: random.randint(0, 6)}


def _isolation(random: Random, operations: list[Operation]) -> None:
    polls = [o for o in operations if o.f == "poll"]
    if polls:
        random.choice(polls).more["isolation"] = "read_committed"


def _end_time(random: Random, operations: list[Operation]) -> None:
    txns = [o for o in operations if o.f == "txn"]
    if txns:
        one = random.choice(txns)
        one.more["end-txn-time"] = one.inv + random.randint(0, 40)


def _watermark(random: Random, operations: list[Operation]) -> None:
    polls = [o for o in operations if o.f == "poll" and o.kind == "ok"]
    if polls:
        random.choice(polls).more["hw"] = {1: random.randint(0, 6)}


def _epoch(random: Random, operations: list[Operation]) -> None:
    for one in operations:
        if one.f == "send":
            one.more |= {"producer-id": 1, "producer-epoch": random.randint(0, 1)}


def _read_own(random: Random, operations: list[Operation]) -> None:
    txns = [o for o in operations if o.f == "txn" and o.steps[-1][0] == "poll"]
    sends = _with(operations, "send")
    if txns and sends:
        one, (_, sent) = random.choice(txns), random.choice(sends)
        one.steps[-1][1].setdefault(sent[1], []).append([sent[2] or 0, sent[3]])


def _drop_operation(random: Random, operations: list[Operation]) -> None:
    if len(operations) > 3:
        operations.pop(random.randrange(len(operations)))


_CORRUPTIONS = (
    *(_offset, _forget_offset, _outcome, _outcome, _drop, _drop_everywhere, _twice, _swap, _move),
    *(_value, _time, _listing, _rebalance, _commit, _isolation, _end_time, _watermark, _epoch),
    *(_read_own, _read_own, _drop_operation),
)


def _mend(operations: list[Operation]) -> None:
    """A process does one thing at a time, and nothing after it was not answered."""
    new = 100
    for process in sorted({o.process for o in operations}):
        mine, name, last = [o for o in operations if o.process == process], process, -1
        for one in mine:
            length = max(1, one.ret - one.inv)
            one.inv = max(one.inv, last + 1)
            one.ret = one.inv + length
            one.process, last = name, one.ret
            if one.kind == "info":
                new += 1
                name = new
    for one in operations:
        for step in one.steps:
            if step[0] == "poll":
                step[1] = {key: several for key, several in step[1].items() if several}
            elif one.kind == "info" or (one.kind == "fail" and one.f != "txn"):
                step[2] = None  # who was not answered does not know
