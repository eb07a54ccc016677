"""A run told step by step in the specs' words, for TLC to follow.

Messages travel here and do not in the specs, so a step that the spec takes at once has two ends.
Its place in the trace is where the sender of the answer acted; whether it happened, and as what,
is known only when the answer is taken. Such a place is reserved, and filled or left to `otherwise`.
"""

from collections.abc import Iterator, Mapping
from typing import Any, cast

from attrs import define, field

from refimpl.events import Event, Header, Json, as_set

# Members of a group, at most: those that a run does without never join.
MEMBERS = 3

Changes = dict[str, Any]
# {variable: value}, or {variable: (who, value)} for one that is a function of who.


@define(eq=False)
class Step:
    """One place in a trace."""

    at_ms: int
    params: Mapping[str, Json]
    action: str | None
    otherwise: str | None = None
    changes: Changes = field(factory=dict[str, Any])

    def becomes(self, action: str, changes: Changes) -> None:
        """Say what the step was, now that this is known."""
        self.action, self.changes = action, changes


@define(eq=False)
class Trace:
    """The steps of one subject of one spec: a partition, or a group's view of it."""

    spec: str
    subject: str
    initial: Changes
    steps: list[Step] = field(factory=list[Step])

    def add(self, at_ms: int, action: str, params: Mapping[str, Json], **changes: Any) -> None:
        """A step that is over."""
        self.steps.append(Step(at_ms, params, action, None, changes))

    def reserve(self, at_ms: int, params: Mapping[str, Json], otherwise: str | None) -> Step:
        """A step that will be known later; if it never is, it was `otherwise`, or nothing."""
        step = Step(at_ms, params, None, otherwise)
        self.steps.append(step)
        return step

    def events(self, run: str) -> Iterator[Event]:
        """The steps as events, each with what it left in the variables that it changed."""
        now = {name: _copy(value) for name, value in self.initial.items()}
        known = (step for step in self.steps if step.action or step.otherwise)
        for seq, step in enumerate(known):
            action = step.action or step.otherwise or ""
            for name, change in step.changes.items():
                if isinstance(change, tuple):
                    who, left = cast("tuple[int, Any]", change)
                    now[name][who - 1] = left
                else:
                    now[name] = change
            after = {name: _json(now[name]) for name in step.changes}
            yield Event(run, seq, step.at_ms, self.spec, self.subject, action, step.params, after)


@define(eq=False)
class Recorder:
    """The traces of one run."""

    replication: list[Trace]
    groups: list[Trace]

    @classmethod
    def of(cls, partitions: int) -> "Recorder":
        """Traces for so many partitions, before anything has happened."""
        return cls(
            [Trace("Truncation", f"orders:{p}", _truncation()) for p in range(partitions)],
            [Trace("ConsumerCommit", f"g/orders:{p}", _group()) for p in range(partitions)],
        )

    def lines(self, run: str, bounds: Mapping[str, Mapping[str, Json]]) -> Iterator[bytes]:
        """Everything as NDJSON: each trace with its header, which names the spec's constants."""
        for trace in (*self.replication, *self.groups):
            constants = bounds[trace.subject]
            yield Header(run, trace.spec, trace.subject, constants).line()
            for event in trace.events(run):
                yield event.line()


def _truncation() -> Changes:
    everybody = frozenset((1, 2, 3))
    return {
        "highWatermark": [0, 0, 0],
        "epoch": [1, 1, 1],
        "isr": [everybody, frozenset[int](), frozenset[int]()],
    }


def _group() -> Changes:
    nothing = [0] * MEMBERS
    return {
        "generation": 0,
        "owner": 0,
        "committed": 0,
        "joined": nothing,
        "position": nothing,
        "done": nothing,
    }


def _copy(value: Any) -> Any:
    return list(cast("list[Any]", value)) if isinstance(value, list) else value


def _json(value: Any) -> Json:
    if isinstance(value, list):
        return [_json(item) for item in cast("list[Any]", value)]
    return as_set(cast("frozenset[int]", value)) if isinstance(value, frozenset) else value
