"""A check: one promise, the fields that decide it, and a function that finds breaches."""

from collections.abc import Callable
from typing import Any

import numpy as np
from attrs import field, frozen

from traces.model.context import Ints

NO_ROWS: Ints = np.empty((0, 1), dtype=np.int64)
NO_CLAUSE: Ints = np.empty(0, dtype=np.int64)

TRUNCATED = (
    "the log was truncated, as topics.unclean_leader_election = true or "
    "topics.min_insync_replicas = 1 permits"
)
LOSS = (
    "producers.acks is not all, topics.unclean_leader_election is true, "
    "or topics.min_insync_replicas is 1"
)


@frozen
class Found:
    """The findings of a check in one partition, group or producer.

    Each line of `rows` is one finding: up to four rows of the table that together are its witness
    (-1 where there are fewer). `clause` says for each whether the configuration permits it.
    """

    seen: int
    rows: Ints = field(default=NO_ROWS)
    clause: Ints = field(default=NO_CLAUSE)
    kind: str = ""
    extra: int = 0


Function = Callable[[Any], list[Found]]


@frozen
class Check:
    """One guarantee of the table, and all that a report says about it."""

    id: str
    title: str
    found: str
    formula: str
    needs: tuple[str, ...]
    function: Function
    spec: str = ""
    unless: str = ""
    closed: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    scope: str = "partition"
    looks_at: str = "acknowledged sends and reads"
    extra: str = ""
    uses: tuple[str, ...] | None = None

    @property
    def unless_text(self) -> str:
        """The configuration under which a finding would be allowed."""
        return f"would be allowed only if {self.unless}" if self.unless else "never allowed"


REGISTRY: dict[str, Check] = {}

# Things that are needed together. A word of `needs` or `closed` that is none of these is the name
# of something that `traces.ingest.evidence` may find missing.
BUNDLES = {
    "SENDS": "send.topic send.id acked.partition producers",
    "ACKS": "SENDS acked.offset",
    "RECORDS": "read.topic read.partition read.offset read.id",
    "READS": "RECORDS consumers scan",
    # Where readers were, whether or not their records have ids; and what the final scan holds.
    "GIVEN": "read.topic read.partition read.offset consumers",
    "FINAL": "scan.topic scan.partition scan.offset scan.id consumers scan",
    # How far the final scan came.
    "ENDS": "scan_end scan_end.offset",
    "TXNS": "transactional.txn ending.txn isolation",
    "COMMITS": "commit.topic commit.partition commit.offset commit.group consumers shared.group",
    # The same of those that nobody answered, which may have been taken.
    "OPEN_COMMITS": "open_commit.topic open_commit.partition open_commit.offset open_commit.group "
    "open_commit.inv",
    "MEMBERS": "member.group consumers",
    "PROCESSED": "process.topic process.partition process.offset process.id",
    "MOVES": "rebalance.topic rebalance.partition rebalance.partitions rebalance.inv "
    "assign.topic assign.partitions assign.inv reset.topic reset.inv poll.inv",
    "ANSWERS": "fetched.topic fetched.inv",
    # Which records a reader could have been given.
    "VISIBLE": "SENDS READS TXNS COMPACTED STARTS",
    # The same, of consumers that may not have told ids: what is visible the final scan holds. Of a
    # compacted topic they must have: what was read above may have replaced what is there.
    "SEEN": "SENDS GIVEN FINAL TXNS COMPACTED STARTS compacted.whole compacted.read emptied",
    # Which copy of a record that was sent again, or may have been replaced, is there to be seen.
    "COPIES": "policy copies producers.whole compacted.tombstone compacted_dead.retention "
    "compacted_call.inv compacted_call.ret",
    # How far retention has come, as far as anybody asked.
    "STARTS": "earliest.topic earliest.offset asked.timestamp",
    # Whether a tombstone was old enough to be removed.
    "COMPACTED": "compacted.key compacted.inv compacted_acked.offset compacted_end.ret",
}


def expanded(words: str) -> tuple[str, ...]:
    """The names behind words and bundles, each once."""
    out: dict[str, None] = {}
    for word in words.split():
        out |= dict.fromkeys(expanded(BUNDLES[word]) if word in BUNDLES else (word,))
    return tuple(out)


def check(
    id: str,
    title: str,
    *,
    found: str,
    formula: str,
    needs: str,
    closed: str = "",
    spec: str = "",
    unless: str = "",
    kinds: str = "",
    scope: str = "partition",
    looks_at: str = "acknowledged sends and reads",
    extra: str = "",
    uses: str | None = None,
) -> Callable[[Function], Function]:
    """Register a check.

    `found` says what was found, in the words of whoever runs the cluster; {s}, {is}, {was}, {has},
    {its}, {y} and {es} in it follow the count before it.
    `needs` are fields whose absence may hide a breach, so that nothing can hold without them.
    `closed` are fields (and files) whose absence could *invent* one: then nothing can be said.
    `kinds` are the names that Jepsen-style reports use for its findings; `looks_at` is what a run
    must hold for the check to say anything, `extra` what else it counts. `uses` are the columns
    that the function reads beside the common ones of `traces.engines.kernel`; without it, all. One
    that matters only if some topic is compacted is written with `compacted.` before it.
    """

    def register(function: Function) -> Function:
        REGISTRY[id] = Check(
            id=id,
            title=title,
            found=found,
            formula=formula,
            needs=expanded(needs),
            function=function,
            spec=spec,
            unless=unless,
            closed=expanded(closed + " lives" * (scope in ("partition", "group"))),
            kinds=tuple(kinds.split()),
            scope=scope,
            looks_at=looks_at,
            extra=extra,
            uses=None if uses is None else tuple(uses.split()),
        )
        return function

    return register


def witness(*columns: Ints) -> Ints:
    """Findings side by side: the first row of each, the second row of each, and so on."""
    return np.stack(columns, axis=1) if len(columns[0]) else np.empty((0, len(columns)), np.int64)
