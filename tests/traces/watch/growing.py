"""A trace that is written before our eyes, in any order that its processes may write it in."""

import json
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

from attrs import define, field

from tests.traces.fixture import Line


@define
class Growing:
    """Files of a run that grow by some bytes at a time; lines come into being half by half."""

    folder: Path
    lines: dict[str, list[Line]]
    meta: dict[str, Any]
    random: Random
    _written: dict[str, int] = field(factory=dict[str, int])
    _bytes: dict[str, bytes] = field(factory=dict[str, bytes])

    def __attrs_post_init__(self) -> None:
        for process, mine in self.lines.items():
            text = "".join(json.dumps(line) + "\n" for line in mine)
            self._bytes[process], self._written[process] = text.encode(), 0

    def steps(self, number: int) -> Iterator[None]:
        """About so many prefixes, and the whole at last."""
        self.folder.mkdir(parents=True, exist_ok=True)
        meta_at = self.random.choice([0, 0, number // 2])
        for step in range(number):
            if step == meta_at:
                self.write_meta()
            for process in self.random.sample(list(self._bytes), self.random.randint(1, 4)):
                self.append(
                    process, self.random.randint(1, 2 * len(self._bytes[process]) // number + 9)
                )
            yield
        for process in self._bytes:
            self.append(process, 1 << 40)
        self.write_meta()
        yield

    def append(self, process: str, count: int) -> None:
        start = self._written[process]
        piece = self._bytes[process][start : start + count]
        self._written[process] += len(piece)
        with (self.folder / f"{process}.ndjson").open("ab") as file:
            file.write(piece)

    def write_meta(self) -> None:
        (self.folder / "meta.json").write_text(json.dumps(self.meta))
