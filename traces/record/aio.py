"""aiokafka, recorded.

Its configuration, its generation, its automatic commits and the identity of its producer stand in
attributes that are not part of its interface. Where a version has them elsewhere, these things stay
untold. Its records carry no leader epoch.
"""

from typing import Any

from traces.record.aio_consumer import AioConsumer
from traces.record.aio_producer import AioProducer
from traces.record.python_words import acks
from traces.record.wrapper import ClientOptions, Conf, Fields

PACKAGE = "aiokafka"
MODULES = ("aiokafka.",)
CLIENTS = ("AIOKafkaProducer", "AIOKafkaConsumer")


def describe(client: Any, conf: Conf | None) -> tuple[str, Fields]:
    """The role of a client, and its configuration in the words of meta.json."""
    if hasattr(client, "getmany"):
        return "consumer", _described_consumer(client, conf or {})
    return "producer", _described_producer(client, conf or {})


def _described_producer(client: Any, conf: Conf) -> Fields:
    manager = getattr(client, "_txn_manager", None)
    transactional = getattr(manager, "transactional_id", None)
    asked = conf.get("acks", getattr(getattr(client, "_sender", None), "_acks", None))
    described: Fields = {
        "idempotence": manager is not None,
        # One request at a time to each partition, and retries until the time-out.
        "max_in_flight": 1,
        "retries": 2**31 - 1,
    }
    described |= {} if asked is None else {"acks": acks(asked)}
    patience_ms = getattr(manager, "transaction_timeout_ms", None)
    transactions = {"transactional_id": transactional, "transaction_timeout_ms": patience_ms}
    return described | {k: v for k, v in transactions.items() if v is not None and transactional}


def _described_consumer(client: Any, conf: Conf) -> Fields:
    def of(name: str) -> Any:
        return conf.get(name, getattr(client, f"_{name}", None))

    auto = bool(of("enable_auto_commit")) and of("group_id") is not None
    described: Fields = {
        "isolation": of("isolation_level"),
        "auto_commit": auto,
        "auto_offset_reset": of("auto_offset_reset"),
        "group": of("group_id"),
        "group_instance_id": of("group_instance_id"),
        "session_timeout_ms": of("session_timeout_ms"),
        "group_protocol": "classic",  # this client knows no other
        "commit_order": "auto" if auto else None,
        "rack": "",  # this client reads from leaders only
    }
    return {name: value for name, value in described.items() if value is not None}


def wrap(client: Any, conf: Conf | None, options: ClientOptions) -> AioProducer | AioConsumer:
    """The client, recorded."""
    if hasattr(client, "getmany"):
        return AioConsumer(client, options)
    return AioProducer(client, options)
