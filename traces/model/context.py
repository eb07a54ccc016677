"""The configuration of a run as the kernels see it: settings by the numbers in the rows.

`Clause` is the reason why a finding is no violation. It is decided row by row inside the kernels,
because one run may hold producers that were promised different things.
"""

from collections.abc import Iterable, Mapping
from enum import IntEnum
from functools import partial
from typing import Any

import numpy as np
from attrs import evolve, fields, frozen
from numpy.typing import NDArray

from traces.model.lacking import (
    FILES,
    LOG_STARTS,
    NOTHING,
    PARTITION,
    READERS,
    SCANNED,
    SENDERS,
    Lacking,
    Needs,
)
from traces.model.lives import GroupLives
from traces.model.meta import Meta, Topic
from traces.model.names import Names
from traces.model.partitioners import number as partitioner_number
from traces.model.sizes import Sizes

Ints = NDArray[np.int64]
NEVER = int(np.iinfo(np.int64).max)
UNSET = -1  # a setting that meta.json does not hold
OFFSETS_TOPIC = "__consumer_offsets"
MINUTE = 60_000_000_000


class Clause(IntEnum):
    """Which line of the configuration permits what was found; NOT means that none does."""

    NOT = 0
    UNKNOWN = 1
    ACKS = 2
    UNCLEAN = 3
    MIN_ISR = 4
    IDEMPOTENCE = 5
    IN_FLIGHT = 6
    RESENT = 7
    COMMIT_ORDER = 8
    ISOLATION = 9
    FLUSH = 10
    PROGRESS = 12  # what only comes too late is no breach of safety, and never called violated
    SESSION = 13  # nor is what idempotence does not promise
    SILENCE = 14  # a member that its group may have given up
    UNACKNOWLEDGED = 15  # a share group's delivery that may be forgotten
    OFFSETS = 16  # what a group's coordinator knew may be lost with its log
    CLOCK = 20  # a leader's clock, by which it stamps
    OTHERS = 21  # somebody who was not recorded commits for the group, too


# What these permit is told, and never called a violation, however strictly.
INFORMATION = (Clause.PROGRESS, Clause.SESSION, Clause.CLOCK)
# What is found is no breach and is not permitted: it may be either.
UNDECIDED = (Clause.UNKNOWN, Clause.OTHERS)


class Order(IntEnum):
    """When a group commits, relative to processing."""

    UNKNOWN = -1
    NONE = 0
    PROCESS_THEN_COMMIT = 1
    COMMIT_THEN_PROCESS = 2
    AUTO = 3
    TRANSACTION = 4  # offsets go with the outputs of a transaction


class Senders(IntEnum):
    """Who may have sent to a topic besides the processes that were recorded."""

    ANYBODY = 0  # others, who may have sent a record that was recorded, too
    STRANGERS = 1  # others, who sent records of their own
    ALL = 2  # nobody


SUBJECT_BITS = 32


def clause(code: int, subject: Ints | np.int64 | int) -> Ints:
    """A clause and the number of the process, topic or group that it is about, in one integer."""
    return np.asarray((np.int64(code) << SUBJECT_BITS) | np.maximum(subject, 0))


def code(clauses: Ints) -> Ints:
    """The clause without its subject."""
    return clauses >> SUBJECT_BITS


@frozen(eq=False)
class Setting:
    """One setting of every process, topic or group: `setting[numbers]` is that of each of them."""

    numbers: Ints  # sorted
    values: Ints  # one more: of all others

    def __getitem__(self, numbers: Ints | np.int64 | int) -> Ints:
        at = np.searchsorted(self.numbers, numbers)
        found = self.numbers.take(at, mode="clip") == numbers if len(self.numbers) else False
        return self.values[np.where(found, at, len(self.numbers))]


