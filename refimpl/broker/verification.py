"""Verification of transactions: a leader asks the coordinator before the first write (KIP-890).

A write that came late, after its transaction has ended, would open one that nobody ends.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from attrs import define, field

from refimpl.broker.context import Context
from refimpl.broker.coordinators import leader_of
from refimpl.broker.errors import NotLeaderOrFollower
from refimpl.errors import Refusal
from refimpl.machines.producer import Batch
from refimpl.machines.replica_log import Guard
from refimpl.messages.broker import Response, TopicPartition
from refimpl.messages.cluster import ClusterMetadata
from refimpl.messages.transaction_coordination import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
)
from refimpl.messages.transactions import ADD_PARTITION, DEFAULT_ERROR
from refimpl.records.coordinators import TRANSACTIONS_TOPIC
from refimpl.storage.replica.transactional import Writer

Guards: TypeAlias = Mapping[TopicPartition, Guard]
Errors: TypeAlias = Mapping[TopicPartition, str]

Then: TypeAlias = Callable[[int, Guards, Errors], None]
"""Called with the time, the guards of verified writes, and the errors of all others."""


@define(eq=False)
class Verifying:
    """A verification without an answer; `target` is the coordinator's broker, None before one is
    asked.
    """

    request: AddPartitionsToTxnRequest
    support: int
    guards: Guards
    errors: Errors
    began_ms: int
    then: Then
    target: int | None = None
    completed: bool = False


@define(eq=False)
class Verifications:
    """The verifications of one broker, as the leader of partitions."""

    context: Context
    metadata: ClusterMetadata
    #: Calls a function with an operation at a time, unless that is completed by then
    wait: Callable[[int, Callable[[Any], None], Any], None]
    asked: dict[int, Verifying] = field(factory=dict[int, Verifying])

    def verify(
        self,
        now: int,
        transactional_id: str,
        producer: Writer,
        writes: Mapping[TopicPartition, int],
        support: int,
        then: Then,
    ) -> None:
        """Verify the writes that begin a transaction in their partitions; each has a sequence.

        If the client leaves that to the leader, the partitions are added to the transaction.
        """
        guards: dict[TopicPartition, Guard] = {}
        errors: dict[TopicPartition, str] = {}
        for name, sequence in writes.items():
            try:
                guard = self._guard(now, name, producer, sequence, support)
            except Refusal as refusal:
                errors[name] = refusal.kafka_error
                continue
            if guard is not None:
                guards[name] = guard
        if not guards:
            then(now, guards, errors)
            return
        body = AddPartitionsToTxnRequest(
            transactional_id,
            producer.producer_id,
            producer.producer_epoch,
            tuple(guards),
            verify_only=support < ADD_PARTITION,
            transaction_version=_version(support),
        )
        verifying = Verifying(body, support, guards, errors, now, then)
        self.wait(now + self.context.config.request_timeout_ms, self._expire, verifying)
        self._ask(now, verifying)

    def _guard(
        self, now: int, name: TopicPartition, producer: Writer, sequence: int, support: int
    ) -> Guard | None:
        partition = self.context.partition(name)
        if not partition.replica.leads:
            raise NotLeaderOrFollower(self.context.id, name)
        batch = Batch(*producer, sequence, sequence, transactional=True, version=_version(support))
        return partition.log.producers.start_verification(batch, now)

    def _ask(self, now: int, verifying: Verifying) -> None:
        if verifying.completed:
            return
        request = verifying.request
        verifying.target = leader_of(self.metadata, TRANSACTIONS_TOPIC, request.transactional_id)
        if verifying.target is None:
            self._fail(now, verifying, "COORDINATOR_NOT_AVAILABLE")
        else:
            self.asked[self.context.request(verifying.target, request)] = verifying

    # Answers

    def answered(self, now: int, response: Response) -> None:
        """Take the coordinator's answer.

        A transaction that ends while its producer begins the next one is asked for again, a few
        times: with transaction.version 2 that is often so.
        """
        verifying = self.asked.pop(response.correlation_id, None)
        if verifying is None or verifying.completed:
            return
        body: AddPartitionsToTxnResponse = response.body
        errors = {name: error for name, error in body.partitions if error is not None}
        config = self.context.config
        again = now + config.add_partitions_to_txn_retry_backoff_ms
        last = verifying.began_ms + config.add_partitions_to_txn_retry_backoff_max_ms
        ending = "CONCURRENT_TRANSACTIONS" in errors.values()
        if ending and verifying.support >= ADD_PARTITION and again <= last:
            self.wait(again, lambda _: self._ask(again, verifying), verifying)
            return
        told = {name: _translated(error, verifying.support) for name, error in errors.items()}
        self._done(now, verifying, told)

    def disconnected(self, broker: int) -> None:
        """Give up on a coordinator whose connection is lost."""
        for number, one in list(self.asked.items()):
            if one.target == broker:
                del self.asked[number]
                self._fail(one.began_ms, one, "NETWORK_EXCEPTION")

    def _expire(self, verifying: Verifying) -> None:
        now = verifying.began_ms + self.context.config.request_timeout_ms
        self._fail(now, verifying, "NETWORK_EXCEPTION")

    def _fail(self, now: int, verifying: Verifying, error: str) -> None:
        if not verifying.completed:
            self._done(now, verifying, dict.fromkeys(verifying.guards, error))

    def _done(self, now: int, verifying: Verifying, errors: Errors) -> None:
        verifying.completed = True
        verified = {name: one for name, one in verifying.guards.items() if name not in errors}
        verifying.then(now, verified, {**verifying.errors, **errors})


def _version(support: int) -> int:
    """The transaction.version of a client that supports so much."""
    return 2 if support >= ADD_PARTITION else 1


def _translated(error: str, support: int) -> str:
    """The error in words that a client of a leader knows."""
    if error == "PRODUCER_FENCED":
        return "INVALID_PRODUCER_EPOCH"
    if error == "TRANSACTION_ABORTABLE" and support == DEFAULT_ERROR:
        return "INVALID_TXN_STATE"
    return error
