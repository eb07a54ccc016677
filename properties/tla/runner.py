"""Run configurations side by side and hold each against its row."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from attrs import frozen

from properties.tla.apalache import Apalache
from properties.tla.checker import Outcome
from properties.tla.errors import InputError
from properties.tla.names import spec_names
from properties.tla.processes import stop_all
from properties.tla.replay import with_arguments
from properties.tla.specs import ModelConfig, SpecTree
from properties.tla.tlc import QUICK_STATES, Tlc
from properties.tla.twins import check_twins
from properties.tla.verdicts import (
    ApalacheCheck,
    Difference,
    ExpectedVerdict,
    Table,
    compare,
    compare_symbolic,
    load,
)

#: Models of at most so many states share a JVM, so many at a time: then its start is nothing.
SMALL_STATES = 200_000
TOGETHER = 24


@frozen
class ModelJob:
    """One configuration to check."""

    table: Table
    verdict: ExpectedVerdict
    apalache: ApalacheCheck | None = None
    """The symbolic check of the same configuration, instead of TLC's."""

    @property
    def cfg(self) -> str:
        return self.verdict.cfg + (f" ({self.apalache}, Apalache)" if self.apalache else "")

    @property
    def name(self) -> str:
        return f"{self.table.module}/{self.cfg}"


@frozen
class JobResult:
    """The result of a job."""

    job: ModelJob
    outcome: Outcome
    differences: tuple[Difference, ...]

    @property
    def again(self) -> str:
        """The command that shows it again, on the same folder of specs."""
        target = f"{self.job.table.module}/{self.job.verdict.cfg}"
        root = self.job.table.path.parents[1]
        specs = "" if root == SpecTree().root else f" --specs {root}"
        symbolic = " --apalache" if self.job.apalache else ""
        return f"highwater spec {target}{specs}{symbolic} --story"


@frozen
class Options:
    """The options of a run."""

    tree: SpecTree
    parallel: int
    heap_mb: int
    explain: bool = False
    """Find the arguments of a counterexample's actions, which costs another run."""


def jobs(targets: Sequence[str], tree: SpecTree, apalache: bool = False) -> list[ModelJob]:
    """The jobs for `MODULE` and `MODULE/CFG` names, or for everything when there are none."""
    chosen: dict[str, ModelJob] = {}
    tables: dict[str, Table] = {}
    for target in targets or tree.modules():
        module, _, cfg = target.partition("/")
        if module not in tables:
            tables[module] = load(module, tree)
            check_twins(tables[module], tree)
        table = tables[module]
        rows = [table.row(cfg)] if cfg else table.verdicts
        for row in rows:
            symbolic = row.apalache if apalache else ()
            for job in (ModelJob(table, row, asked) for asked in (None, *symbolic)):
                chosen[job.name] = job
    for job in chosen.values():
        check_constants(job.table.module, tree.model(job.table.module, job.verdict.cfg), tree)
    return list(chosen.values())


def check_constants(module: str, cfg: Path, tree: SpecTree) -> None:
    """A cfg must give a value to every constant of the module, and to no other name.

    TLC accepts a value for an unknown name in silence. A misspelt knob would leave the rule
    unchanged, and the run would not show what its name says.
    """
    config = ModelConfig.read(cfg)
    given, declared = set(config.constants()), set(spec_names(module, tree).constants)
    if given - declared:
        names = ", ".join(sorted(given - declared))
        raise InputError(f"{cfg}: {module} declares no constant {names}")
    missing = declared - given - set(config.replaced())
    if missing:
        raise InputError(f"{cfg}: no value for the constant {', '.join(sorted(missing))}")


def run_all(
    todo: Iterable[ModelJob],
    options: Options,
    started: Callable[[ModelJob], None] = lambda job: None,
) -> Iterator[JobResult]:
    """Check all jobs side by side, the longest first; results come as they finish."""

    def one(several: Sequence[ModelJob]) -> list[JobResult]:
        for job in several:
            started(job)
        together = _check_together if len(several) > 1 else _check_alone
        return together(several, options)

    with ThreadPoolExecutor(max_workers=options.parallel) as pool:
        running = [pool.submit(one, several) for several in _in_one_jvm(todo, options.tree)]
        try:
            for done in as_completed(running):
                yield from done.result()
        except BaseException:
            for waiting in running:
                waiting.cancel()
            stop_all()
            raise


