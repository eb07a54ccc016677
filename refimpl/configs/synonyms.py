"""Which of a broker's settings a topic's or a group's falls back to, and which says so first."""

from collections.abc import Iterator, Mapping

from refimpl.configs.definition import BROKER, GROUP, TOPIC
from refimpl.configs.values import Value

MINUTE_MS = 60 * 1000
HOUR_MS = 60 * MINUTE_MS
MILLISECONDS = {"minutes": MINUTE_MS, "hours": HOUR_MS}

_CHAINS = (
    ("log.roll.ms", "log.roll.hours"),
    ("log.roll.jitter.ms", "log.roll.jitter.hours"),
    ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
)
_FLUSH = ("log.flush.interval.ms", "log.flush.scheduler.interval.ms")
_RENAMED = {
    "segment.ms": "log.roll.ms",
    "segment.jitter.ms": "log.roll.jitter.ms",
    "segment.index.bytes": "log.index.size.max.bytes",
    "flush.messages": "log.flush.interval.messages",
    "flush.ms": "log.flush.interval.ms",
    "max.message.bytes": "message.max.bytes",
    "file.delete.delay.ms": "log.segment.delete.delay.ms",
    "min.cleanable.dirty.ratio": "log.cleaner.min.cleanable.ratio",
}


def _broker_name(topic_name: str) -> str | None:
    """The broker's first name for a topic's setting; None if it has none."""
    if topic_name in _RENAMED:
        return _RENAMED[topic_name]
    names = (f"log.{topic_name}", f"log.cleaner.{topic_name}", topic_name)
    return next((name for name in names if name in BROKER), None)


BROKER_NAME: Mapping[str, str] = {
    name: of for name in TOPIC if (of := _broker_name(name)) is not None
}
"""For each setting of topics that brokers have, too: the name under which."""

CHAIN: Mapping[str, tuple[str, ...]] = {name: chain for chain in _CHAINS for name in chain} | {
    _FLUSH[0]: _FLUSH
}


def chain(name: str) -> tuple[str, ...]:
    """The names that say the same of a broker, the strongest first."""
    return CHAIN.get(name, (name,))


def in_units_of(first: str, name: str, value: Value) -> Value:
    """A value of a weaker name, in the unit of the strongest: hours and minutes to milliseconds."""
    unit = name.rpartition(".")[2]
    return value * MILLISECONDS[unit] if name != first and unit in MILLISECONDS else value


def weaker(name: str) -> Iterator[str]:
    """Every other name that says the same: it no longer counts once this one is set."""
    return (other for other in chain(name) if other != name)


GROUP_NAME: Mapping[str, str] = {
    name: f"group.{name}" for name in GROUP if f"group.{name}" in BROKER
}
"""The broker's setting that a group without its own value falls back to."""
