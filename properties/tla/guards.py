"""The guards that forbid each step, in every state of a configuration's graph."""

from collections.abc import Sequence
from pathlib import Path

from attrs import frozen

from properties.tla.graph import guards_file, read_ints
from properties.tla.specs import SpecTree
from properties.tla.tracecheck import text_at


@frozen(eq=False)
class FalseGuards:
    """Per state and label, by the numbers of the graph: the texts of all guards that are false."""

    sets: Sequence[tuple[str, ...]]
    rows: Sequence[Sequence[int]]

    def of(self, state: int, label: int) -> tuple[str, ...]:
        """The false guards of a label; none if it fires, or if no single guard forbids it."""
        number = self.rows[state][label]
        return self.sets[number] if number >= 0 else ()


def load_false_guards(module: str, cfg: str, tree: SpecTree | None = None) -> FalseGuards:
    """The false guards of a configuration, from the cache or from TLC's evaluator."""
    tree = tree or SpecTree()
    return _read(guards_file(module, tree.model(module, cfg), tree), tree)


def _read(file: Path, tree: SpecTree) -> FalseGuards:
    text, numbers = read_ints(file, 1)
    sets: list[tuple[str, ...]] = []
    texts: dict[str, str] = {}
    counted, *lines = text.splitlines()
    for line in lines:
        places = line.split("\t")[1:]
        texts |= {place: text_at(place, tree)[0] for place in places if place not in texts}
        sets.append(tuple([texts[place] for place in places]))
    labels = int(counted.split()[1])
    rows = [numbers[at : at + labels] for at in range(0, len(numbers), labels)]
    return FalseGuards(sets, rows)
