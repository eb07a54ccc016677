"""Locate the rows that lack a field: their partitions, groups and producers.

A piece lists for each field the lines of its digest that lack it. A line that names a partition
concerns that one. One that names none concerns all partitions of its process if its call is only
about the process (the end of a transaction, an assignment). Otherwise it concerns anything.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property

import numpy as np
from attrs import define, field

from traces.ingest.evidence import Evidence
from traces.ingest.summary import distinct
from traces.model.columns import Bools, IntColumns
from traces.model.context import Ints
from traces.model.lacking import GROUP, PARTITION, PRODUCER, Key, Lacking
from traces.model.schema import NONE, Op

Keys = set[Key]
# Calls that tell of their own process alone, whatever partitions they concern.
_OF_A_PROCESS = frozenset(
    (
        *("rebalance", "assign", "assigned", "reset", "moved", "pause", "subscribe", "static"),
        *("begin", "begun", "ending", "committing", "init_producer", "poll", "polled"),
        *("mark", "stable", "log_start", "watching", "starting", "settling"),
        *("placed_mark", "placed_start"),
    )
)


@define(slots=False)
class Locations:
    """Of each need the keys of each scope at which it is missing, as far as that is known."""

    digest: IntColumns
    groups_of: Callable[[int], Iterable[int]] = lambda process: ()  # as they are configured
    found: dict[str, dict[str, Keys]] = field(
        factory=lambda: {s: dict[str, Keys]() for s in SCOPES}
    )
    lines: dict[str, list[Ints]] = field(factory=dict[str, list[Ints]])

    def add(self, need: str, lines: Ints) -> None:
        """Rows of these lines of the digest lack it."""
        self.lines.setdefault(need, []).append(lines)

    def settle(self) -> None:
        """Find out which keys these lines are about."""
        for need, several in self.lines.items():
            lines = np.unique(np.concatenate(several))
            for scope, keys_of in SCOPES.items():
                keys = keys_of(self, need, lines)
                if keys is not None:
                    self.found[scope][need] = keys

    def put(self, need: str, scope: str, keys: Iterable[Key]) -> None:
        """It is missing at these keys alone; of other scopes everywhere, unless that is put too."""
        self.found[scope][need] = set(keys)

    def put_as(self, need: str, other: str) -> None:
        """It is missing where the other is."""
        if (keys := self.of(other)) is not None:
            self.put(need, PARTITION, keys)

    def put_same(self, need: str, topics: Iterable[int]) -> None:
        """It is missing of these topics."""
        self.put(need, PARTITION, self.partitions_of_topics(topics))
        self.put(need, GROUP, self.groups_of_topics(topics))

    def of(self, need: str, scope: str = PARTITION) -> Keys | None:
        """The keys at which it is missing; None if they are unknown, so everywhere."""
        return self.found[scope].get(need)

    def union(self, needs: Iterable[str], missing: Iterable[str]) -> Keys | None:
        """The partitions at which one of these needs is missing; None: everywhere."""
        out, lacking = set[Key](), set(missing)
        for need in needs:
            if need in lacking:
                keys = self.of(need)
                if keys is None:
                    return None
                out |= keys
        return out

    def lacking(self, missing: Iterable[str]) -> Lacking:
        """The needs that are missing, and where."""
        missing = set(missing)
        return Lacking.of(
            missing,
            {s: {n: k for n, k in of.items() if n in missing} for s, of in self.found.items()},
        )

    def partitions_of_topics(self, topics: Iterable[int]) -> Keys:
        """All partitions of these topics that some call names."""
        return {key for topic in topics for key in self._by_topic.get(topic, ())}

    def partitions_of_processes(self, processes: Iterable[int]) -> Keys | None:
        """All partitions that these name; None where one names none, and may mean any."""
        return _with(set(), self._by_process, np.array(sorted(processes), np.int64))

    def groups_of_topics(self, topics: Iterable[int]) -> Keys:
        """The groups of which a call names one of these topics."""
        rows = np.isin(self.digest["topic"], list(topics)) & (self.digest["group"] != NONE)
        return {(group, 0) for group in np.unique(self.digest["group"][rows]).tolist()}

    @cached_property
    def located(self) -> Keys:
        """All partitions that some call names."""
        return set(_pairs(self.digest, ("topic", "partition"), self._located))

    @cached_property
    def _by_topic(self) -> dict[int, Keys]:
        out: dict[int, Keys] = {}
        for key in self.located:
            out.setdefault(key[0], set()).add(key)
        return out

    @cached_property
    def _located(self) -> Bools:
        return (self.digest["topic"] != NONE) & (self.digest["partition"] != NONE)

    @cached_property
    def _by_process(self) -> dict[int, Keys]:
        """The partitions that each process names, also by their topic alone."""
        out: dict[int, Keys] = {}
        for process, topic, partition in _distinct(
            self.digest, ("process", "topic", "partition"), self.digest["topic"] != NONE
        ):
            mine = out.setdefault(process, set())
            mine |= (
                {(topic, partition)} if partition != NONE else self.partitions_of_topics([topic])
            )
        return out

    @cached_property
    def _groups(self) -> dict[int, Keys]:
        out: dict[int, Keys] = {}
        for process, group in _distinct(
            self.digest, ("process", "group"), self.digest["group"] != NONE
        ):
            out.setdefault(process, set()).add((group, 0))
        for process in np.unique(self.digest["process"]).tolist():
            configured = {(group, 0) for group in self.groups_of(process)}
            out[process] = out.get(process, set()) | configured
        return out

    @cached_property
    def _producers(self) -> dict[int, Keys]:
        out: dict[int, Keys] = {}
        named = (self.digest["tid"] != NONE) | (self.digest["pid"] != NONE)
        for process, tid, pid in _distinct(self.digest, ("process", "tid", "pid"), named):
            out.setdefault(process, set()).add((tid, pid if tid == NONE else NONE))
        return out

    @cached_property
    def transactional(self) -> Keys | None:
        """The partitions to which transactions may have written; None: any."""
        rows = (self.digest["op"] == Op.SEND) & (self.digest["tid"] != NONE)
        unnamed = self.of("named.tid") if "named.tid" in self.lines else set[Key]()
        keys = self._partitions("send", np.flatnonzero(rows)) if rows.any() else set[Key]()
        return None if keys is None or unnamed is None else keys | unnamed

    @cached_property
    def _numbered(self) -> tuple[Ints, Ints]:
        """The partitions and topics that the lines name, and which of them each line names."""
        return distinct(self.digest["topic"], self.digest["partition"])

    def _partitions(self, need: str, lines: Ints) -> Keys | None:
        named, which = self._numbered
        there = np.zeros(len(named), bool)
        there[which[lines]] = True
        located, nowhere = named[:, 1] != NONE, named[:, 0] == NONE
        if (there | ~located).all():  # every partition lacks it: that is everywhere
            return None
        if (there & nowhere).any() and need.partition(".")[0] not in _OF_A_PROCESS:
            return None
        keys = {(topic, partition) for topic, partition in named[there & located].tolist()}
        keys |= self.partitions_of_topics(named[there & ~located & ~nowhere, 0].tolist())
        alone = lines[self.digest["topic"][lines] == NONE]
        return _with(keys, self._by_process, self.digest["process"][alone])

    def _in_groups(self, need: str, lines: Ints) -> Keys | None:
        group = self.digest["group"][lines]
        keys = {(one, 0) for one in np.unique(group[group != NONE]).tolist()}
        return _with(keys, self._groups, self.digest["process"][lines[group == NONE]])

    def _of_producers(self, need: str, lines: Ints) -> Keys | None:
        named = (self.digest["tid"][lines] != NONE) | (self.digest["pid"][lines] != NONE)
        pairs = _pairs(self.digest, ("tid", "pid"), lines[named])
        keys = {(tid, pid if tid == NONE else NONE) for tid, pid in pairs}
        return _with(keys, self._producers, self.digest["process"][lines[~named]])


SCOPES: dict[str, Callable[[Locations, str, Ints], Keys | None]] = {
    PARTITION: Locations._partitions,  # pyright: ignore[reportPrivateUsage]
    GROUP: Locations._in_groups,  # pyright: ignore[reportPrivateUsage]
    PRODUCER: Locations._of_producers,  # pyright: ignore[reportPrivateUsage]
}


def locate_what_follows(evidence: Evidence, locations: Locations, unproved: Keys | None) -> None:
    """Locate the needs that follow from other needs.

    `unproved` are the partitions whose transactions lack a proof; without it any may.
    """
    missing = evidence.missing
    for need in ("copies", "ended.offset"):
        locations.put_as(need, "acked.offset")
    transactional = locations.transactional
    read = locations.of("read.isolation")
    if transactional is not None:
        locations.put(
            "isolation", PARTITION, transactional if read is None else read & transactional
        )
    elif read is not None:
        locations.put("isolation", PARTITION, read)
    if "proof" in missing and unproved is not None:
        topics = {topic for topic, partition in unproved if partition == NONE}
        locations.put("proof", PARTITION, unproved | locations.partitions_of_topics(topics))


def several_clocks(locations: Locations) -> dict[str, Keys]:
    """The partitions and groups whose calls have times of several clocks.

    A call without a time needs none. Those of a process that name no partition or group (the end
    of a transaction, its own end) may be compared with any of its others.
    """
    digest, out = locations.digest, dict[str, Keys]()
    timed = (digest["inv"] != NONE) | (digest["ret"] != NONE)
    for scope, named, of_process in (
        (PARTITION, locations._located, locations._by_process),  # pyright: ignore[reportPrivateUsage]
        (GROUP, digest["group"] != NONE, locations._groups),  # pyright: ignore[reportPrivateUsage]
        (PRODUCER, digest["process"] == NONE, locations._producers),  # pyright: ignore[reportPrivateUsage]
    ):
        clocks: dict[Key, set[int]] = {}
        names = ("topic", "partition") if scope == PARTITION else ("group", "process")
        for one, two, clock in _distinct(digest, (*names, "clock"), timed & named):
            key = (one, two) if scope == PARTITION else (one, 0)
            clocks.setdefault(key, set()).add(clock)
        for process, clock in _distinct(digest, ("process", "clock"), timed & ~named):
            for key in of_process.get(process, ()):
                clocks.setdefault(key, set()).add(clock)
        out[scope] = {key for key, several in clocks.items() if len(several) > 1}
    return out


def _with(keys: Keys, by_process: dict[int, Keys], processes: Ints) -> Keys | None:
    """These keys and those of the processes; None where one of them has none."""
    for process in np.unique(processes).tolist():
        if not (mine := by_process.get(process)):
            return None
        keys |= mine
    return keys


def _pairs(columns: IntColumns, names: tuple[str, str], rows: Bools | Ints) -> Iterator[Key]:
    return ((one, two) for one, two in _distinct(columns, names, rows))


def _distinct(
    columns: IntColumns, names: tuple[str, ...], rows: Bools | Ints
) -> Iterator[tuple[int, ...]]:
    """The combinations of these columns in these rows, each once."""
    lines, _ = distinct(*(columns[name][rows] for name in names))
    return (tuple(line) for line in lines.tolist())
