"""Every guarantee of the table: the checks that there are, and why the others are not checked.

Nothing is passed over in silence: an id without a check says what would be needed to decide it.
"""

from attrs import frozen

from traces.checks import (
    compaction,
    consumer,
    groups,
    log,
    loss,
    order,
    producer,
    records,
    replicas,
    starts,
    topics,
    transactions,
)
from traces.checks.base import REGISTRY, Check

__all__ = ["CHECKS", "KINDS", "MODULES", "Unchecked"]

MODULES = (
    *(log, loss, order, records, starts, compaction, replicas),
    *(producer, transactions, consumer, groups, topics),
)
_LATER = "not implemented yet"


@frozen
class Unchecked:
    """A guarantee that no check decides, and why."""

    id: str
    title: str
    reason: str


_UNCHECKED = (
    ("P2", "a producer session has no gap", _LATER),
    ("P5", "idempotence ends with the session", _LATER),
    ("T7", "a request to end hits its own transaction", "no field carries transaction markers"),
    ("T9", "offsets commit with the outputs", _LATER),
    ("T11", "no transaction hangs", "meta.json does not tell the transaction time-out"),
    ("C5", "reading from a follower", "no field tells which replica answered"),
    (
        "C6",
        "resets and truncations have a cause",
        "no field carries a client's reset or its reason",
    ),
    ("G2", "hand-over without overlap", "meta.json does not tell the session time-out"),
    ("G3", "every partition has an owner", _LATER),
    ("G7", "fetched offsets were committed", _LATER),
    ("G11", "static members are fenced", "no field carries the instance id"),
    ("S1", "acquisition is exclusive", "the format has no share groups"),
    ("S2", "acknowledgement is final", "the format has no share groups"),
    ("S3", "deliveries are counted", "the format has no share groups"),
    ("S4", "everything is disposed of", "the format has no share groups"),
    ("S5", "the start offset does not go back", "the format has no share groups"),
)


def _key(id: str) -> tuple[int, int]:
    return "LPTCGSA".index(id[0]), int(id[1:])


_ALL: dict[str, Check | Unchecked] = {**REGISTRY} | {u[0]: Unchecked(*u) for u in _UNCHECKED}
CHECKS: dict[str, Check | Unchecked] = {id: _ALL[id] for id in sorted(_ALL, key=_key)}

# The names that Jepsen-style reports use for what a check finds.
KINDS: dict[str, tuple[str, ...]] = {check.id: check.kinds for check in REGISTRY.values()}
