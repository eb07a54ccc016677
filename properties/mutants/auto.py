"""Every generated mutant, asked of one gate after the other until one finds it."""

import contextlib
import io
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from pkgutil import walk_packages

from attrs import frozen

from properties.modules.descriptor import modules
from properties.mutants import forked, methods
from properties.mutants.catalogue import module_of
from properties.mutants.forked import Gate, Kept, Result, Trial
from properties.mutants.generated import Generated, generated
from properties.tla import InputError
from properties.tla.specs import CHECKOUT

MACHINES, NODE = "refimpl.machines", "refimpl.broker"
SURVIVORS = Path(__file__).with_name("survivors.toml")
TESTS = CHECKOUT / "tests"


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
        "first states": methods.by_first_states,
        "tests": by_tests_of_machines,
        "walk": methods.by_walk,
        "exhaustive": methods.by_small_scopes,
        "tour": methods.by_tour,
    },
    NODE: {"chaos": methods.by_chaos, "tests": by_tests_of_the_node},
}
#: What the results of each depend on.
ROOMS = {
    MACHINES: (
        *("refimpl/machines", "properties/conformance", "properties/modules"),
        *("properties/mutants", "spec", "tests/refimpl/machines"),
    ),
    NODE: ("refimpl", "chaos", "tests/refimpl/broker"),
}


@frozen
class Job:
    """One mutant, and how it is tried."""

    mutant: Generated
    modules: tuple[str, ...]
    gates: Mapping[str, Gate]

    @property
    def trial(self) -> Trial:
        """The gates one after the other, until one finds it."""
        return Trial(self.mutant.name, self.mutant.applied, self.modules, self.gates)


def jobs(wanted: Sequence[str] = ()) -> list[Job]:
    """Every mutant of the machines that a descriptor names, and of the node.

    With `wanted` only those whose name has one of these parts. Raises `InputError` if none has.
    """
    files = dict.fromkeys(machine for module in modules().values() for machine in module.machines)
    found: list[Job] = []
    for file in files:
        names = tuple(name for name, module in modules().items() if file in module.machines)
        mutants = generated(module_of(file))
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


def run(todo: Sequence[Job], at_once: int) -> Iterator[Result]:
    """What became of each."""
    for what, rooms in ROOMS.items():
        trials = [job.trial for job in todo if job.mutant.function.startswith(f"{what}.")]
        if trials:
            kept = Kept.of(what.rpartition(".")[2], rooms)
            yield from forked.run(trials, kept, at_once, methods.prepare)


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
        if result.killers:
            killed[result.killers[0]] += 1
            revived += [result.name] if result.name in reasons else []
        elif result.name in reasons:
            equivalent += 1
        else:
            survivors.append(by_name[result.name])
    ordered = sorted(survivors, key=lambda mutant: (mutant.file, mutant.line))
    return Tally(asked, killed, tuple(ordered), equivalent, tuple(revived))
