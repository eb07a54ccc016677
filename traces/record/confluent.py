"""confluent-kafka: which of its clients are recorded, and how they are configured.

What librdkafka does not tell stays untold: positions that it moves silently, the producer's id and
epoch, and the delivery of messages for which it is configured to report errors alone.
"""

from typing import Any

from traces.record.confluent_admin import ConfluentAdmin
from traces.record.confluent_consumer import ConfluentConsumer
from traces.record.confluent_producer import ConfluentProducer, ConfluentSerializingProducer
from traces.record.confluent_share import ConfluentShareConsumer
from traces.record.wrapper import ClientOptions, Conf, Fields

PACKAGE = "confluent-kafka"
MODULES = ("cimpl", "confluent_kafka")
PRODUCERS = ("Producer", "SerializingProducer")
SHARES = ("ShareConsumer", "DeserializingShareConsumer")
ADMIN = "AdminClient"
CLIENTS = (*PRODUCERS, "Consumer", "DeserializingConsumer", *SHARES, ADMIN)


def describe(client: Any, conf: Conf | None) -> tuple[str, Fields]:
    """The role of a client, and its configuration in the words of meta.json, as far as told."""
    if _is(client, ADMIN):
        return "admin", {}
    if _is(client, *SHARES):
        group = (conf or {}).get("group.id")
        return "consumer", {"group": group} if group else {}
    producer = _is_producer(client)
    role = "producer" if producer else "consumer"
    if conf is None:
        return role, {}
    return role, _described_producer(conf) if producer else _described_consumer(conf)


def wrap(
    client: Any, conf: Conf | None, options: ClientOptions
) -> "ConfluentProducer | ConfluentConsumer | ConfluentShareConsumer | ConfluentAdmin":
    """The client, recorded; made here, if `client` is a class."""
    if _is(client, *SHARES):
        made = client(dict(conf or {})) if isinstance(client, type) else client
        return ConfluentShareConsumer(made, options, conf or {})
    if _is(client, ADMIN):
        admin = ConfluentAdmin(
            client(dict(conf or {})) if isinstance(client, type) else client, options
        )
        return admin
    if _is_producer(client):
        made = client(dict(conf or {})) if isinstance(client, type) else client
        kind = type(made).__mro__
        serializing = any(base.__name__ == "SerializingProducer" for base in kind)
        wrapper = ConfluentSerializingProducer if serializing else ConfluentProducer
        return wrapper(made, options, conf or {})
    consumer = ConfluentConsumer(None, options, conf or {})
    if isinstance(client, type):
        hooked = dict(conf or {}) | {"on_commit": consumer.on_commit}
        consumer.take(client(hooked), commit_callbacks=True)
    else:
        consumer.take(client, commit_callbacks=False)
    return consumer


def _is_producer(client: Any) -> bool:
    return _is(client, *PRODUCERS)


def _is(client: Any, *names: str) -> bool:
    kind: type = client if isinstance(client, type) else type(client)
    return any(base.__name__ in names for base in kind.__mro__)


def _described_producer(conf: Conf) -> Fields:
    transactional = conf.get("transactional.id")
    idempotent = _true(conf.get("enable.idempotence", bool(transactional)))
    acks = str(_first(conf, "acks", "request.required.acks", default="all"))
    in_flight = ("max.in.flight.requests.per.connection", "max.in.flight")
    described: Fields = {
        "acks": "all" if acks == "-1" else acks,
        "idempotence": idempotent,
        "max_in_flight": int(_first(conf, *in_flight, default=5 if idempotent else 1_000_000)),
        "retries": int(_first(conf, "retries", "message.send.max.retries", default=2**31 - 1)),
        "delivery_timeout_ms": int(
            _first(conf, "delivery.timeout.ms", "message.timeout.ms", default=300_000)
        ),
        "partitioner": conf.get("partitioner", "consistent_random"),
    }
    if not transactional:
        return described
    patience_ms = int(conf.get("transaction.timeout.ms", 60_000))
    return described | {"transactional_id": transactional, "transaction_timeout_ms": patience_ms}


def _described_consumer(conf: Conf) -> Fields:
    reset = str(conf.get("auto.offset.reset", "largest"))
    auto = _true(conf.get("enable.auto.commit", True))
    described: Fields = {
        "isolation": conf.get("isolation.level", "read_committed"),
        "auto_commit": auto,
        "auto_offset_reset": {"smallest": "earliest", "beginning": "earliest"}.get(
            reset, "latest" if reset in ("largest", "end") else reset
        ),
        "group_protocol": conf.get("group.protocol", "classic"),
        "assignor": conf.get("partition.assignment.strategy", "range,roundrobin"),
        "session_timeout_ms": int(conf.get("session.timeout.ms", 45_000)),
    }
    if auto:
        described["commit_order"] = "auto"
    described["rack"] = conf.get("client.rack", "")
    named = {"group": "group.id", "group_instance_id": "group.instance.id"}
    return described | {name: conf[key] for name, key in named.items() if conf.get(key)}


def _first(conf: Conf, *names: str, default: Any) -> Any:
    return next((conf[name] for name in names if name in conf), default)


def _true(value: Any) -> bool:
    return value is True or str(value).lower() == "true"
