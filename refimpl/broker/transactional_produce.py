"""Produce within a transaction: verify its first write in each partition, then append (KIP-890)."""

from collections.abc import Callable, Mapping

from attrs import define

from refimpl.broker.context import Context
from refimpl.broker.verification import Errors, Guards, Verifications
from refimpl.errors import Refusal
from refimpl.messages.broker import ProducedPartition, ProduceRequest, Request, TopicPartition
from refimpl.messages.transactions import ADD_PARTITION
from refimpl.storage.replica.transactional import Writer

Append = Callable[[int, Request, Guards, Mapping[TopicPartition, ProducedPartition]], None]
"""Appends what is not refused: (now, request, guards, what is refused)."""

_LATER = frozenset(
    {
        "NETWORK_EXCEPTION",
        "COORDINATOR_LOAD_IN_PROGRESS",
        "COORDINATOR_NOT_AVAILABLE",
        "NOT_COORDINATOR",
    }
)


@define(eq=False)
class TransactionalProduces:
    """The Produce requests of one broker that name a transactional id."""

    context: Context
    verifications: Verifications
    append: Append

    def produce(self, now: int, request: Request) -> None:
        """Append each batch, once its transaction is verified where it begins."""
        body: ProduceRequest = request.body
        writes: dict[TopicPartition, int] = {}
        producers: set[Writer] = set()
        for name, batch in body.batches:
            partition = self.context.partitions.get(name)
            try:
                claims = None if partition is None else partition.log.transactional(batch)
            except Refusal:
                continue  # the log says what is wrong with it
            if claims is not None:
                producers.add(Writer(claims.producer_id, claims.producer_epoch))
                writes[name] = claims.base_sequence
        if len(producers) > 1:
            why = "INVALID_PRODUCER_ID_MAPPING", -1, -1, -1, "Records of more than one producer id."
            refused = {name: ProducedPartition(name, *why) for name, _ in body.batches}
            self.append(now, request, {}, refused)
            return
        if not writes:
            self.append(now, request, {}, {})
            return

        def verified(then: int, guards: Guards, errors: Errors) -> None:
            support = body.transaction_support
            refused = {name: _refused(name, error, support) for name, error in errors.items()}
            self.append(then, request, guards, refused)

        assert body.transactional_id is not None
        (producer,) = producers
        self.verifications.verify(
            now, body.transactional_id, producer, writes, body.transaction_support, verified
        )


def _refused(name: TopicPartition, error: str, support: int) -> ProducedPartition:
    """A write that could not be verified.

    Older clients do not send again after some errors that pass, so they get one after which they
    do, as in Kafka.
    """
    message: str | None = None
    if error == "INVALID_TXN_STATE":
        message = "Partition was not added to the transaction"
    elif error in _LATER or (error == "CONCURRENT_TRANSACTIONS" and support < ADD_PARTITION):
        message = (
            "Unable to verify the partition has been added to the transaction. "
            f"Underlying error: {error}"
        )
        error = "NOT_ENOUGH_REPLICAS"
    return ProducedPartition(name, error, message=message)
