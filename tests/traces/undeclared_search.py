"""A search for what checks read and do not ask for: findings that change though nothing is missing.

Usage: python -m tests.traces.undeclared_search [--seconds N] [--seed N]

A verdict turns round only where the finding that changed was the only one, so `dense_search` meets
an undeclared need once in hours. Here findings are compared themselves: one more that is sure, or
one less where nothing is left undecided, though the check lacks none of its needs. It prints how
often each check changed with each field of each call, and an example; most often first.
"""

from collections.abc import Iterator
from random import Random
from time import process_time

from tests.traces.dense import dense_trace
from tests.traces.dense_search import SOME, every_removal
from tests.traces.evidence import Removal, Trace, at
from tests.traces.needs import Looked, looked, report
from traces.checks.base import Check
from traces.checks.catalogue import CHECKS
from traces.model.context import Clause
from traces.model.problems import BadInput
from traces.verdicts.verdict import HOLDS, NOT_CHECKED, Tally

ENDS = ("tail", "end")  # of a file that ends early, what is left may well hold


def changed(check: Check, before: Looked, after: Looked, removal: Removal) -> str:
    """A change in a check's sure findings by a need that it does not declare, empty if none."""
    if any(need in one.run.evidence.missing for one in (before, after) for need in check.closed):
        return ""
    tallies = [one.tallies.get(check.id, Tally()).sound(check.closed) for one in (before, after)]
    lacking = bool(after.lacks(check))
    was, now = (_sure(tally, violations=lacking) for tally in tallies)
    if now > was and (not lacking or tallies[0].seen):
        return "more"
    holds = not lacking and after.verdict(check).verdict == HOLDS
    gone = now < was and before.verdict(check).verdict != NOT_CHECKED
    return "less" if gone and holds and removal.what not in ENDS else ""


def _sure(tally: Tally, *, violations: bool) -> int:
    """The number of decided findings; if a need is lacking, only of violations."""
    return tally.under(Clause.NOT) if violations else tally.total - tally.under(Clause.UNKNOWN)


def search(random: Random, seconds: float) -> Iterator[tuple[str, str]]:
    """Each change that was found, in words, with an example."""
    until = process_time() + seconds
    while process_time() < until:
        seed = random.randrange(10**9)
        trace = dense_trace(seed)
        try:
            before = looked(trace)
        except BadInput:
            continue
        ways = list(every_removal(trace))
        for removal in random.sample(ways, min(SOME, len(ways))):
            try:
                after = looked(removal(trace))
            except BadInput:
                continue
            for check in CHECKS.values():
                if word := changed(check, before, after, removal):
                    of = f"{check.id} {word} without {removal.what} of {_concerned(trace, removal)}"
                    yield of, f"seed {seed} without {removal}"


def _concerned(trace: Trace, removal: Removal) -> str:
    """The call of the line that the removal is about, or what else it is about."""
    lines = [line for mine in trace[0].values() for line in mine if at(line) == removal.where]
    return (
        " ".join((line["op"], line["outcome"]))
        if (line := next(iter(lines), None))
        else removal.where
    )


if __name__ == "__main__":
    report(search, __doc__)
