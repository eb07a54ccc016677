"""A producer's settings: Kafka's names, its defaults of 4.3, and how one limits another."""

from collections.abc import Callable, Mapping
from typing import Any

from attrs import frozen

from refimpl.clients.config import read
from refimpl.configs import PRODUCER, ConfigError

ACKS = {"0": 0, "1": 1, "all": -1, "-1": -1}
MOST_IN_FLIGHT = 5
"""With idempotence: as many batches of a producer as a leader remembers."""


@frozen
class ProducerConfig:
    """The settings that decide something in the machine, under Kafka's names."""

    acks: int
    batch_size: int
    buffer_memory: int
    client_id: str
    compression_type: str
    delivery_timeout_ms: int
    enable_idempotence: bool
    linger_ms: int
    max_block_ms: int
    max_in_flight: int
    max_request_size: int
    metadata_max_age_ms: int
    metadata_max_idle_ms: int
    rebootstrap_trigger_ms: int
    rebootstraps: bool
    adaptive_partitioning: bool
    availability_timeout_ms: int
    partitioner: Callable[..., int] | str | None
    ignore_keys: bool
    reconnect_backoff_ms: int
    reconnect_backoff_max_ms: int
    request_timeout_ms: int
    retries: int
    retry_backoff_ms: int
    retry_backoff_max_ms: int
    transaction_timeout_ms: int
    transactional_id: str | None

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> "ProducerConfig":
        """Read settings. Raises ConfigError with one sentence."""
        values = read(given, PRODUCER, "producer")
        acks = ACKS[values["acks"]]
        return cls(
            acks=acks,
            batch_size=values["batch.size"],
            buffer_memory=values["buffer.memory"],
            client_id=values["client.id"],
            compression_type=values["compression.type"],
            delivery_timeout_ms=_delivery_timeout(given, values),
            enable_idempotence=_idempotence(given, values, acks),
            linger_ms=values["linger.ms"],
            max_block_ms=values["max.block.ms"],
            max_in_flight=values["max.in.flight.requests.per.connection"],
            max_request_size=values["max.request.size"],
            metadata_max_age_ms=values["metadata.max.age.ms"],
            metadata_max_idle_ms=values["metadata.max.idle.ms"],
            rebootstrap_trigger_ms=values["metadata.recovery.rebootstrap.trigger.ms"],
            rebootstraps=values["metadata.recovery.strategy"].lower() == "rebootstrap",
            adaptive_partitioning=values["partitioner.adaptive.partitioning.enable"],
            availability_timeout_ms=values["partitioner.availability.timeout.ms"],
            partitioner=values["partitioner.class"],
            ignore_keys=values["partitioner.ignore.keys"],
            reconnect_backoff_ms=values["reconnect.backoff.ms"],
            reconnect_backoff_max_ms=values["reconnect.backoff.max.ms"],
            request_timeout_ms=values["request.timeout.ms"],
            retries=values["retries"],
            retry_backoff_ms=values["retry.backoff.ms"],
            retry_backoff_max_ms=values["retry.backoff.max.ms"],
            transaction_timeout_ms=values["transaction.timeout.ms"],
            transactional_id=_transactional_id(given, values, acks),
        )


def _delivery_timeout(given: Mapping[str, Any], values: Mapping[str, Any]) -> int:
    """Long enough for one attempt: a longer attempt makes the default longer (KIP-91)."""
    needed = min(values["linger.ms"] + values["request.timeout.ms"], 2**31 - 1)
    if values["delivery.timeout.ms"] >= needed:
        return values["delivery.timeout.ms"]
    if "delivery.timeout.ms" in given:
        raise ConfigError(
            f"delivery.timeout.ms is {values['delivery.timeout.ms']}, and must not be less than "
            f"linger.ms + request.timeout.ms, which is {needed}"
        )
    return needed


def _idempotence(given: Mapping[str, Any], values: Mapping[str, Any], acks: int) -> bool:
    """True unless another setting excludes it; asked for by name, it excludes them (KIP-679)."""
    if not values["enable.idempotence"]:
        return False
    in_flight = values["max.in.flight.requests.per.connection"]
    if in_flight > MOST_IN_FLIGHT:
        raise ConfigError(
            f"max.in.flight.requests.per.connection is {in_flight}, and with idempotence at most "
            f"{MOST_IN_FLIGHT}: a leader remembers as many batches of a producer"
        )
    wanted = "acks=all" if acks != -1 else "retries above 0" if values["retries"] == 0 else ""
    if wanted and "enable.idempotence" in given:
        raise ConfigError(f"enable.idempotence is true, and needs {wanted}")
    return not wanted


def _transactional_id(given: Mapping[str, Any], values: Mapping[str, Any], acks: int) -> str | None:
    """None without transactions, which need idempotence."""
    if values["transactional.id"] is not None and not _idempotence(given, values, acks):
        raise ConfigError("transactional.id is set, and needs enable.idempotence=true and acks=all")
    return values["transactional.id"]
