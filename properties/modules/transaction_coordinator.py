"""TransactionCoordinator: one transactional id, its coordinator, its producers and its partitions.

The coordinator is the broker's own, on a list as its log. Producers and the leaders of partitions
are the environment: what they do is as simple as the spec has it. A partition's rules are those of
the module ProducerState.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from attrs import define, evolve, field

from properties.conformance.binding import Binding, Bound, Environment, NoSuchChoice, OtherAction
from properties.modules.descriptor import Module
from properties.tla import Rec, Value
from refimpl.coordinator.operation import Answer, Outcome, Output, Token
from refimpl.coordinator.runtime import LOAD, CoordinatorState, Deferred
from refimpl.errors import Refusal
from refimpl.machines.transaction_coordinator import (
    BY_NAME,
    PREPARED,
    ProducerIdentity,
    TransactionMetadata,
)
from refimpl.machines.transaction_coordinator import TransactionState as Txn
from refimpl.machines.transaction_errors import ConcurrentTransactions
from refimpl.messages import transaction_coordination as m
from refimpl.messages.broker import TopicPartition
from refimpl.messages.controller import InitProducerIdResponse
from refimpl.records.coordinators import CoordinatorRecord
from refimpl.transactions.config import TransactionConfig
from refimpl.transactions.log_records import metadata_of, record_of
from refimpl.transactions.shard import TIME_OUT, TransactionCoordinator, TransactionShard
from refimpl.transactions.shard import coordinator_of as coordinator_on
from refimpl.transactions.store import TransactionStore

ID, TOPIC = "t", "t"
NOBODY = NOTHING = 0
NO_IDENTITY = ProducerIdentity(0, 0)
NOTHING_PENDING = ("none", NOBODY)
LONG_MS = 10**9


class InvalidProducerEpoch(Refusal):
    """A partition takes no marker, and no write, of an older epoch."""

    kafka_error = "INVALID_PRODUCER_EPOCH"


class CoordinatorFenced(Refusal):
    """A partition takes no marker of an older coordinator."""

    kafka_error = "TRANSACTION_COORDINATOR_FENCED"


class InvalidTxnState(Refusal):
    """A partition takes no write of a later epoch while a transaction is open."""

    kafka_error = "INVALID_TXN_STATE"


def name(p: int) -> TopicPartition:
    """A partition of the spec."""
    return TopicPartition(TOPIC, p)


@define(eq=False)
class ListedStateLog:
    """A log whose offsets begin at 0."""

    records: list[CoordinatorRecord] = field(factory=list[CoordinatorRecord])
    high_watermark: int = 0

    @property
    def start(self) -> int:
        return 0

    @property
    def end(self) -> int:
        return len(self.records)

    def append(
        self, now: int, records: Sequence[CoordinatorRecord], transaction: object = None
    ) -> int:
        self.records += records
        return len(self.records) - 1

    def read(self, offset: int, size: int) -> tuple[Sequence[tuple[int, CoordinatorRecord]], int]:
        found = self.records[offset : offset + 1]
        return [(offset, one) for one in found], offset + len(found)


@define
class ProducerInstance:
    """An instance of the producer."""

    phase: str = "off"
    identity: ProducerIdentity = NO_IDENTITY
    transaction: int = NOTHING

    @property
    def expected(self) -> tuple[int, int]:
        return (-1, -1) if self.identity == NO_IDENTITY else self.identity

    def must_be(self, *phases: str) -> None:
        if self.phase not in phases:
            raise OtherAction


@define
class DataPartition:
    """A partition: its records, and for each producer id the epochs that it has seen."""

    seen: dict[int, tuple[int, int]]
    ended: dict[int, str]
    records: list[int] = field(factory=list[int])


class TransactionCoordinatorModule(Binding):
    """A coordinator and its log, producers 1..Producers and partitions 1..Partitions."""

    module = "TransactionCoordinator"
    knobs: ClassVar = {
        "StrictMarkers": True,
        "FenceCoordinator": True,
        "Verify": True,
        "LoadCommitted": True,
        "CheckExpected": True,
        "KeepLastEpoch": True,
        "RetryIsOwn": True,
        "WaitForLeader": True,
        "RefuseOverOpen": True,
        "Dropped": "none",
    }
    shared_on_purpose: ClassVar = (TransactionStore, ListedStateLog)

    def __init__(self, constants: Mapping[str, Value]) -> None:
        self.bounds = constants
        self.version: int = constants["Version"]
        self.config = TransactionConfig(transaction_version=self.version)
        self.transactions = tuple(range(1, constants["MaxTransactions"] + 1))
        self.ids = tuple(range(1, constants["MaxIds"] + 1))
        self.log = ListedStateLog()
        self.now = self.tokens = 0
        self.epoch = 1
        self.waiting: dict[Token, tuple[str, int]] = {}
        self.pending: tuple[str, int] = NOTHING_PENDING
        #: Of each record what only the spec remembers: transaction, by whom, and if it fences
        self.ghosts: list[tuple[int, int, bool]] = [(NOTHING, NOBODY, False)]
        self.clients = {i: ProducerInstance() for i in range(1, constants["Producers"] + 1)}
        seen, ended = dict.fromkeys(self.ids, (0, 0)), dict.fromkeys(self.transactions, "none")
        parts = range(1, constants["Partitions"] + 1)
        self.leaders = {p: DataPartition(dict(seen), dict(ended)) for p in parts}
        self.owner = dict.fromkeys(self.transactions, 0)
        self.told = dict.fromkeys(self.transactions, "none")
        self.timed_out: frozenset[int] = frozenset()
        self.leaderless: frozenset[int] = frozenset()
        self.downs = self.copies = 0
        self.sent: frozenset[Value] = frozenset()
        first = ProducerIdentity(1, 0)
        self.log.records.append(self._record(TransactionMetadata(at=first, next=first)))
        self.log.high_watermark = 1
        self.coordinator = self._elected()
        self._load()

    def _record(self, metadata: TransactionMetadata) -> CoordinatorRecord:
        return record_of(ID, metadata, flexible=True)

    def _elected(self) -> TransactionCoordinator:
        shard = TransactionShard(
            *(self.config, self.epoch, _new_id, _offsets_of, _nothing),
            level=lambda: self.version,
            store=self._store(),
        )
        return coordinator_on(0, self.log, shard)

    def _store(self) -> TransactionStore:
        return TransactionStore(last_epoch=self.bounds["MaxEpoch"])

    def _load(self) -> None:
        """Read the log to its end."""
        self.coordinator.shard.new_id = self._new_id
        while self.coordinator.state is CoordinatorState.LOADING:
            before = self.coordinator.position
            self._take(self.coordinator.due(self.now, LOAD))
            if self.coordinator.position == before:
                break

    def _new_id(self) -> int:
        return self._memory().at.id + 1

    # What the coordinator has

    @property
    def _loading(self) -> bool:
        return self.coordinator.state is CoordinatorState.LOADING

    def _memory(self) -> TransactionMetadata:
        """The state that counts: what is committed, and while it loads what it has read."""
        ids = self.coordinator.shard.store.ids
        metadata = ids.get(ID) if self._loading else ids.committed(ID)
        assert metadata is not None
        return metadata

    def _ghost(self) -> tuple[int, int, bool]:
        pending = self.coordinator.shard.store.ids.is_pending(ID) and not self._loading
        return self.ghosts[-2 if pending else -1]

    def _owed(self) -> frozenset[int]:
        store = self.coordinator.shard.store
        owed = store.owed.get(ID, frozenset[TopicPartition]())
        if self._loading and self._memory().prepared:
            owed = self._memory().partitions
        return frozenset([one.partition for one in owed])

    # Requests

    def _must_be_active(self) -> None:
        """Refused as a client is that comes too early."""
        if self._loading:
            refused = self.coordinator.handle(self.now, 0, m.DescribeTransactionRequest(ID))
            (output,) = refused
            assert isinstance(output, Answer)
            raise _named(output.body.error)

    def _decide(self, request: Any) -> Outcome:
        """The decision, before anything is done. Raises the refusal."""
        self._must_be_active()
        return self.coordinator.shard.handlers[request.__class__](self.now, 0, request)

    def _handle(self, request: Any, kind: str, who: int) -> None:
        self.now += 1
        self.tokens += 1
        self.waiting[self.tokens] = (kind, who)
        self._take(self.coordinator.handle(self.now, self.tokens, request))

    def _must_write(self, outcome: Outcome, *states: Txn) -> None:
        """The decision must be a record of one of these states."""
        if not outcome.records:
            raise OtherAction
        (record,) = outcome.records
        metadata = metadata_of(record.value)
        if metadata.state not in states:
            raise OtherAction
        if metadata.next.id > self.bounds["MaxIds"]:
            raise Bound

    def _changed(self, kind: str, who: int, ghost: tuple[int, int, bool]) -> None:
        self.pending = (kind, who)
        self.ghosts.append(ghost)

    def _take(self, outputs: Sequence[Output]) -> None:
        """Clients are answered; one that has died hears nothing."""
        for output in outputs:
            if isinstance(output, Answer) and output.token in self.waiting:
                kind, who = self.waiting.pop(output.token)
                self._answered(kind, self.clients[who], output.body)

    def _answered(self, kind: str, client: ProducerInstance, body: Any) -> None:
        if getattr(body, "error", None) is not None:
            return
        if kind == "init" and client.phase == "starting":
            client.phase, client.transaction = "ready", NOTHING
            client.identity = ProducerIdentity(body.producer_id, body.producer_epoch)
        elif kind == "end" and client.phase in ("commit", "abort"):
            self.told[client.transaction] = client.phase
            client.phase, client.transaction = "ready", NOTHING
            if self.version == 2:
                client.identity = ProducerIdentity(body.producer_id, body.producer_epoch)

    # The log

    def commit(self) -> None:
        if self.log.high_watermark >= self.log.end:
            raise OtherAction
        self.log.high_watermark += 1
        if self._loading:
            self._take(self.coordinator.committed(self.log.high_watermark))
            self._take(self.coordinator.due(self.now, LOAD))

    def apply(self) -> None:
        if self.pending == NOTHING_PENDING or self.log.high_watermark < self.log.end:
            raise OtherAction
        self.pending = NOTHING_PENDING
        self._take(self.coordinator.committed(self.log.high_watermark))

    def failover(self, kept: int) -> None:
        if self.epoch > self.bounds["MaxFailovers"]:
            raise Bound
        end = self.log.high_watermark + kept
        if end > self.log.end:
            raise Environment
        self._take(self.coordinator.resign())
        self.epoch += 1
        del self.log.records[end:], self.ghosts[end:]
        self.pending = NOTHING_PENDING
        self.waiting.clear()
        self.coordinator = self._elected()
        self._load()

    # Producers

    def start(self, i: int) -> None:
        self.clients[i].must_be("off")
        if any(self.clients[j].phase in ("off", "starting") for j in range(1, i)):
            raise Environment
        self.clients[i].phase = "starting"

    def ask_again(self, i: int) -> None:
        self._may("again")
        self.clients[i].must_be("ready")
        self.clients[i].phase = "starting"

    def _may(self, fault: str) -> None:
        if fault not in self.bounds["Faults"]:
            raise Environment

    def _init(self, i: int) -> m.InitTransactionalIdRequest:
        self.clients[i].must_be("starting")
        return m.InitTransactionalIdRequest(ID, 60_000, *self.clients[i].expected)

    def init_producer_id(self, i: int) -> None:
        request = self._init(i)
        self._must_write(self._decide(request), Txn.EMPTY)
        self._handle(request, "init", i)
        self._changed("init", i, (NOTHING, i, True))

    def init_again(self, i: int) -> None:
        request = self._init(i)
        if self._decide(request).records:
            raise OtherAction
        self._handle(request, "init", i)

    def init_fences(self, i: int) -> None:
        request = self._init(i)
        self._must_write(self._decide(request), Txn.PREPARE_ABORT)
        transaction = self._ghost()[0]
        self._handle(request, "fence", i)
        self._changed("fence", i, (transaction, i, True))

    def init_refused(self, i: int) -> None:
        self._refuse(i, self._init(i))

    def _refuse(self, i: int, request: Any) -> None:
        """The coordinator refuses for good, and the instance gives up."""
        try:
            self._decide(request)
        except ConcurrentTransactions:
            raise
        except Refusal as refusal:
            if refusal.kafka_error == "COORDINATOR_LOAD_IN_PROGRESS":
                raise
            self.clients[i].phase = "fenced"
        else:
            raise OtherAction

    def begin(self, i: int, t: int) -> None:
        client = self.clients[i]
        client.must_be("ready")
        if self.owner[t] or not all(self.owner[u] for u in range(1, t)):
            raise Environment
        client.phase, client.transaction = "in", t
        self.owner[t] = client.identity.id

    def _added(self, i: int, p: int, *, verify_only: bool) -> m.AddPartitionsToTxnRequest:
        self.clients[i].must_be("in")
        at = self.clients[i].identity
        return m.AddPartitionsToTxnRequest(ID, *at, (name(p),), verify_only, self.version)

    def add_partition(self, i: int, p: int) -> None:
        request = self._added(i, p, verify_only=False)
        self._must_write(self._decide(request), Txn.ONGOING)
        self._handle(request, "add", i)
        self._changed("add", i, (self.clients[i].transaction, i, False))

    def produce(self, i: int, p: int) -> None:
        request = self._added(i, p, verify_only=True)
        client, leader = self.clients[i], self.leaders[p]
        at = client.identity
        if p in self.leaderless or client.transaction in leader.records:
            raise Environment
        epoch, coordinator = leader.seen[at.id]
        if at.epoch < epoch:
            raise InvalidProducerEpoch
        is_open = bool(self._open(p, at.id))
        if is_open and epoch != at.epoch:
            raise InvalidTxnState
        if self.version == 1 and not self._is_added(client.transaction, p):
            raise OtherAction
        if not is_open:
            ((_, error),) = self._decide(request).answers[0].body.partitions
            if error is not None:
                raise _named(error)
        leader.records.append(client.transaction)
        leader.seen[at.id] = (at.epoch, coordinator)

    def _is_added(self, transaction: int, p: int) -> bool:
        return any(
            ghost[0] == transaction and name(p) in metadata_of(record.value).partitions
            for record, ghost in zip(self.log.records, self.ghosts, strict=True)
        )

    def _open(self, p: int, id: int) -> list[int]:
        leader = self.leaders[p]
        return [
            t
            for t in self.transactions
            if self.owner[t] == id and t in leader.records and leader.ended[t] == "none"
        ]

    def finish(self, i: int, outcome: str) -> None:
        client = self.clients[i]
        client.must_be("in")
        if not any(client.transaction in one.records for one in self.leaders.values()):
            raise Environment
        client.phase = outcome

    def _end(self, i: int) -> m.EndTxnRequest:
        client = self.clients[i]
        client.must_be("commit", "abort")
        return m.EndTxnRequest(ID, *client.identity, client.phase == "commit", self.version)

    def end_txn(self, i: int) -> None:
        request = self._end(i)
        self._must_write(self._decide(request), *PREPARED)
        transaction = self._ghost()[0]
        self._handle(request, "end", i)
        self._changed("end", i, (transaction, i, False))

    def end_again(self, i: int) -> None:
        request = self._end(i)
        if self._decide(request).records:
            raise OtherAction
        self._handle(request, "end", i)

    def end_refused(self, i: int) -> None:
        self._refuse(i, self._end(i))

    def die(self, i: int) -> None:
        self._may("crash")
        if self.clients[i].phase in ("off", "dead", "fenced"):
            raise OtherAction
        self.clients[i].phase = "dead"

    # The end of a transaction

    def time_out(self) -> None:
        self._may("timeout")
        self._must_be_active()
        late = self.now + LONG_MS
        self._must_write(self.coordinator.shard.due(late, TIME_OUT), Txn.PREPARE_ABORT)
        transaction = self._ghost()[0]
        self.now = late
        self._take(self.coordinator.due(late, TIME_OUT))
        self._changed("fence", NOBODY, (transaction, NOBODY, True))
        self.timed_out |= {transaction}

    def _marker(self, p: int) -> Rec:
        """The marker that the coordinator owes a partition."""
        if self._loading or p not in self._owed():
            raise OtherAction
        marker = self.coordinator.shard.marker(ID, (name(p),))
        return Rec.of(
            partition=p,
            at=Rec.of(id=marker.producer_id, epoch=marker.producer_epoch),
            outcome="commit" if marker.committed else "abort",
            coordinator=marker.coordinator_epoch,
            transaction=self._ghost()[0],
        )

    def _arrives(self, marker: Rec) -> None:
        """A partition takes a marker, which ends whatever its producer has open."""
        p, at, coordinator = marker["partition"], marker["at"], marker["coordinator"]
        id, epoch = at["id"], at["epoch"]
        if p in self.leaderless:
            raise Environment
        leader = self.leaders[p]
        known, before = leader.seen[id]
        if coordinator < before:
            raise CoordinatorFenced
        is_open = self._open(p, id)
        if epoch < known or (self.version == 2 and epoch == known and is_open):
            raise InvalidProducerEpoch
        for t in {*is_open, marker["transaction"]}:
            if leader.ended[t] == "none":
                leader.ended[t] = marker["outcome"]
        leader.seen[id] = (epoch, coordinator)

    def write_marker(self, p: int) -> None:
        marker = self._marker(p)
        self._arrives(marker)
        self.coordinator.shard.written(ID, self._memory().at, name(p))
        if self.copies < self.bounds["MaxCopies"]:
            self.sent |= {marker}

    def write_marker_unheard(self, p: int) -> None:
        self._copy()
        self._arrives(self._marker(p))
        self.copies += 1

    def _copy(self) -> None:
        if self.copies >= self.bounds["MaxCopies"]:
            raise Bound

    def late_marker(self, p: int, choice: int) -> None:
        there = sorted((one for one in self.sent if one["partition"] == p), key=repr)
        if choice >= len(there):
            raise NoSuchChoice
        self._copy()
        self._arrives(there[choice])
        self.copies += 1

    def skip_marker(self, p: int) -> None:
        raise Environment

    def complete(self) -> None:
        self._must_be_active()
        shard = self.coordinator.shard
        self._must_write(shard.complete(self.now, ID), Txn.COMPLETE_COMMIT, Txn.COMPLETE_ABORT)
        ghost = self._ghost()
        self._take(self.coordinator.operate(self.now, lambda one: one.complete(self.now, ID)))
        self._changed("complete", NOBODY, (NOTHING, *ghost[1:]))

    def lose_leader(self, p: int) -> None:
        if self.downs >= self.bounds["MaxDowns"]:
            raise Bound
        if p in self.leaderless:
            raise Environment
        self.leaderless |= {p}
        self.downs += 1

    def elect_leader(self, p: int) -> None:
        if p not in self.leaderless:
            raise Environment
        self.leaderless -= {p}

    # States

    def load(self, state: Mapping[str, Value]) -> None:
        """The coordinator in a state of the spec: what waits for a commit is replayed as that."""
        self.now, self.tokens, self.waiting = 0, 0, {}
        self.epoch = state["coordinatorEpoch"]
        self.pending = (state["pending"]["kind"], state["pending"]["who"])
        self.log = ListedStateLog([self._of(one) for one in state["log"]], state["highWatermark"])
        self.ghosts = [(one["transaction"], one["by"], one["fences"]) for one in state["log"]]
        self._load_coordinator(state)
        for i, one in enumerate(state["client"], 1):
            identity = ProducerIdentity(one["as"]["id"], one["as"]["epoch"])
            self.clients[i] = ProducerInstance(one["phase"], identity, one["transaction"])
        for p, leader in self.leaders.items():
            seen = state["producers"][p - 1]
            for id, one in zip(self.ids, seen, strict=True):
                leader.seen[id] = (one["epoch"], one["coordinator"])
            leader.ended = {t: state["ended"][p - 1][t - 1] for t in self.transactions}
            leader.records = list(state["records"][p - 1])
        self.owner = {t: state["owner"][t - 1] for t in self.transactions}
        self.told = {t: state["told"][t - 1] for t in self.transactions}
        self.timed_out, self.leaderless = state["timedOut"], state["leaderless"]
        self.downs, self.copies, self.sent = state["downs"], state["copies"], state["sent"]

    def _load_coordinator(self, state: Mapping[str, Value]) -> None:
        coordinator = self.coordinator = self._elected()
        coordinator.shard.new_id = self._new_id
        loading, end = state["role"] == "loading", self.log.end
        coordinator.position = coordinator.written = end
        store = coordinator.shard.store
        pending = not loading and self.pending != NOTHING_PENDING
        committed = self.log.high_watermark if loading else end - pending
        for record in self.log.records[:committed]:
            store.replay(record, None)
        if not loading:
            coordinator.state = CoordinatorState.ACTIVE
            coordinator.shard.active = True
            store.decided(end)
            if ID in store.owed:
                store.owed[ID] = {name(p) for p in state["owed"]}
        for offset in range(committed, end):
            store.replay(self.log.records[offset], offset)
        if pending and self.pending[1] != NOBODY:
            self._wait(metadata_of(self.log.records[-1].value))

    def _wait(self, written: TransactionMetadata) -> None:
        """The client of the change that is under way waits for its answer."""
        self.tokens = 1
        kind, _ = self.waiting[1] = self.pending
        body: Any = m.AddPartitionsToTxnResponse(())
        if kind == "init":
            body = InitProducerIdResponse(None, *written.next)
        elif kind == "fence":
            body = InitProducerIdResponse(ConcurrentTransactions.kafka_error)
        elif kind == "end":
            given = written.next if self.version == 2 else (-1, -1)
            body = m.EndTxnResponse(None, *given)
        self.coordinator.waiting[1] = m.DescribeTransactionRequest(ID)
        deferred = Deferred(self.log.end, LONG_MS, (Answer(1, body),))
        self.coordinator.deferred.append(deferred)

    def _of(self, one: Any) -> CoordinatorRecord:
        at, after, last = (ProducerIdentity(one[k]["id"], one[k]["epoch"]) for k in KEYS)
        partitions = frozenset(name(p) for p in one["partitions"])
        metadata = TransactionMetadata(
            state=BY_NAME[one["state"]],
            at=at,
            next=after,
            last=None if last == NO_IDENTITY else last,
            partitions=partitions,
            started_ms=0 if partitions else -1,
        )
        return self._record(evolve(metadata, client_version=2 if self.version == 2 else 0))


KEYS = ("at", "next", "last")


def _new_id() -> int:
    raise AssertionError("there is an id from the start")


def _offsets_of(group_id: str) -> TopicPartition:
    raise AssertionError(f"nobody commits offsets of {group_id}")


def _nothing(transactional_id: str) -> None:
    """Markers go out when the spec says so."""


def _named(error: str) -> Refusal:
    """The refusal that a client receives under this name."""
    return type(error, (Refusal,), {"kafka_error": error})()


def _identity(one: ProducerIdentity | None) -> Rec:
    id, epoch = one or NO_IDENTITY
    return Rec.of(id=id, epoch=epoch)


def _state(metadata: TransactionMetadata, ghost: tuple[int, int, bool]) -> Rec:
    transaction, by, fences = ghost
    return Rec.of(
        state=metadata.state.shown,
        at=_identity(metadata.at),
        next=_identity(metadata.next),
        last=_identity(metadata.last),
        partitions=frozenset([one.partition for one in metadata.partitions]),
        transaction=transaction,
        by=by,
        fences=fences,
    )


def _seen(leader: DataPartition) -> tuple[Rec, ...]:
    return tuple(
        [Rec.of(epoch=epoch, coordinator=of) for _, (epoch, of) in sorted(leader.seen.items())]
    )


TransactionCoordinatorModule.projection = {
    "log": lambda c: tuple(
        [_state(metadata_of(c.log.records[at].value), one) for at, one in enumerate(c.ghosts)]
    ),
    "highWatermark": lambda c: c.log.high_watermark,
    "coordinatorEpoch": lambda c: c.coordinator.shard.coordinator_epoch,
    "role": lambda c: c.coordinator.state.value,
    "memory": lambda c: _state(c._memory(), c._ghost()),
    "pending": lambda c: Rec.of(kind=c.pending[0], who=c.pending[1]),
    "owed": lambda c: c._owed(),
    "producers": lambda c: tuple([_seen(one) for one in c.leaders.values()]),
    "records": lambda c: tuple([tuple(one.records) for one in c.leaders.values()]),
    "ended": lambda c: tuple([tuple(one.ended.values()) for one in c.leaders.values()]),
    "leaderless": lambda c: c.leaderless,
    "downs": lambda c: c.downs,
    "sent": lambda c: c.sent,
    "copies": lambda c: c.copies,
    "client": lambda c: tuple(
        [
            Rec.of(phase=one.phase, **{"as": _identity(one.identity)}, transaction=one.transaction)
            for one in c.clients.values()
        ]
    ),
    "owner": lambda c: tuple(c.owner.values()),
    "told": lambda c: tuple(c.told.values()),
    "timedOut": lambda c: c.timed_out,
}

MODULE = Module(
    binding=TransactionCoordinatorModule, machines=("transaction_coordinator", "runtime")
)
