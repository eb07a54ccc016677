"""Names that the tests of the TLA+ tools share."""

from collections.abc import Callable, Sequence
from pathlib import Path

from attrs import frozen
from click import Command
from click.testing import Result

from properties.tla import SpecTree

SPECS = Path(__file__).parent / "specs"

Run = Callable[[Command, Sequence[object]], Result]
Install = Callable[[str, str], Path]


@frozen
class Scratch:
    """A copy of the specs that a test may spoil."""

    tree: SpecTree

    def file(self, path: str) -> Path:
        return self.tree.root / path

    def replace(self, path: str, old: str, new: str) -> None:
        text = self.file(path).read_text(encoding="utf-8")
        assert old in text
        self.file(path).write_text(text.replace(old, new), encoding="utf-8")
