"""`highwater validate`: are recorded protocol events steps of the spec?"""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import click
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table as Grid

from properties.kafka.judged import as_json, judge
from properties.kafka.story import drawing, tell
from properties.tla.errors import InputError, Unusable
from properties.tla.event_values import from_json, to_json
from properties.tla.names import spec_actions
from properties.tla.promised import kept, validate_promised
from properties.tla.specs import SpecTree
from properties.tla.syntax import to_tla
from properties.tla.tracecheck import TraceVerdict, coverage, validate_all
from properties.tla.tracefile import Trace, TraceEvent, read_traces
from refimpl.outputs import json_option, write_json

THIN = 3
SHOWN = 5


@click.command()
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path), metavar="[PATH...]")
@click.option(
    "--kafka",
    "agents",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    metavar="DIR",
    help="Instead of PATH: the folder into which the agents of a Kafka cluster wrote.",
)
@click.option(
    "--svg",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="With --kafka: draw the steps before the first rejected one.",
)
@click.option(
    "--thin",
    type=click.IntRange(0),
    default=THIN,
    show_default=True,
    help="Name traces that take fewer different actions than this.",
)
@click.option(
    "--promises",
    is_flag=True,
    help="Hold every state to the invariants that the spec promises, too.",
)
@click.option("--all", "show_all", is_flag=True, help=f"Tell every rejected trace, not {SHOWN}.")
@json_option("Write the verdicts")
@click.option(
    "--specs",
    type=click.Path(path_type=Path, file_okay=False),
    help="Another folder of specs, laid out like spec/tla.",
)
def validate(
    paths: tuple[Path, ...],
    agents: Path | None,
    svg: Path | None,
    thin: int,
    promises: bool,
    show_all: bool,
    json_file: Path | None,
    specs: Path | None,
) -> None:
    """Ask TLC whether recorded protocol events obey the spec.

    PATH is a file of protocol events (NDJSON), or a folder that is searched for *events*.ndjson
    and *events*.ndjson.gz. Each trace (one run, one subject) must be a behaviour of the spec that
    it names, step by step. Exit code 0: every trace is accepted; 1: some trace is rejected, and
    the output names the event, and the guard or the variable; 2: bad input or a missing tool.

    With --promises each state must also keep the invariants of the module's `ok_` rows, under the
    rules of the trace.

    With --kafka the events are those of Apache Kafka's own processes, as the agent of
    docs/kafka-itself.md wrote them. A rejection that docs/kafka-diff.md knows is told, and the run
    goes on by Kafka's rule; exit code 1: a rejection that nothing explains.
    """
    console = Console()
    tree = SpecTree(specs.resolve()) if specs else SpecTree()
    if bool(paths) == (agents is not None):
        raise click.UsageError("Name either PATHs or --kafka DIR.")
    if agents is not None:
        if promises:
            raise click.UsageError("--kafka asks for promises by itself.")
        _of_kafka(agents, tree, svg, show_all, json_file, console)
        return
    if svg is not None:
        raise click.UsageError("--svg draws runs of --kafka.")
    try:
        traces = read_traces(paths)
        verdicts = validate_promised(traces, tree) if promises else validate_all(traces, tree)
        _covered(verdicts, tree, thin, console)
    except InputError as wrong:
        raise Unusable(str(wrong)) from None
    write_json(json_file, [_as_json(verdict) for verdict in verdicts])
    rejected = [verdict for verdict in verdicts if not verdict.accepted]
    for verdict in rejected if show_all else rejected[:SHOWN]:
        console.print("\n".join(story(verdict)), highlight=False, markup=False, soft_wrap=True)
    if len(rejected) > SHOWN and not show_all:
        console.print(f"{len(rejected) - SHOWN} more are rejected; --all tells them too")
    for line in kept(verdicts, tree) if promises else ():
        console.print(line, highlight=False)
    events = sum(len(verdict.taken) for verdict in verdicts)
    console.print(
        f"{len(verdicts)} traces, {events:,} steps allowed by the spec, {len(rejected)} rejected",
        highlight=False,
    )
    if rejected:
        raise SystemExit(1)


