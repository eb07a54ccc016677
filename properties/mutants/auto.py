"""Every generated mutant, asked of one gate after the other until one finds it."""

import tomllib
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from cProfile import Profile
from importlib.util import find_spec
from itertools import groupby
from pathlib import Path
from pkgutil import walk_packages
from random import Random

from attrs import evolve, field, frozen

from properties.modules.descriptor import modules
from properties.mutants import forked, methods
from properties.mutants.catalogue import module_of
from properties.mutants.forked import Gate, Kept, MutantResult, Trial
from properties.mutants.generated import GeneratedMutant, generated
from properties.mutants.suite import CollectedTests, closure, functions_in, learned
from properties.tla import InputError
from properties.tla.specs import CHECKOUT

MACHINES, COORDINATOR, GROUPS = "refimpl.machines", "refimpl.coordinator", "refimpl.groups"
CONTROLLER, NODE = "refimpl.controller", "refimpl.broker"
REPLICA, PRODUCER = "refimpl.storage.replica", "refimpl.clients.producer"
CONSUMER = "refimpl.clients.consumer"
SURVIVORS = Path(__file__).with_name("survivors.toml")
#: Packages of which tests alone are asked, and only if they are named: all would take a night.
BY_NAME = {
    "refimpl.storage": (
        *("tests/refimpl/storage", "tests/refimpl/dump"),
        "tests/refimpl/broker/test_log_manager.py",
    ),
    "refimpl.api": (
        *("tests/wire/test_recorded.py", "tests/wire/test_two_of_a_thing.py"),
        *("tests/wire/test_authorization.py", "tests/wire/test_log_dirs.py"),
        *("tests/wire/test_telemetry.py", "tests/wire/test_features.py"),
        *("tests/wire/test_quotas.py", "tests/wire/test_changes_of_many.py"),
        *("tests/wire/test_config_resources.py", "tests/wire/test_generated.py"),
        "tests/refimpl/edge/test_log_directories.py",
    ),
    "refimpl.edge.server": (
        *("tests/refimpl/edge/test_connections.py", "tests/refimpl/edge/test_failing.py"),
        *("tests/refimpl/edge/test_hostile.py", "tests/refimpl/edge/test_limits.py"),
        *("tests/refimpl/edge/test_properties.py", "tests/refimpl/edge/test_peers.py"),
        *("tests/refimpl/edge/test_cues.py", "tests/refimpl/edge/test_unserved.py"),
    ),
    "chaos.oracles": (
        *("tests/chaos/test_oracle_rules.py", "tests/chaos/test_group_oracle_rules.py"),
        *("tests/chaos/test_log_oracle_rules.py", "tests/chaos/test_partition_oracle_rules.py"),
        *("tests/chaos/test_share_oracle_rules.py", "tests/chaos/test_control_plane_rules.py"),
        *("tests/chaos/test_transaction_oracle_rules.py", "tests/chaos/test_oracle_sites.py"),
        *("tests/chaos/test_watched_steps.py", "tests/chaos/test_loaded.py"),
        *("tests/chaos/test_kinds_of_operations.py", "tests/chaos/test_told.py"),
    ),
    "traces.checks": (
        *("tests/traces/test_small.py", "tests/traces/test_dense_search.py"),
        *("tests/traces/test_coordination.py", "tests/traces/test_log_checks.py"),
        *("tests/traces/test_missed_faults.py", "tests/traces/test_less_evidence.py"),
        *("tests/traces/test_lives.py", "tests/traces/test_made_again.py"),
        *("tests/traces/test_not_everybody.py", "tests/traces/test_still_there.py"),
        *("tests/traces/test_coordinator.py", "tests/traces/test_configuration.py"),
        *("tests/traces/test_committers.py", "tests/traces/test_scopes.py"),
        *("tests/traces/test_senders.py", "tests/traces/test_unanswered_commits.py"),
        *("tests/traces/test_group_protocol.py", "tests/traces/test_former_owners.py"),
        "tests/traces/test_fuzzed_traces.py",
    ),
}
#: The tests that look at a package directly: the machines' own, guard by guard, without spec and
#: binding; the node's, one node or controller at a time, without the simulator.
TESTS = {
    MACHINES: ("tests/refimpl/machines",),
    COORDINATOR: ("tests/refimpl/coordinator", "tests/refimpl/groups"),
    GROUPS: (
        *("tests/refimpl/groups", "tests/refimpl/shares"),
        "tests/refimpl/broker/test_share_groups.py",
    ),
    PRODUCER: ("tests/refimpl/clients/producer",),
    CONSUMER: ("tests/refimpl/clients/consumer",),
    CONTROLLER: ("tests/refimpl/controller",),
    NODE: ("tests/refimpl/broker", "tests/refimpl/controller"),
    REPLICA: ("tests/refimpl/storage/replica", "tests/refimpl/broker"),
    **BY_NAME,
}
_CONFORMS: Mapping[str, Gate] = {
    "first states": methods.by_first_states,
    "walk": methods.by_walk,
    "exhaustive": methods.by_small_scopes,
    "tour": methods.by_tour,
}
_SIMULATES: Mapping[str, Gate] = {
    "chaos": methods.by_chaos,
    "chaos on a store": methods.by_chaos_on_a_store,
}
#: The gates in the order in which they are asked, after the tests.
GATES: dict[str, Mapping[str, Gate]] = {
    MACHINES: _CONFORMS,
    COORDINATOR: _CONFORMS,
    GROUPS: _CONFORMS,
    PRODUCER: _CONFORMS,
    CONSUMER: _CONFORMS,
    CONTROLLER: _SIMULATES,
    NODE: _SIMULATES,
    REPLICA: _SIMULATES,
}
_SIMULATOR = CHECKOUT / "chaos" / "campaign.py"
_MUTANTS = tuple(f"properties/mutants/{name}.py" for name in ("edits", "generated", "methods"))


