"""The complete labelled state graph of a configuration: every state, step and argument.

It is the spec's meaning for the Python side: conformance, walks and oracles all use it. TLC's jar
explores it once (`spec/java/GraphDump.java`). Afterwards it comes from the cache, until the spec,
the configuration, the jar or that class changes.
"""

import array
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from tempfile import TemporaryDirectory

from attrs import define, field, frozen

from properties.tla import tools
from properties.tla.checker import Status
from properties.tla.errors import InputError
from properties.tla.memory import uncollected
from properties.tla.names import write_aside
from properties.tla.processes import run
from properties.tla.specs import ModelConfig, SpecTree, cache_folder
from properties.tla.syntax import parse, to_tla
from properties.tla.tlc import QUICK_STATES, Tlc, jvm
from properties.tla.values import Value
from properties.tla.verdicts import TABLE, Table, load

GUARDS = ".guards"
HEAP_MB = 4096
LIMIT_S = 900.0
#: Of graphs with at most so many steps conformance compares which guard refuses what.
NAMED_STEPS = 70_000
ALL_STEPS = 2**31 - 1
_MADE_BY = ("Conjuncts", "GraphDump", "GuardDump", "Guards", "Ints", "Labels", "SpecNames")


@frozen
class WantedGraph:
    """A graph that is to be written, and its false guards if it has at most `named` steps."""

    cfg: Path
    out: Path
    named: int

    @property
    def guards(self) -> Path:
        return self.out.with_suffix(GUARDS)


@frozen
class Label:
    """An action with its arguments, in the action's formal order."""

    name: str
    params: Mapping[str, Value] = field(hash=False)

    def __str__(self) -> str:
        return f"{self.name}({', '.join(map(to_tla, self.params.values()))})"


@define(slots=False)
class Graph:
    """States are numbered in breadth-first order, the initial ones first; so are their values.

    `states[s]` holds one number per variable, an index into `values[variable]`; `out[s]` maps the
    number of a label (an index into `actions`) to the distinct successors by it. `actions` also
    holds the labels that never fire, as far as their arguments come from constant sets.
    """

    variables: tuple[str, ...]
    values: list[list[Value]]
    states: list[tuple[int, ...]]
    initial: list[int]
    actions: list[Label]
    out: list[dict[int, tuple[int, ...]]]

    @cached_property
    def intern(self) -> list[dict[Value, int]]:
        """Per variable: the number of each value."""
        return [{value: i for i, value in enumerate(values)} for values in self.values]

    @cached_property
    def state_ids(self) -> dict[tuple[int, ...], int]:
        return {state: number for number, state in enumerate(self.states)}

    @cached_property
    def edge_count(self) -> int:
        return sum(len(targets) for steps in self.out for targets in steps.values())

    def state(self, number: int) -> dict[str, Value]:
        """A state as variable → value."""
        ids = self.states[number]
        return {name: self.values[i][ids[i]] for i, name in enumerate(self.variables)}

    def edges(self) -> Iterator[tuple[int, int, int]]:
        """Every step: source, label, target."""
        for source, steps in enumerate(self.out):
            for label, targets in steps.items():
                for target in targets:
                    yield source, label, target

    @cached_property
    def _parents(self) -> list[tuple[int, int]]:
        """For each state the source and label of a step on a shortest path to it.

        Numbers follow a breadth-first search: the first step seen that reaches a state is one.
        """
        parents = [(-1, -1)] * len(self.states)
        for source, label, target in self.edges():
            if parents[target][0] < 0 and target >= len(self.initial):
                parents[target] = (source, label)
        return parents

    def shortest_path(self, target: int) -> list[tuple[int, int]]:
        """The steps, as (label, state reached), from an initial state to this one."""
        path: list[tuple[int, int]] = []
        while target >= len(self.initial):
            source, label = self._parents[target]
            path.append((label, target))
            target = source
        return path[::-1]


