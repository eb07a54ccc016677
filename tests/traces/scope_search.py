"""A search for evidence that is counted where it does not decide.

Usage: python -m tests.traces.scope_search [--seconds N] [--seed N]

A field is taken away on lines of one partition, one group or one client, or lines without it are
added: what was surely found of *other* partitions, groups and producers must still be found, and
be said. Nothing is made poorer where the finding is, so nothing there may become undecided. It
prints how often each check lost a finding with each field of each call, and an example.
"""

import json
from collections.abc import Iterable, Iterator
from random import Random
from time import process_time

import numpy as np
from attrs import frozen

from tests.traces.damage import damage
from tests.traces.dense import dense_trace
from tests.traces.evidence import Removal, Trace, at, bearing
from tests.traces.fixture import Line, fixture
from tests.traces.fuzz.native import trace as native
from tests.traces.fuzz.operations import corrupt, run
from tests.traces.needs import STEPS, Looked, looked, report, trace_of
from traces.checks.base import Check
from traces.checks.catalogue import CHECKS
from traces.engines.scopes import SCOPES
from traces.generate.small import IN_CALLS, NotHere
from traces.model.context import Clause
from traces.model.problems import BadInput
from traces.model.schema import NONE
from traces.verdicts.verdict import NOT_CHECKED, VIOLATED, Tally, clause_of

DAMAGED, RANDOM = "damaged", "random run"
BASES = (None, *IN_CALLS, DAMAGED, RANDOM, DAMAGED, RANDOM)
SOME = 30  # removals of a trace
Scope = tuple[str, int, int]
# What decides of other partitions, too: which records transactions hold together, and in which
# order calls were made.
SHARED = {"txn", "transactional_id", "invoked_ns", "returned_ns"}
# Where a call belongs: who does not tell which records it processed may have processed any.
LOCATION = {"records", "topic", "partition", "partitions", "offsets", "group", "instance"}
LINKED = {"T6", "A1"}  # look at several partitions together


def base(seed: int, name: str | None) -> Trace:
    """Raises `NotHere` where the seed has no room for the anomaly."""
    random = Random(seed)
    if name == DAMAGED:
        w = fixture(seed, steps=STEPS)
        lines, meta = json.loads(json.dumps([w.lines, w.meta]))
        damage(random, lines, meta)
        return lines, meta
    if name == RANDOM:
        operations = run(random, transactions=0.3, aborts=0.4)
        corrupt(random, operations, again=True)
        return native(random, operations)
    return trace_of(seed, name)


@frozen
class Found:
    """A sure finding, where it is and the calls that show it."""

    scope: Scope
    calls: frozenset[tuple[int, int]]


def surely_found(one: Looked, check: Check) -> set[Found]:
    """The breaches that are shown of a check, if it says that it is violated."""
    if one.verdict(check).verdict != VIOLATED:
        return set()
    shown = one.tallies.get(check.id, Tally()).sound(check.closed).witnesses
    return {
        Found(_scope(check, events), frozenset((e["process"], e["seq"]) for e in events))
        for clause, events in shown
        if clause_of(clause)[0] == Clause.NOT
    }


def _scope(check: Check, events: list[dict[str, int]]) -> Scope:
    last = events[-1]
    if check.scope == "partition":
        return "partition", last["topic"], last["partition"]
    return check.scope, last["group"] if check.scope == "group" else NONE, NONE


def touched(one: Looked, trace: Trace, removal: Removal) -> set[Scope] | None:
    """The partitions and groups that the lines of a removal name; None: nobody can say which."""
    lines = [x for mine in trace[0].values() for x in mine if removal.where in _names(x)]
    if not lines or any(line["op"] in ("txn_commit", "txn_abort") for line in lines):
        return None
    columns, names = one.run.columns, one.run.names
    locations = set[Scope]()
    for line in lines:
        mine = columns["process"] == names.processes.number(line["process"])
        rows = mine & (columns["seq"] == line["seq"])
        if (columns["topic"][rows] == NONE).any():
            return None
        held = np.stack([columns[name][rows] for name in ("topic", "partition", "group")], 1)
        for topic, partition, group in np.unique(held, axis=0).tolist():
            locations |= {("partition", topic, partition), ("group", group, NONE)}
            if partition == NONE:
                return None
    return locations


def _names(line: Line) -> tuple[str, ...]:
    return ("all", line["op"], line["process"], at(line))


def narrow_removals(trace: Trace) -> Iterator[Removal]:
    """Fields of one line each, and of all lines of one process."""
    for field, having in bearing(trace[0]).items():
        own = field.removeprefix("records.")
        if own in SHARED | LOCATION:
            continue
        yield from (Removal(field, at(line)) for line in having)
        yield from (Removal(field, p) for p in sorted({line["process"] for line in having}))


def lost(before: Looked, after: Looked, check: Check, locations: Iterable[Scope]) -> set[Found]:
    """Findings elsewhere that are said no more."""
    if check.id in LINKED or check.scope == "producer":
        return set()
    elsewhere = {one for one in surely_found(before, check) if one.scope not in set(locations)}
    if not elsewhere:
        return set()
    if after.verdict(check).verdict == NOT_CHECKED:
        return elsewhere
    still = {one.scope for one in surely_found(after, check)}
    return {one for one in elsewhere if one.scope not in still}


def traces_of(random: Random, number: int) -> Iterator[tuple[str, Trace]]:
    """A trace with what breaks promises in it, and what it is called."""
    seed, name = random.randrange(10**9), BASES[number % len(BASES)]
    if number % 2:
        yield f"dense {seed}", dense_trace(seed)
        return
    try:
        yield f"{name} {seed}", base(seed, name)
    except NotHere:
        return


def search(random: Random, seconds: float) -> Iterator[tuple[str, str]]:
    """Each finding that was lost, in words, with an example."""
    until, number = process_time() + seconds, 0
    while process_time() < until:
        number += 1
        for named, trace in traces_of(random, number):
            yield from searched(named, trace, random)


def searched(named: str, trace: Trace, random: Random) -> Iterator[tuple[str, str]]:
    """The findings that are lost from one trace."""
    try:
        before = looked(trace)
    except BadInput:
        return
    ways = list(narrow_removals(trace))
    for removal in random.sample(ways, min(SOME, len(ways))):
        locations = touched(before, trace, removal)
        if locations is None:
            continue
        try:
            after = looked(removal(trace))
        except BadInput:
            continue
        for check in CHECKS.values():
            if lost(before, after, check, locations):
                reason = after.verdict(check).reason
                yield f"{check.id} lost without {removal.what}", f"{named} {removal}: {reason}"


assert set(SCOPES) == {"partition", "group", "producer", "record"}

if __name__ == "__main__":
    report(search, __doc__)
