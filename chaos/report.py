"""The terminal output of runs and campaigns."""

from collections.abc import Callable, Generator
from contextlib import contextmanager

from attrs import asdict, fields_dict
from rich.console import Console, Group, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from chaos.campaign import SOMETIMES, Tally
from chaos.sim.settings import Settings
from chaos.simulator import Run
from chaos.story import tell

# A long story's beginning is seldom what one looks for.
LINES = 80
EVERY = 500


@contextmanager
def watching(console: Console, total: int | None) -> Generator[Callable[[Tally], None]]:
    """A callback for progress: a bar on a terminal, elsewhere an occasional line."""
    if not console.is_terminal:
        yield lambda tally: _line(console, tally, total)
        return
    columns = (
        TextColumn("seeds"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=total)

        def show(tally: Tally) -> None:
            progress.update(task, completed=tally.seeds, description=_rate(tally))

        yield show


def _line(console: Console, tally: Tally, total: int | None) -> None:
    if tally.seeds % EVERY == 0 and tally.seeds != total:
        console.print(f"{tally.seeds} seeds, {_rate(tally)}")


def _rate(tally: Tally) -> str:
    return f"{tally.events / max(tally.cpu_s, 1e-9):,.0f} events per CPU-second"


def summary(tally: Tally) -> RenderableType:
    """The results of a campaign."""
    table = Table("sometimes", "times", box=None, pad_edge=False)
    for name, words in SOMETIMES.items():
        number = tally.counts[name]
        table.add_row(words, f"{number:,}" if number else "[yellow]never[/yellow]")
    faster = tally.simulated_ms / 1000 / max(tally.cpu_s, 1e-9)
    lines = (
        f"committed records lost where the settings allow it: {tally.counts['allowed losses']:,}, "
        "of them acknowledged to producers: "
        f"{tally.counts['acknowledged records lost, as allowed']:,}",
        f"{tally.seeds:,} seeds, {len(tally.failed)} failed; {tally.events:,} events in "
        f"{tally.cpu_s:.1f} CPU-s, {_rate(tally)}, {faster:,.0f} times real time",
    )
    return Group(table, "", *lines)


def run(run: Run, trace_hash: str) -> RenderableType:
    """The result of a single run."""
    table = Table("what", "times", box=None, pad_edge=False)
    for name, number in sorted(run.simulation.counts.items()):
        table.add_row(name, f"{number:,}")
    verdict = "every promise kept" if run.violation is None else f"broken: {run.violation.oracle}"
    return Group(
        table,
        "",
        f"seed {run.settings.seed}: {verdict}; {run.events:,} events, {run.now_ms:,} simulated ms, "
        f"trace hash {trace_hash}",
    )


def configuration(settings: Settings) -> RenderableType:
    """The settings of a run, on a few lines."""
    return Text(
        "settings: " + " ".join(f"{k}={Settings.written(v)}" for k, v in asdict(settings).items())
    )


def settings(settings: Settings) -> RenderableType:
    """The settings that --config takes: name, default, and this seed's value."""
    table = Table("name", "default", f"seed {settings.seed}", box=None, pad_edge=False)
    for name, value in asdict(settings).items():
        if name != "seed":
            table.add_row(
                name, Settings.written(fields_dict(Settings)[name].default), Settings.written(value)
            )
    return table


def story(failed: Run) -> RenderableType:
    """The story of a failed run: faults in red, steps in the spec's words."""
    lines = tell(failed)
    text = Text()
    if len(lines) > LINES:
        text.append(f"   … {len(lines) - LINES} earlier steps\n")
    for line in lines[-LINES:]:
        text.append(f"{line.at_ms:>8} ms  {line.text}\n", "red" if line.is_fault else "")
    if failed.violation is not None:
        text.append(f"{failed.now_ms:>8} ms  {failed.violation}\n", "bold red")
    return text
