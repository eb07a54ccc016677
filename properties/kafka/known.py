"""Known rejections: which rule of Kafka's explains each, and how a run goes on by it."""

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from attrs import field, frozen

from properties.tla.story import changed
from properties.tla.tracecheck import TraceVerdict

TABLE = Path(__file__).with_name("known.toml")


@frozen
class Known:
    """One explanation of a rejection."""

    name: str
    row: str
    why: str
    action: str = ""
    report: str = ""
    guard: str = ""
    differs: Sequence[str] = ()
    may_differ: Sequence[str] = ()
    as_kafka: str = ""
    raises: bool = True
    #: The spec, and the constant of a rule of it that Kafka has not
    spec: str = "Replication"
    without: str = ""
    #: Constants that name Kafka's rule; and the version of Kafka that has it no more
    rules: Mapping[str, str] = field(factory=dict[str, str])
    before: str = ""

    def explains(self, verdict: TraceVerdict) -> bool:
        """True if this may be the reason; whether it is, its rule must show."""
        action = verdict.trace.events[verdict.event - 1].action
        if verdict.trace.spec != self.spec or self.action not in ("", action):
            return False
        if self.before and not _is_before(verdict.trace.run, self.before):
            return False
        if self.guard:
            return self.guard in verdict.guard
        fields, least = _fields(verdict), {*self.differs}
        return bool(fields) and least <= fields <= {*least, *self.may_differ}

    def applied(self, constants: Mapping[str, Any]) -> dict[str, Any]:
        """The constants with Kafka's rule."""
        found = dict(constants)
        if self.as_kafka:
            rules = {*found["AsKafka"]["set"], self.as_kafka}
            found["AsKafka"] = {"set": sorted(rules)}
        if not self.raises:
            found["RaiseOnRefusal"] = False
        if self.without:
            found[self.without] = False
        return {**found, **self.rules}


def read_known() -> Sequence[Known]:
    """The table."""
    rows: list[dict[str, Any]] = tomllib.loads(TABLE.read_text(encoding="utf-8"))["known"]
    return [Known(**row) for row in rows]


def _is_before(run: str, version: str) -> bool:
    """True if all versions in a run's name are older than this one."""
    numbers = (one.split("-")[0].split(".") for one in run.removeprefix("kafka-").split("+"))
    mine = [int(one) for one in version.split(".")]
    return all([int(part) for part in one if part.isdigit()] < mine for one in numbers)


def _fields(verdict: TraceVerdict) -> set[str]:
    return {
        change.path
        for one in verdict.mismatches
        for change in changed({one.variable: one.spec}, {one.variable: one.logged})
    }
