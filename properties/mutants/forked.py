"""Trials of mutants: gates are asked about each, in its own process.

The process is forked after the graphs are loaded. An endless loop or an unbounded heap kills only
this process, and counts as found. Answers are kept in the cache, one line each, so an interrupted
run resumes. Each gate's answers are kept for exactly the files on which it depends; a change of
those asks this gate anew.
"""

import gc
import os
import resource
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TypeAlias

import orjson
from attrs import asdict, evolve, field, frozen

from properties.tla import InputError
from properties.tla.specs import cache_folder
from properties.tla.tools import digest, sources

#: CPU seconds and bytes that one mutant may use up; more is a loop without end.
LIMIT_S, LIMIT_BYTES = 240, 4 << 30

Gate: TypeAlias = Callable[[Sequence[str]], object]
"""Asked of some TLA+ modules, while their machines are broken; true if it finds that they are."""

_of_the_node: set[Gate] = set()


def of_the_node(gate: Gate) -> Gate:
    """Mark a gate that asks the same of all modules: without a mutant once is enough."""
    _of_the_node.add(gate)
    return gate


@frozen
class Trial:
    """One mutant, the TLA+ modules whose machines have it, and the gates that are asked."""

    name: str
    applied: Callable[[], AbstractContextManager[object]]
    """Puts the mutant in for as long as a block lasts."""
    modules: tuple[str, ...]
    gates: Mapping[str, Gate]
    thorough: bool = False
    """Ask every gate; otherwise only until the first one finds the mutant."""


@frozen
class GateAnswer:
    """A gate's answer about one mutant."""

    found: bool
    cpu_s: float


@frozen
class MutantResult:
    """The result of one mutant: the answers of the gates asked, in this order."""

    name: str
    answers: Mapping[str, GateAnswer] = field(factory=dict[str, GateAnswer])

    @property
    def asked(self) -> tuple[str, ...]:
        """The gates that were asked."""
        return tuple(self.answers)

    @property
    def killers(self) -> tuple[str, ...]:
        """The gates that found it."""
        return tuple(gate for gate, answer in self.answers.items() if answer.found)

    @property
    def cpu_s(self) -> float:
        """The CPU seconds of all answers."""
        return sum(answer.cpu_s for answer in self.answers.values())


@frozen
class Kept:
    """The answers so far, one line of JSON each, those of each gate in a file of its own."""

    paths: Mapping[str, Path]

    @classmethod
    def of(cls, what: str, rooms: Mapping[str, Iterable[str | Path]]) -> "Kept":
        """The answers of these gates, as long as nothing changes in these files, nor in the code
        and specs of these folders."""
        folder = cache_folder() / "mutants"
        keys = {of: digest(sources(of)) for of in {tuple(of) for of in rooms.values()}}
        return cls(
            {
                gate: folder / f"{what}-{gate.replace(' ', '-')}-{keys[tuple(of)]}.jsonl"
                for gate, of in rooms.items()
            }
        )

    def read(self) -> dict[str, MutantResult]:
        """The earlier results, by the mutant's name."""
        answers: dict[str, dict[str, GateAnswer]] = {}
        for gate, path in self.paths.items():
            for line in path.read_bytes().splitlines() if path.is_file() else ():
                row = orjson.loads(line)
                answers.setdefault(row["name"], {})[gate] = GateAnswer(row["found"], row["cpu_s"])
        return {name: MutantResult(name, of) for name, of in answers.items()}

    def add(self, result: MutantResult, before: MutantResult) -> None:
        """Keep the answers that are new."""
        for gate in result.answers.keys() - before.answers.keys():
            path = self.paths[gate]
            path.parent.mkdir(parents=True, exist_ok=True)
            row = {"name": result.name} | asdict(result.answers[gate])
            with path.open("ab") as file:
                file.write(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE))


def run(
    todo: Sequence[Trial], kept: Kept, at_once: int, prepare: Callable[[Trial], object] = id
) -> Iterator[MutantResult]:
    """The result of each mutant, with known results of the same files first.

    `prepare` loads the modules of a trial once for all processes. Mutants of the same modules run
    together, and their answers come before the next modules' turn. Raises `InputError` if a gate
    fails without a mutant.
    """
    known = kept.read()
    left: list[tuple[Trial, MutantResult]] = []
    for one in todo:
        before = known.get(one.name, MutantResult(one.name))
        gates = _unasked(one, before)
        if gates:
            left.append((evolve(one, gates=gates), before))
        else:
            yield before
    alike: dict[tuple[str, ...], list[tuple[Trial, MutantResult]]] = {}
    for one, before in left:
        alike.setdefault(one.modules, []).append((one, before))
    for group in alike.values():
        for one, _ in group:
            prepare(one)
        with tempfile.TemporaryDirectory(prefix="highwater-mutants-") as notes:
            _prove_the_gates([one for one, _ in group], kept, at_once, Path(notes))
            earlier = {before.name: before for _, before in group}
            for result in _forked(group, at_once, Path(notes)):
                kept.add(result, earlier[result.name])
                yield result


