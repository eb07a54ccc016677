"""Questions for the ids of topics, by an admin client of confluent-kafka."""

from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Any

from attrs import define, field

from traces.record.topic_ids import known
from traces.record.wrapper import Conf

PATIENCE_S = 2
AdminOf = Callable[[Conf], Any]
# How to reach the cluster; what else a client is configured with is its own.
_SHARED = (
    *("bootstrap.servers", "metadata.broker.list", "client.dns.lookup", "oauth_cb"),
    *("security.", "sasl.", "ssl.", "enable.ssl.", "socket.", "broker.address.", "log_level"),
)


def of_its_own(conf: Conf) -> Any:
    """A client for one question: it leaves no thread and no connection behind."""
    return import_module("confluent_kafka.admin").AdminClient(conf)


@define
class Asking:
    """Asks for ids of topics, by admin clients of this `conf`."""

    conf: Conf
    admin_of: AdminOf = of_its_own

    def __call__(self, topics: list[str]) -> Mapping[str, str]:
        """Their ids."""
        return ids_of(self.admin_of(self.conf), topics, PATIENCE_S)


def asking(conf: Conf) -> Asking | None:
    """A function that asks for ids, if the configuration tells the cluster's address."""
    shared = reaching(conf)
    return Asking(shared) if {"bootstrap.servers", "metadata.broker.list"} & shared.keys() else None


def reaching(conf: Conf) -> Conf:
    """The settings by which a client with this configuration reaches its cluster."""
    shared = {name: value for name, value in conf.items() if name.startswith(_SHARED)}
    return shared | {"log_level": 0}  # that nobody answers is told by the application's own client


@define
class SharedAdmins:
    """One admin client for each cluster: for questions that follow each other at a run's end."""

    _made: list[tuple[Conf, Any]] = field(factory=list[tuple[Conf, Any]])

    def of(self, conf: Conf) -> Any:
        """The client that reaches the cluster of this configuration."""
        wanted = reaching(conf)
        for made, client in self._made:
            if made == wanted:
                return client
        self._made.append((wanted, of_its_own(wanted)))
        return self._made[-1][1]


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
