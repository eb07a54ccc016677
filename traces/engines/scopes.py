"""Scopes: what a check must see together to be sure, such as all rows of one partition.

A scope picks its rows from the table and gives each a key of two integers (beside its run). Rows
of one key are judged together, wherever they were written.
"""

from collections.abc import Callable, Mapping

import numpy as np
from attrs import frozen

from traces.checks.partition import Partition
from traces.checks.rows import Rows
from traces.model.columns import Bools, Column, Columns, calls
from traces.model.schema import NONE, Flag, Op


@frozen
class Scope:
    """A grouping of rows that are judged together, and the view of them that the checks read."""

    view: type[Rows]
    wanted: Callable[[Columns], Bools]
    key: Callable[[Columns], tuple[Column, Column]]
    reads: tuple[str, ...] = ()  # columns that the key needs


def _in_partitions(columns: Columns) -> Bools:
    return (columns["topic"] != NONE) & (columns["partition"] != NONE) & _present(columns)


def _present(columns: Columns) -> Bools:
    """Rows about topics that are still there: those of a former life are another's log."""
    return (columns["flags"] & Flag.FORMER) == 0


def _in_records(columns: Columns) -> Bools:
    """Rows about one record of a topic that was deleted and made again."""
    about = calls(columns, Op.SEND, Op.POLL, Op.SCAN, Op.DUMP) & (columns["id"] != NONE)
    return about & ((columns["flags"] & (Flag.FORMER | Flag.REMADE)) != 0)


def _in_groups(columns: Columns) -> Bools:
    owners = calls(columns, Op.ASSIGNED, Op.REVOKED, Op.LOST, Op.SUBSCRIBE)
    mine = (owners | calls(columns, Op.COMMIT)) & (columns["group"] != NONE)
    return mine & _present(columns)


def _in_producers(columns: Columns) -> Bools:
    mine = calls(columns, Op.SEND, Op.INIT_PRODUCER, Op.TXN_BEGIN, Op.TXN_COMMIT)
    return mine & ((columns["tid"] != NONE) | (columns["pid"] != NONE))


def _producer(columns: Columns) -> tuple[Column, Column]:
    """By its transactional id, and by its producer id only without one."""
    tid = columns["tid"]
    return tid, np.where(tid == NONE, columns["pid"], NONE)


def _group(columns: Columns) -> tuple[Column, Column]:
    return columns["group"], np.zeros_like(columns["group"])


SCOPES: Mapping[str, Scope] = {
    "partition": Scope(Partition, _in_partitions, lambda c: (c["topic"], c["partition"])),
    "group": Scope(Rows, _in_groups, _group),
    "producer": Scope(Rows, _in_producers, _producer, ("tid", "pid")),
    "record": Scope(Rows, _in_records, lambda c: (c["id"], np.zeros_like(c["topic"]))),
}
