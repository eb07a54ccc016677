"""Missing fields of a run by place: by partition, group and producer.

A need is asked of the rows that decide. What one partition lacks says nothing of the others.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from attrs import field, frozen

Key = tuple[int, int]  # as `traces.engines.scopes` gives it to a partition, a group or a producer
Needs = frozenset[str]
NOTHING: Needs = frozenset()
PARTITION, GROUP, PRODUCER = "partition", "group", "producer"
# What is missing if a producer may have sent what nobody tells.
SENDERS = ("producers", "producers.whole", "send.topic", "send.id")
# What is missing if nobody knows which record was read, or where.
RECORDS = tuple(f"read.{name}" for name in ("id", "offset", "topic", "partition"))
# What is missing if somebody may have read what nobody tells.
READERS = ("consumers", "scan", *RECORDS)
# What is missing if a broker may have reported a log start that nobody tells.
LOG_STARTS = (
    *("log_starts", "log_starts.any", "starting.log_start"),
    *("earliest.topic", "earliest.offset", "asked.timestamp", "deleted.topic", "deleted.offset"),
    *("dumps", "dumps.log_start", "dumped.topic"),
)
# What is missing if a consumer's file is, or the rest of it.
FILES = ("consumers", "consumers.whole")
# What is missing if any client's file is, or the rest of it.
ALL_FILES = ("producers", "producers.whole", *FILES)
# What is missing if the final scan is.
SCANNED = ("complete", "final")


@frozen
class Lacking:
    """The needs that a run lacks: of each scope everywhere, or of some of its keys."""

    everywhere: Mapping[str, Needs] = field(factory=dict[str, Needs])
    within: Mapping[str, Mapping[Key, Needs]] = field(factory=dict[str, Mapping[Key, Needs]])

    @classmethod
    def of(
        cls, missing: Iterable[str], locations: Mapping[str, Mapping[str, Iterable[Key]]]
    ) -> "Lacking":
        """`places` says by scope and need of which keys it is missing; any other is everywhere."""
        missing = frozenset(missing)
        everywhere = {scope: missing - needs.keys() for scope, needs in locations.items()}
        return cls(everywhere, {scope: _by_key(needs) for scope, needs in locations.items()})

    def at(self, scope: str, key: Key) -> Needs:
        """Fields that are missing of this key, and not of all."""
        return self.within.get(scope, {}).get(key, NOTHING)

    def as_json(self) -> Any:
        """For `from_json`."""
        within = {scope: _by_needs(keys) for scope, keys in self.within.items()}
        return [{scope: sorted(needs) for scope, needs in self.everywhere.items()}, within]

    @classmethod
    def from_json(cls, json: Any) -> "Lacking":
        """An object read from the answer of `as_json`."""
        everywhere, within = json
        return cls(
            {scope: frozenset(needs) for scope, needs in everywhere.items()},
            {
                scope: {
                    (one, two): shared
                    for needs, keys in several
                    for shared in (frozenset(needs),)
                    for one, two in keys
                }
                for scope, several in within.items()
            },
        )


def _by_key(needs: Mapping[str, Iterable[Key]]) -> dict[Key, Needs]:
    """Keys that lack the same share one set."""
    of: dict[Key, list[str]] = {}
    for need, keys in sorted(needs.items()):
        for key in keys:
            of.setdefault(key, []).append(need)
    shared: dict[tuple[str, ...], Needs] = {}
    return {key: shared.setdefault(tuple(n), frozenset(n)) for key, n in of.items()}


def _by_needs(keys: Mapping[Key, Needs]) -> list[tuple[list[str], list[Key]]]:
    of: dict[Needs, list[Key]] = {}
    for key, needs in keys.items():
        of.setdefault(needs, []).append(key)
    return [(sorted(needs), mine) for needs, mine in of.items()]
