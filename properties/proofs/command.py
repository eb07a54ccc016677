"""`highwater prove`: which invariants are inductive, and what breaks them."""

import os
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from multiprocessing import get_context
from pathlib import Path

import click
from rich.console import Console

from properties.proofs import table
from properties.proofs.checking import ProofClaim, ProofResult, ProofTask, run, tasks
from properties.proofs.induct import Failure
from properties.tla.errors import InputError, Unusable
from properties.tla.progress import Watcher, watching
from properties.tla.specs import SpecTree
from properties.tla.syntax import to_tla
from refimpl.outputs import json_option, write_json


@click.command()
@click.argument("targets", nargs=-1, metavar="[MODULE | MODULE/PROOF]...")
@click.option("--full", is_flag=True, help="The large scopes too, and more of the graphs: minutes.")
@click.option(
    "--necessary",
    is_flag=True,
    help="Name what fails without each conjunct, or say that it may go.",
)
@click.option("--story", is_flag=True, help="Show the counterexamples to induction.")
@json_option("Write every result, with its counterexamples")
@click.option(
    "--specs",
    type=click.Path(path_type=Path, file_okay=False),
    help="Another folder of specs, laid out like spec/tla.",
)
def prove(
    targets: tuple[str, ...],
    full: bool,
    necessary: bool,
    story: bool,
    json_file: Path | None,
    specs: Path | None,
) -> None:
    """Show with z3 that invariants are inductive, within stated bounds.

    An inductive invariant holds initially and is kept by every step, so it holds after any number
    of steps. The module's own text is evaluated; there is no second encoding. Each proof is also
    held against TLC's graph, and each rule switched off must fail at the action and the conjunct
    that proofs.toml names. Exit code 0: all as expected; 1: something differs; 2: bad input or a
    missing tool.
    """
    console = Console(highlight=False)
    tree = SpecTree(specs.resolve()) if specs else SpecTree()
    try:
        todo = tasks(_tables(targets, tree), full=full, necessary=necessary)
        results = _run(todo, tree, console)
    except InputError as wrong:
        raise Unusable(str(wrong)) from None
    write_json(json_file, [result.as_json() for result in results])
    _say(results, story, console)
    if not all(result.as_expected for result in results):
        raise SystemExit(1)


def _tables(targets: Sequence[str], tree: SpecTree) -> list[tuple[table.ProofTable, set[str]]]:
    if not targets:
        found = [module for module in tree.modules() if table.has_table(module, tree)]
        return [(table.load(module, tree), set[str]()) for module in found]
    chosen: dict[str, set[str]] = {}
    for target in targets:
        module, _, proof = target.partition("/")
        chosen.setdefault(module, set()).update({proof} if proof else ())
    tables = [(table.load(module, tree), names) for module, names in chosen.items()]
    for loaded, names in tables:
        known = {proof.name for proof in loaded.proofs}
        for name in sorted(names - known):
            raise InputError(f"{loaded.path}: no proof {name!r} (there are: {', '.join(known)})")
    return tables


def _run(todo: Sequence[ProofTask], tree: SpecTree, console: Console) -> list[ProofResult]:
    results: list[ProofResult] = []
    with watching(console, len(todo)) as watcher:
        for task, result in zip(todo, _results(todo, tree, watcher), strict=True):
            results.append(result)
            watcher.finished(task.name, result.line())
    return results


def _results(todo: Sequence[ProofTask], tree: SpecTree, watcher: Watcher) -> Iterator[ProofResult]:
    """The results of the tasks, in their order, with one task per core at a time.

    Each task has its own process. Otherwise z3's time, and its choice of a counterexample, would
    depend on earlier queries.
    """
    waiting = deque(todo)
    running: deque[tuple[ProcessPoolExecutor, Future[ProofResult]]] = deque()
    try:
        while waiting or running:
            busy = [result for _, result in running if not result.done()]
            while waiting and len(busy) < (os.cpu_count() or 1):
                task = waiting.popleft()
                process = ProcessPoolExecutor(1, get_context("fork"))
                running.append((process, process.submit(run, task, tree)))
                busy.append(running[-1][1])
                watcher.started(task.name)
            wait(busy, return_when=FIRST_COMPLETED)
            while running and running[0][1].done():
                process, result = running[0]
                yield result.result()
                process.shutdown()
                running.popleft()
    finally:
        for process, _ in running:
            process.shutdown(wait=False, cancel_futures=True)


def _say(results: Sequence[ProofResult], story: bool, console: Console) -> None:
    wrong = [result for result in results if not result.as_expected]
    for result in results:
        if result in wrong:
            for line in result.differences:
                console.print(f"{result.task.name}: {line}", soft_wrap=True, markup=False)
        for name, what in result.needed.items():
            console.print(f"  {name}: without it fails {what}", soft_wrap=True, markup=False)
        if story and result.failures:
            console.print("\n".join(tell(result)), soft_wrap=True, markup=False)
    cpu_s = sum(result.cpu_s for result in results)
    inductive = sum(result.task.kind is ProofClaim.INDUCTIVE for result in results)
    controls = sum(result.task.kind is ProofClaim.CONTROL for result in results)
    ended = f"{len(wrong)} differ" if wrong else "all as expected"
    console.print(
        f"{inductive} scopes inductive, {controls} rules switched off, {ended}; {cpu_s:.0f} CPU s",
        soft_wrap=True,
    )


def tell(result: ProofResult) -> list[str]:
    """The first counterexample to induction of each action, and the story that reaches one."""
    lines = [f"{result.task.name}:"]
    told: set[str] = set()
    for failure in result.failures:
        if failure.action not in told:
            told.add(failure.action)
            lines += _counterexample(failure)
    if result.story is not None:
        lines.append(f"  reachable, {result.story.length} states, breaks {result.story.broken}:")
        lines += [f"    {step}" for step in ("Init", *result.story.steps)]
    return [*lines, ""]


def _counterexample(failure: Failure) -> list[str]:
    lines = [f"  {failure.step} does not keep {failure.conjunct}"]
    if failure.unknown:
        return [*lines, "    z3 gave up: unknown counts as a failure"]
    before, after = failure.before or {}, failure.after or {}
    lines += [f"    {name} = {to_tla(value)}" for name, value in before.items()]
    changed = [name for name, value in after.items() if before.get(name) != value]
    return [*lines, *(f"    then {name} = {to_tla(after[name])}" for name in changed)]
