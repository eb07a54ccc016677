"""Print the progress of a watch: lines for a log, a table for a terminal, a file for machines."""

from collections import deque
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import orjson
from attrs import define, field
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from traces.checks.base import Check
from traces.checks.catalogue import CHECKS
from traces.model.output import number_of, write_whole
from traces.verdicts.judged import event, event_line
from traces.verdicts.verdict import NOT_CHECKED, VIOLATED
from traces.watch.finality import EARLY
from traces.watch.ledger import ReportedFinding
from traces.watch.watching import BatchOutcome, Watch

PENDING = "pending"
ENDED = {"close": "closed", "crash": "crashed"}
#: So many findings of a check are told of one batch; so many lines stand under the table.
MOST_SHOWN, LAST_SHOWN = 3, 6


def lines(watch: Watch, step: BatchOutcome) -> Iterator[tuple[str, str]]:
    """The events of one batch: a word for the kind of each, and the rest."""
    for process in step.batch.began:
        yield "began", process.name
    if step.batch.meta_problem:
        yield "BAD", f"{step.batch.meta_problem}: nothing it says is known until it is mended"
    if step.batch.meta_read:
        yield "meta.json", "complete" if watch.folder.meta.complete else "read"
    for check in step.withdrawn:
        why = "; ".join(watch.blocked(check)) or "the configuration has changed"
        yield "WITHDRAWN", f"{check}: {why}"
    count_of: dict[str, int] = {}
    for finding in step.findings:
        count_of[finding.check.id] = count_of.get(finding.check.id, 0) + 1
        if count_of[finding.check.id] <= MOST_SHOWN:
            yield VIOLATED.upper(), said(watch, finding)
    for check, count in count_of.items():
        if count > MOST_SHOWN:
            yield VIOLATED.upper(), f"{check} and {count - MOST_SHOWN} more of it"
    for process in step.batch.ended:
        yield ENDED[process.ended], f"{process.name}, {number_of(process.calls, 'call')}"


def said(watch: Watch, finding: ReportedFinding) -> str:
    """One violation in one line, with its witness."""
    events = [event(watch, one) for one in finding.events]
    partition = next((one["partition"] for one in events if "partition" in one), "")
    witness = "; ".join(event_line(one) for one in events)
    return f"{finding.check.id} {partition} {finding.check.title}: {witness}".replace("  ", " ")


def verdicts(watch: Watch) -> Iterator[tuple[Check, str, str, int]]:
    """Every check that there is, its verdict so far, why, and how much was found."""
    for check in CHECKS.values():
        count = watch.ledger.count(check.id)
        if check.id in EARLY and (reasons := watch.blocked(check.id)):
            yield check, NOT_CHECKED, "; ".join(reasons), count
        elif count:
            yield check, VIOLATED, f"{count} found so far; {check.unless_text}", count
        elif check.id in EARLY:
            yield check, PENDING, "none found so far", 0
        else:
            yield check, PENDING, "decided when the trace has ended", 0


def as_json(watch: Watch) -> dict[str, Any]:
    """The state of a watch, in the form of `--json`; `watching` is absent from a final one."""
    checks: dict[str, Any] = {}
    for check, verdict, reason, count in verdicts(watch):
        shown = [
            {"allowed_by": None, "events": [event(watch, one) for one in finding.events]}
            for finding in watch.ledger.witnesses.get(check.id, ())
        ]
        checks[check.id] = {"verdict": verdict, "reason": reason, "count": count}
        checks[check.id]["witnesses"] = shown if verdict == VIOLATED else []
    run = {
        "path": str(watch.path),
        "verdict": VIOLATED if watch.violated else PENDING,
        "watching": True,
        "calls": watch.calls,
        "running": watch.folder.running,
        "warnings": [watch.folder.meta_problem] if watch.folder.meta_problem else [],
        "checks": checks,
    }
    return {"runs": [run]}


def write_json(watch: Watch, path: Path) -> None:
    """Replace the file as a whole."""
    write_whole(path, orjson.dumps(as_json(watch), option=orjson.OPT_INDENT_2) + b"\n")


@define
class WatchLog:
    """One line for each thing that happens."""

    console: Console

    def start(self, watch: Watch) -> None:
        """Nothing was read yet."""

    def tell(self, watch: Watch, step: BatchOutcome) -> None:
        """Print the events of this batch."""
        for kind, what in lines(watch, step):
            self.console.print(stamped(kind, what), soft_wrap=True)

    def stop(self) -> None:
        """The watch is over."""


@define
class Screen:
    """A table that is updated in place, with the last lines of the log under it."""

    console: Console
    _live: Live = field(init=False)
    _last: deque[Text] = field(factory=lambda: deque[Text](maxlen=LAST_SHOWN))
    _verdicts: deque[Text] = field(factory=lambda: deque[Text](maxlen=LAST_SHOWN))

    def __attrs_post_init__(self) -> None:
        self._live = Live(console=self.console, auto_refresh=False)

    def start(self, watch: Watch) -> None:
        """Show an empty table, as a sign that the watch runs."""
        self._live.start()
        self._live.update(self._shown(watch), refresh=True)

    def tell(self, watch: Watch, step: BatchOutcome) -> None:
        """Show the events of this batch."""
        for kind, what in lines(watch, step):
            (self._verdicts if kind.isupper() else self._last).append(stamped(kind, what))
        self._live.update(self._shown(watch), refresh=True)

    def stop(self) -> None:
        """The watch is over; the table stays where it is."""
        self._live.stop()

    def _shown(self, watch: Watch) -> RenderableType:
        running = watch.folder.running
        head = f"{watch.path}  {number_of(watch.calls, 'call')} of "
        head += number_of(len(watch.folder.processes), "process")
        still = (
            f"{len(running)} still open: {', '.join(running[:8])}" if running else "nobody is open"
        )
        below = *self._verdicts, *self._last
        return Group(Text(head, style="bold"), Text(still, style="dim"), _table(watch), *below)


def _table(watch: Watch) -> Table:
    table = Table(box=None, pad_edge=False)
    for name in ("", "promise", "verdict", "why"):
        table.add_column(name, overflow="fold")
    waiting: list[str] = []
    for check, verdict, reason, _ in verdicts(watch):
        if check.id in EARLY:
            style = {VIOLATED: "bold red", PENDING: "green"}.get(verdict, "dim")
            table.add_row(check.id, check.title, Text(verdict, style=style), reason)
        else:
            waiting.append(check.id)
    table.add_row("", Text(f"at the end: {' '.join(waiting)}", style="dim"), "", "")
    return table


def stamped(kind: str, what: str) -> Text:
    """A line with the time of day."""
    style = "bold red" if kind == VIOLATED.upper() else "yellow" if kind.isupper() else ""
    return Text(f"{datetime.now():%H:%M:%S} ") + Text(kind, style=style) + Text(f" {what}")