def setting(numbers: Iterable[int], values: Iterable[Any], other: int = UNSET) -> Setting:
    """The settings of these numbers, which ascend; one that is None is not set."""
    filled = [UNSET if value is None else int(value) for value in values]
    return Setting(np.fromiter(numbers, np.int64), np.array([*filled, other], dtype=np.int64))


def same(value: int) -> Setting:
    """A setting that is the same for all."""
    return setting((), (), value)


@frozen
class Context:
    """What the kernels know of a run besides its rows; small, and sent to every worker."""

    jepsen: bool
    complete: bool
    positions_known: bool
    lacking: Lacking  # what is not told of some partitions, groups or producers
    senders_known: bool  # every attempt to send a record is told
    readers_known: bool  # every record that anybody was given is told
    consumers_whole: bool  # no consumer's file is missing or cut off
    readers_whole: bool  # both: nobody may have been given more
    starts_known: bool  # every log start that brokers reported is told, nor may there be more
    senders: Setting  # by topic: who besides the recorded processes may send to it
    weak_acks: Setting
    idempotent: Setting
    in_flight: Setting
    retries: Setting
    unclean: Setting
    min_isr: Setting
    loss_until: Setting  # by topic: when it last had settings that permit another loss than these
    loss_clock: Setting  # by topic: the clock of that time
    compacted: Setting
    deletes: Setting
    partitioner: Setting
    racked: Setting
    append_time: Setting
    compaction_lag: Setting
    delete_retention: Setting
    unflushed: Setting
    order: Setting
    reset_latest: Setting
    classic: Setting  # by group: 0 for the protocol of KIP-848
    processes: Setting
    committed_only: Setting
    session_timeout: Setting
    txn_timeout: Setting
    partitions: Setting
    ended: Setting
    lock: Setting
    delivery_limit: Setting
    share_committed_only: Setting
    late_requests: Setting  # whether a request may come again, or late, without its client's doing
    ends_known: bool  # nobody ends a transaction but its producer
    others: Setting  # by group: 1 where not all who commit for it were recorded
    group_log: int  # the clause by which coordinators may lose what they knew of groups
    group_retention_ns: int = UNSET  # after so long a group without members has expired
    lives: GroupLives | None = None  # when groups had members; without it, all the time
    sizes: Sizes | None = None  # how many partitions producers knew of; without it, all


def context_at(context: Context, needs: Needs) -> Context:
    """The context of partitions that lack these needs beside what all lack."""
    needs |= context.lacking.everywhere.get(PARTITION, NOTHING)
    readers, whole = needs.isdisjoint(READERS), needs.isdisjoint(FILES)
    return evolve(
        context,
        complete=needs.isdisjoint(SCANNED),
        senders_known=needs.isdisjoint(SENDERS),
        readers_known=readers,
        consumers_whole=whole,
        readers_whole=readers and whole,
        starts_known=needs.isdisjoint((*LOG_STARTS, *FILES)),
    )


