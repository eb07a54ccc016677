"""Our clients log in at real Kafka by each mechanism; a refusal reaches them at once."""

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import admin

from chaos.real.kafka.judge import Judge, KafkaBroker, free_port
from highwater import Consumer, ConsumerError, Producer, Security, SendError
from refimpl.edge.testing.security import BY_NAME_ALONE, PLAIN_MODULE, SCRAM_MODULE, TOKEN_MODULE
from tests.kafka.clients import create_topics
from tests.refimpl.edge.clients.consuming import read

USER, WORD = "reader", "a b,c=d'x"
LOGIN = f'required username="{USER}" password="{WORD}";'
WAYS = {
    "SSL": "",
    "PLAIN": f"{PLAIN_MODULE} {LOGIN}",
    "SCRAM-SHA-256": f"{SCRAM_MODULE} {LOGIN}",
    "SCRAM-SHA-512": f"{SCRAM_MODULE} {LOGIN}",
    "OAUTHBEARER": f'{TOKEN_MODULE} required unsecuredLoginStringClaim_sub="{USER}";',
}


@pytest.fixture(scope="module")
def secured(
    judge: Judge, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, dict[str, str]]]:
    """The settings of a client for each way into a broker of Kafka's."""
    security = Security(users={USER: WORD}, authorizer=False)
    broker = KafkaBroker(tmp_path_factory.mktemp("broker"))
    ports = {"SASL_SSL": free_port(), "SSL": free_port()}
    places = {"PLAINTEXT": broker.port, **ports, "CONTROLLER": broker.controller}
    protocols = [f"{one}:{one}" for one in ("PLAINTEXT", *ports)]
    logins = {
        f"listener.name.sasl_ssl.{one.lower()}.sasl.jaas.config": f"{SCRAM_MODULE} required;"
        for one in ("SCRAM-SHA-256", "SCRAM-SHA-512")
    }
    broker.settings.update(
        security.settings()
        | logins
        | {
            "listeners": ",".join(f"{one}://127.0.0.1:{at}" for one, at in places.items()),
            "listener.security.protocol.map": ",".join((*protocols, "CONTROLLER:PLAINTEXT")),
            "inter.broker.listener.name": "PLAINTEXT",
            "listener.name.ssl.ssl.client.auth": "required",
            "ssl.principal.mapping.rules": BY_NAME_ALONE,
            "connections.max.reauth.ms": "4000",
        }
    )
    broker.format(judge)
    with broker.running():
        create_topics(broker.address, {"orders": {}})
        keep_password(broker.address)
        trust = {"ssl.truststore.type": "PEM", "ssl.truststore.location": security.file("ca.pem")}
        own = {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": security.file(f"user-{USER}.pem"),
        }
        found: dict[str, dict[str, str]] = {}
        for way, jaas in WAYS.items():
            protocol = "SASL_SSL" if jaas else "SSL"
            login = {"sasl.mechanism": way, "sasl.jaas.config": jaas} if jaas else own
            found[way] = {
                "bootstrap.servers": f"127.0.0.1:{ports[protocol]}",
                "security.protocol": protocol,
                **trust,
                **login,
            }
        yield found


def keep_password(address: str) -> None:
    """The user's SCRAM credentials, of both mechanisms."""
    library: Any = admin  # its types are not all exported
    client = library.AdminClient({"bootstrap.servers": address})
    for one in (library.ScramMechanism.SCRAM_SHA_256, library.ScramMechanism.SCRAM_SHA_512):
        info = library.ScramCredentialInfo(one, 4096)
        kept = library.UserScramCredentialUpsertion(USER, info, WORD.encode())
        for done in client.alter_user_scram_credentials([kept]).values():
            done.result(30)


@pytest.mark.parametrize("way", WAYS)
def test_a_record_is_written_and_read(secured: dict[str, dict[str, str]], way: str) -> None:
    """For longer than a session: each login is renewed, or the one attempt would fail."""
    mine: dict[str, Any] = secured[way]
    once = {"linger.ms": 0, "retries": 0, "enable.idempotence": False}
    with Producer(mine | once) as producer:
        sent = [producer.send("orders", way, partition=0).result(30)]
        while sent[-1].timestamp_ms < sent[0].timestamp_ms + 5_000:
            sent.append(producer.send("orders", way, partition=0).result(30))
    with Consumer(mine) as consumer:
        consumer.assign([("orders", 0)])
        consumer.seek(("orders", 0), sent[0].offset)
        assert [one.value for one in read(consumer, len(sent))] == [way.encode()] * len(sent)


@pytest.mark.parametrize("way", ["PLAIN", "SCRAM-SHA-256"])
def test_a_wrong_password_is_told_at_once(secured: dict[str, dict[str, str]], way: str) -> None:
    mine = {**secured[way], "sasl.jaas.config": WAYS[way].replace("a b,c", "wrong")}
    with Producer(mine) as producer:
        with pytest.raises(SendError) as refused:
            producer.send("orders", "x").result(30)
        assert refused.value.error == "SASL_AUTHENTICATION_FAILED"
    with Consumer(mine) as consumer:
        consumer.assign([("orders", 0)])
        with pytest.raises(ConsumerError) as told:
            consumer.poll(30)
        assert told.value.error == "SASL_AUTHENTICATION_FAILED"


def test_a_client_without_a_certificate_is_told_at_once(
    secured: dict[str, dict[str, str]],
) -> None:
    mine = {name: value for name, value in secured["SSL"].items() if "keystore" not in name}
    with Producer(mine) as producer:
        with pytest.raises(SendError, match=r"bad certificate|certificate required") as refused:
            producer.send("orders", "x").result(30)
        assert refused.value.error == "SSL_AUTHENTICATION_FAILED"
