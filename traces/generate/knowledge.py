"""Lives of groups and partition counts of topics, as all rows of a generated trace show them."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from attrs import define, field

from traces.model.context import Ints
from traces.model.known_sizes import sizes, sizes_known
from traces.model.lives import GroupLives
from traces.model.memberships import Moves, lives, moves
from traces.model.schema import COLUMNS
from traces.model.sizes import Sizes

_SEEN = ("inv", "ret")
_TABLES = {GroupLives: ("idle", "deleted", "vague"), Sizes: ("known", "added")}


@define
class Knowledge:
    """The parts of a context that meta.json does not have, collected table by table."""

    moves: list[Moves] = field(factory=list[Moves])
    sizes: list[Moves] = field(factory=list[Moves])
    last: dict[int, int] = field(factory=dict[int, int])  # of each process the last time

    def see(self, table: Any) -> None:
        """Look at some more rows; those of a process come in the order of its program."""
        columns: dict[str, Ints] = {name: table[name].to_numpy() for name in COLUMNS}
        self.moves.append(moves(columns))
        self.sizes.append(sizes(columns))
        process = columns["process"]
        ends = np.flatnonzero(np.r_[process[1:] != process[:-1], True])
        latest = np.maximum(*(columns[name][ends] for name in _SEEN))
        self.last |= dict(zip(process[ends].tolist(), latest.tolist(), strict=True))

    def lives(self) -> GroupLives:
        """When groups had no members."""
        return lives(self.moves, self.last, [])

    def partition_counts(self) -> Sizes:
        """The numbers of partitions that producers knew of."""
        return sizes_known(self.sizes)

    def as_json(self) -> dict[str, Any]:
        """For `from_json`."""
        known = (self.lives(), self.partition_counts())
        return {
            type(one).__name__: {name: getattr(one, name).tolist() for name in _TABLES[type(one)]}
            for one in known
        }


def from_json(json: Mapping[str, Any]) -> tuple[GroupLives, Sizes]:
    """The lives and the partition counts in the result of `as_json`."""
    return GroupLives(**json["GroupLives"]), Sizes(**json["Sizes"])
