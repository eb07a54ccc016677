"""Our permissions, entry by entry, beside Kafka's recorded outcomes."""

from highwater import BlockingCluster, Security
from refimpl.api.table import APIS
from tests.wire.authorization import USERS, differences, kept, matrix, requests


def test_every_api_of_the_table_is_asked() -> None:
    unasked = {api.name for api in APIS.values()} - requests(b"\1" * 16).keys()
    assert unasked == {"GetTelemetrySubscriptions", "PushTelemetry"}


def test_a_client_may_do_what_kafka_lets_it_do() -> None:
    security = Security(users=USERS, protocol="SASL_PLAINTEXT", mechanism="PLAIN")
    with BlockingCluster(brokers=1, security=security, offsets_topic=True) as cluster:
        found = matrix(int(cluster.bootstrap.rpartition(":")[2]))
    assert list(differences(kept(), found)) == []
