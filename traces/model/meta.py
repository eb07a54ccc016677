"""`meta.json`: what was configured, and whether the run is complete.

The configuration decides which guarantees apply, so a value that is absent stays absent here: a
check that needs it says *not checked* instead of assuming Kafka's default of the day.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import orjson
from attrs import field, frozen

from traces.model.problems import Problems, shown


@frozen
class Topic:
    """The settings of a topic that decide what may be lost from it."""

    partitions: int | None = None
    min_insync_replicas: int | None = None
    cleanup_policy: str | None = None
    unclean_leader_election: bool | None = None
    # Not Kafka's settings but facts about the cluster: whether a crash loses what was not flushed
    # (a machine that dies, not a process), and whether KIP-966 keeps such a replica from leading.
    flush_loses: bool | None = None
    eligible_leader_replicas: bool | None = None
    replication_factor: int | None = None
    message_timestamp_type: str | None = None
    min_compaction_lag_ms: int | None = None
    delete_retention_ms: int | None = None
    # Whether everybody who sends to the topic was recorded, where that is not said of the run.
    senders: str | None = None
    earlier: "tuple[Earlier, ...]" = ()  # settings that it had before those above


@frozen
class Earlier:
    """Settings that a topic had until some time, before it got those that it has at the end."""

    settings: Topic
    until_ns: int | None = None  # by `clock`; a call that began later met the next ones
    clock: str = "host"


@frozen
class Producer:
    """The settings of a producer that decide what it was promised."""

    acks: str | None = None
    idempotence: bool | None = None
    max_in_flight: int | None = None
    retries: int | None = None
    partitioner: str | None = None
    transaction_timeout_ms: int | None = None


@frozen
class Consumer:
    """The settings of a consumer that decide what it promised to its application."""

    group: str | None = None
    isolation: str | None = None
    auto_commit: bool | None = None
    commit_order: str | None = None
    auto_offset_reset: str | None = None
    session_timeout_ms: int | None = None
    # `classic`, or `consumer`: the one of KIP-848, whose generations are epochs of single members.
    group_protocol: str | None = None
    # Empty: the consumer has no rack, so it reads from leaders only (KIP-392).
    rack: str | None = None
    # Whether requests may come twice, or after their answers, for other reasons than a client that
    # sends again: a simulated network, a proxy.
    late_requests: bool | None = None


@frozen
class ShareGroup:
    """The settings of a share group (KIP-932) that decide who may hold a record, and how often."""

    lock_ms: int | None = None
    delivery_limit: int | None = None
    isolation: str | None = None
    # No setting of Kafka's: how long records may wait, beyond a lock, for members that poll.
    stuck_ms: int | None = None


@frozen
class Group:
    """Facts about a consumer group beyond its recorded members."""

    # `some` where others than recorded processes commit for it: a tool, a member by itself.
    committers: str | None = None


@frozen
class Fault:
    """A fault that was put into the cluster or its clients, and its time, if that is told."""

    what: str
    at_ns: int | None = None
    until_ns: int | None = None  # when it was undone: a broker restarted, a network healed


@frozen
class Meta:
    """One run's configuration."""

    run: str = ""
    source: str = ""
    complete: bool = False
    senders: str | None = None  # `all` or `some`: who of those that send were recorded
    topics: Mapping[str, Topic] = field(factory=dict[str, Topic])
    producers: Mapping[str, Producer] = field(factory=dict[str, Producer])
    consumers: Mapping[str, Consumer] = field(factory=dict[str, Consumer])
    share_groups: Mapping[str, ShareGroup] = field(factory=dict[str, ShareGroup])
    groups: Mapping[str, Group] = field(factory=dict[str, Group])
    committers: str | None = None  # of all groups of which `groups` does not tell
    # `some` where others than recorded producers end transactions: an operator who aborts them.
    transaction_ends: str | None = None
    # Kafka's own topics, in which coordinators keep what they know; no clients read them here.
    internal_topics: Mapping[str, Topic] = field(factory=dict[str, Topic])
    group_retention: int | None = None  # minutes; offsets.retention.minutes of the brokers
    faults: tuple[Fault, ...] = ()
    processes: tuple[str, ...] | None = None

    def producer(self, process: str) -> Producer:
        """The configuration of a process, by its name or by its name up to `#`."""
        return self.producers.get(process) or self.producers.get(stem(process)) or Producer()

    def committers_of(self, group: str) -> str | None:
        """`all` if everybody who commits for a group was recorded, or `some`, as far as told."""
        return self.groups.get(group, Group()).committers or self.committers

    def consumer(self, process: str) -> Consumer:
        """The configuration of a process, by its name or by its name up to `#`."""
        return self.consumers.get(process) or self.consumers.get(stem(process)) or Consumer()


