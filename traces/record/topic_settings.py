"""Settings of topics in the words of meta.json."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

Settings = dict[str, Any]


def _yes(value: Any) -> bool:
    return str(value).lower() == "true"


#: Kafka's name of each setting, ours, and how its value is read.
WORDS: Mapping[str, tuple[str, Callable[[Any], Any]]] = {
    "min.insync.replicas": ("min_insync_replicas", int),
    "cleanup.policy": ("cleanup_policy", str),
    "unclean.leader.election.enable": ("unclean_leader_election", _yes),
    "message.timestamp.type": ("message_timestamp_type", str),
    "min.compaction.lag.ms": ("min_compaction_lag_ms", int),
    "delete.retention.ms": ("delete_retention_ms", int),
}
FIELD = "topic_settings"


def in_our_words(values: Mapping[str, Any]) -> Settings:
    """Those settings among Kafka's that meta.json knows, by our names."""
    return {
        name: read(values[theirs])
        for theirs, (name, read) in WORDS.items()
        if values.get(theirs) is not None
    }


def with_earlier(old: Iterable[Settings], new: Iterable[Settings]) -> list[Settings]:
    """Both lists; what is found again takes the place of what was found before."""
    new = list(new)
    again = [_values(one) for one in new]
    return [*(one for one in old if _values(one) not in again), *new]


def _values(one: Settings) -> Settings:
    return {name: value for name, value in one.items() if name not in ("until_ns", "clock")}
