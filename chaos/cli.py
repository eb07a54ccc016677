"""`highwater chaos`: break a simulated cluster, by seed, and judge every step."""

import os
import shlex
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from time import monotonic, process_time
from typing import Any

import click
from attrs import asdict
from rich.console import Console

from chaos import report
from chaos.campaign import ENOUGH, Orders, SeedResult, Tally, result_of, results
from chaos.ledger import BadLedger, Ledger
from chaos.recording import write_events, write_history
from chaos.script_file import BadScript, load, save
from chaos.shrink import shrink
from chaos.sim.settings import Settings
from chaos.simulator import Run, build, trace_hash
from refimpl.outputs import FileToWrite, FolderToWrite, json_option, write_json

SEEDS = 200
REAL = "real"


class SeedRange(click.ParamType[range]):
    """`N` for 0 to N-1, or `A..B` with both ends."""

    name = "N|A..B"

    def convert(self, value: Any, param: Any, ctx: Any) -> range:
        if isinstance(value, range):
            return value
        first, dots, last = str(value).partition("..")
        try:
            seeds = range(int(first), int(last) + 1) if dots else range(int(first))
        except ValueError:
            self.fail(f"expected a number, or two as in 0..999, found {value!r}", param, ctx)
        if not seeds or seeds.start < 0:
            self.fail(f"there is no seed in {value!r}", param, ctx)
        return seeds


def _settings(context: Any, parameter: Any, pairs: tuple[str, ...]) -> dict[str, Any]:
    fixed: dict[str, Any] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals:
            raise click.BadParameter(f"expected NAME=VALUE, found {pair!r}")
        try:
            fixed[name] = Settings.parse(name, text)
            Settings.draw(0, **fixed).check()
        except ValueError as wrong:
            raise click.BadParameter(str(wrong)) from None
    return fixed


class ChaosVerbs(click.Group):
    """Chaos in the simulator, without a word more; `real` is chaos of processes."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The one word there is."""
        return [REAL]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Imported when it is called: it needs Kafka's clients, and the simulator does not."""
        if cmd_name != REAL:
            return None
        from chaos.real.campaign.command import real

        return real


@click.command(cls=ChaosVerbs, invoke_without_command=True)
@click.option("--seeds", type=SeedRange(), help=f"Seeds to run.  [default: {SEEDS}]")
@click.option("--seed", type=click.IntRange(0), help="Run one seed, and tell all about it.")
@click.option("--replay", type=click.Path(path_type=Path, dir_okay=False, exists=True),
              help="Run a saved script.")  # fmt: skip
@click.option("--minutes", type=click.FloatRange(0, min_open=True),
              help="Run seeds until the time is over.")  # fmt: skip
@click.option("-j", "--jobs", type=click.IntRange(1), help="Processes.  [default: cores]")
@click.option("-c", "--config", "fixed", multiple=True, callback=_settings, metavar="NAME=VALUE",
              help="Hold a setting fixed in all seeds, such as lossy=false.")  # fmt: skip
@click.option(
    "--ledger",
    type=FileToWrite(parents=True),
    metavar="FILE",
    help="Run all of --seeds, whatever fails; go on where FILE says, and keep it up to date.",
)
@click.option(
    "--out", type=FolderToWrite(), help="Write client histories (trace format v1) into DIR."
)
@click.option("--events", type=FolderToWrite(), help="Write protocol events for TLC into DIR.")
@click.option("--shrink/--no-shrink", "smaller", default=True, show_default=True,
              help="Make a failing run small.")  # fmt: skip
@json_option("Write what was seen, and each seed that failed")
@click.option("--settings", is_flag=True, help="List what --config takes.")
@click.pass_context
def chaos(
    ctx: click.Context,
    seeds: range | None,
    seed: int | None,
    replay: Path | None,
    minutes: float | None,
    jobs: int | None,
    fixed: dict[str, Any],
    ledger: Path | None,
    out: Path | None,
    events: Path | None,
    smaller: bool,
    json_file: Path | None,
    settings: bool,
) -> None:
    """Break a simulated cluster, by seed, and judge every step.

    Each seed sets a cluster of three brokers, a controller, producers and a consumer group up in
    its own way, lets a script of faults loose on it, heals everything, and demands that it gets
    well. Promises are judged at each step; losses that the seed's settings permit are counted.

    Exit code 0: every promise was kept; 1: one was broken, or something that must happen in so
    many seeds never did; 2: bad input.

    `highwater chaos real` breaks processes, of Apache Kafka or of ours.
    """
    if ctx.invoked_subcommand is not None:
        return
    console = Console(highlight=False)
    orders = Orders(fixed, out, events, json_file)
    if sum(choice is not None for choice in (seeds, seed, replay)) > 1:
        raise click.UsageError("choose one of --seeds, --seed and --replay")
    if ledger is not None and (seeds is None or minutes is not None):
        raise click.UsageError("--ledger needs --seeds, and takes no --minutes")
    if settings:
        console.print(report.settings(orders.settings(seed or 0)))
        return
    if replay is not None:
        _one(console, _loaded(replay), orders, smaller, f"--replay {shlex.quote(str(replay))}")
    elif seed is not None:
        run = build(orders.settings(seed), events=events is not None, history=out is not None)
        _one(console, run, orders, smaller, f"--seed {seed}{_as_options(fixed)}")
    elif ledger is not None:
        assert seeds is not None
        _campaign(console, ledger, seeds, orders, jobs or os.cpu_count() or 1)
    else:
        if seeds is None and minutes is not None:
            chosen: Iterator[int] | range = count()
        else:
            chosen = seeds or range(SEEDS)
        _many(console, chosen, minutes, orders, jobs or os.cpu_count() or 1, smaller)


