"""Rules in words, as a command line, a file and the control port have them.

hold Produce after=3 count=1
delay Fetch by_ms=500 client_id=billing
drop-response EndTxn broker=2
"""

from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, cast

from attrs import define

from refimpl.edge.server.faults import Rule, What
from refimpl.wire.api_names import api_names

KINDS: dict[str, What] = {
    "hold": "hold",
    "delay": "delay",
    "drop": "drop",
    "drop-response": "drop response",
    "disconnect": "disconnect",
    "disconnect-unhandled": "disconnect unhandled",
}
_NUMBERS = ("after", "count", "broker", "by_ms")
_NAMES = (*_NUMBERS, "client_id")


@define(eq=False, repr=False)
class PassingRule(Rule):
    """A rule for requests to any Kafka, also of APIs that brokers of ours do not serve."""

    def refuse_unknown_api(self) -> None:
        """Raise ValueError for a name that no API of Kafka's has."""
        if self.api not in api_names().values():
            super().refuse_unknown_api()


def rule_of(words: str) -> tuple[int | None, Rule]:
    """A rule, and the broker that it is for, None for all. Raises ValueError."""
    kind, *rest = words.split() or [""]
    if kind not in KINDS:
        raise ValueError(f"{words!r}: expected a rule to begin with {_nearest(kind, (*KINDS,))}")
    if not rest or "=" in rest[0]:
        raise ValueError(f"{words!r}: expected the name of an API behind {kind}, such as Produce")
    api, *settings = rest
    given: dict[str, Any] = {}
    for one in settings:
        name, equals, value = one.partition("=")
        if not equals or name not in _NAMES:
            raise ValueError(f"{words!r}: expected {_nearest(name, _NAMES)} and =, found {one!r}")
        if name in _NUMBERS and not value.isdecimal():
            raise ValueError(f"{words!r}: {name}: expected a whole number, found {value!r}")
        given[name] = int(value) if name in _NUMBERS else value
    broker, delay_ms = cast("int | None", given.pop("broker", None)), given.pop("by_ms", None)
    if (delay_ms is None) == (kind == "delay"):
        raise ValueError(f"{words!r}: by_ms belongs to delay, and delay needs it")
    try:
        return broker, PassingRule(api, KINDS[kind], delay_ms=delay_ms or 0, **given)
    except ValueError as error:
        raise ValueError(f"{words!r}: {error}") from None


def rules_in(file: Path) -> Sequence[tuple[int | None, Rule]]:
    """The rules of a file, one a line; `#` begins a remark. Raises ValueError with the line."""
    found: list[tuple[int | None, Rule]] = []
    for number, line in enumerate(file.read_text().splitlines(), 1):
        words = line.partition("#")[0].strip()
        try:
            found += [rule_of(words)] if words else []
        except ValueError as error:
            raise ValueError(f"{file.name}:{number}: {error}") from None
    return found


def words_of(broker: int | None, rule: Rule) -> str:
    """The words of a rule."""
    kind = next(name for name, what in KINDS.items() if what == rule.what)
    given = {
        "by_ms": rule.delay_ms or None,
        "client_id": rule.client_id,
        "after": rule.after or None,
        "count": rule.count,
        "broker": broker,
    }
    told = [f"{name}={value}" for name, value in given.items() if value is not None]
    return " ".join([kind, rule.api, *told])


def _nearest(name: str, known: Sequence[str]) -> str:
    near = get_close_matches(name, known, n=1)
    return near[0] if near else f"one of {', '.join(known)}"
