"""A broker's settings, by Kafka's names (dots are underscores) and defaults."""

from attrs import frozen


@frozen(kw_only=True)
class BrokerConfig:
    """Times are in milliseconds."""

    #: A follower that was not at the leader's log end for so long leaves the ISR
    replica_lag_time_max_ms: int = 30_000
    #: How long a leader may hold a follower's fetch when there is nothing new
    replica_fetch_wait_max_ms: int = 500
    #: How long a follower leaves a partition alone whose fetch was refused
    replica_fetch_backoff_ms: int = 1_000
    #: After which a follower no longer waits for an answer
    replica_socket_timeout_ms: int = 30_000
    #: Records for each partition of a follower's fetch, where Kafka counts bytes
    replica_fetch_max_records: int = 1_000
    #: How often the high watermarks are written down
    replica_high_watermark_checkpoint_interval_ms: int = 5_000
    #: How often logs are flushed; Kafka's default leaves it to the operating system
    log_flush_interval_ms: int = 2**63 - 1
    #: How often the controller hears of the broker, and is asked again if it does not answer
    broker_heartbeat_interval_ms: int = 2_000
    #: How many fetch sessions are kept (max.incremental.fetch.session.cache.slots)
    fetch_session_slots: int = 1_000
