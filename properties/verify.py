"""`highwater verify`: the whole loop, room by room, each as the command that shows it again.

The stages are commands of their own, run one after the other, so that what fails here fails there,
word for word. What a stage says last is its line in the summary.
"""

import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import click
import orjson
from attrs import asdict, frozen
from rich.console import Console
from rich.markup import escape
from rich.status import Status
from rich.table import Table

from properties.tla.specs import CHECKOUT, cache_folder
from properties.tla.tools import digest

#: Few, as the whole takes 20 minutes on two cores (docs/verify.md): campaigns have their own verbs.
CHAOS_SEEDS = 300
TRACED_SEEDS = 60
RECORDINGS = CHECKOUT / "tests/traces/data/recordings"


@frozen
class Stage:
    """One part of the loop: what it shows, and the command that shows it."""

    name: str
    shows: str
    command: tuple[str, ...]


@frozen
class Result:
    """How a stage ended and what it cost, with all that it started."""

    stage: str
    code: int
    summary: str
    cpu_s: float
    wall_s: float


def stages(work: Path) -> tuple[Stage, ...]:
    """The loop. Each stage stands on the one before."""
    runs, events = work / "runs", work / "events"
    real_runs, real_events = work / "real-runs", work / "real-events"
    return (
        Stage("spec", "the models do what their tables say", ("spec",)),
        Stage("prove", "the invariants are kept after any number of steps", ("prove",)),
        Stage("conform", "the machines are the models, edge by edge", ("conform",)),
        # Every check asked about every mutant, and the specs' guards: `make matrix`, far longer.
        Stage("mutants", "a rule that is broken is found", ("mutants",)),
        Stage("chaos", "no fault breaks a promise", ("chaos", "--seeds", str(CHAOS_SEEDS))),
        Stage(
            "record",
            "runs written down",
            (
                *("chaos", "--seeds", str(TRACED_SEEDS), "--config", "store=false"),
                *("--out", str(runs), "--events", str(events)),
            ),
        ),
        Stage(
            "faults",
            "real clients against three brokers that are broken meanwhile, written down",
            ("faults", "--runs", "4", "--out", str(real_runs), "--events", str(real_events)),
        ),
        Stage(
            "validate",
            "what the brokers did, there and here, is a behaviour of the spec",
            ("validate", str(events), str(real_events)),
        ),
        Stage(
            "check",
            "what clients saw, there and of real Kafka, is what was promised",
            ("check", str(runs), str(real_runs), str(RECORDINGS)),
        ),
    )


@click.command()
@click.option("--only", metavar="STAGE", multiple=True, help="Run these stages only.")
@click.option("--keep-going", is_flag=True, help="Run the later stages after a failure, too.")
@click.option(
    "--resume", is_flag=True, help="Skip what passed before, as far as no file has changed since."
)
@click.option(
    "--write",
    metavar="FILE",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    help="Write what each stage cost to this file, as a page of Markdown, if all of them passed.",
)
def verify(only: Sequence[str], keep_going: bool, resume: bool, write: Path | None) -> None:
    """Run everything, in order, with one summary at the end.

    Exit 0 when all is as promised; otherwise the first failure's code, its story and its command.
    """
    console = Console(highlight=False)
    work = cache_folder() / "verify"
    loop = stages(work)
    unknown = set(only) - {stage.name for stage in loop}
    if unknown:
        known = ", ".join(stage.name for stage in loop)
        raise click.BadParameter(f"no stage {', '.join(sorted(unknown))}; there are: {known}")
    memory = Memory(work / "passed.json", _fingerprint(CHECKOUT))
    known_good = memory.passed() if resume else {}
    results: list[Result] = []
    for stage in loop:
        if only and stage.name not in only:
            continue
        result = known_good.get(stage.name) or _run(stage, work, console)
        _announce(console, stage, result, again=stage.name in known_good)
        results.append(result)
        if result.code == 0:
            memory.add(result)
        elif not keep_going:
            break
    _summary(console, loop, results)
    _conclude(console, loop, results)
    if write is not None:
        write.write_text(page(loop, results), encoding="utf-8")


def page(loop: Sequence[Stage], results: Sequence[Result]) -> str:
    """What each stage cost, as a page of the docs."""
    shown = {stage.name: stage.shows for stage in loop}
    rows = [
        f"| `{one.stage}` | {shown[one.stage]} | {one.cpu_s:,.0f} | {one.wall_s:,.0f} |"
        for one in results
    ]
    cpu_s, wall_s = (sum(getattr(one, name) for one in results) for name in ("cpu_s", "wall_s"))
    lines = [
        "# What the main job costs",
        "",
        f"Written by `highwater verify --write FILE`, on {os.cpu_count()} cores. CPU seconds are "
        "those of a stage and of all that it starts.",
        "",
        "| stage | what it shows | CPU s | wall s |",
        "|---|---|---|---|",
        *rows,
        f"| | | {cpu_s:,.0f} | {wall_s:,.0f} |",
    ]
    return "\n".join(lines) + "\n"


