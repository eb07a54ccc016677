"""Compares a live coordinator with one that loads the same log now.

A coordinator's state is a replay of its log. After a failover another broker loads that log, so at
any moment both must agree: on groups, offsets, transactional ids and share partitions, on what is
committed, and on the timers that let members, offsets and transactions expire. State that is not
written may differ: a classic group that rebalances, and requests that wait.
"""

from collections import Counter
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from typing import Any

from attrs import define, evolve, field

from chaos.oracles.violation import Violation
from chaos.sim.hosts import BrokerHost
from chaos.sim.simulation import Simulation
from refimpl.broker.coordinators import Coordinators, PartitionCoordinatorLog
from refimpl.coordinator.observations import CoordinatorOperation
from refimpl.coordinator.operation import SetTimer, TimerKey, TransactionalWrite
from refimpl.coordinator.runtime import APPEND, LOAD, Coordinator, CoordinatorState
from refimpl.groups.classic import SESSION as CLASSIC_SESSION
from refimpl.groups.classic_records import record_of
from refimpl.groups.consumer import SESSION_TIMEOUT
from refimpl.groups.migration import REBALANCE
from refimpl.groups.migration import SESSION as CONSUMER_SESSION
from refimpl.groups.shard import EXPIRE, GroupShard
from refimpl.groups.share import SESSION as SHARE_SESSION
from refimpl.groups.store import GroupStore
from refimpl.machines.classic_group import ClassicGroup
from refimpl.machines.consumer_group import UNREVOKED, ConsumerGroup, ConsumerMember
from refimpl.machines.share_group import ShareGroup
from refimpl.machines.transaction_coordinator import TransactionMetadata
from refimpl.records.coordinators import CoordinatorRecord, GroupMetadataValue
from refimpl.shares.shard import COLD, PRUNE, ShareShard
from refimpl.transactions.shard import EXPIRE as EXPIRE_IDS
from refimpl.transactions.shard import TIME_OUT, TransactionShard

MOMENTS = frozenset((1, 16))
"""Of the operations of one kind, those after which a coordinator is compared."""
SHARE = 2
"""Each seed compares after one of so many kinds of operations, and the next seed after others."""
SETTLED = ("Empty", "Stable")
"""The states of a classic group that are written as they are."""
OWN = LOAD, APPEND
"""The timers of the runtime: what they are about is not in the log."""

AT_ONCE = 1 << 20
"""The bytes that one step of loading reads here."""
SHARE_SESSION_TIMEOUT = "share_session_timeout_ms"
LONGEST = 3
"""A session may become so many times as short as it was."""

Timers = Mapping[TimerKey, int]


@define(eq=False)
class ReadOnlyLog(PartitionCoordinatorLog):
    """The log of a live coordinator, for one that only loads it."""

    written: list[CoordinatorRecord] = field(factory=list[CoordinatorRecord], init=False)

    def append(
        self,
        now: int,
        records: Sequence[CoordinatorRecord],
        transaction: TransactionalWrite | None = None,
    ) -> int:
        """Note what a load would write, and leave the log as it is."""
        self.written += records
        return self.end - 1


def load(coordinator: Coordinator[Any], now: int) -> Timers:
    """Load a coordinator's log to its end; return the timers that it then has."""
    timers: dict[TimerKey, int] = {}
    position = -1
    while coordinator.state is CoordinatorState.LOADING and coordinator.position != position:
        position = coordinator.position
        for output in coordinator.load(now):
            if isinstance(output, SetTimer) and output.key not in OWN:
                timers.pop(output.key, None)
                if output.at_ms is not None:
                    timers[output.key] = output.at_ms
    return timers


def differences(
    now: int,
    live: Coordinator[Any],
    timers: Timers,
    loaded: Coordinator[Any],
    fresh: Timers,
    longest: int = 1,
) -> Iterator[str]:
    """The differences between a live coordinator and one that has loaded the same log, in words."""
    if loaded.failure is not None:
        yield f"the log cannot be loaded: {loaded.failure}"
        return
    mine, other = live.shard, loaded.shard
    if isinstance(mine, GroupShard):
        yield from _of_groups(mine.store, other.store)
        durations, moving = _durations(mine), _moving(mine.store)
        fresh = {key: at_ms for key, at_ms in fresh.items() if key.key not in moving}
    elif isinstance(mine, ShareShard):
        yield from _of_maps("share partition", mine.states.current, other.states.current)
        yield from _of_maps("committed share partition", *map(_stored, (mine, other)))
        config = mine.config
        durations = {PRUNE: config.prune_interval_ms, COLD: config.cold_interval_ms}
    else:
        yield from _of_ids(mine, other)
        durations = {
            TIME_OUT: mine.config.transaction_abort_timed_out_transaction_cleanup_interval_ms,
            EXPIRE_IDS: mine.config.transaction_remove_expired_transaction_cleanup_interval_ms,
        }
    yield from _of_timers(now, timers, fresh, durations, longest)


