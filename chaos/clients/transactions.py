"""A producer's half of transactions: the requests of one instance of a transactional id.

Kafka's TransactionManager and its Sender. Version 1 adds partitions by requests of its own, and
asks for another epoch (KIP-360) where its last writes may still arrive. Version 2 (KIP-890) leaves
both to the brokers.
"""

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

from attrs import define, field, frozen

from chaos.clients.leaders import Leaders
from chaos.sim import transaction_messages as t
from chaos.sim.addresses import BROKERS
from chaos.sim.simulation import Simulation
from refimpl.messages import group as g
from refimpl.messages import transaction_coordination as m
from refimpl.messages.broker import ProduceRequest, Request, Response, TopicPartition
from refimpl.messages.transactions import ADD_PARTITION, GENERIC_ERROR
from refimpl.storage.replica.memory import RecordBatch
from refimpl.storage.replica.transactional import Writer

RETRY_MS = 20
FIRST_REQUEST = 1 << 24
"""Requests of a group's member have lower numbers."""

LOOK_UP = frozenset(("NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE"))
RETRIED = LOOK_UP | frozenset(
    (
        *("COORDINATOR_LOAD_IN_PROGRESS", "CONCURRENT_TRANSACTIONS", "UNKNOWN_TOPIC_OR_PARTITION"),
        *("NOT_LEADER_OR_FOLLOWER", "NOT_ENOUGH_REPLICAS", "NOT_ENOUGH_REPLICAS_AFTER_APPEND"),
        *("REQUEST_TIMED_OUT", "KAFKA_STORAGE_ERROR", "NETWORK_EXCEPTION"),
    )
)
"""Errors after which the same request is sent again."""

IDLE, INIT, READY, ADD, WRITE, OFFSETS, HOLD, END, DEAD = (
    *("idle", "init", "ready", "add", "write", "offsets", "hold", "end", "dead"),
)
MAY_ABORT = WRITE, OFFSETS
"""The states in which an error ends the transaction, and not the instance."""


@frozen
class OffsetsToCommit:
    """The offsets of an application's input, and its membership when it polled them (KIP-447)."""

    group: str
    member_id: str
    generation: int
    partitions: Sequence[g.CommittedPartition]


@define(eq=False)
class Transaction:
    """A transaction of a client: its batches by partition, and how it shall end."""

    number: int
    batches: Mapping[TopicPartition, list[tuple[int, ...]]]
    commits: bool
    hold_ms: int = 0
    offsets: OffsetsToCommit | None = None
    inputs: Sequence[tuple[TopicPartition, int, int]] = ()


@define(eq=False)
class Step:
    """A request that is sent until it is answered; `number` is 0 while none is under way."""

    target: Callable[[], int | None]
    body: Callable[[], Any]
    answered: Callable[[Any], str | None]
    first_ms: int
    number: int = 0
    sent_ms: int = 0
    next_ms: int = 0


