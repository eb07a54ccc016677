"""One run as `check --verbose` prints it: verdicts, witnesses, and what was not checked."""

from rich.console import Console
from rich.table import Table
from rich.text import Text

from traces.verdicts.judged import Judged, event, event_line
from traces.verdicts.sentences import sentences
from traces.verdicts.verdict import ALLOWED, HOLDS, NOT_CHECKED, VIOLATED, Verdict

_STYLE = {HOLDS: "green", VIOLATED: "bold red", ALLOWED: "yellow", NOT_CHECKED: "dim"}


def show(console: Console, one: Judged, witnesses: int = 3) -> None:
    """Print one run: a table of verdicts, the witnesses of what was found, what was not checked."""
    console.print()
    console.print(
        Text(f"{one.path}", style="bold"),
        Text(one.verdict, style=style(one.verdict)),
        soft_wrap=True,
    )
    if one.error is not None:
        console.print(Text(str(one.error), style="red"), soft_wrap=True)
        return
    assert one.run is not None
    for warning in one.run.warnings:
        console.print(Text(f"warning: {warning}", style="yellow"), soft_wrap=True)
    for sentence in sentences(one.verdicts):
        console.print(Text(sentence), soft_wrap=True)
    console.print()
    console.print(_table(one.verdicts))
    if one.contradictions:
        console.print(Text(_contradiction(one), style="bold red"), soft_wrap=True)
    for verdict in one.verdicts:
        if verdict.verdict in (VIOLATED, ALLOWED):
            _show_witnesses(console, one, verdict, witnesses)
    _show_unchecked(console, one)


def _contradiction(one: Judged) -> str:
    several = "\n  ".join(one.contradictions)
    return (
        f"Two checkers of Highwater disagree:\n  {several}\n"
        "So one of them is wrong, and the verdict is not to be trusted. "
        f"Please report it, with {one.path.name} if you can share it."
    )


def style(verdict: str) -> str:
    """The colour of a verdict."""
    return _STYLE.get(verdict, "bold red")


def _table(verdicts: list[Verdict]) -> Table:
    table = Table(box=None, pad_edge=False)
    for name in ("", "promise", "verdict", "found", "why"):
        table.add_column(name, overflow="fold", justify="right" if name == "found" else "left")
    for v in verdicts:
        if v.verdict != NOT_CHECKED or v.count:
            found = str(v.count) if v.count else ""
            table.add_row(
                v.check, v.title, Text(v.verdict, style=style(v.verdict)), found, v.reason
            )
    return table


def _show_witnesses(console: Console, one: Judged, verdict: Verdict, limit: int) -> None:
    assert one.run is not None
    for n, (_, events) in enumerate(verdict.witnesses[:limit]):
        console.print(Text(f"  {verdict.check} witness {n + 1} of {verdict.count}", style="bold"))
        for row in events:
            console.print("   ", event_line(event(one.run, row)), highlight=False)


def _show_unchecked(console: Console, one: Judged) -> None:
    reasons: dict[str, list[Verdict]] = {}
    for v in one.verdicts:
        if v.verdict == NOT_CHECKED:
            reasons.setdefault(v.reason, []).append(v)
    if reasons:
        console.print(Text("not checked", style="dim"))
    for reason, several in reasons.items():
        for v in several:
            console.print(Text(f"  {v.check} {v.title}", style="dim"), soft_wrap=True)
        console.print(Text(f"      {reason}", style="dim"), soft_wrap=True)
