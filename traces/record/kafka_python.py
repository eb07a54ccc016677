"""kafka-python, recorded.

Its generation, its automatic commits and the identity of its producer stand in attributes that are
not part of its interface. Where a version has them elsewhere, these things stay untold.
"""

from typing import Any

from traces.record.kafka_python_admin import KafkaPythonAdmin
from traces.record.kafka_python_consumer import KafkaPythonConsumer
from traces.record.kafka_python_producer import KafkaPythonProducer
from traces.record.python_words import acks, retries
from traces.record.wrapper import ClientOptions, Conf, Fields

PACKAGE = "kafka-python"
MODULES = ("kafka.",)
CLIENTS = ("KafkaProducer", "KafkaConsumer", "KafkaAdminClient")


def describe(client: Any, conf: Conf | None) -> tuple[str, Fields]:
    """The role of a client, and its configuration in the words of meta.json."""
    if hasattr(client, "create_partitions"):
        return "admin", {}
    config: Conf = {**client.config, **(conf or {})}
    if not hasattr(client, "poll"):
        transactional = config.get("transactional_id")
        described: Fields = {
            "acks": acks(config["acks"]),
            "idempotence": bool(config["enable_idempotence"]),
            "max_in_flight": config["max_in_flight_requests_per_connection"],
            "retries": retries(config["retries"]),
            "delivery_timeout_ms": config["delivery_timeout_ms"],
        }
        patience_ms = config["transaction_timeout_ms"]
        transactions = {"transactional_id": transactional, "transaction_timeout_ms": patience_ms}
        return "producer", described | (transactions if transactional else {})
    # Without a group nothing is ever committed, whatever the switch says.
    auto = bool(config["enable_auto_commit"]) and config["group_id"] is not None
    described = {
        "isolation": config["isolation_level"],
        "auto_commit": auto,
        "auto_offset_reset": config["auto_offset_reset"],
        "session_timeout_ms": config["session_timeout_ms"],
        "group_protocol": "classic",  # this client knows no other
    }
    described |= {"commit_order": "auto"} if auto else {}
    described["rack"] = config.get("client_rack") or ""
    named = {"group": "group_id", "group_instance_id": "group_instance_id"}
    return "consumer", described | {n: config[key] for n, key in named.items() if config.get(key)}


def wrap(
    client: Any, conf: Conf | None, options: ClientOptions
) -> KafkaPythonProducer | KafkaPythonConsumer | KafkaPythonAdmin:
    """The client, recorded."""
    if hasattr(client, "create_partitions"):
        return KafkaPythonAdmin(client, options)
    if hasattr(client, "poll"):
        return KafkaPythonConsumer(client, options)
    return KafkaPythonProducer(client, options)
