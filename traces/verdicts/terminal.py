"""The first screen of `highwater check`: a headline and the incidents of each run.

A terminal of 24 lines of 80 columns shows it whole, with the verdict and the worst incidents; in a
pipe it is the same. All promises, witnesses and reasons are for whoever asks (`--verbose`).
"""

import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.text import Text

from traces.checks.catalogue import CHECKS
from traces.ingest.run import Run
from traces.model.output import number_of
from traces.verdicts import happened
from traces.verdicts.incidents import Incident
from traces.verdicts.judged import BAD_INPUT, Judged, event, event_line
from traces.verdicts.report import style
from traces.verdicts.verdict import ALLOWED, HOLDS, NOT_CHECKED, VIOLATED, Verdict

LINES, COLUMNS = 23, 80  # of a terminal of 24 lines, one is for the next command
WARNINGS = 2  # that are told; the others are counted
OF_SEVERAL = 3  # incidents of each of several runs
ROWS = 12  # of several runs
_MARGIN = 11


def screen(console: Console, judged: Sequence[Judged], verbose: bool = False) -> None:
    """Say of one run what happened, of several what happened in which, and where to read on."""
    width = min(console.width, COLUMNS) if console.is_terminal else COLUMNS
    few = len(judged) == 1
    said = _one(judged[0], width, verbose) if few else _several(judged, width, verbose)
    for line in [Text(), *said, *_read_on(judged)]:
        console.print(line, soft_wrap=True, highlight=False)


def summary(one: Judged) -> str:
    """A run in a few lines: its verdict, a line for each promise that was broken, and counts."""
    broken = [v for word in (VIOLATED, ALLOWED) for v in one.verdicts if v.verdict == word]
    name = max((len(v.title) for v in broken), default=0)
    rows = [
        f"{v.check:4}{v.verdict:9}{v.broken or v.count:>9,}  {v.title:{name}}".rstrip()
        for v in broken
    ]
    said = [line.plain for line in _promises(one, COLUMNS)]
    return "\n".join([_headline(one, COLUMNS).plain, *rows, *said])


# ------------------------------------------------------------------------------- one run


def _one(one: Judged, width: int, verbose: bool) -> list[Text]:
    head = [_headline(one, width), *_contradictions(one, width)]
    if one.run is None:
        return [*head, Text(str(one.error), style="red")]
    head += [*_warnings(one, width), Text()]
    foot = [*_promises(one, width)]
    room = LINES - len(head) - len(foot) - len(_read_on([one])) - 1
    reported = _all_incidents(one, width) if verbose else _incidents(one, room, width)
    if one.verdict == HOLDS:
        reported = [Text("Nothing is violated.")]
    return [*head, *reported, *foot]


def _headline(one: Judged, width: int) -> Text:
    said = f"{one.verdict}{_how_many(one)}"
    name = str(one.path)
    if len(name) + len(said) + 2 > width:
        name = f"…{name[-(width - len(said) - 3) :]}"
    return Text.assemble((name, "bold"), ": ", (said, style(one.verdict)))


def _how_many(one: Judged) -> str:
    broken = sum(incident.violated for incident in one.incidents)
    counts = ((broken, "incident"), (len(one.incidents) - broken, "incident"))
    words = ("", " that the configuration allows")
    said = [number_of(n, noun) + word for (n, noun), word in zip(counts, words, strict=True) if n]
    return f", {', '.join(said)}" if said else ""


def _contradictions(one: Judged, width: int) -> Iterator[Text]:
    if one.contradictions:
        said = (
            f"Two checkers of Highwater disagree: {'; '.join(one.contradictions)}. So one of them "
            "is wrong, and the verdict is not to be trusted. "
            f"Please report it, with {one.path.name} if you can share it."
        )
        yield from (Text(line, style="bold red") for line in textwrap.wrap(said, width))


def _warnings(one: Judged, width: int) -> Iterator[Text]:
    assert one.run is not None
    said = [f"warning: {warning}" for warning in one.run.warnings]
    more = len(said) - WARNINGS
    for line in [*said[:WARNINGS], *([number_of(more, "more warning")] if more > 0 else [])]:
        yield Text(textwrap.shorten(line, width, placeholder=" …"), style="yellow")


def _incidents(one: Judged, room: int, width: int) -> list[Text]:
    """As many incidents as there is room for: in full, or what and where in a line."""
    assert one.run is not None
    every = one.incidents
    if not every:
        return []
    if len(every) <= LINES and len(full := _all_incidents(one, width)) <= room:
        return full
    out = [*_incident(one, one.run, every[0], width), Text()]
    for number, incident in enumerate(every[1:], 1):
        left = len(every) - number
        if len(out) + 1 + min(left, 2) > room:
            return [
                *out,
                Text(f"and {number_of(left, 'more incident')}: -v tells all of them"),
                Text(),
            ]
        out = [*out, _in_a_line(incident, width)]
    return [*out, Text()]


def _all_incidents(one: Judged, width: int) -> list[Text]:
    assert one.run is not None
    reported = ([*_incident(one, one.run, incident, width), Text()] for incident in one.incidents)
    return [line for lines in reported for line in lines]


def _incident(one: Judged, run: Run, incident: Incident, width: int) -> Iterator[Text]:
    word = VIOLATED if incident.violated else ALLOWED
    lead = Text(f"{word.upper() if incident.violated else word:<{_MARGIN}}", style=style(word))
    what = textwrap.wrap(happened.title(incident), width - _MARGIN)
    yield lead + Text(what[0], style="bold")
    yield from (Text(f"{'':{_MARGIN}}{line}", style="bold") for line in what[1:])
    verdict = next(v for v in one.verdicts if v.check == incident.main)
    reported = [
        ("where", happened.where(incident)),
        ("when", happened.when(incident, one.began)),
        ("beside", happened.beside(incident, one.began)),
        ("promises", happened.promises(incident)),
        ("because", _because(verdict, incident)),
    ]
    for name, said in reported:
        if said:
            yield from _field(name, said, width)
    yield from _witness(run, verdict, incident, width)


