"""Every generated mutant, asked of one gate after the other until one finds it.

Each mutant runs in a process of its own, forked once the graphs are loaded: a loop without end or a
heap without bound kills that process and nothing else, and counts as found. What is done is kept in
the cache, one line each, so that an interrupted run goes on where it was; it is kept for exactly
these files, and any change of machines, checks or specs begins anew.
"""

import contextlib
import gc
import io
import os
import resource
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from pkgutil import walk_packages
from typing import TypeAlias

import orjson
from attrs import asdict, frozen

from properties.modules.descriptor import modules
from properties.mutants import methods
from properties.mutants.generated import Generated, generated
from properties.tla import InputError
from properties.tla.specs import CHECKOUT, cache_folder
from properties.tla.tools import digest

MACHINES, NODE = "refimpl.machines", "refimpl.broker"
SURVIVORS = Path(__file__).with_name("survivors.toml")
#: CPU seconds and bytes that one mutant may use up; more is a loop without end.
LIMIT_S, LIMIT_BYTES = 240, 4 << 30
TESTS = CHECKOUT / "tests"

Gate: TypeAlias = Callable[[Sequence[str]], object]


def by_tests_of_machines(names: Sequence[str]) -> bool:
    """The machines' own tests, guard by guard, without spec and binding."""
    return _tests_fail("refimpl/machines")


def by_tests_of_the_node(names: Sequence[str]) -> bool:
    """The node's own tests."""
    return _tests_fail("refimpl/broker")


def _tests_fail(folder: str) -> bool:
    try:
        import pytest
    except ImportError:
        raise InputError("generated mutants are judged by tests too: install pytest") from None
    arguments = [
        "-x",
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        "--assert=plain",
        str(TESTS / folder),
    ]
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        return pytest.main(arguments) is not pytest.ExitCode.OK


GATES: dict[str, Mapping[str, Gate]] = {
    MACHINES: {
        "tests": by_tests_of_machines,
        "exhaustive": methods.by_exhaustion,
        "walk": methods.by_walk,
        "tour": methods.by_tour,
        "Hypothesis": methods.by_hypothesis,
    },
    NODE: {"tests": by_tests_of_the_node, "chaos": methods.by_chaos},
}


@frozen
class Result:
    """What became of one mutant: the gate that found it, None if all of them missed it."""

    name: str
    killer: str | None
    asked: tuple[str, ...]
    cpu_s: float


@frozen
class Job:
    """One mutant, the modules whose machines have it, and the gates that are asked."""

    mutant: Generated
    modules: tuple[str, ...]
    gates: Mapping[str, Gate]


def jobs(wanted: Sequence[str] = ()) -> list[Job]:
    """Every mutant of the machines that a descriptor names, and of the node.

    With `wanted` only those whose name has one of these parts. Raises `InputError` if none has.
    """
    files = dict.fromkeys(machine for module in modules().values() for machine in module.machines)
    found: list[Job] = []
    for file in files:
        names = tuple(name for name, module in modules().items() if file in module.machines)
        mutants = generated(f"{MACHINES}.{file}")
        found += [Job(mutant, names, GATES[MACHINES]) for mutant in mutants]
    found += [Job(mutant, (), GATES[NODE]) for file in _node() for mutant in generated(file)]
    chosen = [job for job in found if not wanted or any(w in job.mutant.name for w in wanted)]
    if not chosen:
        raise InputError(f"no generated mutant has {' or '.join(wanted)} in its name")
    return chosen


def _node() -> Iterator[str]:
    """The files of the node: a package, or none yet."""
    folder = CHECKOUT / NODE.replace(".", "/")
    return (one.name for one in walk_packages([str(folder)], f"{NODE}.") if not one.ispkg)


# ------------------------------------------------------------------------------ running them


def run(todo: Sequence[Job], at_once: int) -> Iterator[Result]:
    """What became of each, those first that a run on the same files has seen before."""
    kept = Kept(cache_folder() / "mutants" / f"{_fingerprint()}.jsonl")
    known = kept.read()
    yield from (known[job.mutant.name] for job in todo if job.mutant.name in known)
    left = [job for job in todo if job.mutant.name not in known]
    if left:
        _prove_the_gates(left)
        gc.freeze()  # what is loaded by now is shared with every process
        with tempfile.TemporaryDirectory(prefix="highwater-mutants-") as notes:
            for result in _forked(left, at_once, Path(notes)):
                kept.add(result)
                yield result


def _prove_the_gates(todo: Iterable[Job]) -> None:
    """A gate that fails without any mutant would kill them all; asking also loads the graphs."""
    asked = {(job.modules, name): gate for job in todo for name, gate in job.gates.items()}
    for (names, name), gate in asked.items():
        if gate(names):
            raise InputError(f"{name} fails without any mutant: {', '.join(names) or 'the node'}")


