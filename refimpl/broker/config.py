"""A broker's settings, by Kafka's names with underscores for dots, from `refimpl.configs`."""

from typing import Any

from attrs import field, fields_dict, frozen

from refimpl.configs import BROKER, Configs


def _broker(name: str) -> Any:
    return field(default=BROKER[name].default, metadata={"broker": name})


@frozen(kw_only=True)
class BrokerConfig:
    """The settings of a broker; times are in milliseconds."""

    #: A follower that was not at the leader's log end for so long leaves the ISR
    replica_lag_time_max_ms: int = _broker("replica.lag.time.max.ms")
    #: The time for which a leader may hold a follower's fetch without new records
    replica_fetch_wait_max_ms: int = _broker("replica.fetch.wait.max.ms")
    #: The time for which a follower does not fetch a partition after a refusal
    replica_fetch_backoff_ms: int = _broker("replica.fetch.backoff.ms")
    #: The time after which a follower no longer waits for an answer
    replica_socket_timeout_ms: int = _broker("replica.socket.timeout.ms")
    #: For each partition of a follower's fetch, in the unit of its log
    replica_fetch_max_bytes: int = _broker("replica.fetch.max.bytes")
    #: For a whole answer to a follower
    replica_fetch_response_max_bytes: int = _broker("replica.fetch.response.max.bytes")
    #: The size of an answer that does not wait for its time
    replica_fetch_min_bytes: int = _broker("replica.fetch.min.bytes")
    #: The largest size of an answer to a consumer, whatever it asks for
    fetch_max_bytes: int = _broker("fetch.max.bytes")
    #: The interval of checkpoints of the high watermarks
    replica_high_watermark_checkpoint_interval_ms: int = _broker(
        "replica.high.watermark.checkpoint.interval.ms"
    )
    #: The interval of flushes; Kafka's default leaves them to the operating system
    log_flush_interval_ms: int = _broker("log.flush.scheduler.interval.ms")
    #: The interval of retention checks
    log_retention_check_interval_ms: int = _broker("log.retention.check.interval.ms")
    #: True if logs are compacted
    log_cleaner_enable: bool = _broker("log.cleaner.enable")
    #: The wait of the cleaner when no log needs compaction
    log_cleaner_backoff_ms: int = _broker("log.cleaner.backoff.ms")
    #: The interval of removing producers that were silent for producer.id.expiration.ms
    producer_id_expiration_check_interval_ms: int = _broker(
        "producer.id.expiration.check.interval.ms"
    )
    #: The interval of heartbeats to the controller, and of repeated requests to it
    broker_heartbeat_interval_ms: int = _broker("broker.heartbeat.interval.ms")
    #: The selector of the replica that a consumer reads: None, or the one of `replica_selector`
    replica_selector_class: str | None = _broker("replica.selector.class")
    #: The number of fetch sessions that are kept
    fetch_session_slots: int = _broker("max.incremental.fetch.session.cache.slots")

    #: The wait for a coordinator's word on a transaction, and for a marker to be committed
    request_timeout_ms: int = _broker("request.timeout.ms")
    #: The wait before a leader adds its partition again to a transaction whose producer has one
    #: that ends, and the time after which it does so no more
    add_partitions_to_txn_retry_backoff_ms: int = _broker("add.partitions.to.txn.retry.backoff.ms")
    add_partitions_to_txn_retry_backoff_max_ms: int = _broker(
        "add.partitions.to.txn.retry.backoff.max.ms"
    )

    #: The number of windows of a client's rate, and the length of each
    quota_window_num: int = _broker("quota.window.num")
    quota_window_size_seconds: int = _broker("quota.window.size.seconds")

    #: The largest size of metrics that a client pushes at once, as it compressed them
    telemetry_max_bytes: int = _broker("telemetry.max.bytes")

    @classmethod
    def of(cls, configs: Configs) -> "BrokerConfig":
        """The settings of a broker with these configurations."""
        names = {one.name: one.metadata.get("broker") for one in fields_dict(cls).values()}
        return cls(**{ours: configs[name] for ours, name in names.items() if name})
