"""A search for verdicts that less evidence turns round, spread evenly over what can be taken away.

Usage: python -m tests.traces.even_search [--seconds N] [--seed N]

Random removals meet a rare field of a rare call once in hours. Here each injected anomaly, damaged
fixtures and random runs among them, is tried with each class of removal (a field of one kind of
call, on one line, of one process or everywhere; a line, an end, a file, a setting), the least tried
first, and at lines that show what was found before others.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from random import Random
from time import process_time

from tests.traces.damage import damage
from tests.traces.evidence import WHOLLY_ABSENT, Removal, Trace, at, bearing, settings_in
from tests.traces.fixture import Line, fixture
from tests.traces.fuzz.native import trace as native
from tests.traces.fuzz.operations import corrupt, run
from tests.traces.needs import STEPS, Looked, change, looked, options, trace_of, turned
from traces.checks.catalogue import CHECKS
from traces.generate.small import IN_CALLS, NotHere
from traces.model.problems import BadInput

DAMAGED, RANDOM = "damaged", "random run"
BASES = (None, *IN_CALLS, DAMAGED, RANDOM, DAMAGED, RANDOM)
OF_A_TRACE = 40  # removals, before another trace is made
Class = tuple[str, str, str]


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


def removals_by_class(
    before: Looked, trace: Trace, random: Random
) -> Iterator[tuple[Class, Removal]]:
    """One removal of each class that there is, at a line of a witness where there is one."""
    lines, meta = trace
    shown = _shown(before, trace)
    for op, mine in _by_call([line for several in lines.values() for line in several]).items():
        for how, several in (("shown", shown[op] or mine), ("any", mine)):
            yield ("line", op, how), Removal("line", at(random.choice(several)))
    for field, having in bearing(lines).items():
        if field not in WHOLLY_ABSENT:
            yield (field, "", "all"), Removal(field, "all")
        for op, mine in _by_call(having).items():
            among = [line for line in shown[op] if any(line is one for one in mine)] or mine
            yield (field, op, "shown"), Removal(field, at(random.choice(among)))
            yield (field, op, "any"), Removal(field, at(random.choice(mine)))
            if field not in WHOLLY_ABSENT:
                yield (field, op, "call"), Removal(field, op)
                yield (field, op, "process"), Removal(field, random.choice(mine)["process"])
    for path in settings_in(meta):
        yield ("meta", path[0], path[-1]), Removal("meta", "/".join(path))
    for process in lines:
        client = process.partition("#")[0]
        yield ("file", client, ""), Removal("file", process)
        yield ("end", client, ""), Removal("end", process)


def _by_call(lines: list[Line]) -> dict[str, list[Line]]:
    found = defaultdict[str, list[Line]](list)
    for line in lines:
        found[line["op"]].append(line)
    return found


def _shown(before: Looked, trace: Trace) -> dict[str, list[Line]]:
    """Lines that show what was found, by call."""
    line = {(x["process"], x["seq"]): x for mine in trace[0].values() for x in mine}
    names = before.run.names.processes
    events = (
        (names.name(event["process"]), event["seq"])
        for check in CHECKS.values()
        for _, several in before.verdict(check).witnesses[:2]
        for event in several
    )
    return _by_call([line[key] for key in events if key in line])


def search(random: Random, seconds: float) -> None:
    """Print each verdict that was turned round, twice at most for each class of removal."""
    tried, wrong = Counter[tuple[str | None, Class]](), Counter[tuple[str, Class]]()
    until, bases, judged = process_time() + seconds, list(BASES), 0
    while process_time() < until:
        seed, name = random.randrange(10**9), bases[judged % len(bases)]
        judged += 1
        try:
            trace = base(seed, name)
            before = looked(trace)
        except (NotHere, BadInput):
            continue
        ways = list(removals_by_class(before, trace, random))
        random.shuffle(ways)
        ways.sort(key=lambda way: tried[name, way[0]])
        for kind, removal in ways[:OF_A_TRACE]:
            tried[name, kind] += 1
            try:
                after = looked(removal(trace))
            except BadInput:
                continue
            for check in CHECKS.values():
                one, other = before.verdict(check), after.verdict(check)
                if turned(one, other):
                    wrong[check.id, kind] += 1
                    if wrong[check.id, kind] < 3:
                        what = f"seed {seed} {name} without {removal}"
                        print(f"{change(one, other)}: {what}", flush=True)
    print(f"{sum(tried.values())} judged, {len(tried)} pairs of a trace and a class, {wrong}")


def main() -> None:
    random, given = options(__doc__)
    search(random, given.seconds)


if __name__ == "__main__":
    main()