def _unasked(one: Trial, seen: MutantResult) -> dict[str, Gate]:
    """The gates whose answer is still wanted."""
    if seen.killers and not one.thorough:
        return {}
    return {name: gate for name, gate in one.gates.items() if name not in seen.asked}


def _prove_the_gates(todo: Iterable[Trial], kept: Kept, at_once: int, folder: Path) -> None:
    """A gate that fails without any mutant would kill them all: each is asked of each module."""
    asked: dict[tuple[tuple[str, ...], str], Gate] = {}
    for one in todo:
        for name, gate in one.gates.items():
            of_modules = () if gate in _of_the_node else one.modules
            asked |= {(names, name): gate for names in [(of,) for of in of_modules] or [()]}
    known = kept.read()
    proofs = [
        Trial(unbroken(names), nullcontext, names, {name: gate}, True)
        for (names, name), gate in asked.items()
    ]
    before = [(one, known.get(one.name, MutantResult(one.name))) for one in proofs]
    left = [(evolve(one, gates=_unasked(one, seen)), seen) for one, seen in before]
    for result in _forked([pair for pair in left if pair[0].gates], at_once, folder):
        if result.killers:
            raise InputError(f"{', '.join(result.killers)} fails without any mutant: {result.name}")
        kept.add(result, known.get(result.name, MutantResult(result.name)))


def unbroken(names: Sequence[str]) -> str:
    """The name of the unchanged machines among the mutants."""
    return f"no mutant, {', '.join(names) or 'the node'}"


def _forked(
    todo: Sequence[tuple[Trial, MutantResult]], at_once: int, folder: Path
) -> Iterator[MutantResult]:
    gc.freeze()  # modules loaded by now are shared with every process
    running: dict[int, tuple[Trial, MutantResult, Path]] = {}
    waiting = list(reversed(todo))
    number = 0
    while waiting or running:
        while waiting and len(running) < at_once:
            one, before = waiting.pop()
            note = folder / str(number := number + 1)
            note.write_text("")
            pid = os.fork()
            if pid == 0:
                _ask_and_exit(one, note)
            running[pid] = one, before, note
        pid, _, used = os.wait4(-1, 0)
        if pid not in running:
            continue
        one, before, note = running.pop(pid)
        result = _result(before, note, used.ru_utime + used.ru_stime)
        left = {name: gate for name, gate in one.gates.items() if name not in result.asked}
        if one.thorough and left:  # its process ended: the others are asked in another one
            waiting.append((evolve(one, gates=left), result))
        else:
            yield result


def _ask_and_exit(one: Trial, note: Path) -> None:
    """In the forked process: write down each gate before it is asked, and then its answer."""
    spent = time.process_time()
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (int(spent) + LIMIT_S, hard))
    resource.setrlimit(resource.RLIMIT_AS, (LIMIT_BYTES, LIMIT_BYTES))
    try:
        with note.open("a") as file, one.applied():
            for name, gate in one.gates.items():
                file.write(f"{name}\t")
                file.flush()
                try:
                    found = bool(gate(one.modules))
                except BaseException:
                    found = True
                spent, before = time.process_time(), spent
                file.write(f"{'found' if found else 'missed'}\t{spent - before:.3f}\n")
                file.flush()
                if found and not one.thorough:
                    break
    except BaseException:  # the stack above belongs to the parent, which must not unwind here
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def _result(before: MutantResult, note: Path, cpu_s: float) -> MutantResult:
    """A process's result. A gate without an answer was running when the process ended: found."""
    answers = dict(before.answers)
    asked = note.read_text().splitlines()
    if not asked:
        raise InputError(f"{before.name}: its process ended before it asked anything")
    for line in asked:
        gate, _, said = line.partition("\t")
        answer, _, spent = said.partition("\t")
        answers[gate] = GateAnswer(answer != "missed", float(spent or cpu_s))
    note.unlink()
    return MutantResult(before.name, answers)
