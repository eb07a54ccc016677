"""What a check is: one promise, what it needs to be decided, and a function that finds breaches."""

from collections.abc import Callable
from typing import Any

import numpy as np
from attrs import field, frozen
from numpy.typing import NDArray

from traces.context import Ints

Bools = NDArray[np.bool_]
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
    """What a check found in one partition, group or producer.

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
    formula: str
    needs: tuple[str, ...]
    function: Function
    spec: str = ""
    unless: str = ""
    closed: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    scope: str = "partition"
    looks_at: str = "acknowledged sends and reads"

    @property
    def unless_text(self) -> str:
        """What the configuration would have to say for a finding to be allowed."""
        return f"would be allowed only if {self.unless}" if self.unless else "never allowed"


REGISTRY: dict[str, Check] = {}


def check(
    id: str,
    title: str,
    *,
    formula: str,
    needs: str,
    closed: str = "",
    spec: str = "",
    unless: str = "",
    kinds: str = "",
    scope: str = "partition",
    looks_at: str = "acknowledged sends and reads",
) -> Callable[[Function], Function]:
    """Register a check.

    `needs` are fields whose absence may hide a breach, so that nothing can hold without them.
    `closed` are fields (and files) whose absence could *invent* one: then nothing can be said.
    `kinds` are the names that Jepsen-style reports use for its findings.
    """

    def register(function: Function) -> Function:
        REGISTRY[id] = Check(
            id=id,
            title=title,
            formula=formula,
            needs=tuple(needs.split()),
            function=function,
            spec=spec,
            unless=unless,
            closed=tuple(closed.split()),
            kinds=tuple(kinds.split()),
            scope=scope,
            looks_at=looks_at,
        )
        return function

    return register


def witness(*columns: Ints) -> Ints:
    """Findings side by side: the first row of each, the second row of each, and so on."""
    return np.stack(columns, axis=1) if len(columns[0]) else np.empty((0, len(columns)), np.int64)
