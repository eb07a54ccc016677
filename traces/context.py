"""The configuration of a run as the kernels see it: arrays indexed by the numbers in the rows.

`Clause` is the reason why a finding is no violation. It is decided row by row inside the kernels,
because one run may hold producers that were promised different things.
"""

from collections.abc import Iterable
from enum import IntEnum
from typing import Any

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from traces.meta import Meta, Topic
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
    FLUSH = 10


class Order(IntEnum):
    """When a group commits, relative to processing."""

    UNKNOWN = -1
    NONE = 0
    PROCESS_THEN_COMMIT = 1
    COMMIT_THEN_PROCESS = 2
    AUTO = 3


SUBJECT_BITS = 32


def clause(code: int, subject: Ints | np.int64) -> Ints:
    """A clause and the number of the process, topic or group that it is about, in one integer."""
    return np.asarray((np.int64(code) << SUBJECT_BITS) | np.maximum(subject, 0))


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
    unflushed: Ints
    order: Ints
    reset_latest: Ints
    processes: Ints


def context(meta: Meta, names: Names, processing: Iterable[int]) -> Context:
    """Lay the configuration out by number; `processing` groups tell what they processed."""
    recorded = set(processing)
    producers = [meta.producer(name) for name in names.processes.names]
    topics = [meta.topics.get(name) for name in names.topics.names]
    groups = [_group_settings(meta, name) for name in names.groups.names]
    acks = {"all": 0, "-1": 0, "0": 1, "1": 1}
    return Context(
        jepsen=False,
        complete=meta.complete,
        positions_known=True,
        weak_acks=_array([None if p.acks is None else acks.get(p.acks) for p in producers]),
        idempotent=_array([p.idempotence for p in producers]),
        in_flight=_array([p.max_in_flight for p in producers]),
        retries=_array([p.retries for p in producers]),
        unclean=_array([t and t.unclean_leader_election for t in topics]),
        min_isr=_array([t and t.min_insync_replicas for t in topics]),
        compacted=_array([t and _compacted(t.cleanup_policy) for t in topics]),
        unflushed=_array([t is not None and _last_may_lose(t) for t in topics]),
        order=_array([order for order, _ in groups]),
        reset_latest=_array([latest for _, latest in groups]),
        processes=_array([number in recorded for number in range(len(groups))]),
    )


def history_context(names: Names, *, subscribed: bool, compacted: bool) -> Context:
    """What every Jepsen history assumes: acks=all, clean elections, and no excuse for anything.

    A class counts whatever the settings of the clients are, so they are those that excuse nothing.
    When consumers get their partitions by subscription, their positions are not known.
    """
    producers, topics = (len(names.processes.names) + 1), (len(names.topics.names) + 1)
    groups = len(names.groups.names) + 1
    return Context(
        jepsen=True,
        complete=True,
        positions_known=not subscribed,
        weak_acks=np.full(producers, 0),
        idempotent=np.full(producers, 1),
        in_flight=np.full(producers, 1),
        retries=np.full(producers, 0),
        unclean=np.full(topics, 0),
        min_isr=np.full(topics, 2),
        compacted=np.full(topics, int(compacted)),
        unflushed=np.full(topics, 0),
        order=np.full(groups, int(Order.UNKNOWN)),
        reset_latest=np.full(groups, UNSET),
        processes=np.full(groups, 0),
    )


def _array(values: list[Any]) -> Ints:
    """Unset where None; a spare last entry answers for number NONE (-1)."""
    filled = [UNSET if value is None else int(value) for value in values]
    return np.array([*filled, UNSET], dtype=np.int64)


def _last_may_lose(topic: Topic) -> bool:
    """Whether the last replica in sync may come back without what it had not flushed, and lead."""
    return bool(topic.flush_loses) and not topic.eligible_leader_replicas


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
