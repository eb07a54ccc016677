"""Blocks of rows, and the `ops` table that they make together."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from attrs import define, field

from traces.model.arrow import pa
from traces.model.columns import firsts
from traces.model.context import Ints
from traces.model.schema import COLUMNS, NONE, OPS

Block = Mapping[str, Any]  # columns, numbers where every row has the same; `order` inside a call
DEFAULTS: dict[str, int] = dict.fromkeys(
    ("run", "outcome", "clock", "txn_state", "flags", "idx", "order"), 0
)


@define
class Programs:
    """The next sequence number of each process."""

    next: Ints = field(factory=lambda: np.zeros(64, np.int64))

    def table(self, blocks: Sequence[Block]) -> Any:
        """These rows, each process's in the order of its calls; a call is a process at a time."""
        sizes = [len(block["inv"]) for block in blocks]
        columns = {
            name: _column(blocks, sizes, name)
            for name in (*COLUMNS, "order")
            if name == "order" or any(name in block for block in blocks)
        }
        order = np.lexsort((columns["order"], columns["inv"], columns["process"]))
        columns = {name: column[order] for name, column in columns.items()}
        process = columns["process"]
        first = firsts(process, columns["inv"])
        call = np.cumsum(first) - 1
        begins = np.flatnonzero(first)
        columns["idx"] = np.arange(len(process)) - begins[call]
        lead = np.flatnonzero(firsts(process))
        counts = np.diff(np.r_[call[lead], call[-1] + 1])
        who = process[lead]
        self._grow(int(who[-1]) + 1)
        columns["seq"] = call - np.repeat(call[lead] - self.next[who], _lengths(lead, process))
        self.next[who] += counts
        return _arrow(columns, len(process))

    def _grow(self, size: int) -> None:
        if size > len(self.next):
            self.next = np.r_[self.next, np.zeros(2 * size - len(self.next), np.int64)]


def _lengths(starts: Ints, values: Ints) -> Ints:
    return np.diff(np.r_[starts, len(values)])


def _column(blocks: Sequence[Block], sizes: Sequence[int], name: str) -> Ints:
    default = DEFAULTS.get(name, NONE)
    parts = [
        np.broadcast_to(np.asarray(block.get(name, default), np.int64), size)
        for block, size in zip(blocks, sizes, strict=True)
    ]
    return np.concatenate(parts)


def _arrow(columns: Mapping[str, Ints], size: int) -> Any:
    arrays: list[Any] = []
    for name, kind in COLUMNS.items():
        numbers = columns.get(name)
        if numbers is None:
            numbers = np.full(size, DEFAULTS.get(name, NONE), kind.to_pandas_dtype())
        arrays.append(pa.array(numbers.astype(kind.to_pandas_dtype(), copy=False)))
    return pa.Table.from_arrays(arrays, schema=OPS)
