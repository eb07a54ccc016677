"""An application that reads, processes and writes: each input in one transaction (KIP-447).

It is a member of a group of its own. It writes one record for each that it reads, and its offsets
go with the same transaction. After an abort it begins again at the committed offset.
"""

from collections.abc import Callable, Sequence
from random import Random
from typing import TYPE_CHECKING, Any

from attrs import define, field

from chaos.clients.classic_member import ClassicMember
from chaos.clients.consumer import Part
from chaos.clients.consumer_member import ConsumerMember
from chaos.clients.group_member import RETRY_MS
from chaos.clients.member_process import payload
from chaos.clients.transactional_producer import outputs_of, version_of
from chaos.clients.transactions import (
    DEAD,
    IDLE,
    READY,
    OffsetsToCommit,
    Transaction,
    TransactionManager,
)
from chaos.sim.transaction_messages import BASE, STRIDE
from refimpl.messages import group as g
from refimpl.messages import transaction_coordination as m
from refimpl.messages.broker import ProduceResponse, Response, TopicPartition
from refimpl.messages.controller import InitProducerIdResponse
from refimpl.records.schema import NO_ID

AT_ONCE = 8
"""Records of each partition in one transaction."""
LEAST_TIMEOUT_MS = 1500
"""The slowest cluster needs less for one transaction, so that applications come to an end."""
TRANSACTIONAL = (
    *(InitProducerIdResponse, m.AddPartitionsToTxnResponse, m.AddOffsetsToTxnResponse),
    *(m.EndTxnResponse, ProduceResponse, g.TxnOffsetCommitResponse),
)

if TYPE_CHECKING:
    from chaos.clients.group_member import GroupMember
else:
    GroupMember = object


class Application(GroupMember):
    """The half of an application that is the same in both group protocols."""

    __slots__ = ()
    numbers: Callable[[], int]
    manager: TransactionManager

    def _prepare(self) -> None:
        about = self.id, self.simulation, self._random(), self.leaders, self.transactional_id
        self.manager = TransactionManager(*about, self._ended, LEAST_TIMEOUT_MS)
        in_group = self.handlers[g.FindCoordinatorResponse]

        def found(response: Response) -> None:
            (in_group if response.correlation_id in self.asked_for else self.manager.take)(response)

        self.handlers |= dict.fromkeys(TRANSACTIONAL, self.manager.take)
        self.handlers[g.FindCoordinatorResponse] = found

    def _random(self) -> Random:
        return Random(self.simulation.settings.seed * 2 + 1021 + self.id)

    @property
    def transactional_id(self) -> str:
        """The transactional id, which each application has for itself (KIP-447)."""
        return f"app-{self.id}"

    # Time

    def _tick(self, now: int) -> None:
        super()._tick(now)
        manager = self.manager
        if manager.state == DEAD:
            manager.stop()
        if manager.state == IDLE:
            manager.start(version_of(self.simulation, manager.rng))
        manager.tick(now)
        if manager.state == READY:
            self._begin_transaction()

    def _work(self, part: Part) -> None:
        """Read ahead; processing waits for a transaction."""
        if not part.buffer:
            self._ask(part)

    def _begin_transaction(self) -> None:
        """Take what was read, and write one value for each record."""
        parts = [self.parts[one] for one in self.owned if one not in self.fetching]
        parts = [part for part in parts if part.buffer]
        if not parts:
            return
        rng, number = self.manager.rng, self.numbers()
        outputs, value = outputs_of(self.simulation), BASE + number * STRIDE
        batches: dict[TopicPartition, tuple[int, ...]] = {}
        inputs: list[tuple[TopicPartition, int, int]] = []
        for part in parts:
            for _ in range(min(AT_ONCE, len(part.buffer))):
                offset, record = part.buffer.popleft()
                part.member.poll(offset + 1)
                part.member.process()
                name = outputs[hash(payload(record)) % len(outputs)]
                batches[name] = (*batches.get(name, ()), value)
                inputs.append((part.name, offset, value))
                value += 1
        offsets = OffsetsToCommit(
            self.group,
            self.member_id,
            self.group_generation,
            [
                g.CommittedPartition(one.name, one.member.position, metadata=str(number))
                for one in parts
            ],
        )
        hold_ms = int(rng.random() * (30 if rng.random() < 0.8 else 300))
        if rng.random() < 0.04:  # about as long as the transaction may take
            hold_ms = int(self.manager.timeout_ms * (0.7 + rng.random() / 2))
        of_partitions = {name: [values] for name, values in batches.items()}
        commits = rng.random() < 0.9
        self.manager.begin(Transaction(number, of_partitions, commits, hold_ms, offsets, inputs))

    def _ended(self, transaction: Transaction, committed: bool | None) -> None:
        """After anything but a commit, go back to the group's committed offsets."""
        if committed:
            return
        again = {name.partition for name, _, _ in transaction.inputs} & {*self.owned}
        if not again:
            return
        for number in again:
            part = self.parts[number]
            part.buffer.clear()
            part.asked = 0
        self.assignments += 1  # an answer that is on its way is older
        self.fetching |= again
        if self.coordinator is not None:
            self._fetch_offsets()

    def _fetch_offsets(self) -> None:
        """Ask for offsets that no open transaction may still change, between transactions.

        A consumer takes its positions in `poll`, which an application calls when its transaction
        has ended. A member that joins again keeps its epoch, so a late commit would still count
        behind the answer (TransactionalOffsets, `Fetch`).
        """
        self.next_at = self.simulation.timeline.now + RETRY_MS
        if self.manager.transaction is not None:
            return
        wanted = [(self.parts[one].name, NO_ID) for one in sorted(self.fetching)]
        who = self._reader()
        body = g.OffsetFetchRequest(self.group, wanted, *who, require_stable=True)
        self._ask_coordinator(body, self._offsets_fetched, (self.assignments, self.requests + 1))

    # Membership

    def _own(self, owned: Any, left: str) -> None:
        """A transaction about a partition that is gone is aborted; or the application goes on."""
        before = self.owned
        super()._own(owned, left)
        transaction = self.manager.transaction
        if transaction is None or self.manager.rng.random() < 0.5:
            return
        gone = {*before} - {*self.owned}
        if gone & {name.partition for name, _, _ in transaction.inputs}:
            self.manager.abort()

    def _commit_all(self, partitions: Any) -> None:
        """Offsets go with transactions."""

    def _commit(self, part: Part) -> None:
        """Offsets go with transactions."""

    # The process, of which no oracle of the other group hears

    def _forget(self) -> None:
        super()._forget()
        self.manager.stop()

    def _say(self, observation: Any) -> None:
        """Its group is judged by the outcome."""

    def _note(self, op: str, **fields: Any) -> None:
        """It is not in the history of the other clients."""

    def _note_subscription(self) -> None:
        """It is not in the history of the other clients."""


@define(eq=False)
class ClassicApplication(Application, ClassicMember):
    """An application in a classic group."""

    numbers: Callable[[], int] = field(kw_only=True)
    manager: TransactionManager = field(init=False)

    def __attrs_post_init__(self) -> None:
        """Prepare the producer."""
        ClassicMember.__attrs_post_init__(self)
        self._prepare()


@define(eq=False)
class ConsumerApplication(Application, ConsumerMember):
    """An application in a consumer group (KIP-848)."""

    numbers: Callable[[], int] = field(kw_only=True)
    manager: TransactionManager = field(init=False)

    def __attrs_post_init__(self) -> None:
        """Prepare the producer."""
        ConsumerMember.__attrs_post_init__(self)
        self._prepare()


Applications = Sequence[ClassicApplication | ConsumerApplication]