def _of_kafka(
    folder: Path,
    tree: SpecTree,
    svg: Path | None,
    show_all: bool,
    json_file: Path | None,
    console: Console,
) -> None:
    try:
        run = judge(folder, tree)
    except InputError as wrong:
        raise Unusable(str(wrong)) from None
    lines = tell(run, tree, show_all)
    console.print("\n".join(lines), highlight=False, markup=False, soft_wrap=True)
    write_json(json_file, [as_json(one) for one in run.subjects])
    rejections = [r for one in run.subjects for r in one.rejections]
    if svg is not None and rejections:
        svg.write_text(drawing(rejections[0], tree), encoding="utf-8")
    if not run.explained:
        raise SystemExit(1)


def story(verdict: TraceVerdict) -> list[str]:
    """The last event that the spec allows, and the one that it rejects."""
    trace, number = verdict.trace, verdict.event
    lines = [f"{trace.name}: rejected at event {number} ({trace.place(number)})"]
    if number > 1:
        lines.append(f"  last accepted  {told(trace.events[number - 2])}")
    lines.append(f"  rejected       {told(trace.events[number - 1])}")
    lines.append(f"  because        {verdict.why}")
    lines.append("  the spec's state before:")
    for name, value in (verdict.before or {}).items():
        lines.append(f"    {name} = {to_tla(value)}")
    return lines


def told(event: TraceEvent) -> str:
    """An event in the spec's words: its action and the arguments."""
    arguments = ", ".join(f"{name}={to_tla(from_json(v))}" for name, v in event.params.items())
    return f"{event.action}({arguments})"


def _covered(verdicts: Sequence[TraceVerdict], tree: SpecTree, thin: int, console: Console) -> None:
    """Print the actions that the traces covered: a trace that does little proves little."""
    for module in sorted({verdict.trace.spec for verdict in verdicts}):
        alike = [verdict for verdict in verdicts if verdict.trace.spec == module]
        steps = coverage(alike)
        having = Counter(
            action for verdict in alike for action in {e.action for e in verdict.taken}
        )
        grid = Grid(module, "steps", "traces", box=SIMPLE)
        grid.columns[1].justify = grid.columns[2].justify = "right"
        for action in spec_actions(module, tree):
            style = None if steps[action] else "yellow"
            grid.add_row(action, f"{steps[action]:,}", f"{having[action]:,}", style=style)
        console.print(grid)
        never = [action for action in spec_actions(module, tree) if not steps[action]]
        if never:
            console.print(f"{module}: never taken: {', '.join(never)}", soft_wrap=True)
        meagre = [v.trace for v in alike if len({event.action for event in v.taken}) < thin]
        if meagre:
            console.print(_thin(module, meagre, thin), highlight=False, soft_wrap=True)


def _thin(module: str, traces: Sequence[Trace], thin: int) -> str:
    names = ", ".join(trace.name for trace in traces[:SHOWN])
    more = f" and {len(traces) - SHOWN} more" if len(traces) > SHOWN else ""
    return f"{module}: thin, fewer than {thin} different actions: {names}{more}"


def _as_json(verdict: TraceVerdict) -> dict[str, object]:
    trace = verdict.trace
    found: dict[str, object] = {
        "file": str(trace.file),
        "run": trace.run,
        "spec": trace.spec,
        "subject": trace.subject,
        "accepted": verdict.accepted,
        "events": len(trace.events),
        "actions": Counter(event.action for event in verdict.taken),
    }
    if not verdict.accepted:
        found |= {
            "event": verdict.event,
            "line": trace.events[verdict.event - 1].line,
            "why": verdict.why,
            "differs": {
                one.variable: {"spec": to_json(one.spec), "event": to_json(one.logged)}
                for one in verdict.mismatches
            },
        }
    return found
