"""The questions to a model checker and its answers, independent of the checker."""

from collections.abc import Mapping
from enum import Enum
from typing import Protocol

from attrs import evolve, field, frozen

from properties.tla.values import Value


class Status(Enum):
    """The end of a check. Only `PASSED` is good news; only it and `VIOLATED` are answers."""

    PASSED = "passes"
    VIOLATED = "violates"
    FAILED = "failed"
    TIMED_OUT = "not finished"
    NOT_CHECKED = "not checked"


@frozen
class CounterexampleStep:
    """One state of a counterexample, and the action that led to it.

    The first state has no action. `params` is in the action's formal order. It is None if the
    arguments are unknown, because TLC 2.15 reports names only.
    """

    action: str | None
    state: Mapping[str, Value]
    params: Mapping[str, Value] | None = None


@frozen
class Outcome:
    """The answer to one check."""

    status: Status
    violated: str | None = None
    """The property that does not hold."""
    steps: tuple[CounterexampleStep, ...] = ()
    back_to: int | None = None
    """The step (from 1) to which a counterexample of a temporal property returns for ever."""
    distinct: int | None = None
    generated: int | None = None
    depth: int | None = None
    reason: str = ""
    cpu_s: float = 0.0
    wall_s: float = 0.0
    command: tuple[str, ...] = field(default=(), repr=False)

    @property
    def length(self) -> int | None:
        """States in the counterexample."""
        return len(self.steps) or None

    def because(self, status: Status, reason: str) -> "Outcome":
        return evolve(self, status=status, reason=reason)


class Checker(Protocol):
    """A checker that decides if a model keeps its promises."""

    name: str

    def check(self, module: str, cfg: str, limit_s: float) -> Outcome:
        """Check one configuration of a module. A tool's failure is an outcome, not an exception."""
        ...
