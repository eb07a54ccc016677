"""A run as a readable story: its faults, and its steps in the specs' words, with times."""

from collections.abc import Iterator
from itertools import groupby

from attrs import frozen

from chaos.faults.script import Script
from chaos.recorders.protocol_events import SubjectTrace, TracePlace
from chaos.simulator import Run, build

# Frequent steps; several in a row are printed as one line.
ROUTINE = {"Write", "Fetch", "FetchLost", "AdvanceHighWatermark"}


@frozen
class StoryLine:
    """Something that happened."""

    at_ms: int
    text: str
    is_fault: bool = False


def tell(run: Run) -> list[StoryLine]:
    """The story of a failed run: faults and the steps of the partition that the verdict names."""
    told = build(run.settings, run.script, events=True).go()
    recorder = told.recorder
    assert recorder is not None
    what = told.violation.what if told.violation else ""
    replication = [one.trace for one in recorder.replication.values()]
    chosen = [t for t in replication if what.startswith(f"{t.subject}:")] or replication[:1]
    lines = [line for trace in chosen for line in _steps(trace)]
    return sorted([*_faults(told.script, told.now_ms), *lines], key=lambda line: line.at_ms)


def _faults(script: Script, end_ms: int) -> Iterator[StoryLine]:
    for fault in script:
        if fault.at_ms <= end_ms:
            yield StoryLine(fault.at_ms, str(fault), is_fault=True)


def _steps(trace: SubjectTrace) -> Iterator[StoryLine]:
    known = [step for step in trace.steps if step.action or step.otherwise]
    for routine, steps in groupby(known, key=lambda step: _action(step) in ROUTINE):
        if not routine:
            yield from (StoryLine(step.at_ms, _words(step)) for step in steps)
            continue
        row = list(steps)
        yield StoryLine(row[0].at_ms, _row(row))


def _row(steps: list[TracePlace]) -> str:
    counted: dict[str, int] = {}
    for step in steps:
        words = _words(step)
        counted[words] = counted.get(words, 0) + 1
    told = (f"{words} ×{n}" if n > 1 else words for words, n in counted.items())
    return ", ".join(told)


def _action(step: TracePlace) -> str:
    return step.action or step.otherwise or ""


def _words(step: TracePlace) -> str:
    arguments = ", ".join(f"{name}={value}" for name, value in step.params.items())
    return f"{_action(step)}({arguments})"
