"""A search for verdicts that less evidence turns round, in small random traces of all calls.

Usage: python -m tests.traces.dense_search [--seconds N] [--seed N]

Of each trace it takes away some of what can be: a field of a line, of a kind of call, of a process
or everywhere; a setting, a file, a line, an end. It prints each trace and removal that it finds.
"""

import json
from collections import Counter
from collections.abc import Iterator
from random import Random
from time import process_time

from attrs import frozen

from tests.traces.dense import dense_trace
from tests.traces.evidence import WHOLLY_ABSENT, Removal, Trace, at, bearing, settings_in
from tests.traces.needs import change, looked, options, turned
from traces.checks.catalogue import CHECKS
from traces.model.problems import BadInput
from traces.verdicts.verdict import NOT_CHECKED, VIOLATED, Verdict

SOME = 40  # removals of a trace


@frozen
class Find:
    """A verdict that was turned round."""

    seed: int
    removal: Removal
    before: Verdict
    after: Verdict

    def __str__(self) -> str:
        return f"{change(self.before, self.after)}: seed {self.seed} without {self.removal}"


@frozen
class Searched:
    """The result for one trace: verdicts, the number of removals judged, and their finds."""

    verdicts: list[Verdict]
    cases: int
    finds: list[Find]


def searched(seed: int, some: int = SOME) -> Searched:
    """Judge the trace of a seed, whole and with so many removals; raises `BadInput`."""
    trace, cases, finds = dense_trace(seed), 0, list[Find]()
    whole = looked(trace)
    before = [whole.verdict(check) for check in CHECKS.values()]
    ways = list(every_removal(trace))
    for removal in Random(seed).sample(ways, min(some, len(ways))):
        try:
            reduced = looked(removal(trace))
        except BadInput:
            continue
        cases += 1
        for one in before:
            other = reduced.verdict(CHECKS[one.check])
            if contradicts(other, one, removal):
                finds.append(Find(seed, removal, one, other))
    return Searched(before, cases, finds)


def every_removal(trace: Trace) -> Iterator[Removal]:
    """All that can be taken away."""
    lines, meta = trace
    for field, having in bearing(lines).items():
        if field in WHOLLY_ABSENT:  # who does not tell it once tells it never
            lines_of = Counter(line["process"] for line in having)
            having = [line for line in having if lines_of[line["process"]] > 1]
        several = [at(line) for line in having]
        if field not in WHOLLY_ABSENT:
            several += ["all", *(line["op"] for line in having)]
            several += [line["process"] for line in having]
        yield from (Removal(field, where) for where in dict.fromkeys(several))
    for path in settings_in(meta):
        yield Removal("meta", "/".join(path))
    for process, mine in lines.items():
        yield Removal("file", process)
        yield Removal("end", process)
        for line in mine[:-1]:
            yield Removal("line", at(line))
            if line["op"] != "scan":  # of two final scans that differ either may be right
                yield Removal("tail", at(line))


def contradicts(after: Verdict, before: Verdict, removal: Removal) -> bool:
    """True if the verdict on less evidence contradicts the other, and is not only about less.

    A file that ends early may well hold up to there. A check that was *not checked* for another
    reason than undecided findings may be decided once that reason is taken away.
    """
    if not turned(before, after):
        return False
    if before.verdict == NOT_CHECKED:
        undecided = " found, and " in before.reason and removal.what not in ("tail", "end")
        return undecided and after.verdict == VIOLATED
    return after.verdict == VIOLATED or removal.what not in ("tail", "end")


def search(random: Random, seconds: float) -> bool:
    """Look for so many CPU seconds; print the first two finds of each kind, and what was judged."""
    began, cases, traces = process_time(), 0, 0
    kinds, violated = Counter[tuple[str, ...]](), set[str]()
    while process_time() < began + seconds:
        try:
            one = searched(random.randrange(10**9))
        except BadInput:
            continue
        traces, cases = traces + 1, cases + one.cases
        violated |= {verdict.check for verdict in one.verdicts if verdict.verdict == VIOLATED}
        for find in one.finds:
            kind = (find.before.check, find.removal.what, find.before.verdict, find.after.verdict)
            kinds[kind] += 1
            if kinds[kind] <= 2:
                print(find, json.dumps(dense_trace(find.seed)), sep="\n", flush=True)
    print(f"{cases:,} cases of {traces:,} traces in {process_time() - began:.0f} CPU seconds")
    print(f"{len(violated)} checks were violated:", *(id for id in CHECKS if id in violated))
    print(f"{kinds.total()} verdicts were turned round", *kinds.items(), sep="\n")
    return bool(kinds)


def main() -> int:
    random, given = options(__doc__)
    return int(search(random, given.seconds))


if __name__ == "__main__":
    raise SystemExit(main())
