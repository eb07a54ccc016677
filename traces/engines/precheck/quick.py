"""Doubts first, then the exact checks where there are any: the same findings, for far less.

Nothing here needs a session: `answers` is what is done with the summaries of a partition, wherever
they were brought together.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from attrs import define, evolve, field, frozen

from traces.engines.precheck import summarise, wholes
from traces.engines.precheck.doubt import LOG, MIXED
from traces.engines.precheck.partitions import PartitionSummaries
from traces.engines.precheck.sides import numbered
from traces.engines.precheck.summary import FIELDS, GROUPS, NOWHERE, ORDER, Summaries, SummaryKind
from traces.model.context import Context
from traces.model.schema import NONE
from traces.model.table import refuse_other_runs

SEED = 0x7A11C0DE
FAMILIES: Mapping[str, tuple[str, ...]] = {
    LOG: (
        *("L1", "L2", "L3", "L4", "L5", "L6", "L8", "L15", "P1", "T1", "T4", "T10"),
        *("C1", "C2", "C3", "C4", "G8", "G9", "G10"),
    ),
    MIXED: ("T5", "T6"),
    **{check: (check,) for check in ("P1", "L11", "L12", "L20", "C4", "G1", "G5", "G6")},
}
OF_PARTITIONS = tuple(dict.fromkeys(check for family in FAMILIES.values() for check in family))
GROUPED, PRODUCED = ("G4",), ("P3", "P4", "T8")
COVERED = (*OF_PARTITIONS, *GROUPED, *PRODUCED)
DISORDER, SMALL = "disorder", "small"
FEW_RECORDS = 1_000  # of a partition; so few the exact checks look at for less than it costs here
MOST_UNSURE = 20_000_000  # records whose sends nobody answered; beyond, only exact checks help


@frozen
class Answer:
    """One answer from a partition's summaries: a doubt, or the number of things looked at."""

    run: int
    topic: int
    partition: int
    what: str
    number: int  # of what was seen; of a doubt, the window, or whom it is about
    doubt: bool


def answers(
    summaries: Summaries, contexts: Mapping[int, Context], few: int = FEW_RECORDS
) -> Iterator[Answer]:
    """Judge the summaries of some partitions; all those of one are here.

    A partition with fewer than `few` records sent and read is left to the exact checks, which judge
    many small ones at once. Raises `BadInput` for one of a run that has no context.
    """
    small, summaries = _small(summaries, few)
    for run, topic, partition in small:
        yield Answer(run, topic, partition, SMALL, NONE, True)
    for (run, topic, partition), mine in summaries.groups("run", "topic", "partition"):
        refuse_other_runs(np.array([run]), contexts)
        if partition == NOWHERE and topic == ORDER:
            found = [(DISORDER, NONE)] if wholes.in_disorder(mine) else []
            seen = list[tuple[str, int]]()
        elif partition == NOWHERE:
            doubts = wholes.doubtful_groups if topic == GROUPS else wholes.doubtful_producers
            found, seen = list(doubts(mine)), wholes.seen(mine, contexts[run])
        else:
            one = PartitionSummaries(mine, contexts[run], topic)
            found, seen = list(one.doubts()), one.seen()
        for what, number in dict.fromkeys(found):
            yield Answer(run, topic, partition, what, number, True)
        for what, number in seen:
            if number:
                yield Answer(run, topic, partition, what, number, False)


def _small(summaries: Summaries, few: int) -> tuple[Iterator[tuple[int, int, int]], Summaries]:
    """The partitions of fewer records, and the summaries of all else."""
    names, counted = ("run", "topic", "partition"), FIELDS[SummaryKind.COUNT].columns
    number, first = numbered(*(summaries[name] for name in names))
    records = (summaries["kind"] == SummaryKind.COUNT) & np.isin(
        summaries[counted["what"]], (summarise.SENDS, summarise.READS)
    )
    held = np.bincount(number, np.where(records, summaries[counted["rows"]], 0), len(first))
    small = (held < few) & (summaries["partition"][first] != NOWHERE)
    keys = (summaries[name][first[small]].tolist() for name in names)
    return zip(*keys, strict=True), summaries.where(~small[number])


@define
class Doubts:
    """All doubts of all runs: which partitions to look at, and with which checks."""

    partitions: dict[tuple[int, int, int], set[str]] = field(
        factory=dict[tuple[int, int, int], set[str]]
    )
    groups: set[tuple[int, int]] = field(factory=set[tuple[int, int]])
    producers: set[tuple[int, int]] = field(factory=set[tuple[int, int]])
    seen: list[Answer] = field(factory=list[Answer])
    # Runs whose rows do not lie in their processes' order, or have more unanswered sends than can
    # be looked up: nothing is vouched for.
    disorder: set[int] = field(factory=set[int])

    @classmethod
    def of(cls, answers: Iterable[Answer]) -> "Doubts":
        """Those among these answers."""
        out = cls()
        for one in answers:
            if not one.doubt:
                out.seen.append(one)
            elif one.what == DISORDER:
                out.disorder.add(one.run)
            elif one.what in GROUPED:
                out.groups.add((one.run, one.number))
            elif one.what in PRODUCED:
                out.producers.add((one.run, one.number))
            else:
                key = (one.run, one.topic, one.partition)
                checks = OF_PARTITIONS if one.what == SMALL else FAMILIES[one.what]
                out.partitions.setdefault(key, set()).update(checks)
        return out

    @property
    def checks(self) -> set[str]:
        """All checks that some partition is to be looked at with."""
        return {check for several in self.partitions.values() for check in several}

    def widened(self) -> "Doubts":
        """The same, with every doubtful partition to be looked at with the checks of all."""
        checks = self.checks
        partitions = {key: set(checks) for key in self.partitions}
        return evolve(self, partitions=partitions)

    def settled(self) -> list[dict[str, Any]]:
        """As findings: what was looked at where there is no doubt."""
        blank: dict[str, Any] = {"kind": "", "clause": 0, "found": 0, "extra": 0, "events": None}
        blank["lacking"] = ""
        totals: dict[tuple[int, str], int] = {}
        for one in self.seen:
            if not self._judged(one):
                totals[one.run, one.what] = totals.get((one.run, one.what), 0) + one.number
        return [
            blank | {"run": run, "check": check, "seen": seen}
            for (run, check), seen in sorted(totals.items())
        ]

    def _judged(self, one: Answer) -> bool:
        """True if the exact checks look there as well, and count by themselves."""
        if one.what in GROUPED:
            return any(run == one.run for run, _ in self.groups)
        if one.what in PRODUCED:
            return any(run == one.run for run, _ in self.producers)
        return one.what in self.partitions.get((one.run, one.topic, one.partition), ())
