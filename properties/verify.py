"""`highwater verify`: the whole loop, room by room, each as the command that shows it again.

The stages are commands of their own, so a failure here is the same failure there, word for word. A
stage's last line of output is its line in the summary. Two run at once: while one waits, or has
work for one core only, no core is idle.
"""

import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Collection, Generator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import click
import orjson
from attrs import asdict, define, field, frozen
from rich.console import Console
from rich.markup import escape
from rich.status import Status
from rich.table import Table

from properties.tla.specs import CHECKOUT, cache_folder
from properties.tla.tools import digest
from refimpl.outputs import FileToWrite, json_option, write_json

#: The number of stages that run at once, if there are as many cores.
AT_ONCE = 2
#: The interval at which stages are checked for their end and their output.
TICK_S = 0.1
#: Few, as the whole takes a quarter of an hour (docs/verify.md): campaigns have their own verbs.
CHAOS_SEEDS = 300
TRACED_SEEDS = 60
RECORDINGS = CHECKOUT / "tests/traces/data/recordings"


@frozen
class Stage:
    """One part of the loop: its claim, its command, and the stages whose output it reads."""

    name: str
    shows: str
    command: tuple[str, ...]
    after: tuple[str, ...] = ()
    writes: tuple[Path, ...] = ()


@frozen
class StageResult:
    """The result and cost of a stage, with all processes that it started."""

    stage: str
    code: int
    summary: str
    cpu_s: float
    wall_s: float


def stages(work: Path, full: bool = False) -> tuple[Stage, ...]:
    """The loop, in the order in which stages begin; `full` has the large models as well."""
    more = ("--full",) if full else ()
    runs, events = work / "runs", work / "events"
    real_runs, real_events = work / "real-runs", work / "real-events"
    return (
        Stage("spec", "the models do what their tables say", ("spec", *more)),
        Stage("prove", "the invariants are kept after any number of steps", ("prove", *more)),
        # Real clients wait for most of their time: beside the models that costs nothing.
        Stage(
            "record",
            "runs written down",
            (
                *("chaos", "--seeds", str(TRACED_SEEDS), "--config", "store=false"),
                *("--out", str(runs), "--events", str(events)),
            ),
            writes=(runs, events),
        ),
        Stage(
            "faults",
            "real clients against three brokers that are broken meanwhile, written down",
            ("faults", "--runs", "4", "--out", str(real_runs), "--events", str(real_events)),
            writes=(real_runs, real_events),
        ),
        Stage("conform", "the machines are the models, edge by edge", ("conform", *more)),
        Stage("chaos", "no fault breaks a promise", ("chaos", "--seeds", str(CHAOS_SEEDS))),
        Stage(
            "validate",
            "what the brokers did, there and here, is a behaviour of the spec",
            ("validate", str(events), str(real_events)),
            after=("record", "faults"),
        ),
        Stage(
            "check",
            "what clients saw, there and of real Kafka, is what was promised",
            ("check", str(runs), str(real_runs), str(RECORDINGS)),
            after=("record", "faults"),
        ),
        # Every check asked about every mutant, and the specs' guards: `make matrix`, far longer.
        # They need the graphs that conformance builds.
        Stage("mutants", "a rule that is broken is found", ("mutants",), after=("conform",)),
    )


