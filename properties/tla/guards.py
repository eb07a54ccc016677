"""Which guards of a spec forbid what, in every state of a configuration's graph."""

import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from attrs import frozen

from properties.tla import tools
from properties.tla.errors import InputError
from properties.tla.graph import HEAP_MB, LIMIT_S
from properties.tla.names import write_aside
from properties.tla.processes import run
from properties.tla.specs import Config, SpecTree, cache_folder
from properties.tla.tlc import jvm
from properties.tla.tracecheck import text_at

_MADE_BY = ("GuardDump", "Guards", "Labels")


@frozen(eq=False)
class FalseGuards:
    """Per state and label, by the numbers of the graph: the texts of all guards that are false."""

    sets: Sequence[tuple[str, ...]]
    rows: Sequence[Sequence[int]]

    def of(self, state: int, label: int) -> tuple[str, ...]:
        """Empty where the label fires, or where no single guard is to blame."""
        number = self.rows[state][label]
        return self.sets[number] if number >= 0 else ()


def load_false_guards(module: str, cfg: str, tree: SpecTree | None = None) -> FalseGuards:
    """The false guards of a configuration, from the cache or from TLC's evaluator."""
    tree = tree or SpecTree()
    model = tree.model(module, cfg)
    key = tools.digest([*tree.closure(module), model], "guards", tools.find().key(*_MADE_BY))
    file = cache_folder() / "guards" / f"{module}-{cfg}-{key}.txt"
    if not file.is_file():
        write_aside(file, lambda part: _dump(module, model, tree, part))
    return _read(file, tree)


def _dump(module: str, cfg: Path, tree: SpecTree, out: Path) -> None:
    scratch = Path(tempfile.mkdtemp(prefix="highwater-guards-"))
    try:
        model = scratch / "behaviour.cfg"
        model.write_text(Config.read(cfg).behaviour_only(), encoding="utf-8")
        virtual_machine = jvm(tree, scratch, HEAP_MB, quick=True)
        command = [*virtual_machine, "GuardDump", module, str(model), str(out)]
        told = run(command, tree.folder(module), LIMIT_S)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    if told.code != 0 or told.timed_out:
        said = (told.errors.strip() or told.output.strip())[-3000:]
        raise InputError(f"{cfg}: the guards of {module} cannot be evaluated:\n{said}")


def _read(file: Path, tree: SpecTree) -> FalseGuards:
    sets: list[tuple[str, ...]] = []
    rows: list[tuple[int, ...]] = []
    texts: dict[str, str] = {}
    for line in file.read_text(encoding="utf-8").splitlines():
        if not line.startswith("set"):
            rows.append(tuple(map(int, line.split())))
            continue
        places = line.split("\t")[1:]
        texts |= {place: text_at(place, tree)[0] for place in places if place not in texts}
        sets.append(tuple([texts[place] for place in places]))
    return FalseGuards(sets, rows)