def _loaded(path: Path) -> Run:
    try:
        chosen, script = load(path)
    except BadScript as wrong:
        raise click.UsageError(str(wrong)) from None
    return build(chosen, script, events=True, history=True)


def _as_options(fixed: dict[str, Any]) -> str:
    pairs = (f"{name}={value}" for name, value in _written(fixed).items())
    return "".join(f" --config {shlex.quote(pair)}" for pair in pairs)


def _written(fixed: dict[str, Any]) -> dict[str, str]:
    return {name: Settings.written(value) for name, value in fixed.items()}


def _one(console: Console, run: Run, orders: Orders, smaller: bool, again: str) -> None:
    """One run, and everything about it."""
    start, tally = process_time(), Tally()
    run.go()
    tally.add(result_of(run, process_time() - start))
    if orders.events is not None:
        console.print(f"protocol events: {write_events(run, orders.events)}")
    if orders.histories is not None:
        console.print(f"client history: {write_history(run, orders.histories)}")
    console.print(report.configuration(run.settings))
    console.print(report.run(run, trace_hash(run.settings, run.script)))
    write_json(orders.json_file, asdict(tally))
    if run.violation is not None:
        _failed(console, run, orders, smaller, again)


def _many(
    console: Console,
    seeds: Iterator[int] | range,
    minutes: float | None,
    orders: Orders,
    jobs: int,
    smaller: bool,
) -> None:
    """Run seeds until one fails, all are done, the time is over, or the user interrupts."""
    tally, last, interrupted = Tally(), -1, False
    until = monotonic() + 60 * minutes if minutes is not None else None
    total = len(seeds) if isinstance(seeds, range) else None
    with report.watching(console, total) as watch:
        try:
            for result in results(_before(seeds, until), orders, jobs):
                tally.add(result)
                last = result.seed
                watch(tally)
                if result.oracle is not None:
                    break
        except KeyboardInterrupt:
            interrupted = True
    console.print(report.summary(tally))
    write_json(orders.json_file, asdict(tally))
    if tally.failed:
        _failed_seed(console, tally.failed[0], orders, smaller)
    if interrupted:
        end = seeds.stop - 1 if isinstance(seeds, range) else ""
        more = f"--seeds {last + 1}..{end}" if end else "--minutes …"
        console.print(f"interrupted after seed {last}; go on with: highwater chaos {more}")
        raise SystemExit(130)
    _must_have_happened(console, tally, orders)


def _campaign(console: Console, path: Path, seeds: range, orders: Orders, jobs: int) -> None:
    """All of the seeds, in as many sittings as it takes; every one that fails is named."""
    try:
        ledger = Ledger.open(path, seeds, _written(dict(orders.fixed)))
    except BadLedger as wrong:
        raise click.UsageError(str(wrong)) from None
    interrupted = False
    with report.watching(console, len(seeds)) as watch:
        try:
            for result in results(ledger.left, orders, jobs):
                ledger.add(result)
                watch(ledger.tally)
        except KeyboardInterrupt:
            interrupted = True
    ledger.write()
    console.print(report.summary(ledger.tally))
    write_json(orders.json_file, asdict(ledger.tally))
    for failed in ledger.tally.failed:
        console.print(f"[red]seed {failed.seed} breaks {failed.oracle}[/red]")
        console.print(f"  {failed.what}", markup=False)
        again = f"--seed {failed.seed}{_as_options(dict(orders.fixed))}"
        console.print(f"  show it: highwater chaos {again}", markup=False)
    if interrupted:
        console.print(f"interrupted before seed {ledger.following}; the same command goes on there")
        raise SystemExit(130)
    _must_have_happened(console, ledger.tally, orders)
    if ledger.tally.failed:
        raise SystemExit(1)


def _must_have_happened(console: Console, tally: Tally, orders: Orders) -> None:
    if tally.seeds >= ENOUGH and not orders.fixed and tally.never():
        console.print("[red]never happened, so nothing was proved about it:[/red]")
        for words in tally.never():
            console.print(f"  {words}")
        raise SystemExit(1)


def _before(seeds: Iterator[int] | range, until: float | None) -> Iterator[int]:
    for seed in seeds:
        if until is not None and monotonic() > until:
            return
        yield seed


def _failed_seed(console: Console, failed: SeedResult, orders: Orders, smaller: bool) -> None:
    run = build(orders.settings(failed.seed)).go()
    again = f"--seed {failed.seed}{_as_options(dict(orders.fixed))}"
    _failed(console, run, orders, smaller, again)


def _failed(console: Console, run: Run, orders: Orders, smaller: bool, again: str) -> None:
    """Print the story of a failed run, the shortest that can be found, and how to see it again."""
    assert run.violation is not None
    console.print(f"[red]seed {run.settings.seed} breaks {run.violation.oracle}[/red]")
    console.print(f"  {run.violation.what}", markup=False)
    if smaller:
        with console.status("making it smaller"):
            shrunk = shrink(run)
        run = shrunk.run
        console.print(
            f"smaller: {shrunk.faults_before} → {len(run.script)} faults, "
            f"{run.now_ms} ms, in {shrunk.runs} runs"
        )
        folder = orders.histories or Path(os.environ.get("HIGHWATER_CACHE", "build")) / "chaos"
        file = folder / f"failed-seed-{run.settings.seed}.json"
        save(run, file)
        again += f"\n       or: highwater chaos --replay {shlex.quote(str(file))}"
    console.print(report.configuration(run.settings))
    console.print(report.story(run))
    console.print(f"show it again: highwater chaos {again}", markup=False)
    raise SystemExit(1)
