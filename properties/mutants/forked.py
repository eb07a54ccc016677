"""Mutants on trial: gates are asked about each, in a process of its own.

The process is forked once the graphs are loaded, so a loop without end or a heap without bound
kills it and nothing else, and counts as found. Results are kept in the cache, one line each, so
that an interrupted run goes on where it was; they are kept for exactly the files that they depend
on, and any change of those begins anew.
"""

import gc
import os
import resource
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TypeAlias

import orjson
from attrs import asdict, evolve, frozen

from properties.tla import InputError
from properties.tla.specs import CHECKOUT, cache_folder
from properties.tla.tools import digest

#: CPU seconds and bytes that one mutant may use up; more is a loop without end.
LIMIT_S, LIMIT_BYTES = 240, 4 << 30
KINDS = {".py", ".tla", ".cfg", ".java"}

Gate: TypeAlias = Callable[[Sequence[str]], object]
"""Asked of some TLA+ modules, while their machines are broken; true if it finds that they are."""


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
class Result:
    """What became of one mutant: the gates that found it, of those that were asked."""

    name: str
    killers: tuple[str, ...] = ()
    asked: tuple[str, ...] = ()
    cpu_s: float = 0.0


@frozen
class Kept:
    """The results so far, one line of JSON each."""

    path: Path

    @classmethod
    def of(cls, what: str, rooms: Iterable[str]) -> "Kept":
        """The results of these trials, as long as no file in these folders changes."""
        files = (path for room in rooms for path in sorted((CHECKOUT / room).rglob("*")))
        key = digest(path for path in files if path.suffix in KINDS)
        return cls(cache_folder() / "mutants" / f"{what}-{key}.jsonl")

    def read(self) -> dict[str, Result]:
        """What was seen before, by the mutant's name."""
        if not self.path.is_file():
            return {}
        rows = [orjson.loads(line) for line in self.path.read_bytes().splitlines()]
        return {
            row["name"]: Result(
                row["name"], tuple(row["killers"]), tuple(row["asked"]), row["cpu_s"]
            )
            for row in rows
        }

    def add(self, result: Result) -> None:
        """Keep one result."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("ab") as file:
            file.write(orjson.dumps(asdict(result), option=orjson.OPT_APPEND_NEWLINE))


def run(
    todo: Sequence[Trial], kept: Kept, at_once: int, prepare: Callable[[Trial], object] = id
) -> Iterator[Result]:
    """What became of each, those first that a run on the same files has seen before.

    `prepare` loads what a trial needs, once for all processes. Raises `InputError` if a gate finds
    something where there is no mutant.
    """
    known = kept.read()
    left: list[tuple[Trial, Result]] = []
    for one in todo:
        before = known.get(one.name, Result(one.name))
        gates = _unasked(one, before)
        if gates:
            left.append((evolve(one, gates=gates), before))
        else:
            yield before
    if left:
        for one, _ in left:
            prepare(one)
        with tempfile.TemporaryDirectory(prefix="highwater-mutants-") as notes:
            _prove_the_gates([one for one, _ in left], kept, at_once, Path(notes))
            for result in _forked(left, at_once, Path(notes)):
                kept.add(result)
                yield result


def _unasked(one: Trial, seen: Result) -> dict[str, Gate]:
    """The gates whose answer is still wanted."""
    if seen.killers and not one.thorough:
        return {}
    return {name: gate for name, gate in one.gates.items() if name not in seen.asked}


def _prove_the_gates(todo: Iterable[Trial], kept: Kept, at_once: int, folder: Path) -> None:
    """A gate that fails without any mutant would kill them all: each is asked of each module."""
    asked: dict[tuple[str, ...], dict[str, Gate]] = {}
    for one in todo:
        for names in [(name,) for name in one.modules] or [()]:
            asked.setdefault(names, {}).update(one.gates)
    known = kept.read()
    proofs = [
        Trial(f"no mutant, {', '.join(names) or 'the node'}", nullcontext, names, gates, True)
        for names, gates in asked.items()
    ]
    before = [(one, known.get(one.name, Result(one.name))) for one in proofs]
    left = [(evolve(one, gates=_unasked(one, seen)), seen) for one, seen in before]
    for result in _forked([pair for pair in left if pair[0].gates], at_once, folder):
        if result.killers:
            raise InputError(f"{', '.join(result.killers)} fails without any mutant: {result.name}")
        kept.add(result)


def _forked(todo: Sequence[tuple[Trial, Result]], at_once: int, folder: Path) -> Iterator[Result]:
    gc.freeze()  # what is loaded by now is shared with every process
    running: dict[int, tuple[Trial, Result, Path]] = {}
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
    """In the forked process: note each gate before it is asked, and what it said."""
    spent = int(time.process_time())
    resource.setrlimit(resource.RLIMIT_CPU, (spent + LIMIT_S, spent + LIMIT_S))
    resource.setrlimit(resource.RLIMIT_AS, (LIMIT_BYTES, LIMIT_BYTES))
    with note.open("a") as file, one.applied():
        for name, gate in one.gates.items():
            file.write(f"{name}\t")
            file.flush()
            try:
                found = bool(gate(one.modules))
            except BaseException:
                found = True
            file.write("found\n" if found else "missed\n")
            file.flush()
            if found and not one.thorough:
                break
    os._exit(0)


def _result(before: Result, note: Path, cpu_s: float) -> Result:
    """What a process noted; a gate that said nothing was asked when it ended, and found it so."""
    said = [line.partition("\t")[::2] for line in note.read_text().splitlines()]
    note.unlink()
    return Result(
        before.name,
        (*before.killers, *(gate for gate, answer in said if answer != "missed")),
        (*before.asked, *(gate for gate, _ in said)),
        before.cpu_s + cpu_s,
    )
