"""Every guarantee of the table: the checks that there are, and why the others are not checked.

Nothing is passed over in silence: an id without a check says what would be needed to decide it.
"""

from attrs import frozen

from traces.checks import (
    compaction,
    consumer,
    disposal,
    fetching,
    groups,
    handover,
    log,
    loss,
    offsets,
    order,
    outcomes,
    producer,
    records,
    replicas,
    sessions,
    share,
    starts,
    topics,
    transactions,
)
from traces.checks.base import REGISTRY, Check

__all__ = ["CHECKS", "KINDS", "MODULES", "Unchecked"]

MODULES = (
    *(log, loss, order, records, starts, compaction, replicas),
    *(producer, sessions, transactions, outcomes, offsets),
    *(consumer, fetching, groups, handover, share, disposal, topics),
)


@frozen
class Unchecked:
    """A guarantee that no check decides, and why."""

    id: str
    title: str
    reason: str


_UNCHECKED: tuple[Unchecked, ...] = ()


def _key(id: str) -> tuple[int, int]:
    return "LPTCGSA".index(id[0]), int(id[1:])


_ALL: dict[str, Check | Unchecked] = {one.id: one for one in (*REGISTRY.values(), *_UNCHECKED)}
CHECKS: dict[str, Check | Unchecked] = {id: _ALL[id] for id in sorted(_ALL, key=_key)}

# The names that Jepsen-style reports use for what a check finds.
KINDS: dict[str, tuple[str, ...]] = {check.id: check.kinds for check in REGISTRY.values()}