def _of_maps(what: str, live: Mapping[Any, object], loaded: Mapping[Any, object]) -> Iterator[str]:
    if live == loaded:
        return
    for key in dict.fromkeys((*live, *loaded)):
        mine, other = live.get(key), loaded.get(key)
        if mine != other:
            yield f"{what} {key}: live {mine}, loaded {other}"


# Groups


def _of_groups(live: GroupStore, loaded: GroupStore) -> Iterator[str]:
    groups, moving = live.groups.current, _moving(live)
    yield from _of_maps("group", _written(groups, moving), _written(loaded.groups.current, moving))
    kinds = ConsumerGroup, ShareGroup
    consumer = [one for one, group in groups.items() if isinstance(group, kinds)]
    yield from _of_maps(
        "committed group",
        {one: live.groups.committed(one) for one in consumer},
        {one: loaded.groups.committed(one) for one in consumer},
    )
    yield from _of_maps("offset", live.offsets.current, loaded.offsets.current)
    yield from _of_maps("committed offset", _committed(live), _committed(loaded))
    yield from _of_maps("pending offset", _pending(live), _pending(loaded))
    yield from _of_maps("expiry", _unused_since(live, moving), _unused_since(loaded, moving))


def _moving(store: GroupStore) -> frozenset[str]:
    """The classic groups that rebalance: their state is not in the log."""
    return frozenset(
        group_id
        for group_id, group in store.groups.current.items()
        if isinstance(group, ClassicGroup) and group.state not in SETTLED
    )


def _written(groups: Mapping[str, Any], moving: Collection[str]) -> Mapping[str, Any]:
    """Each group as far as it is written; of one that rebalances, that it exists."""
    found: dict[str, Any] = {}
    for group_id, group in groups.items():
        if group_id in moving:
            found[group_id] = ClassicGroup
        elif isinstance(group, ClassicGroup):
            value: GroupMetadataValue = record_of(group_id, group).value
            members = {one.member_id: one for one in value.members}
            found[group_id] = evolve(value, members=()), members, group.state
        else:
            found[group_id] = group
    return found


def _committed(store: GroupStore) -> Mapping[Any, Any]:
    offsets = store.offsets
    return {key: offsets.committed(key) for key in offsets.committed_keys()}


def _pending(store: GroupStore) -> Mapping[Any, Any]:
    return {key: (one.value, one.superseded) for key, one in store.pending.current.items()}


def _unused_since(store: GroupStore, moving: Collection[str]) -> Mapping[Any, Any]:
    """For each offset, the time from which it counts as unused, by the group's own rule."""
    found: dict[Any, Any] = {}
    for group_id in store.group_ids():
        group = store.groups.get(group_id)
        if group_id in moving:
            continue
        for name, value in store.offsets_of(group_id):
            since: int | None = value.commit_timestamp
            if group is not None:
                logic = store.logic_of(group)
                since = logic.offsets_expire_from(group, name.topic, value.commit_timestamp)
            found[group_id, name] = since, value.expire_timestamp
        for name in store.unstable_of(group_id):
            found[group_id, name, "pending"] = True
    return found


# Transactional ids. Records of transaction.version 0 have no tagged fields: a coordinator that
# loads them knows neither the next identity of a producer nor the last one, as in Kafka.


def _of_ids(live: TransactionShard, loaded: TransactionShard) -> Iterator[str]:
    current: Mapping[str, TransactionMetadata] = live.store.ids.current
    if live.level() == 0:
        current = {id: evolve(one, next=one.at, last=None) for id, one in current.items()}
    yield from _of_maps("id", current, loaded.store.ids.current)
    for transactional_id, partitions in live.store.owed.items():
        missing = partitions - loaded.store.owed.get(transactional_id, set())
        if missing:
            yield f"id {transactional_id}: markers for {sorted(missing)} are not owed when loaded"


# Share partitions


def _stored(shard: ShareShard) -> Mapping[Any, Any]:
    return {key: shard.states.committed(key) for key in shard.states.committed_keys()}


# Timers


