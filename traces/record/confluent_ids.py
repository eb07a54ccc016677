"""How confluent-kafka asks for the ids of topics: by an admin client beside the application's."""

from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import Any

from traces.record.topic_ids import Ask, known
from traces.record.wrapper import Conf

PATIENCE_S = 2
# How to reach the cluster; what else a client is configured with is its own.
_SHARED = (
    *("bootstrap.servers", "metadata.broker.list", "client.dns.lookup", "oauth_cb"),
    *("security.", "sasl.", "ssl.", "enable.ssl.", "socket.", "broker.address."),
)


def asking(conf: Conf) -> Ask | None:
    """What asks for ids, where the configuration tells how to reach the cluster."""
    shared = {name: value for name, value in conf.items() if name.startswith(_SHARED)}
    if not {"bootstrap.servers", "metadata.broker.list"} & shared.keys():
        return None
    clients: list[Any] = []

    def ask(topics: list[str]) -> Mapping[str, str]:
        if not clients:
            clients.append(import_module("confluent_kafka.admin").AdminClient(shared))
        return ids_of(clients[0], topics, PATIENCE_S)

    return ask


def ids_of(client: Any, topics: Iterable[str], patience_s: float) -> dict[str, str]:
    """The ids of topics, as an admin client is told."""
    collection = import_module("confluent_kafka").TopicCollection
    asked = client.describe_topics(collection(list(topics)), request_timeout=patience_s)
    found = {topic: _described(future, patience_s) for topic, future in asked.items()}
    return known(found)


def _described(future: Any, patience_s: float) -> Any:
    try:
        return future.result(patience_s + 1).topic_id
    except Exception:  # the topic is not there, or nobody answers
        return None