def _in_one_jvm(todo: Iterable[ModelJob], tree: SpecTree) -> list[Sequence[ModelJob]]:
    """Small models of one module together, each other one alone: the longest first."""
    small, texts = dict[str, list[ModelJob]](), dict[str, str]()
    found: list[Sequence[ModelJob]] = []
    for job in sorted(todo, key=_states, reverse=True):
        module = job.table.module
        if module not in texts:
            texts[module] = "".join(one.read_text(encoding="utf-8") for one in tree.closure(module))
        if 0 < _states(job) <= SMALL_STATES and _may_share(job, tree, texts[module]):
            small.setdefault(module, []).append(job)
        else:
            found.append((job,))
    for several in small.values():
        # Each takes of the long ones and of the short ones.
        count = -(-len(several) // TOGETHER)
        found += [several[first::count] for first in range(count)]
    return sorted(found, key=lambda jobs: sum(map(_states, jobs)), reverse=True)


def _may_share(job: ModelJob, tree: SpecTree, text: str) -> bool:
    r"""True if TLC checks the job, and all its properties are of steps.

    Such a property is `[][A]_v`, or an initial state with such steps, here or in an instance: `Init
    /\ [][A]_v`, `M!Spec`.
    """
    config = ModelConfig.read(tree.model(job.table.module, job.verdict.cfg))
    return job.apalache is None and all(_is_of_steps(name, text) for name in config.properties)


def _is_of_steps(name: str, text: str) -> bool:
    """True if the modules' text defines that property, or its instantiated one, by steps."""
    instance = re.search(rf"^{name} == \w+!(\w+)$", text, re.MULTILINE)
    of = instance[1] if instance else name
    return re.search(rf"^{of} ==\s*(\w+ /\\ )?\[\]\[", text, re.MULTILINE) is not None


def _states(job: ModelJob) -> int:
    return job.verdict.distinct or 0


def _check_together(several: Sequence[ModelJob], options: Options) -> list[JobResult]:
    """Check them in one JVM; an unexpected outcome is checked again alone, and that one counts."""
    module = several[0].table.module
    limit_s = sum(job.verdict.seconds for job in several)
    quick = max(map(_states, several)) < QUICK_STATES
    tlc = Tlc(options.tree, options.heap_mb, quick)
    outcomes = tlc.check_together(module, [job.verdict.cfg for job in several], limit_s)
    results: list[JobResult] = []
    for job in several:
        outcome = outcomes.get(job.verdict.cfg)
        if outcome is None or compare(job.verdict, outcome):
            results.append(_check(job, options))
        else:
            results.append(JobResult(job, _explained(outcome, job, options), ()))
    return results


def _check_alone(several: Sequence[ModelJob], options: Options) -> list[JobResult]:
    return [_check(job, options) for job in several]


def _check(job: ModelJob, options: Options) -> JobResult:
    module, row = job.table.module, job.verdict
    if job.apalache is not None:
        outcome = Apalache(job.apalache, options.tree).check(module, row.cfg, row.seconds)
        outcome = _explained(outcome, job, options)
        return JobResult(job, outcome, tuple(compare_symbolic(job.apalache, outcome)))
    quick = (row.distinct or 0) < QUICK_STATES
    outcome = Tlc(options.tree, options.heap_mb, quick).check(module, row.cfg, row.seconds)
    outcome = _explained(outcome, job, options)
    return JobResult(job, outcome, tuple(compare(row, outcome)))


def _explained(outcome: Outcome, job: ModelJob, options: Options) -> Outcome:
    """The outcome with the arguments of its actions, if they are asked for."""
    if not options.explain:
        return outcome
    cfg = options.tree.model(job.table.module, job.verdict.cfg)
    inductive = job.apalache is not None and job.apalache.init is not None
    return with_arguments(outcome, job.table.module, cfg, options.tree, anywhere=inductive)