def _field(name: str, said: str, width: int) -> Iterator[Text]:
    lines = textwrap.wrap(said, width - _MARGIN, max_lines=3, placeholder=" …")
    for number, line in enumerate(lines):
        yield Text.assemble((f"  {name if number == 0 else '':{_MARGIN - 2}}", "dim"), line)


def _because(verdict: Verdict, incident: Incident) -> str:
    if incident.violated:
        return CHECKS[verdict.check].unless_text
    return "; ".join(verdict.permits)


def _witness(run: Run, verdict: Verdict, incident: Incident, width: int) -> Iterator[Text]:
    """The calls of the first witness that lies in the incident."""
    for _, rows in verdict.witnesses:
        events = [event(run, row) for row in rows]
        if not any(_inside(one, incident) for one in events):
            continue
        for number, one in enumerate(events):
            name = "witness" if number == 0 else ""
            if len(incident.partitions) == 1:  # which is told above
                one.pop("partition", None)
            line = textwrap.shorten(event_line(one), width - _MARGIN, placeholder=" …")
            yield Text.assemble((f"  {name:{_MARGIN - 2}}", "dim"), line)
        return


def _inside(found: dict[str, object], incident: Incident) -> bool:
    for (topic, partition), ranges in incident.partitions.items():
        if found.get("partition") == f"{topic}:{partition}":
            offset = found.get("offset")
            if not ranges or (isinstance(offset, int) and any(a <= offset <= b for a, b in ranges)):
                return True
    return not incident.partitions


def _in_a_line(incident: Incident, width: int) -> Text:
    word = VIOLATED if incident.violated else ALLOWED
    said = ": ".join(filter(None, (happened.first_partition(incident), happened.title(incident))))
    lead = Text(f"{word.upper() if incident.violated else word:<{_MARGIN}}", style=style(word))
    return lead + textwrap.shorten(said, width - _MARGIN, placeholder=" …")


def _promises(one: Judged, width: int) -> Iterator[Text]:
    """The number of promises kept, and of those not checked, by reason."""
    counts = Counter(verdict.verdict for verdict in one.verdicts)
    words = {VIOLATED: "violated", ALLOWED: "allowed", HOLDS: "kept", NOT_CHECKED: "not checked"}
    said = [f"{counts[word]} {words[word]}" for word in words if counts[word]]
    if said:
        yield from map(
            Text, textwrap.wrap(f"{len(one.verdicts)} promises: {', '.join(said)}", width)
        )


# --------------------------------------------------------------------------- several runs


def _several(judged: Sequence[Judged], width: int, verbose: bool) -> list[Text]:
    """A headline for each run, those that somebody has to look at last, with their incidents."""
    wrong = [one for one in judged if _is_wrong(one)]
    fine = [one for one in judged if not _is_wrong(one)]
    shown = fine if verbose or len(fine) <= ROWS else []
    name = min(max((len(one.path.name) for one in [*shown, *wrong]), default=0), width // 2)
    out = [_row(one, name, width) for one in shown]
    if len(shown) < len(fine):
        out.append(
            Text(f"{number_of(len(fine), 'run')} in which nothing is violated: -v lists them")
        )
    for one in wrong:
        out += [_row(one, name, width), *_contradictions(one, width)]
        if verbose or len(wrong) <= ROWS // 2:
            out += _below(one, width)
    counts = Counter(one.verdict for one in judged)
    said = ", ".join(f"{number} {verdict}" for verdict, number in sorted(counts.items()))
    return [*out, Text(), Text(f"{number_of(len(judged), 'run')}: {said}")]


def _is_wrong(one: Judged) -> bool:
    return one.verdict in (VIOLATED, BAD_INPUT) or bool(one.contradictions)


def _row(one: Judged, name: int, width: int) -> Text:
    said = _cut(" ".join(_broken(one)), max(width - name - 14, 20))
    return Text.assemble(
        f"{_cut(one.path.name, name):{name}}  ", (f"{one.verdict:12}", style(one.verdict)), said
    )


def _below(one: Judged, width: int) -> Iterator[Text]:
    """The incidents of one of several runs, a line each."""
    if one.error is not None:
        yield Text(textwrap.indent(str(one.error), "  "), style="red")
    broken = [incident for incident in one.incidents if incident.violated]
    yield from (Text("  ") + _in_a_line(incident, width - 2) for incident in broken[:OF_SEVERAL])
    if (more := len(broken) - OF_SEVERAL) > 0:
        yield Text(f"{'':{_MARGIN + 2}}{number_of(more, 'more incident')}")


def _broken(one: Judged) -> list[str]:
    return [v.check for word in (VIOLATED, ALLOWED) for v in one.verdicts if v.verdict == word]


def _cut(words: str, width: int) -> str:
    return words if len(words) <= width else f"{words[: width - 1]}…"


def _read_on(judged: Sequence[Judged]) -> list[Text]:
    """The line that says how to see the rest."""
    reported = sorted((i for one in judged for i in one.incidents), key=lambda i: not i.violated)
    explain = f", highwater explain {reported[0].main}" if reported else ""
    if all(one.error is not None for one in judged):
        return []
    said = f"more: -v for every promise, --html FILE for a page{explain}"
    return [Text(said, style="dim")]
