"""A run as a readable story: its faults, and its steps in the specs' words, with times."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, cast

from attrs import frozen

from chaos.faults.script import Script
from chaos.oracles.transactions import TransactionsOracle
from chaos.recorders.protocol_events import SubjectTrace, TracePlace
from chaos.simulator import Run, build
from refimpl.messages.broker import TopicPartition
from refimpl.storage.replica.transactional import Writer

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
    if told.transactions is not None and not what.startswith(tuple(t.subject for t in replication)):
        lines += _transactional(told.transactions, what)
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


def _transactional(oracle: TransactionsOracle, what: str) -> Iterator[StoryLine]:
    """The steps of the clients of the transactional id that a verdict names, or of all."""
    named = {one.transactional_id for one in (*oracle.producers, *oracle.applications)}
    chosen = {one for one in named if one in what.split() or f"{one}:" in what.split()} or named
    for at_ms, seen in oracle.diary:
        if oracle.transactional_id(seen) in chosen:
            yield StoryLine(at_ms, _said(seen))


def _said(seen: Any) -> str:
    given = ", ".join(f"{name}={_short(value)}" for name, value in seen._asdict().items())
    return f"{type(seen).__name__}({given})"


def _short(value: Any) -> str:
    if isinstance(value, Writer):
        return f"{value.producer_id}/{value.producer_epoch}"
    if isinstance(value, TopicPartition):
        return f"{value.topic}:{value.partition}"
    if isinstance(value, tuple | list):
        return f"{len(cast('Sequence[Any]', value))}"
    return f"{value}"


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