def _forked(todo: Sequence[Job], at_once: int, folder: Path) -> Iterator[Result]:
    running: dict[int, tuple[Job, Path]] = {}
    waiting = list(reversed(todo))
    while waiting or running:
        while waiting and len(running) < at_once:
            job = waiting.pop()
            note = folder / str(len(waiting))
            note.write_text("")
            pid = os.fork()
            if pid == 0:
                _ask_and_exit(job, note)
            running[pid] = (job, note)
        pid, _, used = os.wait4(-1, 0)
        if pid in running:
            job, note = running.pop(pid)
            yield _result(job, note, used.ru_utime + used.ru_stime)


def _ask_and_exit(job: Job, note: Path) -> None:
    """In the forked process: note each gate before it is asked, and what it said."""
    spent = int(time.process_time())
    resource.setrlimit(resource.RLIMIT_CPU, (spent + LIMIT_S, spent + LIMIT_S))
    resource.setrlimit(resource.RLIMIT_AS, (LIMIT_BYTES, LIMIT_BYTES))
    with note.open("a") as file, job.mutant.applied():
        for name, gate in job.gates.items():
            file.write(f"{name}\n")
            file.flush()
            try:
                found = bool(gate(job.modules))
            except BaseException:
                found = True
            if found:
                os._exit(0)
        file.write("missed\n")
    os._exit(0)


def _result(job: Job, note: Path, cpu_s: float) -> Result:
    """The gate noted last found it, or was asked when the process ended."""
    *asked, last = note.read_text().split("\n")[:-1]
    note.unlink()
    if last == "missed":
        return Result(job.mutant.name, None, tuple(asked), cpu_s)
    return Result(job.mutant.name, last, (*asked, last), cpu_s)


def _fingerprint() -> str:
    rooms = ("refimpl", "properties", "chaos", "spec", "tests/refimpl")
    files = (path for room in rooms for path in sorted((CHECKOUT / room).rglob("*")))
    kinds = {".py", ".tla", ".cfg", ".java"}
    return digest(path for path in files if path.suffix in kinds)


@frozen
class Kept:
    """The results so far, one line of JSON each."""

    path: Path

    def read(self) -> dict[str, Result]:
        if not self.path.is_file():
            return {}
        rows = [orjson.loads(line) for line in self.path.read_bytes().splitlines()]
        return {
            row["name"]: Result(row["name"], row["killer"], tuple(row["asked"]), row["cpu_s"])
            for row in rows
        }

    def add(self, result: Result) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("ab") as file:
            file.write(orjson.dumps(asdict(result), option=orjson.OPT_APPEND_NEWLINE))


# ------------------------------------------------------------------------------ judging them


def explained(file: Path | None = None) -> dict[str, str]:
    """The mutants that nothing needs to find, by name, and why."""
    file = file or SURVIVORS
    try:
        rows = tomllib.loads(file.read_text(encoding="utf-8"))
        return {
            f"{place}: {change}": why for place, of in rows.items() for change, why in of.items()
        }
    except (tomllib.TOMLDecodeError, AttributeError) as wrong:
        raise InputError(
            f"{file}: expected [function] and under it change = why: {wrong}"
        ) from None


def stale_explanations(known: Iterable[str]) -> list[str]:
    """The explanations of mutants that there are no more."""
    return sorted(explained().keys() - set(known))


@frozen
class Tally:
    """How the gates did."""

    asked: Counter[str]
    killed: Counter[str]
    survivors: tuple[Generated, ...]
    """Those that no gate found, and nobody explains."""
    equivalent: int
    wrongly_explained: tuple[str, ...]
    """Those that are explained, and were found all the same."""

    @property
    def rate(self) -> float:
        """The share of those found, of all that are not known to be equivalent."""
        found = self.killed.total()
        return found / max(1, found + len(self.survivors))


def tally(todo: Sequence[Job], results: Iterable[Result]) -> Tally:
    """Add up what became of the mutants."""
    reasons, by_name = explained(), {job.mutant.name: job.mutant for job in todo}
    asked, killed = Counter[str](), Counter[str]()
    survivors: list[Generated] = []
    revived: list[str] = []
    equivalent = 0
    for result in results:
        asked.update(result.asked)
        if result.killer:
            killed[result.killer] += 1
            revived += [result.name] if result.name in reasons else []
        elif result.name in reasons:
            equivalent += 1
        else:
            survivors.append(by_name[result.name])
    ordered = sorted(survivors, key=lambda mutant: (mutant.file, mutant.line))
    return Tally(asked, killed, tuple(ordered), equivalent, tuple(revived))
