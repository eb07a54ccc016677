"""One partition of a scenario in one generation, where an anomaly changes rows already made."""

from typing import Any

import numpy as np
from attrs import define, field

from traces.model.context import Ints


@define
class ScenarioSlot:
    """One partition of a scenario in one generation, for an anomaly to change."""

    scenario: Any
    partition: int
    number: int  # of the anomaly, for names
    random: np.random.Generator
    witness: dict[str, int] = field(factory=dict[str, int])

    def rows(self, block: str) -> Ints:
        """The rows of a block that are about this partition."""
        return np.flatnonzero(self.scenario.blocks[block]["partition"] == self.partition)

    def one(self, block: str, begin: int = 0, end: int | None = None) -> int:
        """Any of them, but for the first few and the last few."""
        return int(self.random.choice(self.rows(block)[begin:end]))

    def get(self, block: str, row: int, name: str) -> int:
        """The value of a column in a row."""
        return int(self.scenario.blocks[block][name][row])

    def put(self, block: str, row: int, **values: int) -> bool:
        """Let a row say something else; that is what the anomaly is about."""
        columns = self.scenario.blocks[block]
        for name, value in values.items():
            columns[name][row] = value
        self.witness = {
            name: int(columns[name][row]) for name in ("offset", "id") if name in columns
        }
        return True

    def drop(self, block: str, row: int) -> bool:
        """Let a row be missing."""
        self.put(block, row)
        columns = self.scenario.blocks[block]
        self.scenario.blocks[block] = {name: np.delete(c, row) for name, c in columns.items()}
        return True

    def copy(self, block: str, row: int, **values: int) -> bool:
        """One more row like this one, but for some values."""
        columns = self.scenario.blocks[block]
        name = f"{block}-{self.number}"
        self.scenario.blocks[name] = {
            key: column[row : row + 1].copy() for key, column in columns.items()
        }
        return self.put(name, 0, **values)

    @property
    def here(self) -> dict[str, int]:
        """Topic and partition."""
        return {"topic": self.scenario.number_of_topic, "partition": self.partition}
