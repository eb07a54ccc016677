"""The value of a configuration that is in force, and the others that DescribeConfigs lists."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refimpl.broker.config import BrokerConfig
from refimpl.configs import (
    BROKER,
    TOPIC,
    ConfigError,
    Configs,
    Source,
    Synonym,
    validate_broker,
    validate_quota,
    validate_topic,
)
from refimpl.storage.config import LogConfig
from refimpl.storage.format.batch import TimestampType
from refimpl.storage.format.compression import Codec

HOUR_MS = 3_600_000
RETENTION = ("log.retention.ms", "log.retention.minutes", "log.retention.hours")
IN_MS = {"ms": 1, "minutes": 60_000, "hours": HOUR_MS}

layers = st.fixed_dictionaries(
    {}, optional={name: st.integers(1, 500).map(str) for name in RETENTION}
)


@given(layers, layers, layers)
def test_the_first_layer_that_says_anything_counts_and_in_it_the_finest_unit(
    static: dict[str, str], dynamic: dict[str, str], dynamic_default: dict[str, str]
) -> None:
    says = [layer for layer in (dynamic, dynamic_default, static) if layer]
    by_rank = sorted(says[0].items(), key=lambda one: RETENTION.index(one[0])) if says else []
    name, text = by_rank[0] if by_rank else ("log.retention.hours", "168")
    configs = Configs(static).changed(dynamic=dynamic, dynamic_default=dynamic_default)
    assert configs.topic({})["retention.ms"] == int(text) * IN_MS[name.rpartition(".")[2]]


def test_a_topics_own_value_comes_before_every_other() -> None:
    configs = Configs({"log.segment.bytes": "2000000"}, dynamic={"log.segment.bytes": "3000000"})
    assert configs.topic({"segment.bytes": "4000000"})["segment.bytes"] == 4_000_000
    (entry,) = (
        one
        for one in configs.describe_topic({"segment.bytes": "4000000"})
        if one.name == "segment.bytes"
    )
    assert (entry.value, entry.source, entry.read_only) == ("4000000", Source.TOPIC_CONFIG, False)
    assert entry.synonyms == (
        Synonym("segment.bytes", "4000000", Source.TOPIC_CONFIG),
        Synonym("log.segment.bytes", "3000000", Source.DYNAMIC_BROKER_CONFIG),
        Synonym("log.segment.bytes", "2000000", Source.STATIC_BROKER_CONFIG),
        Synonym("log.segment.bytes", "1073741824", Source.DEFAULT_CONFIG),
    )


def test_secrets_and_unknown_names_are_never_shown() -> None:
    configs = Configs({"ssl.key.password": "hush", "a.plugin.password": "hush"})
    shown = {one.name: one for one in configs.describe_broker()}
    for name in ("ssl.key.password", "a.plugin.password"):
        assert shown[name].sensitive
        assert shown[name].value is None
    assert not any(s.value == "hush" for one in shown.values() for s in one.synonyms)


def test_a_log_and_a_broker_are_configured_by_what_was_resolved() -> None:
    configs = Configs({"log.roll.hours": "2", "compression.type": "zstd", "broker.id": "1"})
    overrides = {"cleanup.policy": "compact,delete", "message.timestamp.type": "LogAppendTime"}
    log = LogConfig.of(configs.topic(overrides), configs["producer.id.expiration.ms"])
    assert log == LogConfig(
        segment_ms=2 * HOUR_MS,
        compression_type=Codec.ZSTD,
        cleanup_policy=frozenset({"compact", "delete"}),
        message_timestamp_type=TimestampType.LOG_APPEND_TIME,
    )
    assert LogConfig.of(Configs().topic({}), 86_400_000) == LogConfig()
    assert BrokerConfig.of(Configs()) == BrokerConfig()
    assert BrokerConfig.of(Configs({"replica.lag.time.max.ms": "7"})).replica_lag_time_max_ms == 7


def test_every_default_is_one_that_its_configuration_takes() -> None:
    for one in (*BROKER.values(), *TOPIC.values()):
        if one.default is not None:
            one.valid(one.name, one.default)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"segment.bytez": "1"}, "Unknown topic config name: segment.bytez"),
        (
            {"segment.bytes": "1"},
            "Invalid value 1 for configuration segment.bytes: Value must be at least 1048576",
        ),
        (
            {"min.compaction.lag.ms": "9", "max.compaction.lag.ms": "8"},
            "conflict topic config setting min.compaction.lag.ms (9) > max.compaction.lag.ms (8)",
        ),
        (
            {"remote.storage.enable": "true"},
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage.",
        ),
    ],
)
def test_a_topics_configurations_are_refused_in_kafkas_words(
    overrides: dict[str, str], message: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        validate_topic(overrides, Configs())
    assert str(refused.value) == message


def test_dynamic_configurations_are_only_those_that_need_no_restart() -> None:
    validate_broker({"log.retention.ms": "5", "of.a.plugin": "x"}, all_brokers=True)
    with pytest.raises(ConfigError, match=r"Cannot update these configs dynamically: \[log.dirs\]"):
        validate_broker({"log.dirs": "/a"}, all_brokers=False)
    with pytest.raises(ConfigError, match=r"broker id must be specified: \[listeners\]"):
        validate_broker({"listeners": "PLAINTEXT://:1"}, all_brokers=True)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("producer_byte_rate", 0.0, "Quota producer_byte_rate must be greater than 0"),
        ("producer_byte_rate", 1.5, "producer_byte_rate cannot be a fractional value."),
        ("byte_rate", 1.0, "Invalid configuration key byte_rate"),
        ("connection_creation_rate", 1.0, "Invalid configuration key connection_creation_rate"),
        (
            "consumer_byte_rate",
            1e20,
            "Proposed value for consumer_byte_rate is too large for a LONG.",
        ),
    ],
)
def test_quotas_are_refused_in_kafkas_words(name: str, value: float, message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        validate_quota(name, value, of_address=False)
    assert str(refused.value) == message
