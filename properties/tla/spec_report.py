"""The output of `highwater spec`: lines while it runs, a table, stories, JSON."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from properties.tla.checker import Outcome, Status
from properties.tla.event_values import to_json
from properties.tla.runner import JobResult
from properties.tla.story import tell
from properties.tla.values import Value


def console() -> Console:
    """Standard output; without a terminal it is wide enough for the table."""
    plain = Console(highlight=False)
    return plain if plain.is_terminal else Console(highlight=False, width=max(plain.width, 132))


def verdict_of(outcome: Outcome) -> str:
    return " ".join(filter(None, (outcome.status.value, outcome.violated)))


def line(result: JobResult) -> str:
    """One finished run."""
    outcome = result.outcome
    if outcome.status is Status.NOT_CHECKED:
        return f"{result.job.name}: not checked"
    mark = "DIFFERS" if result.differences else "as expected"
    return f"{result.job.name}: {verdict_of(outcome)}, {outcome.cpu_s:.1f} CPU s, {mark}"


def table(results: Sequence[JobResult]) -> Grid:
    grid = Grid("", "verdict", "length", "distinct", "depth", "CPU s", "", box=SIMPLE)
    grid.columns[0].no_wrap = True
    for column in grid.columns:
        column.overflow = "fold"
    grid.columns[0].no_wrap = True
    for column in grid.columns[2:6]:
        column.justify, column.no_wrap = "right", True
    module = ""
    for result in results:
        if result.job.table.module != module:
            module = result.job.table.module
            grid.add_section()
            spent = sum(one.outcome.cpu_s for one in results if one.job.table.module == module)
            grid.add_row(
                Text(module, style="bold"), "", "", "", "", Text(f"{spent:.1f}", style="bold")
            )
        outcome = result.outcome
        figures = (outcome.length, outcome.distinct, outcome.depth)
        grid.add_row(
            result.job.cfg,
            verdict_of(outcome),
            *("" if figure is None else f"{figure:,}" for figure in figures),
            f"{outcome.cpu_s:.1f}",
            _mark(result),
        )
    return grid


def _mark(result: JobResult) -> Text:
    if result.differences:
        return Text("✗", style="red")
    if result.outcome.status is Status.NOT_CHECKED:
        return Text("–", style="yellow")
    return Text("✓", style="green")


def not_checked(results: Sequence[JobResult]) -> list[str]:
    """The rows that were not checked, and the reasons. They never count as passed."""
    return [
        f"not checked: {result.job.name}: {result.outcome.reason}"
        for result in results
        if result.outcome.status is Status.NOT_CHECKED
    ]


def differences(result: JobResult) -> list[str]:
    """The differences from the table, and the command that shows them again."""
    lines = [f"{result.job.name} differs from {result.job.table.path.name}:"]
    lines += [f"  {difference}" for difference in result.differences]
    return [*lines, f"  see it again: {result.again}"]


def summary(results: Sequence[JobResult]) -> str:
    wrong = [result.job.name for result in results if result.differences]
    negative = sum(result.outcome.status is Status.VIOLATED for result in results)
    said = f"{len(wrong)} differ: {', '.join(wrong)}" if wrong else "all as expected"
    cpu_s = sum(result.outcome.cpu_s for result in results)
    unchecked = len(not_checked(results))
    said += f", {unchecked} not checked" if unchecked else ""
    done = len(results) - unchecked
    return f"{done} verdicts, {negative} of them violations, {said}; {cpu_s:.1f} CPU s"


def title(result: JobResult) -> str:
    """The first line of a story."""
    row, outcome = result.job.verdict, result.outcome
    known = " ".join(filter(None, (row.kip, row.jira)))
    states = f"in {outcome.length} states"
    return f"{result.job.name} violates {outcome.violated} {states}" + (f" ({known})" * bool(known))


def story(result: JobResult) -> list[str]:
    if result.outcome.status is not Status.VIOLATED:
        return [f"{result.job.name} {verdict_of(result.outcome)}: there is no counterexample."]
    note = result.job.verdict.note
    return tell(title(result) + (f"\n{note}" if note else ""), result.outcome)


def as_json(result: JobResult) -> dict[str, Any]:
    """Everything about a run, the counterexample's values as in protocol events."""
    outcome = result.outcome
    return {
        "module": result.job.table.module,
        "cfg": result.job.verdict.cfg,
        "checker": "Apalache" if result.job.apalache else "TLC",
        "as_expected": not result.differences,
        "differences": [str(difference) for difference in result.differences],
        "verdict": outcome.status.value,
        "property": outcome.violated,
        "length": outcome.length,
        "distinct": outcome.distinct,
        "generated": outcome.generated,
        "depth": outcome.depth,
        "cpu_s": round(outcome.cpu_s, 3),
        "wall_s": round(outcome.wall_s, 3),
        "reason": outcome.reason,
        "back_to": outcome.back_to,
        "counterexample": [
            {
                "action": step.action,
                "params": None if step.params is None else _values(step.params),
                "state": _values(step.state),
            }
            for step in outcome.steps
        ],
    }


def _values(values: Mapping[str, Value]) -> dict[str, Any]:
    return {name: to_json(value) for name, value in values.items()}
