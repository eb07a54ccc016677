"""Protocol events: one line for each step of a run, in the words of the spec that the step
belongs to.

{"run": "7", "seq": 12, "at_ms": 340, "spec": "Truncation", "subject": "orders:0",  "action":
"ShrinkIsr", "params": {"l": 1, "f": 2}, "after": {"isr": [{"set": [1, 3]}, {"set": []}, {"set":
[]}]}}

Integers, strings and booleans stand for themselves, lists for sequences, {"set": [...]} for
sets and other objects for records. The first line of a file, per run, spec and subject, names
the spec's constants.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

import orjson
from attrs import field, frozen

Json: TypeAlias = int | str | bool | Sequence["Json"] | Mapping[str, "Json"]


def as_set(items: Iterable[int]) -> Json:
    """A set of integers as an event writes it."""
    return {"set": sorted(items)}


@frozen
class Header:
    """The header of a trace: its spec, its subject and its bounds."""

    run: str
    spec: str
    subject: str
    constants: Mapping[str, Json]

    def line(self) -> bytes:
        """The header as one line of NDJSON."""
        return _line(
            {
                "run": self.run,
                "spec": self.spec,
                "subject": self.subject,
                "constants": dict(self.constants),
            }
        )


@frozen
class Event:
    """One step: the action, its parameters, and what the step left in the variables that it
    names."""

    run: str
    seq: int
    at_ms: int
    spec: str
    subject: str
    action: str
    params: Mapping[str, Json]
    after: Mapping[str, Json] = field(factory=dict[str, Json])

    def line(self) -> bytes:
        """The event as one line of NDJSON."""
        return _line(
            {
                "run": self.run,
                "seq": self.seq,
                "at_ms": self.at_ms,
                "spec": self.spec,
                "subject": self.subject,
                "action": self.action,
                "params": dict(self.params),
                "after": dict(self.after),
            }
        )


def _line(value: Mapping[str, object]) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_APPEND_NEWLINE)