@click.command()
@click.option("--only", metavar="STAGE", multiple=True, help="Run these stages only.")
@click.option("--full", is_flag=True, help="The large models and scopes, too.")
@click.option("--keep-going", is_flag=True, help="Run the later stages after a failure, too.")
@click.option(
    "--resume", is_flag=True, help="Skip what passed before, as far as no file has changed since."
)
@click.option(
    "--write",
    metavar="FILE",
    type=FileToWrite(),
    help="Write what each stage cost to this file, as a page of Markdown, if all of them passed.",
)
@json_option("Write how each stage ended, and what it cost")
def verify(
    only: Sequence[str],
    full: bool,
    keep_going: bool,
    resume: bool,
    write: Path | None,
    json_file: Path | None,
) -> None:
    """Run everything, two stages at once, with one summary at the end.

    Exit 0 when all is as promised; otherwise the first failure's code, its story and its command.
    """
    if write is not None and resume:
        raise click.UsageError("--write tells what a whole run costs, and --resume skips some")
    console = Console(highlight=False)
    work = cache_folder() / "verify"
    loop = stages(work, full)
    unknown = set(only) - {stage.name for stage in loop}
    if unknown:
        known = ", ".join(stage.name for stage in loop)
        raise click.BadParameter(f"no stage {', '.join(sorted(unknown))}; there are: {known}")
    began = time.monotonic()
    memory = PassedStages(
        work / ("passed-full.json" if full else "passed.json"), _fingerprint(CHECKOUT)
    )
    known_good = memory.passed() if resume else {}
    wanted = [stage for stage in loop if not only or stage.name in only]
    results = [known_good[stage.name] for stage in wanted if stage.name in known_good]
    for result in results:
        _announce(console, result, again=True)
    todo = [stage for stage in wanted if stage.name not in known_good]
    with closing(_run(todo, work, console)) as ended:
        for result in ended:
            _announce(console, result)
            results.append(result)
            if result.code == 0:
                memory.add(result)
            elif not keep_going:
                break
    wall_s = time.monotonic() - began
    order = [stage.name for stage in loop]
    results.sort(key=lambda result: order.index(result.stage))
    _summary(console, loop, results, wall_s)
    write_json(json_file, [asdict(result) for result in results])
    _conclude(console, loop, results)
    if write is not None:
        write.write_text(page(loop, results, wall_s), encoding="utf-8")


def page(loop: Sequence[Stage], results: Sequence[StageResult], wall_s: float) -> str:
    """The cost of each stage and of the whole, as a page of the docs."""
    shown = {stage.name: stage.shows for stage in loop}
    rows = [
        f"| `{one.stage}` | {shown[one.stage]} | {one.cpu_s:,.0f} | {one.wall_s:,.0f} |"
        for one in results
    ]
    cpu_s = sum(one.cpu_s for one in results)
    lines = [
        "# What the main job costs",
        "",
        f"Written by `highwater verify --write FILE`, on {os.cpu_count()} cores. CPU seconds are "
        "those of a stage and of all that it starts. Two stages run at once, so the seconds on the "
        "wall are not a sum: the last line is how long the whole took.",
        "",
        "| stage | what it shows | CPU s | wall s |",
        "|---|---|---|---|",
        *rows,
        f"| | | {cpu_s:,.0f} | {wall_s:,.0f} |",
    ]
    return "\n".join(lines) + "\n"


@define
class _Running:
    """A stage that has not ended; its whole output is kept."""

    stage: Stage
    log: Path
    process: subprocess.Popen[bytes]
    began: float = field(factory=time.monotonic)

    @classmethod
    def start(cls, stage: Stage, work: Path) -> "_Running":
        work.mkdir(parents=True, exist_ok=True)
        for folder in stage.writes:
            shutil.rmtree(folder, ignore_errors=True)
        log = _log(work, stage)
        with open(log, "wb") as output:
            process = subprocess.Popen(
                (sys.executable, "-m", "refimpl", *stage.command),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, "COLUMNS": "120"},
                start_new_session=True,
            )
        return cls(stage, log, process)

    @property
    def last(self) -> str:
        """The last line of output."""
        return next((line.strip() for line in reversed(_tail(self.log)) if line.strip()), "")

    def ended(self) -> StageResult | None:
        """The result, if the process has ended. `wait4` gives its cost, with all that it waited
        for."""
        pid, status, used = os.wait4(self.process.pid, os.WNOHANG)
        if pid == 0:
            return None
        self.process.returncode = os.waitstatus_to_exitcode(status)
        return StageResult(
            self.stage.name,
            self.process.returncode,
            self.last,
            used.ru_utime + used.ru_stime,
            time.monotonic() - self.began,
        )


