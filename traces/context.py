"""The configuration of a run as the kernels see it: arrays indexed by the numbers in the rows.

`Clause` is the reason why a finding is no violation. It is decided row by row inside the kernels,
because one run may hold producers that were promised different things.
"""

from enum import IntEnum
from typing import Any

import numpy as np
from attrs import field, frozen
from numpy.typing import NDArray

from traces.meta import Meta
from traces.names import Names

Ints = NDArray[np.int64]
UNSET = -1  # a setting that meta.json does not hold


class Clause(IntEnum):
    """Which line of the configuration permits what was found; NOT means that none does."""

    NOT = 0
    UNKNOWN = 1
    ACKS = 2
    UNCLEAN = 3
    MIN_ISR = 4
    IDEMPOTENCE = 5
    IN_FLIGHT = 6
    RESENT = 7
    COMMIT_ORDER = 8
    ISOLATION = 9


class Order(IntEnum):
    """When a group commits, relative to processing."""

    UNKNOWN = -1
    NONE = 0
    PROCESS_THEN_COMMIT = 1
    COMMIT_THEN_PROCESS = 2
    AUTO = 3


SUBJECT_BITS = 32


def clause(code: int, subject: Ints) -> Ints:
    """A clause and the number of the process, topic or group that it is about, in one integer."""
    return (np.int64(code) << SUBJECT_BITS) | np.maximum(subject, 0)


def code(clauses: Ints) -> Ints:
    """The clause without its subject."""
    return clauses >> SUBJECT_BITS


@frozen
class Context:
    """What the kernels know of a run besides its rows; small, and sent to every worker."""

    jepsen: bool
    complete: bool
    positions_known: bool
    weak_acks: Ints
    idempotent: Ints
    in_flight: Ints
    retries: Ints
    unclean: Ints
    min_isr: Ints
    compacted: Ints
    order: Ints
    reset_latest: Ints
    ignored: frozenset[str] = field(default=frozenset())


def context(meta: Meta, names: Names, *, jepsen: bool, positions_known: bool) -> Context:
    """Lay the configuration out by number."""
    producers = [meta.producer(name) for name in names.processes.names]
    topics = [meta.topics.get(name) for name in names.topics.names]
    groups = [_group_settings(meta, name) for name in names.groups.names]
    acks = {"all": 0, "-1": 0, "0": 1, "1": 1}
    return Context(
        jepsen=jepsen,
        complete=meta.complete,
        positions_known=positions_known,
        weak_acks=_array([None if p.acks is None else acks.get(p.acks) for p in producers]),
        idempotent=_array([p.idempotence for p in producers]),
        in_flight=_array([p.max_in_flight for p in producers]),
        retries=_array([p.retries for p in producers]),
        unclean=_array([t and t.unclean_leader_election for t in topics]),
        min_isr=_array([t and t.min_insync_replicas for t in topics]),
        compacted=_array([t and _compacted(t.cleanup_policy) for t in topics]),
        order=_array([order for order, _ in groups]),
        reset_latest=_array([latest for _, latest in groups]),
    )


def _array(values: list[Any]) -> Ints:
    """Unset where None; a spare last entry answers for number NONE (-1)."""
    filled = [UNSET if value is None else int(value) for value in values]
    return np.array([*filled, UNSET], dtype=np.int64)


def _compacted(policy: str | None) -> bool | None:
    return None if policy is None else "compact" in policy


def _group_settings(meta: Meta, group: str) -> tuple[int, bool | None]:
    """How a group commits and where it starts, if all its configured members agree."""
    members = [c for c in meta.consumers.values() if c.group == group]
    orders = {_order(c.commit_order, c.auto_commit) for c in members}
    resets = {c.auto_offset_reset for c in members}
    order = orders.pop() if len(orders) == 1 else Order.UNKNOWN
    reset = resets.pop() if len(resets) == 1 else None
    return order, None if reset is None else reset == "latest"


def _order(commit_order: str | None, auto_commit: bool | None) -> Order:
    if auto_commit:
        return Order.AUTO
    try:
        return Order[(commit_order or "unknown").upper()]
    except KeyError:
        return Order.UNKNOWN
