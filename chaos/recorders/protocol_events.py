"""Records a run step by step in the specs' words, for TLC.

Messages take time here and none in the specs, so a spec's single step has two ends. Its place in
the trace is the answer's sending. Its outcome is known only when the answer is taken. Until then
the place is reserved; it is filled, or left to `otherwise`.
"""

from collections.abc import Iterator, Mapping
from typing import Any, cast

from attrs import define, field

from refimpl.events import Event, Header, Json, as_set

Changes = dict[str, Any]
# {variable: value}, or {variable: (who, value)} for one that is a function of who.


@define(eq=False)
class TracePlace:
    """One place in a trace."""

    at_ms: int
    params: Mapping[str, Json]
    action: str | None
    otherwise: str | None = None
    changes: Changes = field(factory=dict[str, Any])

    def becomes(self, action: str, changes: Changes, **more: Json) -> None:
        """Fill a reserved step, now that its outcome is known, with any further steps."""
        self.action, self.changes = action, changes
        self.params = {**self.params, **more}


@define(eq=False)
class SubjectTrace:
    """The steps of one subject of one spec: a partition, or a group's view of it."""

    spec: str
    subject: str
    initial: Changes
    steps: list[TracePlace] = field(factory=list[TracePlace])
    #: Nothing follows: the spec has no words for what has happened
    over: bool = False

    @property
    def known(self) -> list[TracePlace]:
        """The steps that are events: not those of which nothing came."""
        return [step for step in self.steps if step.action or step.otherwise]

    def add(self, at_ms: int, action: str, params: Mapping[str, Json], **changes: Any) -> None:
        """A step that is over."""
        if self.over:
            return
        self.steps.append(TracePlace(at_ms, params, action, None, changes))

    def reserve(self, at_ms: int, params: Mapping[str, Json], otherwise: str | None) -> TracePlace:
        """A step that will be known later; if it never is, it was `otherwise`, or nothing."""
        step = TracePlace(at_ms, params, None, otherwise)
        if not self.over:
            self.steps.append(step)
        return step

    def events(self, run: str) -> Iterator[Event]:
        """The steps as events, each with the new values of its changed variables."""
        now = {name: _copy(value) for name, value in self.initial.items()}
        for seq, step in enumerate(self.known):
            action = step.action or step.otherwise or ""
            for name, change in step.changes.items():
                if isinstance(change, tuple):
                    who, left = cast("tuple[int, Any]", change)
                    now[name][who - 1] = left
                else:
                    now[name] = change
            after = {name: _json(now[name]) for name in step.changes}
            yield Event(run, seq, step.at_ms, self.spec, self.subject, action, step.params, after)

    def lines(self, run: str, constants: Mapping[str, Json]) -> Iterator[bytes]:
        """A header that names the spec's constants, and the events, as NDJSON."""
        yield Header(run, self.spec, self.subject, constants).line()
        for event in self.events(run):
            yield event.line()


def _copy(value: Any) -> Any:
    return list(cast("list[Any]", value)) if isinstance(value, list) else value


def _json(value: Any) -> Json:
    if isinstance(value, list):
        return [_json(item) for item in cast("list[Any]", value)]
    return as_set(cast("frozenset[int]", value)) if isinstance(value, frozenset) else value
