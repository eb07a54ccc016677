"""The promises of a share group, by what leaders give, members send, and the state log holds.

A record is with one member at a time. One that a member accepted or rejected, and was answered so,
is given to nobody again. Its delivery count grows by one each time, up to the limit. Nothing below
the group's start is without an end, and no record is left when all is well again.

A leader that was replaced and does not know it gives records from its memory. Its members'
acknowledgements are refused, so such deliveries are counted, and not judged.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

from attrs import define, field

from chaos.clients.share_consumer import ShareConsumer
from chaos.oracles.partition import PartitionOracle
from chaos.oracles.share_log import Kept, ShareStateLog
from chaos.oracles.violation import Violation
from chaos.sim.addresses import OFFSETS, SHARE_GROUP, SHARE_STATE, TOPIC_IDS
from chaos.sim.hosts import BrokerHost
from chaos.sim.share_messages import SharesAcknowledged, SharesAnswered, ShareSessionOver
from chaos.sim.simulation import Simulation
from chaos.sim.transactional_records import entry_of
from refimpl.coordinator.observations import LogPruned
from refimpl.coordinator.runtime import CoordinatorState
from refimpl.machines.share_partition import ACCEPT, REJECT, RELEASE, RENEW
from refimpl.messages import observations as o
from refimpl.messages.broker import TopicPartition
from refimpl.messages.share import ShareKey
from refimpl.records.schema import Uuid

FINAL = frozenset((ACCEPT, REJECT))


@define(eq=False)
class Holding:
    """A record that a leader has given to a member."""

    member_id: str
    connection: int
    until_ms: int
    count: int
    #: True once the member has sent an acknowledgement that ends it, or is gone
    given_back: bool = False
    renewed_at: int = -1


@define(eq=False)
class Lending:
    """The records that one leader gave to members since it loaded a partition's state."""

    leader_epoch: int
    holdings: dict[int, Holding] = field(factory=dict[int, Holding])


@define(eq=False)
class Disposed:
    """The end of a partition's records, as far as it is known.

    `answered` has the leader epoch in which an end was stored, and `released` a delivery count.
    """

    answered: dict[int, int] = field(factory=dict[int, int])
    released: dict[int, int] = field(factory=dict[int, int])
    #: By member and offset: the delivery count of what it has acknowledged last
    sent: dict[tuple[str, int], int] = field(factory=dict[tuple[str, int], int])
    #: Records that somebody wanted to accept or reject, or that were given as often as may be
    ended: set[int] = field(factory=set[int])
    lent: set[int] = field(factory=set[int])
    passed: int = 0