def load_graph(module: str, cfg: str, tree: SpecTree | None = None) -> Graph:
    """The graph of a configuration, from the cache or from TLC."""
    tree = tree or SpecTree()
    return read_graph(graph_file(module, tree.model(module, cfg), tree))


def graph_file(module: str, cfg: Path, tree: SpecTree) -> Path:
    """The file of a graph. Filling it compares its state count with TLC's own, of which
    `highwater spec` holds the one that the table of verdicts has."""
    make_graphs(module, [cfg], tree)
    return _file(module, cfg, tree)


def make_graphs(module: str, cfgs: Iterable[Path], tree: SpecTree) -> None:
    """Make the missing graphs of these configurations, all of them in one JVM.

    The start and warm-up of a JVM are most of a small graph's cost.
    """
    missing = [(cfg, file) for cfg in cfgs if not (file := _file(module, cfg, tree)).is_file()]
    if not missing:
        return
    table = _table(module, tree)
    with TemporaryDirectory(prefix="highwater-graphs-") as scratch:
        wanted = [
            WantedGraph(cfg, Path(scratch) / file.name, _named(table, cfg)) for cfg, file in missing
        ]
        dump(module, wanted, tree)
        for one, (cfg, file) in zip(wanted, missing, strict=True):
            # The graph comes last: where it is, the guards are or are not wanted.
            for made in filter(Path.is_file, (one.guards, one.out)):
                write_aside(file.with_suffix(made.suffix), partial(shutil.move, made))
            key = file.stem.rpartition("-")[2]
            for stale in file.parent.glob(f"{module}-{cfg.stem}-{'?' * len(key)}.*"):
                if stale.stem != file.stem:
                    stale.unlink(missing_ok=True)


def _file(module: str, cfg: Path, tree: SpecTree) -> Path:
    key = tools.digest([*tree.closure(module), cfg], "graph", module, tools.find().key(*_MADE_BY))
    return cache_folder() / "graphs" / f"{module}-{cfg.stem}-{key}.graph"


def guards_file(module: str, cfg: Path, tree: SpecTree) -> Path:
    """The file of the false guards of a graph, which is mostly made together with it."""
    file = graph_file(module, cfg, tree).with_suffix(GUARDS)
    if not file.is_file():
        with TemporaryDirectory(prefix="highwater-graphs-") as scratch:
            wanted = WantedGraph(cfg, Path(scratch) / "again.graph", ALL_STEPS)
            dump(module, [wanted], tree)
            write_aside(file, partial(shutil.move, wanted.guards))
    return file


def _named(table: Table | None, cfg: Path) -> int:
    """The largest number of steps of a graph for which false guards are asked at once."""
    if table is None or cfg.stem not in {*table.scopes.mutants, *table.scopes.conform}:
        return -1
    return ALL_STEPS if cfg.stem in table.scopes.mutants else NAMED_STEPS


def dump(module: str, wanted: Sequence[WantedGraph], tree: SpecTree) -> None:
    """Let TLC's jar write graphs and, on request, their false guards."""
    cfgs = ", ".join(str(one.cfg) for one in wanted)
    limit_s = LIMIT_S * len(wanted)
    table = _table(module, tree)
    pinned = [_pinned(table, one.cfg) for one in wanted]
    quick = sum(states or 0 for states in pinned) < QUICK_STATES
    with TemporaryDirectory(prefix="highwater-graph-") as folder:
        scratch = Path(folder)
        command = [*jvm(tree, scratch, HEAP_MB, quick), "GraphDump", module]
        for one in wanted:
            model = scratch / one.cfg.name
            model.write_text(ModelConfig.read(one.cfg).behaviour_only(), encoding="utf-8")
            command += [str(model), str(one.out), str(one.guards), str(one.named)]
        told = run(command, tree.folder(module), limit_s)
        if told.timed_out:
            raise InputError(f"{cfgs}: the graph of {module} is {told.spent(limit_s)}")
        if told.code != 0:
            said = (told.errors.strip() or told.output.strip())[-3000:]
            raise InputError(f"{cfgs}: no graph of {module}:\n{said}")
        for one, states in zip(wanted, pinned, strict=True):
            found = _count(one.out)
            if found != states:
                _check_count(module, one, scratch / one.cfg.name, tree, found)