@frozen
class MutantJob:
    """One mutant, and how it is tried."""

    mutant: GeneratedMutant
    modules: tuple[str, ...]
    gates: Mapping[str, Gate]

    def trial(self, runners: "Runners") -> Trial:
        """The gates one after the other, until one finds it."""
        return Trial(self.mutant.name, self.mutant.applied, self.modules, self._asked(runners))

    def _asked(self, runners: "Runners") -> dict[str, Gate]:
        """The tests that run the function, and the other gates; no simulator that never does."""
        function = self.mutant.function
        gates = {
            name: gate
            for name, gate in self.gates.items()
            if name not in _SIMULATES or function in runners.simulated.get(name, ())
        }
        tests = runners.tests(function)
        return {"tests": runners.gate(tests), **gates} if tests else gates


@frozen
class Runners:
    """The gates that execute each function; other gates cannot kill its mutants."""

    suite: CollectedTests | None = None
    simulated: Mapping[str, Collection[str]] = field(factory=dict[str, Collection[str]])
    """The functions that each gate of the simulator calls."""

    @classmethod
    def seen(cls, suite: CollectedTests, todo: Sequence[MutantJob]) -> "Runners":
        """The tests, and the simulator if it is asked of anything."""
        asked = [name for name in _SIMULATES if any(name in job.gates for job in todo)]
        files = closure([_SIMULATOR]) if asked else []
        return cls(suite, {name: learned(name, _ran_by(name), files).keys() for name in asked})

    def tests(self, function: str) -> list[str]:
        """The tests of the function's own package that call it, cheap ones first."""
        if self.suite is None:
            return []
        return self.suite.of(function, TESTS[_package(function)])

    def gate(self, tests: Sequence[str]) -> Gate:
        """A gate of these tests, for every module."""
        suite = self.suite
        assert suite is not None
        return lambda _: suite.fails(tests)


def _ran_by(name: str) -> Callable[[], Iterator[tuple[str, Iterable[str]]]]:
    """The functions that the seeds of a simulator's gate call."""

    def seen() -> Iterator[tuple[str, Iterable[str]]]:
        profile = Profile()
        if profile.runcall(_SIMULATES[name], ()):
            raise InputError("a seed fails without any mutant")
        return ((function, ()) for function in functions_in(profile))

    return seen


def jobs(wanted: Sequence[str] = ()) -> list[MutantJob]:
    """Every mutant of the machines that a descriptor names, and of the node.

    With `wanted` only those whose name has one of these parts, of the packages in `BY_NAME` as
    well. Raises `InputError` if none has.
    """
    files = dict.fromkeys(machine for module in modules().values() for machine in module.machines)
    found: list[MutantJob] = []
    for file in files:
        if not _may_have(module_of(file), wanted):
            continue
        names = tuple(name for name, module in modules().items() if file in module.machines)
        mutants = generated(module_of(file))
        found += [MutantJob(mutant, names, GATES[_package(mutant.function)]) for mutant in mutants]
    found += [
        MutantJob(mutant, (), GATES[room])
        for room in (CONTROLLER, NODE, REPLICA)
        for file in _files(room)
        if _may_have(file, wanted)
        for mutant in generated(file)
    ]
    known = {job.mutant.file for job in found}
    found += [
        MutantJob(mutant, (), {})
        for room in (GROUPS, *BY_NAME)
        if any(one.startswith(room) for one in wanted)
        for file in _files(room)
        if _may_have(file, wanted)
        for mutant in generated(file)
        if mutant.file not in known
    ]
    chosen = [job for job in found if not wanted or any(w in job.mutant.name for w in wanted)]
    if not chosen:
        raise InputError(f"no generated mutant has {' or '.join(wanted)} in its name")
    return chosen


def _may_have(module: str, wanted: Sequence[str]) -> bool:
    """True if a mutant of this module may be wanted; a full name decides it without any mutant."""
    return not wanted or any(
        not one.startswith("refimpl.") or one.startswith(module) or module.startswith(one)
        for one in (name.partition(":")[0] for name in wanted)
    )