def _durations(shard: GroupShard) -> Mapping[TimerKey, int]:
    """The timers that a loaded coordinator must have, each with its duration in ms.

    They are read from the live groups: a session for each member, whatever its epoch, and a
    rebalance timeout for each that has partitions to give up.
    """
    found = {EXPIRE: shard.config.offsets_retention_check_interval_ms}
    for group_id, group in shard.store.groups.current.items():
        if isinstance(group, ClassicGroup):
            for member in group.members.values() if group.state == "Stable" else ():
                found[TimerKey(CLASSIC_SESSION, group_id, member.id)] = member.session_ms
        elif isinstance(group, ConsumerGroup):
            own = shard.config.own(group_id, SESSION_TIMEOUT)
            for member in group.members.values():
                found |= _of_member(group_id, member, own)
        elif isinstance(group, ShareGroup):
            own = shard.config.own(group_id, SHARE_SESSION_TIMEOUT)
            found |= {TimerKey(SHARE_SESSION, group_id, one): own for one in group.members}
    return found


def _of_member(group_id: str, member: ConsumerMember, session_ms: int) -> Mapping[TimerKey, int]:
    classic = member.said.classic_member_metadata
    if classic is not None:
        session_ms = classic.session_timeout_ms
    found = {TimerKey(CONSUMER_SESSION, group_id, member.member_id): session_ms}
    if classic is None and member.state == UNREVOKED:
        patience_ms = member.said.rebalance_timeout_ms
        found[TimerKey(REBALANCE, group_id, member.member_id)] = patience_ms
    return found


def _of_timers(
    now: int, live: Timers, loaded: Timers, durations: Mapping[TimerKey, int], longest: int
) -> Iterator[str]:
    """Each timer begins afresh when loaded; the live one is due earlier, and never later.

    Where sessions may become shorter, one that has begun may be `longest` times as long.
    """
    for key, duration_ms in durations.items():
        due = live.get(key)
        if loaded.get(key) != now + duration_ms:
            yield f"{key}: loaded {loaded.get(key)}, not {now + duration_ms}"
        if due is None or due > now + longest * duration_ms:
            yield f"{key}: live {due}, not until {now + longest * duration_ms}"
    for key in loaded.keys() - durations.keys():
        if key not in live:
            yield f"{key}: loaded {loaded[key]}, and not live"


# In a run


@define(eq=False)
class LoadedOracle:
    """LoadedIsLive: after some operations, the coordinator is compared with one that loads now."""

    simulation: Simulation
    brokers: Sequence[BrokerHost]
    counts: Counter[str]
    #: Of each kind of operations, its number in their order, and how often it was seen
    seen: dict[Hashable, list[int]] = field(factory=dict[Hashable, list[int]])

    def attach(self) -> None:
        """Watch the coordinators' operations."""
        self.simulation.watch(CoordinatorOperation, self._performed)

    def _performed(self, who: int, seen: CoordinatorOperation) -> None:
        of_kind = self.seen.setdefault(_kind(seen), [len(self.seen), 0])
        of_kind[1] += 1
        number, times = of_kind
        mine = (number + self.simulation.settings.seed) % SHARE == 0
        if mine and times in MOMENTS:
            self.compare(who, seen.partition.topic, seen.partition.partition)

    def compare(self, who: int, topic: str, number: int) -> None:
        """Load the log of a partition beside its live coordinator."""
        longest = LONGEST if self.simulation.settings.reconfigures else 1
        node, now = self.brokers[who - 1].node, self.brokers[who - 1].clock.now_ms()
        both: tuple[Coordinators[Any], ...] = (
            node.groups.coordinators,
            node.transactions.coordinators,
            node.share_coordinators.coordinators,
        )
        for coordinators in both:
            live = coordinators.by_partition.get(number)
            if (
                coordinators.topic != topic
                or live is None
                or live.state is not CoordinatorState.ACTIVE
            ):
                continue
            loaded = coordinators.new(number, _read_only(live.log))
            loaded.load_buffer_size = AT_ONCE  # failovers load step by step, and this is cheaper
            if isinstance(loaded.shard, TransactionShard):
                loaded.shard.on_decided = _sends_no_markers
            fresh = load(loaded, now)
            if loaded.state is CoordinatorState.LOADING:
                continue  # it waits for commits
            self.counts["coordinators loaded beside live ones"] += 1
            timers = coordinators.timers_of(number)
            for what in differences(now, live, timers, loaded, fresh, longest):
                raise Violation("LoadedIsLive", f"{topic}:{number} at broker {who}: {what}")


def _read_only(log: Any) -> ReadOnlyLog:
    return ReadOnlyLog(log.context, log.partition, log.owner)


def _sends_no_markers(transactional_id: str) -> None:
    """The live coordinator sends them."""


def _kind(seen: CoordinatorOperation) -> Hashable:
    """The kind of an operation: what it was about, and what it made of the group."""
    done = seen.performed
    about, after = done.about, done.after
    kind = about.kind if isinstance(about, TimerKey) else about.__class__
    epoch = min(getattr(about, "member_epoch", 0), 1)
    return kind, epoch, done.error, getattr(after, "state", None)