def _check_count(module: str, made: WantedGraph, model: Path, tree: SpecTree, found: int) -> None:
    """A graph has as many states as TLC finds."""
    expected = Tlc(tree, HEAP_MB, quick=True).check_file(module, model, LIMIT_S)
    if expected.status is not Status.PASSED:
        raise InputError(f"{made.cfg}: TLC does not explore {module}: {expected.reason}")
    if found != expected.distinct:
        raise AssertionError(
            f"{made.cfg}: the graph of {module} has {found} states, TLC finds {expected.distinct}"
        )


def _count(file: Path) -> int:
    """The number of states in the file of a graph: each has one index per variable."""
    text, ids, _ = read_ints(file, 2)
    return len(ids) // sum(line.startswith("variable ") for line in text.split("\n"))


def _pinned(table: Table | None, cfg: Path) -> int | None:
    """The number of states by the table of verdicts, if TLC explores the whole model."""
    row = table and table.row(cfg.stem)
    return row.distinct if row and row.expect is Status.PASSED else None


def _table(module: str, tree: SpecTree) -> Table | None:
    """The module's table of verdicts, if it has one."""
    return load(module, tree) if (tree.folder(module) / TABLE).is_file() else None


def read_graph(file: Path) -> Graph:
    """Read what `GraphDump` wrote."""
    text, ids, steps = read_ints(file, 2)
    lines = iter(text.split("\n"))
    initial = int(next(lines).split()[1])
    actions, variables, values = _names(lines)
    with uncollected():
        numbers = iter(ids)
        states = list(zip(*[numbers] * len(variables), strict=True))
        out = _steps(steps, len(states))
    return Graph(variables, values, states, list(range(initial)), actions, out)


def read_ints(file: Path, arrays: int) -> "tuple[str, *tuple[array.array[int], ...]]":
    """The text and the arrays of a file that `Ints` wrote."""
    data = memoryview(file.read_bytes())
    at = 4 + 4 * arrays
    text_size, *sizes = _ints(data[:at])
    text = str(data[at : at + text_size], "utf-8")
    at += text_size
    found: list[array.array[int]] = []
    for size in sizes:
        found.append(_ints(data[at : at + 4 * size]))
        at += 4 * size
    return (text, *found)


def _ints(data: memoryview) -> "array.array[int]":
    numbers = array.array("i")
    numbers.frombytes(data)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers


def _names(lines: Iterator[str]) -> tuple[list[Label], tuple[str, ...], list[list[Value]]]:
    actions: list[Label] = []
    variables: list[str] = []
    values: list[list[Value]] = []
    for line in lines:
        kind, _, rest = line.partition(" ")
        if kind == "label":
            actions.append(parse_label(rest))
        elif kind == "variable":
            name, count = rest.split()
            variables.append(name)
            values.append([parse(next(lines)) for _ in range(int(count))])
    return actions, tuple(variables), values


def parse_label(text: str) -> Label:
    """A label as our Java classes write it: NAME, then FORMAL=VALUE for each, tab between."""
    name, *bound = text.split("\t")
    pairs = (one.partition("=") for one in bound)
    return Label(name, {formal: parse(value) for formal, _, value in pairs})


def _steps(numbers: "array.array[int]", count: int) -> list[dict[int, tuple[int, ...]]]:
    out: list[dict[int, tuple[int, ...]]] = []
    at = 0
    single = [(target,) for target in range(count)]
    flat = numbers.tolist()
    for _ in range(count):
        labels = flat[at]
        at += 1
        steps: dict[int, tuple[int, ...]] = {}
        for _ in range(labels):
            size = flat[at + 1]
            first = at + 2
            if size == 1:
                steps[flat[at]] = single[flat[first]]
            else:
                steps[flat[at]] = tuple(flat[first : first + size])
            at = first + size
        out.append(steps)
    return out