def _run(stage: Stage, work: Path, console: Console) -> Result:
    """Run a stage's command and show its last line while it runs; its whole output is kept."""
    work.mkdir(parents=True, exist_ok=True)
    for folder in {"record": ("runs", "events"), "faults": ("real-runs", "real-events")}.get(
        stage.name, ()
    ):
        shutil.rmtree(work / folder, ignore_errors=True)
    before, began = os.times(), time.monotonic()
    process = subprocess.Popen(
        (sys.executable, "-m", "refimpl", *stage.command),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env={**os.environ, "COLUMNS": "120"},
        start_new_session=True,
    )
    last = ""
    with (
        _terminable(),
        process,
        open(_log(work, stage), "w", encoding="utf-8") as log,
        console.status(stage.name) as status,
    ):
        try:
            for line in _lines(process):
                log.write(line)
                last = line.strip() or last
                _show(console, status, stage, last)
        except BaseException:
            os.killpg(process.pid, signal.SIGTERM)
            process.wait()
            raise
    after = os.times()
    cpu_s = (
        after.children_user + after.children_system - before.children_user - before.children_system
    )
    return Result(stage.name, process.returncode, last, cpu_s, time.monotonic() - began)


@contextmanager
def _terminable() -> Generator[None]:
    """SIGTERM ends what a stage started as well, as Ctrl-C does."""
    before = signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _lines(process: subprocess.Popen[str]) -> Iterator[str]:
    assert process.stdout is not None
    return iter(process.stdout.readline, "")


def _show(console: Console, status: Status, stage: Stage, line: str) -> None:
    if console.is_terminal:
        room = max(10, console.width - len(stage.name) - 6)
        status.update(f"[bold]{stage.name}[/] {escape(line[:room])}", spinner="dots")


def _announce(console: Console, stage: Stage, result: Result, *, again: bool) -> None:
    mark = "[green]✓[/]" if result.code == 0 else "[red]✗[/]"
    cost = "as before" if again else f"{result.wall_s:.0f} s"
    console.print(f"{mark} {stage.name:9} {escape(result.summary)}  ({cost})", soft_wrap=True)


def _summary(console: Console, loop: Sequence[Stage], results: Sequence[Result]) -> None:
    table = Table(title="highwater verify", title_justify="left")
    for column in ("stage", "what it shows", "verdict"):
        table.add_column(column)
    table.add_column("CPU s", justify="right")
    table.add_column("wall s", justify="right")
    done = {result.stage: result for result in results}
    for stage in loop:
        result = done.get(stage.name)
        if result is None:
            table.add_row(stage.name, stage.shows, "[dim]not run[/]", "", "")
            continue
        verdict = "[green]holds[/]" if result.code == 0 else f"[red]exit {result.code}[/]"
        costs = (f"{result.cpu_s:.0f}", f"{result.wall_s:.0f}")
        table.add_row(stage.name, stage.shows, verdict, *costs)
    table.add_section()
    cpu_s, wall_s = (sum(getattr(r, name) for r in results) for name in ("cpu_s", "wall_s"))
    table.add_row("", "", "", f"{cpu_s:.0f}", f"{wall_s:.0f}")
    console.print()
    console.print(table)


def _conclude(console: Console, loop: Sequence[Stage], results: Sequence[Result]) -> None:
    failed = next((result for result in results if result.code), None)
    if failed is None:
        console.print(f"{len(results)} of {len(loop)} stages run, every promise holds.")
        return
    stage = next(stage for stage in loop if stage.name == failed.stage)
    log = _log(cache_folder() / "verify", stage)
    console.rule(f"{stage.name} failed")
    console.print(_tail(log), markup=False, soft_wrap=True)
    console.print(
        f"\nFirst to fail: {stage.name}, exit {failed.code}. All it said: {log}\n"
        f"To see it again: highwater {shlex.join(stage.command)}",
        markup=False,
        soft_wrap=True,
    )
    sys.exit(failed.code if failed.code > 0 else 1)


def _tail(log: Path, lines: int = 40) -> str:
    return "\n".join(log.read_text(encoding="utf-8").splitlines()[-lines:])


def _log(work: Path, stage: Stage) -> Path:
    return work / f"{stage.name}.log"


@frozen
class Memory:
    """Which stages passed, for exactly these files."""

    path: Path
    fingerprint: str

    def passed(self) -> dict[str, Result]:
        """The stages that passed; none if any file has changed since."""
        try:
            known = orjson.loads(self.path.read_bytes())
        except (OSError, orjson.JSONDecodeError):
            return {}
        if known.get("fingerprint") != self.fingerprint:
            return {}
        return {name: Result(**fields) for name, fields in known["passed"].items()}

    def add(self, result: Result) -> None:
        """Remember a stage, in one step: a reader never sees half a file."""
        passed = self.passed() | {result.stage: result}
        data = {
            "fingerprint": self.fingerprint,
            "passed": {name: asdict(one) for name, one in passed.items()},
        }
        draft = self.path.with_suffix(".draft")
        draft.write_bytes(orjson.dumps(data))
        draft.replace(self.path)


def _fingerprint(root: Path) -> str:
    """A hash over every source file, generated folders left out."""
    rooms = ("refimpl", "properties", "chaos", "traces", "spec", "tests")
    files = (path for room in rooms for path in sorted((root / room).rglob("*")))
    return digest(path for path in files if path.is_file() and "__pycache__" not in path.parts)
