"""Every guarantee of the table and its check, in the table's order."""

from traces.checks import (
    commits,
    compaction,
    consumer,
    disposal,
    fencing,
    fetching,
    handover,
    latent,
    log,
    loss,
    offsets,
    order,
    outcomes,
    processing,
    producer,
    records,
    replicas,
    sessions,
    share,
    standing,
    starts,
    stuck,
    topics,
    transactions,
)
from traces.checks.base import REGISTRY, Check

__all__ = ["CHECKS", "KINDS", "MODULES"]

MODULES = (
    *(log, loss, order, records, starts, compaction, replicas),
    *(producer, sessions, transactions, outcomes, offsets),
    *(
        consumer,
        fetching,
        standing,
        commits,
        fencing,
        processing,
        latent,
        handover,
        share,
        disposal,
        stuck,
        topics,
    ),
)


def _key(id: str) -> tuple[int, int]:
    return "LPTCGSA".index(id[0]), int(id[1:])


CHECKS: dict[str, Check] = {id: REGISTRY[id] for id in sorted(REGISTRY, key=_key)}

# The names that Jepsen-style reports use for what a check finds.
KINDS: dict[str, tuple[str, ...]] = {check.id: check.kinds for check in REGISTRY.values()}