def stem(process: str) -> str:
    """The client that a process is one incarnation of."""
    return process.partition("#")[0]


_TOPIC = {
    "partitions": int,
    "min_insync_replicas": int,
    "cleanup_policy": str,
    "unclean_leader_election": bool,
    "flush_loses": bool,
    "eligible_leader_replicas": bool,
    "replication_factor": int,
    "message_timestamp_type": str,
    "min_compaction_lag_ms": int,
    "delete_retention_ms": int,
    "senders": str,
}
_EARLIER = {"until_ns": int, "clock": str}
_PRODUCER = {
    "acks": str,
    "idempotence": bool,
    "max_in_flight": int,
    "retries": int,
    "partitioner": str,
    "transaction_timeout_ms": int,
}
_CONSUMER = {
    "group": str,
    "isolation": str,
    "auto_commit": bool,
    "commit_order": str,
    "auto_offset_reset": str,
    "session_timeout_ms": int,
    "group_protocol": str,
    "rack": str,
    "late_requests": bool,
}
_WHO = ("all", "some")
_ISOLATION = ("read_committed", "read_uncommitted")
# A setting that is misspelt would be taken for one that permits nothing, or everything.
_CHOICES: Mapping[str, tuple[str, ...]] = {
    "acks": ("0", "1", "all", "-1"),
    "isolation": _ISOLATION,
    "committers": _WHO,
    "transaction_ends": _WHO,
    "message_timestamp_type": ("CreateTime", "LogAppendTime"),
    "commit_order": (
        *("process_then_commit", "commit_then_process", "transaction", "auto", "none"),
    ),
    "senders": ("all", "some"),
}
# These Kafka takes in any case. A policy may go on: by_duration:PT1H.
_ANY_CASE: Mapping[str, tuple[str, ...]] = {
    "auto_offset_reset": ("earliest", "latest", "none", "error", "by_duration"),
    "group_protocol": ("classic", "consumer", "streams"),
}
# Several, between commas, or none: then nothing is deleted.
_LISTS = {"cleanup_policy": ("delete", "compact")}
_AT_LEAST = {
    **{"partitions": 1, "replication_factor": 1, "min_insync_replicas": 1, "max_in_flight": 1},
    **{"group_retention": 1, "stuck_ms": 1},
}
# More than any topic has, and few enough to be counted one by one.
MOST_PARTITIONS = 1_000_000
_AT_MOST = {"partitions": MOST_PARTITIONS}
_SHARE_GROUP = {"lock_ms": int, "delivery_limit": int, "isolation": str, "stuck_ms": int}
_WORDS = {
    int: "a whole number",
    str: "a string",
    bool: "true or false",
    dict: "an object",
    list: "a list",
}


def read_meta(folder: Path) -> Meta:
    """Read and check a run's `meta.json`."""
    file, problems = "meta.json", Problems()
    try:
        found: Any = orjson.loads((folder / file).read_bytes())
    except orjson.JSONDecodeError as error:
        problems.add(file, error.lineno, "", f"expected JSON: {error.msg}")
        problems.raise_any()
        raise
    if type(found) is not dict:
        problems.add(file, None, "", "expected an object")
        problems.raise_any()
    whole = _Object(cast("dict[str, Any]", found), "", file, problems)
    if whole.get("format", int) != 1:
        problems.add(file, None, "format", f"expected 1, found {shown(whole.values.get('format'))}")
    meta = Meta(
        run=whole.get("run", str) or "",
        source=whole.get("source", str) or "",
        complete=whole.get("complete", bool) is True,
        senders=whole.get("senders", str),
        topics={n: _topic(o) for n, o in whole.objects("topics")},
        producers={n: Producer(**o.some(_PRODUCER)) for n, o in whole.objects("producers")},
        consumers={n: Consumer(**o.some(_CONSUMER)) for n, o in whole.objects("consumers")},
        share_groups={
            n: ShareGroup(**o.some(_SHARE_GROUP)) for n, o in whole.objects("share_groups")
        },
        groups={n: Group(**o.some({"committers": str})) for n, o in whole.objects("groups")},
        committers=whole.get("committers", str),
        transaction_ends=whole.get("transaction_ends", str),
        internal_topics={n: Topic(**o.some(_TOPIC)) for n, o in whole.objects("internal_topics")},
        group_retention=whole.get("group_retention", int),
        faults=tuple(_fault(fault) for fault in cast("list[Any]", whole.get("faults", list) or [])),
        processes=_names(whole),
    )
    problems.raise_any()
    return meta


