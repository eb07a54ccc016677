"""A broker's settings, by Kafka's names with underscores for dots, from `refimpl.configs`."""

from typing import Any

from attrs import field, fields_dict, frozen

from refimpl.configs import BROKER, Configs


def _broker(name: str) -> Any:
    return field(default=BROKER[name].default, metadata={"broker": name})


@frozen(kw_only=True)
class BrokerConfig:
    """Times are in milliseconds."""

    #: A follower that was not at the leader's log end for so long leaves the ISR
    replica_lag_time_max_ms: int = _broker("replica.lag.time.max.ms")
    #: How long a leader may hold a follower's fetch when there is nothing new
    replica_fetch_wait_max_ms: int = _broker("replica.fetch.wait.max.ms")
    #: How long a follower leaves a partition alone whose fetch was refused
    replica_fetch_backoff_ms: int = _broker("replica.fetch.backoff.ms")
    #: After which a follower no longer waits for an answer
    replica_socket_timeout_ms: int = _broker("replica.socket.timeout.ms")
    #: For each partition of a follower's fetch, in the unit of its log
    replica_fetch_max_bytes: int = _broker("replica.fetch.max.bytes")
    #: For a whole answer to a follower
    replica_fetch_response_max_bytes: int = _broker("replica.fetch.response.max.bytes")
    #: How much there must be for an answer before its time
    replica_fetch_min_bytes: int = _broker("replica.fetch.min.bytes")
    #: How much there is at most in an answer to a consumer, whatever it asks for
    fetch_max_bytes: int = _broker("fetch.max.bytes")
    #: How often the high watermarks are written down
    replica_high_watermark_checkpoint_interval_ms: int = _broker(
        "replica.high.watermark.checkpoint.interval.ms"
    )
    #: How often logs are flushed; Kafka's default leaves it to the operating system
    log_flush_interval_ms: int = _broker("log.flush.scheduler.interval.ms")
    #: How often retention is looked after
    log_retention_check_interval_ms: int = _broker("log.retention.check.interval.ms")
    #: Whether logs are compacted
    log_cleaner_enable: bool = _broker("log.cleaner.enable")
    #: How long the cleaner waits until it looks again for something to compact
    log_cleaner_backoff_ms: int = _broker("log.cleaner.backoff.ms")
    #: How often producers are forgotten that were silent for producer.id.expiration.ms
    producer_id_expiration_check_interval_ms: int = _broker(
        "producer.id.expiration.check.interval.ms"
    )
    #: How often the controller hears of the broker, and is asked again if it does not answer
    broker_heartbeat_interval_ms: int = _broker("broker.heartbeat.interval.ms")
    #: What sends consumers to followers: None, or the one of `replica_selector`
    replica_selector_class: str | None = _broker("replica.selector.class")
    #: How many fetch sessions are kept
    fetch_session_slots: int = _broker("max.incremental.fetch.session.cache.slots")

    #: Over how many windows a client's rate is, and how long each of them is
    quota_window_num: int = _broker("quota.window.num")
    quota_window_size_seconds: int = _broker("quota.window.size.seconds")

    @classmethod
    def of(cls, configs: Configs) -> "BrokerConfig":
        """What these configurations say."""
        names = {one.name: one.metadata.get("broker") for one in fields_dict(cls).values()}
        return cls(**{ours: configs[name] for ours, name in names.items() if name})