@define(eq=False)
class ShareGroupOracle:
    """Judges the share group of a run."""

    simulation: Simulation
    brokers: Sequence[BrokerHost]
    partitions: Mapping[TopicPartition, PartitionOracle]
    topics: Sequence[str]
    members: Sequence[ShareConsumer]
    counts: Counter[str]
    log: ShareStateLog = field(init=False)
    #: A partition's missing progress, in words
    missing_in: Callable[[PartitionOracle], str] = field(init=False)
    lendings: dict[tuple[int, TopicPartition], Lending] = field(
        factory=dict[tuple[int, TopicPartition], Lending]
    )
    records: dict[TopicPartition, Disposed] = field(factory=dict[TopicPartition, Disposed])
    #: The connections that members have ended
    over: set[int] = field(factory=set[int])

    def attach(self) -> None:
        """Judge leaders, members, and the state log."""
        settings = self.simulation.settings
        self.log = ShareStateLog(self.partitions[SHARE_STATE], settings.share_delivery_limit)
        watch = self.simulation.watch
        watch(o.HighWatermarkAdvanced, self._advanced)
        watch(LogPruned, self._pruned)
        watch(o.SharesLoaded, self._loaded)
        watch(o.SharesAcquired, self._acquired)
        watch(SharesAcknowledged, self._acknowledged)
        watch(SharesAnswered, self._answered)
        watch(ShareSessionOver, self._session_over)

    @property
    def excused(self) -> bool:
        """True after a permitted loss: whatever depends on the lost records is not judged."""
        return any(one.era or one.unsettled for one in self.partitions.values())

    def _of(self, name: TopicPartition) -> Disposed:
        return self.records.setdefault(name, Disposed())

    def _kept(self, name: TopicPartition) -> Kept | None:
        return self.log.kept.get(_key(name))

    def _deleted(self, name: TopicPartition) -> int:
        """The offset below which some replica has no records any more."""
        return max(one.log.start for one in self.partitions[name].replicas.values())

    # As it happens

    def _advanced(self, who: int, seen: o.HighWatermarkAdvanced) -> None:
        if seen.partition == SHARE_STATE:
            self.log.keep_up()

    def _loaded(self, who: int, seen: o.SharesLoaded) -> None:
        """A leader begins with the stored state: nobody is left out by its start."""
        self.counts["share partitions loaded"] += 1
        self.lendings[who, seen.partition] = Lending(seen.leader_epoch)
        self._is_committed(seen)
        self._ends_below(seen.partition, seen.start)

    def _is_committed(self, seen: o.SharesLoaded) -> None:
        """A coordinator answers by committed records alone, also by those that it has loaded."""
        name, kept = seen.partition, self._kept(seen.partition)
        if self.excused:
            return
        if kept is None or kept.leader_epoch < seen.leader_epoch:
            what = f"leader epoch {seen.leader_epoch} has read a state, and is not committed"
            raise self._broken("ReadIsCommitted", self._at(name, what))
        first = max(kept.start, self._deleted(name)) if kept.start >= 0 else seen.start
        for offset in range(first, seen.start):
            if not kept.is_final(offset):
                what = f"{offset} is below the start that was read, and its end is not committed"
                raise self._broken("ReadIsCommitted", self._at(name, what))

    def _pruned(self, who: int, seen: LogPruned) -> None:
        if seen.partition == SHARE_STATE:
            self.counts["logs of the share state pruned"] += 1
            self.log.pruned(seen.start)

    def _acquired(self, who: int, seen: o.SharesAcquired) -> None:
        name, lending = seen.partition, self.lendings[who, seen.partition]
        newest = max(one.leader_epoch for (_, of), one in self.lendings.items() if of == name)
        if self.excused:
            return
        if seen.leader_epoch < newest:
            self.counts["records lent by a leader that was replaced"] += 1
        node = self.brokers[who - 1].node
        session = node.share_partitions.sessions.sessions[SHARE_GROUP, seen.member_id]
        log_start = node.partitions[name].log.start
        committed = len(self.partitions[name].log.committed)
        for first, last, count in seen.acquired:
            if first < log_start or last >= committed:
                what = f"{first} to {last} are given, and {log_start} to {committed} are there"
                raise self._broken("CommittedIsLent", self._at(name, what))
            for offset in range(first, last + 1):
                self._lends(node.id, lending, offset, count, session.connection, seen)

    def _now(self, broker: int) -> int:
        """The time by the clock of a broker, which may be wrong: its locks last by that."""
        return self.brokers[broker - 1].clock.now_ms()

    def _lends(
        self,
        leader: int,
        lending: Lending,
        offset: int,
        count: int,
        connection: int,
        seen: o.SharesAcquired,
    ) -> None:
        """A record is given to a member that nobody has, and that nobody has ended."""
        name, before = seen.partition, lending.holdings.get(offset)
        of, now = self._of(name), self._now(leader)
        if before is not None and before.until_ms > now and not before.given_back:
            what = f"{offset} is given to {seen.member_id}, and {before.member_id} has it"
            raise self._broken("OneHolder", self._at(name, what))
        if of.answered.get(offset, seen.leader_epoch + 1) <= seen.leader_epoch:
            what = f"{offset} is given to {seen.member_id}, and its end was answered"
            raise self._broken("EndIsFinal", self._at(name, what))
        limit = self.simulation.settings.share_delivery_limit
        expected = count if before is None else before.count + 1
        stored = self._kept(name)
        fresh = stored is None or stored.leader_epoch <= seen.leader_epoch
        if not 1 <= count <= limit or count != expected:
            what = f"{offset} has delivery count {count}, not {expected}, and the limit is {limit}"
            raise self._broken("CountsDeliveries", self._at(name, what))
        if fresh and count <= of.released.get(offset, 0):
            what = f"{offset} has delivery count {count} after it was released with as many"
            raise self._broken("CountsDeliveries", self._at(name, what))
        holding = Holding(seen.member_id, connection, seen.until_ms, count)
        holding.given_back = connection in self.over
        lending.holdings[offset] = holding
        of.lent.add(offset)
        if count == limit:
            of.ended.add(offset)
            self.counts["records lent for the last time"] += 1

    def _held(self, seen: SharesAcknowledged | SharesAnswered) -> Iterator[tuple[int, Holding]]:
        """The records among these that the member holds from the leader that it asks."""
        lending = self.lendings.get((seen.broker, seen.partition))
        holdings = {} if lending is None else lending.holdings
        for offset in seen.types:
            held = holdings.get(offset)
            if held is not None and held.member_id == seen.member_id:
                yield offset, held

    def _acknowledged(self, who: int, seen: SharesAcknowledged) -> None:
        for offset, held in self._held(seen):
            if seen.types[offset] == RENEW:
                held.renewed_at = self._now(seen.broker)
            else:
                held.given_back = True
                self._of(seen.partition).sent[seen.member_id, offset] = held.count
        self._of(seen.partition).ended.update(x for x, kind in seen.types.items() if kind in FINAL)

    def _answered(self, who: int, seen: SharesAnswered) -> None:
        """An end that a member is told of is stored by then."""
        if seen.error is not None or self.excused:
            return
        name, of = seen.partition, self._of(seen.partition)
        for offset, held in self._held(seen):
            if seen.types[offset] == RENEW and held.renewed_at >= 0:
                lock_ms = self.simulation.settings.share_lock_ms
                held.until_ms = max(held.until_ms, held.renewed_at + lock_ms)
        kept = self._kept(name)
        for offset, kind in seen.types.items():
            if kind in FINAL:
                is_stored = kept is not None and kept.is_final(offset)
                if not is_stored and offset >= self._deleted(name):
                    what = f"the end of {offset} is answered, and not stored"
                    raise self._broken("AnsweredIsStored", self._at(name, what))
                of.answered.setdefault(offset, -1 if kept is None else kept.leader_epoch)
                self.counts["ends of records answered"] += 1
            elif kind == RELEASE and offset >= self._deleted(name):
                count = of.sent.get((seen.member_id, offset), 0)
                of.released[offset] = max(count, of.released.get(offset, 0))

    def _session_over(self, who: int, seen: ShareSessionOver) -> None:
        self.over.add(seen.connection)
        for lending in self.lendings.values():
            for held in lending.holdings.values():
                held.given_back |= held.connection == seen.connection

    def _ends_below(self, name: TopicPartition, start: int) -> None:
        """Every record below the start was ended by somebody, or cannot be given any more."""
        if self.excused:
            return
        of, first = self._of(name), max(self._of(name).passed, self._deleted(name))
        open_ones = {offset for offset in range(first, start) if offset not in of.ended}
        if open_ones and (lost := open_ones - self._hidden(name)):
            what = f"the group begins at {start}, and nobody has ended {min(lost)}"
            raise self._broken("NothingLost", self._at(name, what))
        of.passed = max(of.passed, start)

    def _hidden(self, name: TopicPartition) -> set[int]:
        """The offsets that are not given: markers, and if isolated, records of what was aborted."""
        committed_only = self.simulation.settings.share_isolation == "read_committed"
        pending: dict[int, list[int]] = {}
        hidden: set[int] = set()
        for offset, record in enumerate(self.partitions[name].log.committed):
            value = getattr(record, "value", None)
            if value is None or not hasattr(value, "payload"):
                continue
            entry = entry_of(record)
            if entry.committed is None:
                pending.setdefault(entry.producer_id, []).append(offset)
                continue
            hidden.add(offset)
            ended = pending.pop(entry.producer_id, [])
            if committed_only and not entry.committed:
                hidden.update(ended)
        return hidden

    # After the healing

    def stop(self) -> None:
        """Let members accept all that they are given."""
        for one in self.members:
            one.finishes = True

    def unavailable(self) -> bool:
        """True if a partition that the group depends on has no leader, and may have none."""
        return any(self.partitions[name].unavailable() for name in (OFFSETS, SHARE_STATE))

    def _inputs(self) -> Iterator[tuple[TopicPartition, PartitionOracle]]:
        for name, oracle in self.partitions.items():
            if name.topic in self.topics and not oracle.unavailable():
                yield name, oracle

    def _leader_of(self, name: TopicPartition) -> BrokerHost | None:
        leader = self.partitions[name].state.leader
        return None if leader is None else self.brokers[leader - 1]

    def unfinished(self) -> str:
        """The first thing that does not go on yet, in words."""
        if self.unavailable() or self.excused:
            return ""
        host = self._leader_of(SHARE_STATE)
        of = {} if host is None else host.node.share_coordinators.coordinators.by_partition
        coordinator = of.get(SHARE_STATE.partition)
        if coordinator is None or coordinator.state is not CoordinatorState.ACTIVE:
            return "the share coordinator is not active"
        for name, oracle in self._inputs():
            start, end = self._start(name), oracle.replicas[oracle.state.leader or 1].high_watermark
            if start < end:
                return f"{oracle.name}: the share group stays at {start} of {end}"
        missing = self.missing_in(self.partitions[SHARE_STATE])
        return f"the share group's state: {missing}" if missing else ""

    def _start(self, name: TopicPartition) -> int:
        host = self._leader_of(name)
        shared = None if host is None else host.node.share_partitions.shared.get(_key(name))
        return -1 if shared is None or not shared.share.loaded else shared.share.start

    def progress(self) -> int:
        """A number that grows while the group goes on."""
        return sum(max(self._start(name), 0) for name, _ in self._inputs())

    def finish(self) -> None:
        """Judge the group's starts, and the isolation of what it was given."""
        if self.unavailable() or self.excused:
            self.counts["runs whose share group is excused"] += 1
            return
        for name, oracle in self._inputs():
            self._ends_below(name, self._start(name))
            shown = self._of(name).lent & self._hidden(name)
            if shown:
                what = f"{min(shown)} is given, and is a marker or of an aborted transaction"
                raise Violation("HiddenIsNotLent", f"{oracle.name}: {what}")
            self._describes(name, oracle)

    def _describes(self, name: TopicPartition, oracle: PartitionOracle) -> None:
        """The lag that operators are told is that of a group that is done with everything.

        Records that are not given may count, as nobody writes that they are passed over.
        """
        host, end = self._leader_of(SHARE_STATE), len(oracle.log.committed)
        of = {} if host is None else host.node.share_coordinators.coordinators.by_partition
        stored = of[SHARE_STATE.partition].shard.states.current.get(_key(name))
        if stored is None or stored.state.start < 0:
            return
        first = max(stored.state.start, self._deleted(name))
        passed = len({one for one in self._hidden(name) if one >= first})
        lag = end - first - stored.state.complete
        if lag > passed:
            raise self._broken(
                "LagIsTrue", self._at(name, f"lag {lag} is told, and nothing is left")
            )

    def _at(self, name: TopicPartition, what: str) -> str:
        words = f"{self.partitions[name].name}: share group {SHARE_GROUP}: {what}"
        return words

    def _broken(self, oracle: str, what: str) -> Violation:
        return Violation(oracle, what)


def _key(name: TopicPartition) -> ShareKey:
    return ShareKey(SHARE_GROUP, Uuid(TOPIC_IDS[name.topic]), name.partition)
