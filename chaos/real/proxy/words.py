"""Rules in words, as a command line, a file and the control port have them.

hold Produce after=3 count=1
delay Fetch by_ms=500 client_id=billing
copy AlterPartition by_ms=2000
drop-response EndTxn broker=2
"""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, cast

from attrs import define

from chaos.real.proxy.passing import Passing
from refimpl.edge.server.faults import Faulty, Rule, What
from refimpl.wire.api_names import api_names

KINDS: dict[str, What] = {
    "hold": "hold",
    "delay": "delay",
    "copy": "delay",
    "drop": "drop",
    "drop-response": "drop response",
    "disconnect": "disconnect",
    "disconnect-unhandled": "disconnect unhandled",
}
LATE = ("delay", "copy")
_NUMBERS = ("after", "count", "broker", "by_ms")
_NAMES = (*_NUMBERS, "client_id")


@define(eq=False, repr=False)
class PassingRule(Rule):
    """A rule for requests to any Kafka, also of APIs that brokers of ours do not serve."""

    @property
    def kind(self) -> str:
        """The word that names its fault."""
        return next(word for word, what in KINDS.items() if what == self.what)

    def refuse_unknown_api(self) -> None:
        """Raise ValueError for a name that no API of Kafka's has."""
        if self.api not in api_names().values():
            super().refuse_unknown_api()


class CopyingRule(PassingRule):
    """A rule by which a request goes on, and comes once more so much later.

    That is what a client does that sends again while its first connection is stalled.
    """

    @property
    def kind(self) -> str:
        """The word that names its fault."""
        return "copy"

    def happen(self, received: Faulty) -> None:
        """Let it go on, and let the copy follow."""
        assert isinstance(received, Passing)
        received.begin()
        received.copy(self.delay_ms)


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
    if (delay_ms is None) == (kind in LATE):
        raise ValueError(f"{words!r}: by_ms belongs to {' and '.join(LATE)}, which need it")
    made = CopyingRule if kind == "copy" else PassingRule
    try:
        return broker, made(api, KINDS[kind], delay_ms=delay_ms or 0, **given)
    except ValueError as error:
        raise ValueError(f"{words!r}: {error}") from None


def refuse_copies(rules: Iterable[Rule]) -> None:
    """Raise ValueError if one of these copies: a trace would blame the broker for the copy."""
    for rule in rules:
        if isinstance(rule, CopyingRule):
            raise ValueError(f"copy {rule.api}: not beside --record, for a trace knows no copies")


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
    kind = rule.kind if isinstance(rule, PassingRule) else rule.what.replace(" ", "-")
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