def _topic(found: "_Object") -> Topic:
    earlier = tuple(
        Earlier(Topic(**one.some(_TOPIC)), **_reported(one.some(_EARLIER)))
        for one in found.listed("earlier")
    )
    return Topic(**found.some(_TOPIC), earlier=earlier)


def _reported(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _fault(fault: Any) -> Fault:
    """No verdict depends on faults, so whatever was noted as one is taken as it is."""
    if type(fault) is not dict:
        return Fault(str(fault))
    fields = cast("dict[str, Any]", fault)
    at_ns, until_ns = (fields.get(name) for name in ("at_ns", "until_ns"))
    at_ns = at_ns if type(at_ns) is int else None
    lasted = at_ns is not None and type(until_ns) is int and until_ns >= at_ns
    return Fault(str(fields.get("what", "")), at_ns, until_ns if lasted else None)


def _names(whole: "_Object") -> tuple[str, ...] | None:
    names = whole.get("processes", list)
    return None if names is None else tuple(str(name) for name in names)


def _misspelt(name: str, value: str | int) -> str:
    """The expected values of a setting, if it cannot have this one."""
    if type(value) is int and value < (least := _AT_LEAST.get(name, 0)):
        return f"expected at least {least}"
    if type(value) is int and value > (most := _AT_MOST.get(name, value)):
        return f"expected at most {most}"
    if name in _CHOICES and value not in _CHOICES[name]:
        return f"expected one of {', '.join(_CHOICES[name])}"
    if name in _ANY_CASE and str(value).partition(":")[0].lower() not in _ANY_CASE[name]:
        return f"expected one of {', '.join(_ANY_CASE[name])}"
    words = _LISTS.get(name)
    if words and value and not all(word.strip() in words for word in str(value).split(",")):
        return f"expected one or more of {', '.join(words)}"
    return ""


@frozen
class _Object:
    """An object of meta.json that knows where it stands, for the message."""

    values: dict[str, Any]
    path: str
    file: str
    problems: Problems

    def get(self, name: str, kind: type) -> Any:
        value = self.values.get(name)
        if name == "acks" and type(value) is int:
            value = str(value)
        if value is not None and type(value) is not kind:
            self.problems.add(
                self.file, None, self.path + name, f"expected {_WORDS[kind]}, found {shown(value)}"
            )
            return None
        if value is not None and (wrong := _misspelt(name, value)):
            self.problems.add(self.file, None, self.path + name, f"{wrong}, found {shown(value)}")
            return None
        return value

    def some(self, kinds: Mapping[str, type]) -> dict[str, Any]:
        return {name: self.get(name, kind) for name, kind in kinds.items()}

    def listed(self, name: str) -> "Iterator[_Object]":
        """The objects of a list."""
        for n, one in enumerate(cast("list[Any]", self.get(name, list) or [])):
            path = f"{self.path}{name}[{n}]"
            if type(one) is dict:
                yield _Object(cast("dict[str, Any]", one), f"{path}.", self.file, self.problems)
            else:
                self.problems.add(self.file, None, path, f"expected an object, found {shown(one)}")

    def objects(self, name: str) -> "list[tuple[str, _Object]]":
        inner = cast("dict[str, Any]", self.get(name, dict) or {})
        below = _Object(inner, f"{self.path}{name}.", self.file, self.problems)
        return [
            (
                key,
                _Object(
                    below.get(key, dict) or {}, f"{below.path}{key}.", self.file, self.problems
                ),
            )
            for key in inner
        ]