def _run(wanted: Sequence[Stage], work: Path, console: Console) -> Generator[StageResult]:
    """Run the stages' commands, as many at once as there is room for, and show their last lines.

    Results come as stages end. A caller that stops asking stops the running stages.
    """
    waiting, running = list(wanted), list[_Running]()
    with _terminable(), console.status("") as status:
        try:
            while waiting or running:
                for stage in _next(waiting, running):
                    waiting.remove(stage)
                    running.append(_Running.start(stage, work))
                _show(console, status, running)
                for one in list(running):
                    if result := one.ended():
                        running.remove(one)
                        yield result
                time.sleep(TICK_S)
        finally:
            for one in running:
                os.killpg(one.process.pid, signal.SIGTERM)
            for one in running:
                one.process.wait()


def _next(waiting: Sequence[Stage], running: Collection[_Running]) -> Sequence[Stage]:
    """The stages that can begin now: the first ones whose predecessors have all ended."""
    open_ones = {one.name for one in waiting} | {one.stage.name for one in running}
    ready = [one for one in waiting if open_ones.isdisjoint(one.after)]
    return ready[: max(0, min(AT_ONCE, os.cpu_count() or 1) - len(running))]


@contextmanager
def _terminable() -> Generator[None]:
    """SIGTERM also ends the processes of the stages, as Ctrl-C does."""
    before = signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _show(console: Console, status: Status, running: Sequence[_Running]) -> None:
    if console.is_terminal:
        room = max(10, console.width - 16)
        lines = [f"[bold]{one.stage.name:9}[/] {escape(one.last[:room])}" for one in running]
        status.update("\n".join(lines), spinner="dots")


def _announce(console: Console, result: StageResult, *, again: bool = False) -> None:
    mark = "[green]✓[/]" if result.code == 0 else "[red]✗[/]"
    cost = "as before" if again else f"{result.wall_s:.0f} s"
    console.print(f"{mark} {result.stage:9} {escape(result.summary)}  ({cost})", soft_wrap=True)


def _summary(
    console: Console, loop: Sequence[Stage], results: Sequence[StageResult], wall_s: float
) -> None:
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
    cpu_s = sum(result.cpu_s for result in results)
    table.add_row("", "", "", f"{cpu_s:.0f}", f"{wall_s:.0f}")
    console.print()
    console.print(table)


def _conclude(console: Console, loop: Sequence[Stage], results: Sequence[StageResult]) -> None:
    failed = next((result for result in results if result.code), None)
    if failed is None:
        console.print(f"{len(results)} of {len(loop)} stages run, every promise holds.")
        return
    stage = next(stage for stage in loop if stage.name == failed.stage)
    log = _log(cache_folder() / "verify", stage)
    console.rule(f"{stage.name} failed")
    console.print("\n".join(_tail(log)), markup=False, soft_wrap=True)
    console.print(
        f"\nFirst to fail: {stage.name}, exit {failed.code}. All it said: {log}\n"
        f"To see it again: highwater {shlex.join(stage.command)}",
        markup=False,
        soft_wrap=True,
    )
    sys.exit(failed.code if failed.code > 0 else 1)


def _tail(log: Path, lines: int = 40) -> list[str]:
    with open(log, "rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - 200 * lines))
        return file.read().decode("utf-8", "replace").splitlines()[-lines:]


def _log(work: Path, stage: Stage) -> Path:
    return work / f"{stage.name}.log"


@frozen
class PassedStages:
    """The stages that passed, for exactly these files."""

    path: Path
    fingerprint: str

    def passed(self) -> dict[str, StageResult]:
        """The stages that passed; none if any file has changed since."""
        try:
            known = orjson.loads(self.path.read_bytes())
        except (OSError, orjson.JSONDecodeError):
            return {}
        if known.get("fingerprint") != self.fingerprint:
            return {}
        return {name: StageResult(**fields) for name, fields in known["passed"].items()}

    def add(self, result: StageResult) -> None:
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
