"""Ids of topics for clients of aiokafka, whose metadata has none.

confluent-kafka asks, where it is installed and the cluster wants neither TLS nor a login.
"""

from importlib.util import find_spec
from typing import Any

from traces.record.confluent_ids import asking
from traces.record.process import Process
from traces.record.topic_ids import TopicIds


def topic_ids(process: Process, client: Any) -> TopicIds:
    """The ids of the topics of an AIOKafkaProducer or AIOKafkaConsumer."""
    inner: Any = getattr(client, "client", None) or getattr(client, "_client", None)
    open_to_all = getattr(inner, "_security_protocol", None) == "PLAINTEXT"
    if not open_to_all or find_spec("confluent_kafka") is None:
        return TopicIds(process, None)
    servers: Any = inner._bootstrap_servers
    named = servers if isinstance(servers, str) else ",".join(servers)
    return TopicIds(process, asking({"bootstrap.servers": named}))
