"""Needs of checks, with traces that show what a check would say if it did not declare one.

`data/needs.ndjson` holds the traces: a seed, an injected anomaly or none, and what is taken away.
With its needs the check then answers *not checked*; were one of them not declared, it would turn
its answer round. `python -m tests.traces.needs --seconds 300` looks for more on fresh seeds, adds
them to the file, and prints every verdict that is turned round although all needs are declared.
"""

import json
from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any

from attrs import evolve, frozen

from tests.traces.evidence import Removal, Trace, at, bearing, every
from tests.traces.fixture import fixture, write
from traces.checks.base import Check
from traces.checks.catalogue import CHECKS
from traces.engines import local
from traces.generate.small import IN_CALLS, NotHere, injected
from traces.ingest.run import Run, read_trace
from traces.model.problems import BadInput
from traces.verdicts.jepsen import add_cycles
from traces.verdicts.verdict import NOT_CHECKED, Tally, Verdict, tally, verdict_on

FILE = Path(__file__).parent / "data" / "needs.ndjson"
STEPS = 12
Need = tuple[str, str]  # a check, and what it needs
Search = Callable[[Random, float], Iterable[tuple[str, str]]]  # words about a find, and its place


@frozen
class Looked:
    """The findings in a trace, and the run with its missing evidence."""

    run: Run
    tallies: Mapping[str, Tally]

    def verdict(self, check: Check) -> Verdict:
        """The answer of a check, which may have been changed."""
        return verdict_on(self.run, check, self.tallies.get(check.id, Tally()))

    def lacks(self, check: Check) -> set[str]:
        """The check's needs that the trace lacks."""
        return {n for n in (*check.needs, *check.closed) if n in self.run.evidence.missing}


@frozen
class Shown:
    """A trace that shows needs."""

    seed: int
    anomaly: str | None
    removal: Removal

    def as_json(self) -> dict[str, Any]:
        return {"seed": self.seed, "anomaly": self.anomaly, "without": str(self.removal)}

    @classmethod
    def from_json(cls, json: Mapping[str, Any]) -> "Shown":
        return cls(json["seed"], json["anomaly"], Removal.parse(json["without"]))


def declared() -> set[Need]:
    """All needs of all checks."""
    return {(check.id, need) for check in CHECKS.values() for need in _needs(check)}


def _needs(check: Check) -> tuple[str, ...]:
    return (*check.needs, *check.closed)


def trace_of(seed: int, anomaly: str | None) -> Trace:
    """Raises `NotHere` where the seed has no room for the anomaly."""
    w = fixture(seed, steps=STEPS)
    return injected(w, IN_CALLS[anomaly]) if anomaly else (w.lines, w.meta)


def looked(trace: Trace) -> Looked:
    """Judge a trace; raises `BadInput`."""
    run = reading(trace)
    return Looked(run, tallies_of(run))


def reading(trace: Trace) -> Run:
    with TemporaryDirectory() as folder:
        return read_trace(write(Path(folder), *trace))


def tallies_of(run: Run) -> Mapping[str, Tally]:
    found = tally(local.find(run.table(0), {0: run.context}))
    tallies = next(iter(found.values()), dict[str, Tally]())
    add_cycles(tallies, jepsen=False)
    return tallies


@cache
def with_all(seed: int, anomaly: str | None) -> Looked:
    """The trace of a seed with nothing taken away."""
    return looked(trace_of(seed, anomaly))


def without(check: Check, need: str) -> Check:
    """The check as if it had not declared this need."""
    return evolve(
        check,
        needs=tuple(n for n in check.needs if n != need),
        closed=tuple(n for n in check.closed if n != need),
    )


def change(before: Verdict, after: Verdict) -> str:
    """The change of a verdict, in words."""
    one, other = (f"{said.verdict} ({said.count})" for said in (before, after))
    return f"{before.check} {one} became {other}"


def turned(before: Verdict, after: Verdict) -> bool:
    """True if less evidence gives another verdict, or the same with more findings."""
    if after.verdict == NOT_CHECKED:
        return False
    return after.verdict != before.verdict or after.count > before.count


def needed(before: Looked, after: Looked) -> Iterator[Need]:
    """The needs without which a check would have turned its answer round."""
    for check in CHECKS.values():
        said = before.verdict(check)
        for need in sorted(after.lacks(check)):
            if turned(said, after.verdict(without(check, need))):
                yield check.id, need


def false_verdicts(before: Looked, after: Looked) -> list[str]:
    """The checks that turned their answers round."""
    return [c.id for c in CHECKS.values() if turned(before.verdict(c), after.verdict(c))]