def context(
    meta: Meta,
    names: Names,
    processing: Iterable[int],
    ended: Mapping[int, int] | None = None,
    senders_known: bool = False,
    readers_known: bool = False,
    consumers_whole: bool = False,
    starts_known: bool = False,
    scanned: bool = True,
    lives: GroupLives | None = None,
    sizes: Sizes | None = None,
    senders: Mapping[int, Senders] | None = None,
    lacking: Lacking | None = None,
) -> Context:
    """Lay the configuration out by number.

    `processing` groups tell what they processed; `ended` tells when processes closed or crashed.
    `senders_known` says that no producer's file, and no id in it, is missing, `readers_known` the
    same of those who read, `consumers_whole` that no file of theirs is missing or cut off,
    `starts_known` that whoever polls tells log starts, to the end, and `scanned` that the final
    scan that `complete` promises is there. `lives` tells when groups had members, `sizes` how
    many partitions producers knew of, and `senders` whether others than recorded processes may
    have sent to a topic; where it does not, nobody has.
    """
    recorded = set(processing)
    producers = [meta.producer(name) for name in names.processes.names]
    topics = [meta.topics.get(name) for name in names.topics.names]
    steady = [topic and _steady(topic) for topic in topics]
    changes = [_loss_changed(topic, names) for topic in topics]
    groups = [_group_settings(meta, name) for name in names.groups.names]
    consumers = [meta.consumer(name) for name in names.processes.names]
    share_groups = [meta.share_groups.get(name) for name in names.groups.names]
    ends = sorted((ended or {}).items())
    by_process, by_topic, by_group = (
        partial(setting, dictionary.numbers)
        for dictionary in (names.processes, names.topics, names.groups)
    )
    acks = {"all": 0, "-1": 0, "0": 1, "1": 1}
    return Context(
        jepsen=False,
        complete=meta.complete and scanned,
        positions_known=True,
        lacking=lacking or Lacking(),
        senders_known=senders_known,
        readers_known=readers_known,
        consumers_whole=consumers_whole,
        readers_whole=readers_known and consumers_whole,
        starts_known=starts_known,
        senders=_by_number(senders or {}, Senders.ALL),
        weak_acks=by_process([None if p.acks is None else acks.get(p.acks) for p in producers]),
        idempotent=by_process([p.idempotence for p in producers]),
        in_flight=by_process([p.max_in_flight for p in producers]),
        retries=by_process([p.retries for p in producers]),
        unclean=by_topic([t and t.unclean_leader_election for t in topics]),
        min_isr=by_topic([t and t.min_insync_replicas for t in topics]),
        loss_until=by_topic([until for until, _ in changes]),
        loss_clock=by_topic([clock for _, clock in changes]),
        compacted=by_topic([t and _compacted(t.cleanup_policy) for t in steady]),
        partitioner=by_process([partitioner_number(p.partitioner) for p in producers]),
        racked=by_process([_racked(meta.consumer(name).rack) for name in names.processes.names]),
        deletes=by_topic([t and _deletes(t.cleanup_policy) for t in steady]),
        append_time=by_topic([t and _append_time(t.message_timestamp_type) for t in steady]),
        compaction_lag=by_topic([t and t.min_compaction_lag_ms for t in steady]),
        delete_retention=by_topic([t and t.delete_retention_ms for t in steady]),
        unflushed=by_topic([t is not None and _last_may_lose(t) for t in topics]),
        order=by_group([order for order, _, _ in groups]),
        reset_latest=by_group([latest for _, latest, _ in groups]),
        classic=by_group([classic for _, _, classic in groups]),
        processes=by_group([number in recorded for number in names.groups.numbers]),
        committed_only=by_process([_committed_only(c.isolation) for c in consumers]),
        session_timeout=by_process([c.session_timeout_ms for c in consumers]),
        txn_timeout=by_process([p.transaction_timeout_ms for p in producers]),
        partitions=by_topic([t and t.partitions for t in topics]),
        ended=setting([process for process, _ in ends], [when for _, when in ends]),
        lock=by_group([g and g.lock_ms for g in share_groups]),
        delivery_limit=by_group([g and g.delivery_limit for g in share_groups]),
        share_committed_only=by_group([g and _committed_only(g.isolation) for g in share_groups]),
        late_requests=by_process([c.late_requests for c in consumers]),
        ends_known=meta.transaction_ends != "some",
        others=by_group([meta.committers_of(name) == "some" for name in names.groups.names]),
        group_log=_group_log(meta.internal_topics.get(OFFSETS_TOPIC, Topic())),
        group_retention_ns=UNSET if meta.group_retention is None else meta.group_retention * MINUTE,
        lives=lives,
        sizes=sizes,
    )


