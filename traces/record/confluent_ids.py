"""Questions for the ids of topics, by an admin client of confluent-kafka."""

from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import Any

from traces.record.topic_ids import Ask, known
from traces.record.wrapper import Conf

PATIENCE_S = 2
# How to reach the cluster; what else a client is configured with is its own.
_SHARED = (
    *("bootstrap.servers", "metadata.broker.list", "client.dns.lookup", "oauth_cb"),
    *("security.", "sasl.", "ssl.", "enable.ssl.", "socket.", "broker.address.", "log_level"),
)


def asking(conf: Conf) -> Ask | None:
    """A function that asks for ids, if the configuration tells the cluster's address."""
    shared = {name: value for name, value in conf.items() if name.startswith(_SHARED)}
    if not {"bootstrap.servers", "metadata.broker.list"} & shared.keys():
        return None
    shared["log_level"] = 0  # that nobody answers is told by the application's own client

    def ask(topics: list[str]) -> Mapping[str, str]:
        """A client for one question: it leaves no thread and no connection behind."""
        client: Any = import_module("confluent_kafka.admin").AdminClient(shared)
        return ids_of(client, topics, PATIENCE_S)

    return ask


def ids_of(client: Any, topics: Iterable[str], patience_s: float) -> dict[str, str]:
    """The ids of topics, as an admin client is told."""
    collection = import_module("confluent_kafka").TopicCollection
    asked = client.describe_topics(collection(list(topics)), request_timeout=patience_s)
    found = {topic: _described(future, patience_s) for topic, future in asked.items()}
    return known(found)


def _described(future: Any, patience_s: float) -> Any:
    """The id of a topic, unless it is not there or nobody answers.

    Such an error is not raised here: it would keep this frame, and with it the client.
    """
    try:
        refused = future.exception(patience_s + 1)
    except TimeoutError:
        return None
    return None if refused is not None else future.result().topic_id
