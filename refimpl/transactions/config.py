"""A transaction coordinator's settings, by Kafka's names with underscores for dots."""

from typing import Any

from attrs import field, fields_dict, frozen

from refimpl.configs import BROKER, Configs
from refimpl.messages.cluster import TRANSACTION_VERSION, ClusterMetadata


def _broker(name: str) -> Any:
    return field(default=BROKER[name].default, metadata={"broker": name})


@frozen(kw_only=True)
class TransactionConfig:
    """Times are in milliseconds."""

    #: The longest time that a producer may give its transactions
    transaction_max_timeout_ms: int = _broker("transaction.max.timeout.ms")
    #: The time for which an id without transaction is kept
    transactional_id_expiration_ms: int = _broker("transactional.id.expiration.ms")
    #: The interval of looking for transactions that take too long
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int = _broker(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms"
    )
    #: The interval of looking for ids that have expired
    transaction_remove_expired_transaction_cleanup_interval_ms: int = _broker(
        "transaction.remove.expired.transaction.cleanup.interval.ms"
    )
    #: Bytes that one step of loading reads
    transaction_state_log_load_buffer_size: int = _broker("transaction.state.log.load.buffer.size")
    #: The partitions that `__consumer_offsets` will have, as long as it is not there
    offsets_topic_num_partitions: int = _broker("offsets.topic.num.partitions")
    #: The time for which an answer waits for its record to be committed
    request_timeout_ms: int = _broker("request.timeout.ms")
    #: The feature's level as long as no operator updates it: 0, 1 with flexible records, 2 with
    #: KIP-890
    transaction_version: int = _broker("transaction.version")

    def level(self, metadata: ClusterMetadata) -> int:
        """The finalized level of transaction.version."""
        return metadata.features.levels.get(TRANSACTION_VERSION, self.transaction_version)

    @classmethod
    def of(cls, configs: Configs) -> "TransactionConfig":
        """The settings of a coordinator with these configurations."""
        fields = fields_dict(cls).values()
        names = {one.name: one.metadata["broker"] for one in fields if one.metadata}
        return cls(**{ours: configs[name] for ours, name in names.items()})
