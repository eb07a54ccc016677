"""The settings in meta.json of each topic, by the numbers of its rows."""

from collections.abc import Mapping
from typing import Any

from attrs import evolve, fields

from traces.model.context import NEVER, Clause, Setting, setting
from traces.model.meta import Meta, Topic
from traces.model.names import Names


def of_topics(meta: Meta, names: Names) -> Mapping[str, Setting]:
    """The settings of topics, by their fields in `Context`."""
    topics = [meta.topics.get(name) for name in names.topics.names]
    steady = [topic and _steady(topic) for topic in topics]
    changes = [_loss_changed(topic, names) for topic in topics]
    settings = {
        "unclean": [t and t.unclean_leader_election for t in topics],
        "min_isr": [t and t.min_insync_replicas for t in topics],
        "loss_until": [until for until, _ in changes],
        "loss_clock": [clock for _, clock in changes],
        "compacted": [t and _compacted(t.cleanup_policy) for t in steady],
        "deletes": [t and _deletes(t.cleanup_policy) for t in steady],
        "append_time": [t and _append_time(t.message_timestamp_type) for t in steady],
        "compaction_lag": [t and t.min_compaction_lag_ms for t in steady],
        "delete_retention": [t and t.delete_retention_ms for t in steady],
        "unflushed": [t is not None and _last_may_lose(t) for t in topics],
        "partitions": [t and t.partitions for t in topics],
    }
    return {name: setting(names.topics.numbers, values) for name, values in settings.items()}


def coordinator_clause(topic: Topic) -> Clause:
    """The clause by which the topic in which coordinators keep groups may lose what it held.

    One replica in sync is Kafka's default there, and loses nothing unless its disk does.
    """
    if len({loss_clause(one) for one in (topic, *_before(topic))}) > 1:
        return Clause.UNKNOWN
    alone = bool(topic.flush_loses) and topic.min_insync_replicas == 1
    if topic.unclean_leader_election or alone or _last_may_lose(topic):
        return Clause.OFFSETS
    return Clause.UNKNOWN if topic.unclean_leader_election is None else Clause.NOT


def loss_clause(topic: Topic) -> Clause:
    """By which setting a topic may lose what was acknowledged, and even read."""
    unclean, least = topic.unclean_leader_election, topic.min_insync_replicas
    if unclean:
        return Clause.UNCLEAN
    if least == 1:
        return Clause.MIN_ISR
    if _last_may_lose(topic):
        return Clause.FLUSH
    return Clause.UNKNOWN if unclean is None or least is None else Clause.NOT


def _before(topic: Topic) -> list[Topic]:
    """All settings that the topic had earlier, each time; what nobody tells was as at the end."""
    return [evolve(topic, **_reported(one.settings)) for one in topic.earlier]


def _reported(topic: Topic) -> dict[str, Any]:
    return {f.name: v for f in fields(Topic) if (v := getattr(topic, f.name)) not in (None, ())}


def _steady(topic: Topic) -> Topic:
    """The settings that the topic had all the time; one that changed is not known."""
    changed = {name for one in topic.earlier for name in _reported(one.settings)}
    values = {name: {getattr(one, name) for one in (topic, *_before(topic))} for name in changed}
    return evolve(topic, **{name: None for name, of in values.items() if len(of) > 1})


def _loss_changed(topic: Topic | None, names: Names) -> tuple[int | None, int | None]:
    """When a topic last had settings that permit another loss than those at the end, by a clock."""
    if topic is None:
        return None, None
    end = loss_clause(topic)
    other = [
        one
        for one, before in zip(topic.earlier, _before(topic), strict=True)
        if loss_clause(before) != end
    ]
    if not other:
        return None, None
    clocks = {one.clock for one in other}
    if len(clocks) > 1 or any(one.until_ns is None for one in other):
        return NEVER, None
    return max(one.until_ns or 0 for one in other), names.clocks.number(clocks.pop())


def _last_may_lose(topic: Topic) -> bool:
    """True if the last replica in sync may come back without its unflushed records, and lead."""
    return bool(topic.flush_loses) and not topic.eligible_leader_replicas


def _compacted(policy: str | None) -> bool | None:
    return None if policy is None else "compact" in policy


def _deletes(policy: str | None) -> bool | None:
    return None if policy is None else "delete" in policy


def _append_time(kind: str | None) -> bool | None:
    return None if kind is None else kind == "LogAppendTime"