def sampled(todo: Sequence[MutantJob], most: int, seed: int) -> list[MutantJob]:
    """Of each file so many at most, drawn by the seed: how well the file is held, at less cost."""
    drawn: list[MutantJob] = []
    for file, of in groupby(todo, lambda job: job.mutant.file):
        jobs = [*of]
        drawn += Random(f"{seed} {file}").sample(jobs, min(most, len(jobs)))
    return drawn


def _files(room: str) -> Iterator[str]:
    """The modules of a room of the node."""
    folder = CHECKOUT / room.replace(".", "/")
    return (one.name for one in walk_packages([str(folder)], f"{room}.") if not one.ispkg)


def _package(function: str) -> str:
    return next(one for one in TESTS if function.startswith(f"{one}."))


def run(
    todo: Sequence[MutantJob], at_once: int, runners: Runners | None = None
) -> Iterator[MutantResult]:
    """The result of each mutant. Without `runners`, tests and simulator are not asked."""
    for package, of in TESTS.items():
        chosen = [job for job in todo if _package(job.mutant.function) == package]
        if chosen:
            asked = {gate for job in chosen for gate in job.gates}
            kept = Kept.of(package.rpartition(".")[2], _rooms(asked, of))
            yield from _cheap_ones_first(chosen, kept, at_once, runners or Runners())


def _rooms(gates: Iterable[str], tests: Iterable[str]) -> dict[str, tuple[str | Path, ...]]:
    """The files on which each gate's answers depend: its own, and all that it imports."""
    conformance = (*_sources("properties/conformance", "properties/modules"), "spec")
    simulator = closure([_SIMULATOR])
    known = {**dict.fromkeys(_SIMULATES, simulator), **dict.fromkeys(_CONFORMS, conformance)}
    found = {"tests": _sources(*tests), **{gate: known.get(gate, ()) for gate in gates}}
    return {gate: (*files, *_MUTANTS) for gate, files in found.items()}


def _sources(*places: str) -> list[Path]:
    paths = [CHECKOUT / place for place in places]
    return closure(
        file for path in paths for file in (path.rglob("*.py") if path.is_dir() else [path])
    )


def _cheap_ones_first(
    chosen: Sequence[MutantJob], kept: Kept, at_once: int, runners: Runners
) -> Iterator[MutantResult]:
    """Ask the tests first, which need no graphs; ask the other gates about the survivors."""
    trials = [job.trial(runners) for job in chosen]
    tested = [one for one in trials if "tests" in one.gates]
    left = {one.name: one for one in trials}
    tests = [evolve(one, gates={"tests": one.gates["tests"]}) for one in tested]
    for result in forked.run(tests, kept, at_once):
        if result.killers:
            del left[result.name]
            yield result
    yield from forked.run([*left.values()], kept, at_once, methods.prepare)


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
    """The explanations of mutants that there are no more; `known` may lack rooms asked by name."""
    left = explained().keys() - set(known)
    files = {name.partition(":")[0] for name in left}
    there = {one.name for file in files if find_spec(file) for one in generated(file)}
    return sorted(left - there)


@frozen
class GateTally:
    """The gates' totals."""

    asked: Counter[str]
    killed: Counter[str]
    cpu_s: Mapping[str, float]
    survivors: tuple[GeneratedMutant, ...]
    """The mutants that no gate found, without an explanation."""
    files: Mapping[str, tuple[int, int]]
    """Per file how many were killed, and how many live."""
    equivalent: int
    wrongly_explained: tuple[str, ...]
    """Those that are explained, and were found all the same."""

    @property
    def rate(self) -> float:
        """The share of those found, of all that are not known to be equivalent."""
        found = self.killed.total()
        return found / max(1, found + len(self.survivors))


def tally(todo: Sequence[MutantJob], results: Iterable[MutantResult]) -> GateTally:
    """Add up what became of the mutants."""
    reasons, by_name = explained(), {job.mutant.name: job.mutant for job in todo}
    asked, killed = Counter[str](), Counter[str]()
    cpu_s: dict[str, float] = defaultdict(float)
    survivors: list[GeneratedMutant] = []
    revived: list[str] = []
    files = Counter[str]()
    equivalent = 0
    for result in results:
        asked.update(result.asked)
        for gate, answer in result.answers.items():
            cpu_s[gate] += answer.cpu_s
        if result.killers:
            killed[result.killers[0]] += 1
            files[by_name[result.name].file] += 1
            revived += [result.name] if result.name in reasons else []
        elif result.name in reasons:
            equivalent += 1
        else:
            survivors.append(by_name[result.name])
    ordered = sorted(survivors, key=lambda mutant: (mutant.file, mutant.line))
    alive = Counter(mutant.file for mutant in survivors)
    held = {file: (files[file], alive[file]) for file in files | alive}
    return GateTally(asked, killed, cpu_s, tuple(ordered), held, equivalent, tuple(revived))