def history_context(*, subscribed: bool, compacted: bool) -> Context:
    """What every Jepsen history assumes: acks=all, clean elections, and no excuse for anything.

    A class counts whatever the settings of the clients are, so they are those that excuse nothing.
    When consumers get their partitions by subscription, their positions are not known.
    """
    return Context(
        jepsen=True,
        complete=True,
        positions_known=not subscribed,
        lacking=Lacking(),
        senders_known=True,
        readers_known=True,
        consumers_whole=True,
        readers_whole=True,
        starts_known=True,
        senders=same(Senders.ALL),
        weak_acks=same(0),
        idempotent=same(1),
        in_flight=same(1),
        retries=same(0),
        unclean=same(0),
        min_isr=same(2),
        loss_until=same(UNSET),
        loss_clock=same(UNSET),
        compacted=same(int(compacted)),
        partitioner=same(UNSET),
        racked=same(UNSET),
        deletes=same(int(not compacted)),
        append_time=same(UNSET),
        compaction_lag=same(UNSET),
        delete_retention=same(UNSET),
        unflushed=same(0),
        order=same(int(Order.UNKNOWN)),
        reset_latest=same(UNSET),
        classic=same(1),
        processes=same(0),
        committed_only=same(UNSET),
        session_timeout=same(UNSET),
        txn_timeout=same(UNSET),
        partitions=same(UNSET),
        ended=same(UNSET),
        lock=same(UNSET),
        delivery_limit=same(UNSET),
        share_committed_only=same(UNSET),
        late_requests=same(0),
        ends_known=True,
        others=same(0),
        group_log=int(Clause.NOT),
    )


def _by_number(values: Mapping[int, int], other: int) -> Setting:
    known = sorted(values.items())
    return setting([number for number, _ in known], [value for _, value in known], other)


def _group_log(topic: Topic) -> int:
    """Whether the topic in which coordinators keep groups may lose what was written there.

    One replica in sync is Kafka's default there, and loses nothing unless its disk does.
    """
    if len({loss_clause(one) for one in (topic, *_before(topic))}) > 1:
        return int(Clause.UNKNOWN)
    alone = bool(topic.flush_loses) and topic.min_insync_replicas == 1
    if topic.unclean_leader_election or alone or _last_may_lose(topic):
        return int(Clause.OFFSETS)
    return int(Clause.UNKNOWN if topic.unclean_leader_election is None else Clause.NOT)


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
    """Whether the last replica in sync may come back without what it had not flushed, and lead."""
    return bool(topic.flush_loses) and not topic.eligible_leader_replicas


def _committed_only(isolation: str | None) -> bool | None:
    return None if isolation is None else isolation == "read_committed"


def _compacted(policy: str | None) -> bool | None:
    return None if policy is None else "compact" in policy


def _deletes(policy: str | None) -> bool | None:
    return None if policy is None else "delete" in policy


def _racked(rack: str | None) -> bool | None:
    return None if rack is None else rack != ""


def _append_time(kind: str | None) -> bool | None:
    return None if kind is None else kind == "LogAppendTime"


_PROTOCOLS = {"classic": True, "consumer": False}
# By a duration (KIP-1106) a group begins anywhere, and without a policy where it is sought.
_FROM_END = {"earliest": False, "latest": True}


def _group_settings(meta: Meta, group: str) -> tuple[int, bool | None, bool | None]:
    """How a group commits, where it starts, and whether its protocol is the classic one.

    What its configured members do not agree on is not known.
    """
    members = [c for c in meta.consumers.values() if c.group == group]
    orders = {_order(c.commit_order, c.auto_commit) for c in members}
    resets = {_FROM_END.get((c.auto_offset_reset or "").lower()) for c in members}
    order = orders.pop() if len(orders) == 1 else Order.UNKNOWN
    reset = resets.pop() if len(resets) == 1 else None
    protocols = {_PROTOCOLS.get((c.group_protocol or "").lower()) for c in members}
    classic = protocols.pop() if len(protocols) == 1 else None
    return order, reset, classic


def _order(commit_order: str | None, auto_commit: bool | None) -> Order:
    if auto_commit:
        return Order.AUTO
    try:
        return Order[(commit_order or "unknown").upper()]
    except KeyError:
        return Order.UNKNOWN