def kept() -> dict[Shown, list[Need]]:
    """The traces of the file with what each shows."""
    entries = [json.loads(line) for line in FILE.read_text().splitlines()]
    return {Shown.from_json(one): [_need(words) for words in one["shows"]] for one in entries}


def _need(words: str) -> Need:
    check, _, need = words.partition(" ")
    return check, need


def write_down(shown: Mapping[Shown, Iterable[Need]]) -> None:
    """As few of these traces as show all that they show together."""
    left = {need for needs in shown.values() for need in needs} & declared()
    lines: list[dict[str, Any]] = []
    while left:
        best = max(shown, key=lambda one: (len(left & set(shown[one])), str(one)))
        mine = sorted(left & set(shown[best]))
        lines.append(best.as_json() | {"shows": [" ".join(need) for need in mine]})
        left -= set(mine)
    lines.sort(key=lambda entry: (entry["anomaly"] or "", entry["seed"], entry["without"]))
    FILE.write_text("".join(json.dumps(line) + "\n" for line in lines))


def search(random: Random, seconds: float, every_trace: bool) -> dict[Shown, list[Need]]:
    """Look for needs that are not shown yet; what is wrong is printed."""
    shown = {one: needs for one, needs in kept().items() if set(needs) <= declared()}
    left = declared() - {need for needs in shown.values() for need in needs}
    until, judged, names = process_time() + seconds, 0, [None, *IN_CALLS]
    while process_time() < until:
        seed, anomaly = random.randrange(10**6), random.choice(names)
        try:
            trace, before = trace_of(seed, anomaly), with_all(seed, anomaly)
        except NotHere:
            continue
        with_all.cache_clear()
        ways = list(every(trace, random))
        ways = random.sample(ways, min(len(ways), 60))
        for removal in dict.fromkeys([*at_witnesses(before, trace, left), *ways]):
            try:
                run = reading(removal(trace))
            except BadInput:
                continue
            if not every_trace and not _may_show(run, left):
                continue
            judged += 1
            after = Looked(run, tallies_of(run))
            if wrong := false_verdicts(before, after):
                print(f"FALSE: seed {seed} {anomaly} without {removal}: {wrong}", flush=True)
            if new := left & set(needed(before, after)):
                shown[Shown(seed, anomaly, removal)] = list(needed(before, after))
                left -= new
        print(f"{until - process_time():.0f} s: {judged} judged, {len(left)} left", flush=True)
    return shown


def at_witnesses(before: Looked, trace: Trace, left: set[Need]) -> Iterator[Removal]:
    """Of the calls that show what was found: each field, for itself and for all such calls."""
    names = before.run.names.processes
    for id in sorted({check for check, _ in left}):
        for _, events in before.verdict(CHECKS[id]).witnesses[:2]:
            for process, seq in {(names.name(e["process"]), e["seq"]) for e in events}:
                (line,) = (x for x in trace[0][process] if x["seq"] == seq)
                yield Removal("line", at(line))
                for field in bearing({process: [line]}):
                    for where in (at(line), line["op"], process):
                        yield Removal(field, where)


def _may_show(run: Run, left: set[Need]) -> bool:
    """True if a check lacks nothing but one need that is looked for."""
    missing = run.evidence.missing.keys()
    lacking = {id: missing & set(_needs(CHECKS[id])) for id in {check for check, _ in left}}
    return any(len(several) == 1 and (id, *several) in left for id, several in lacking.items())


def report(search: Search, about: str | None) -> None:
    """Print what a search finds until its time is over: how often, and an example of each."""
    random, given = options(about)
    found, example = Counter[str](), dict[str, str]()
    for words, seed in search(random, given.seconds):
        found[words] += 1
        example.setdefault(words, seed)
    for words, count in found.most_common():
        print(f"{count} {words}: {example[words]}")


def options(about: str | None, *switches: tuple[str, str]) -> tuple[Random, Namespace]:
    """The random numbers and the options of a search; it prints its seed."""
    parser = ArgumentParser(description=about)
    parser.add_argument("--seconds", type=float, default=300, help="CPU seconds to look for")
    parser.add_argument("--seed", type=int, default=None)
    for name, words in switches:
        parser.add_argument(name, action="store_true", help=words)
    given = parser.parse_args()
    seed = Random().randrange(10**9) if given.seed is None else given.seed
    print(f"seed {seed}", flush=True)
    return Random(seed), given


def main() -> None:
    random, given = options(__doc__, ("--all", "judge every trace, not likely ones"))
    write_down(search(random, given.seconds, given.all))


if __name__ == "__main__":
    main()