@define(eq=False)
class TransactionManager:
    """One instance of a transactional id after the other, at one client."""

    client: int
    simulation: Simulation
    rng: Random
    leaders: Leaders
    transactional_id: str
    #: Called when a transaction ends, with how it did; None if that is not known
    ended: Callable[[Transaction, bool | None], None]
    #: The shortest time-out of its transactions, whatever the run's is
    least_timeout_ms: int = 0
    version: int = 2
    state: str = IDLE
    at: Writer | None = None
    transaction: Transaction | None = None
    error: str = ""
    steps: list[Step] = field(factory=list[Step])
    requests: int = FIRST_REQUEST
    hold_until: int = 0
    #: True if the epoch must change before the next transaction: writes may still arrive
    uncertain: bool = False
    sequences: dict[TopicPartition, int] = field(factory=dict[TopicPartition, int])
    coordinators: dict[int, int] = field(factory=dict[int, int])
    _looking: dict[int, tuple[int, int]] = field(factory=dict[int, tuple[int, int]])

    @property
    def timeout_ms(self) -> int:
        """The time after which its transactions are aborted."""
        return max(self.simulation.settings.transaction_timeout_ms, self.least_timeout_ms)

    # An instance

    def start(self, version: int) -> None:
        """Begin an instance: ask for an epoch, which fences earlier ones."""
        self.stop()
        self.version, self.at = version, None
        self._say(t.InstanceBegan(self.transactional_id, self.client))
        self._init()

    def stop(self) -> None:
        """The instance ends without a word."""
        self.state, self.transaction, self.uncertain = IDLE, None, False
        self.steps.clear()

    def _init(self) -> None:
        self.state = INIT
        timeout_ms = self.timeout_ms
        named = self.at or Writer(-1, -1)
        body = m.InitTransactionalIdRequest(self.transactional_id, timeout_ms, *named)
        again = self.at is not None

        def answered(answer: Any) -> str | None:
            if answer.error is None:
                self._is_at(answer)
                assert self.at is not None
                self._say(t.Initialised(self.transactional_id, self.client, self.at, again))
            return answer.error

        self.steps = [self._coordinated(lambda: body, answered)]

    def _is_at(self, answer: Any) -> None:
        at = Writer(answer.producer_id, answer.producer_epoch)
        if at != self.at:
            self.at, self.uncertain = at, False
            self.sequences.clear()

    # A transaction

    def begin(self, transaction: Transaction) -> None:
        """Begin a transaction; what belongs to it is known from the start."""
        assert self.state == READY
        assert self.at is not None
        self.transaction = transaction
        about = transaction.number, self.transactional_id, self.at, transaction.inputs
        self._say(t.TransactionBegan(*about))
        if self.version >= 2:
            self._write()
            return
        self.state = ADD
        body = m.AddPartitionsToTxnRequest(
            self.transactional_id, *self.at, tuple(transaction.batches), transaction_version=1
        )
        self.steps = [self._coordinated(lambda: body, _first_error)]

    def _write(self) -> None:
        assert self.transaction is not None
        self.state = WRITE
        self.steps = [self._produce(one) for one in self.transaction.batches]

    def _produce(self, name: TopicPartition) -> Step:
        transaction, at = self.transaction, self.at
        assert transaction is not None
        assert at is not None
        values = transaction.batches[name][0]
        batch = RecordBatch(values, *at, self.sequences.get(name, 0), transactional=True)
        support = ADD_PARTITION if self.version >= 2 else GENERIC_ERROR
        timeout_ms = self.simulation.settings.request_timeout_ms
        body = ProduceRequest(-1, timeout_ms, ((name, batch),), self.transactional_id, support)

        def answered(answer: Any) -> str | None:
            (produced,) = answer.partitions
            if produced.error is None:
                self.sequences[name] = self.sequences.get(name, 0) + len(values)
                self._say(t.WriteAcknowledged(transaction.number, name, values))
                del transaction.batches[name][0]
                if transaction.batches[name]:
                    self.steps.append(self._produce(name))
            return produced.error

        return self._step(lambda: self.leaders.of(name), lambda: body, answered)

    def _send_offsets(self) -> None:
        transaction, at = self.transaction, self.at
        assert transaction is not None
        assert at is not None
        offsets = transaction.offsets
        assert offsets is not None
        self.state = OFFSETS
        support = ADD_PARTITION if self.version >= 2 else GENERIC_ERROR
        body = g.TxnOffsetCommitRequest(
            offsets.group,
            self.transactional_id,
            *at,
            offsets.partitions,
            offsets.member_id,
            offsets.generation,
            transaction_support=support,
        )

        def answered(answer: Any) -> str | None:
            error = _first_error(answer)
            if error is None:
                self._say(t.OffsetsAcknowledged(transaction.number))
            return error

        commit = self._step(lambda: self._find(g.GROUP, offsets.group), lambda: body, answered)
        if self.version >= 2:
            self.steps = [commit]
            return

        def added(answer: Any) -> str | None:
            if answer.error is None:
                self.steps.append(commit)
            return answer.error

        add = m.AddOffsetsToTxnRequest(self.transactional_id, *at, offsets.group)
        self.steps = [self._coordinated(lambda: add, added)]

    def _end(self) -> None:
        transaction, at = self.transaction, self.at
        assert transaction is not None
        assert at is not None
        self.state = END
        self._say(t.EndAsked(transaction.number, transaction.commits))
        version = 2 if self.version >= 2 else 1
        body = m.EndTxnRequest(self.transactional_id, *at, transaction.commits, version)

        def answered(answer: Any) -> str | None:
            if answer.error is None and self.version >= 2:
                self._is_at(answer)
            return answer.error

        self.steps = [self._coordinated(lambda: body, answered)]

    # From one state to the next

    def _go_on(self) -> None:
        """Every step of this state is done."""
        transaction = self.transaction
        if self.state == INIT:
            self.state = READY
        elif self.state == ADD:
            self._write()
        elif self.state == WRITE and transaction is not None and transaction.offsets is not None:
            self._send_offsets()
        elif self.state in MAY_ABORT and transaction is not None:
            self.state = HOLD
            self.hold_until = self.simulation.timeline.now + transaction.hold_ms
        elif self.state == END and transaction is not None:
            self._say(t.EndTold(transaction.number, transaction.commits))
            self._leave(transaction.commits)
            if self.uncertain and self.version < 2:
                self._init()
            else:
                self.state = READY

    def _leave(self, committed: bool | None) -> None:
        transaction, self.transaction = self.transaction, None
        if transaction is not None:
            self.ended(transaction, committed)

    def abort(self) -> None:
        """Abort instead of whatever was to follow, unless the end was asked for already."""
        if self.state in (*MAY_ABORT, HOLD) and self.transaction is not None:
            self.uncertain |= bool(self.steps)
            self.transaction.commits = False
            self._end()

    def _refused(self, error: str) -> None:
        """A request is refused for good: the transaction is aborted, or the instance ends."""
        self.simulation.counts[f"transactional {self.state} refused: {error}"] += 1
        fenced = error in ("PRODUCER_FENCED", "INVALID_PRODUCER_ID_MAPPING")
        if self.state in MAY_ABORT and not (fenced and self.state == OFFSETS):
            self.abort()
            return
        number = self.transaction.number if self.transaction is not None else -1
        known = self.transactional_id, self.client, number, error
        self._say(t.InstanceFenced(*known))
        self.steps.clear()
        may_recover = error == "PRODUCER_FENCED" and self.state != INIT and self.version < 2
        self._leave(None)
        if may_recover and self.rng.random() < 0.5:
            self._init()  # a time-out does not end the instance (KIP-588)
        else:
            self.state, self.error = DEAD, error

    # Time and answers

    def tick(self, now: int) -> None:
        """Send what is to be sent, and give up what is not answered in time."""
        settings = self.simulation.settings
        if self.state == HOLD and now >= self.hold_until:
            self._end()
        for step in tuple(self.steps):
            if self.state == WRITE and now - step.first_ms > settings.delivery_timeout_ms:
                self.simulation.counts["transactional writes given up"] += 1
                self.abort()
                return
            if step.number and now - step.sent_ms > settings.request_timeout_ms:
                step.number = 0
                self._lost()
            if not step.number and now >= step.next_ms:
                self._send(now, step)

    def _send(self, now: int, step: Step) -> None:
        target = step.target()
        if target is not None:
            step.number, step.sent_ms = self._ask(target, step.body()), now

    def _ask(self, target: int, body: Any) -> int:
        self.requests += 1
        self.simulation.network.send(Request(self.client, target, self.requests, body))
        return self.requests

    def _lost(self) -> None:
        """Nobody has answered: somebody else may lead by now."""
        self.leaders.refresh()
        self.coordinators.clear()

    def take(self, response: Response) -> None:
        """Take an answer; one that nobody waits for is ignored."""
        number = response.correlation_id
        found = self._looking.pop(number, None)
        if found is not None:
            (one,) = response.body.coordinators
            if one.error is None:
                self.coordinators[found[0]] = one.node_id
            return
        step = next((one for one in self.steps if one.number == number), None)
        if step is None:
            return
        error = step.answered(response.body)
        if error is None:
            self.steps.remove(step)
            if not self.steps:
                self._go_on()
            self.tick(self.simulation.timeline.now)
        elif error in RETRIED:
            step.number, step.next_ms = 0, self.simulation.timeline.now + RETRY_MS
            if error not in ("CONCURRENT_TRANSACTIONS", "COORDINATOR_LOAD_IN_PROGRESS"):
                self._lost()
        else:
            self._refused(error)

    # Coordinators

    def _step(
        self,
        target: Callable[[], int | None],
        body: Callable[[], Any],
        answered: Callable[[Any], str | None],
    ) -> Step:
        return Step(target, body, answered, self.simulation.timeline.now)

    def _coordinated(self, body: Callable[[], Any], answered: Callable[[Any], str | None]) -> Step:
        return self._step(lambda: self._find(g.TRANSACTION, self.transactional_id), body, answered)

    def _find(self, key_type: int, key: str) -> int | None:
        """The coordinator, as far as it is known; if it is not, a broker is asked."""
        known = self.coordinators.get(key_type)
        if known is not None:
            return known
        now, patience_ms = self.simulation.timeline.now, self.simulation.settings.request_timeout_ms
        asked = [number for number, one in self._looking.items() if one[0] == key_type]
        if asked and now - self._looking[asked[-1]][1] < patience_ms:
            return None
        for number in asked:
            del self._looking[number]
        broker = BROKERS[int(self.rng.random() * len(BROKERS))]
        number = self._ask(broker, g.FindCoordinatorRequest(key_type, (key,)))
        self._looking[number] = key_type, now
        return None

    def _say(self, observation: Any) -> None:
        self.simulation.observe(self.client, observation)


def _first_error(answer: Any) -> str | None:
    """The error of any partition; one that was not tried says nothing."""
    errors = [error for _, error in answer.partitions if error is not None]
    told = [error for error in errors if error != "OPERATION_NOT_ATTEMPTED"]
    return (told or errors or [None])[0]
