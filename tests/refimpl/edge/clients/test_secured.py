"""Our own clients log in, under TLS or not; a refusal reaches the application at once."""

import asyncio
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from highwater import (
    AsyncConsumer,
    AsyncProducer,
    BlockingCluster,
    Consumer,
    ConsumerError,
    Producer,
    Security,
    SendError,
)
from refimpl.configs import ConfigError
from refimpl.edge.clients import connections
from refimpl.security.logins import LoginFailed, ScramLogin, unsecured_token
from tests.refimpl.edge.clients.consuming import read

USERS = {"admin": "admin-secret", "reader": "a b,c=d'x"}
WAYS = [
    ("SSL", ""),
    ("SASL_PLAINTEXT", "PLAIN"),
    ("SASL_PLAINTEXT", "SCRAM-SHA-256"),
    ("SASL_SSL", "SCRAM-SHA-512"),
    ("SASL_SSL", "OAUTHBEARER"),
]


@pytest.fixture(scope="module", params=WAYS, ids="-".join)
def secured(request: pytest.FixtureRequest) -> Generator[tuple[Security, BlockingCluster]]:
    protocol, mechanism = request.param
    more = {"mechanism": mechanism} if mechanism else {}
    security = Security(users=USERS, protocol=protocol, super_users=("admin", "reader"), **more)
    again = {"connections.max.reauth.ms": 800} if protocol == "SASL_PLAINTEXT" else {}
    with BlockingCluster(brokers=1, security=security, configs=again) as cluster:
        cluster.create_topic("t", partitions=2)
        yield security, cluster


def settings(secured: tuple[Security, BlockingCluster], user: str) -> dict[str, Any]:
    security, cluster = secured
    return {"bootstrap.servers": cluster.bootstrap, **security.java(user)}


def test_both_clients_come_in(secured: tuple[Security, BlockingCluster]) -> None:
    mine = settings(secured, "reader")
    with Producer(mine) as producer:
        sent = [producer.send("t", f"{number}", partition=0) for number in range(20)]
        first = sent[0].result(30).offset
        assert [one.result(30).offset for one in sent] == [*range(first, first + 20)]
    with Consumer(mine | {"group.id": "g", "auto.offset.reset": "earliest"}) as consumer:
        consumer.subscribe(["t"])
        found = read(consumer, first + 20)
        assert [one.value for one in found][-20:] == [f"{n}".encode() for n in range(20)]
        consumer.commit()


def test_both_clients_of_a_loop_come_in(secured: tuple[Security, BlockingCluster]) -> None:
    mine = settings(secured, "admin")

    async def run() -> None:
        async with AsyncProducer(mine) as producer, AsyncConsumer(mine) as consumer:
            offset = (await producer.send_and_wait("t", "x", partition=1)).offset
            consumer.assign([("t", 1)])
            consumer.seek(("t", 1), offset)
            async with asyncio.timeout(30):
                while not (found := await consumer.poll(1)):
                    pass
            assert found[0].value == b"x"

    asyncio.run(run())


@pytest.fixture(scope="module")
def passwords() -> Generator[tuple[Security, BlockingCluster]]:
    security = Security(users=USERS, protocol="SASL_PLAINTEXT", authorizer=False)
    again = {"connections.max.reauth.ms": 60_000, "connection.failed.authentication.delay.ms": 0}
    with BlockingCluster(brokers=1, security=security, configs=again) as cluster:
        cluster.create_topic("t")
        yield security, cluster


def test_a_wrong_password_ends_a_send_and_a_poll_at_once(
    passwords: tuple[Security, BlockingCluster],
) -> None:
    mine = settings(passwords, "reader")
    mine["sasl.jaas.config"] = mine["sasl.jaas.config"].replace("a b,c", "wrong")
    with Producer(mine) as producer:
        for reason in ("invalid credentials", "cannot go on"):
            with pytest.raises(SendError, match=reason) as refused:
                producer.send("t", "x").result(20)
            assert refused.value.error == "SASL_AUTHENTICATION_FAILED"
            assert refused.value.certain
    with Consumer(mine | {"group.id": "g"}) as consumer:
        consumer.subscribe(["t"])
        for ask in (lambda: consumer.poll(20), lambda: consumer.committed([("t", 0)])):
            with pytest.raises(ConsumerError) as told:
                ask()
            assert told.value.error == "SASL_AUTHENTICATION_FAILED"
            assert "wrong" not in str(told.value)
        consumer.close(timeout_s=0)


def test_a_mechanism_that_the_broker_lacks_is_named() -> None:
    security = Security(users=USERS, protocol="SASL_PLAINTEXT", authorizer=False)
    only = {"sasl.enabled.mechanisms": "SCRAM-SHA-256"}
    with BlockingCluster(brokers=1, security=security, configs=only) as cluster:
        mine = settings((security, cluster), "admin") | {"sasl.mechanism": "SCRAM-SHA-512"}
        with Producer(mine) as producer:
            with pytest.raises(SendError, match="the broker has SCRAM-SHA-256") as refused:
                producer.send("t", "x").result(20)
            assert refused.value.error == "UNSUPPORTED_SASL_MECHANISM"


def test_a_session_is_renewed_before_it_ends(
    passwords: tuple[Security, BlockingCluster], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without it the broker ends the connection, and one attempt has to do here."""
    monkeypatch.setattr(connections, "RENEWED", (1 / 60, 1 / 60))
    logins: list[float] = []

    async def token() -> str:
        logins.append(time.monotonic())
        return unsecured_token({"unsecuredLoginStringClaim_sub": "admin"}, int(time.time()))

    mine = settings(passwords, "admin") | {
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.jaas.config": None,
        "sasl.login.callback.handler.class": token,
        "enable.idempotence": False,
        "retries": 0,
        "linger.ms": 0,
    }
    with Producer(mine) as producer:
        first = producer.send("t", "x", partition=0).result(20).offset
        known, last = len(logins), first
        while len(logins) < known + 2:  # the bootstrap server has a connection of its own
            last = producer.send("t", "x", partition=0).result(20).offset
        passwords[1].advance(59_500)  # of the first session nothing is left
        assert producer.send("t", "x", partition=0).result(20).offset > last > first


def test_a_certificate_of_another_authority_is_refused(tmp_path: Path) -> None:
    security = Security(users=USERS, protocol="SSL", authorizer=False)
    other = Security(users=USERS, protocol="SSL", authorizer=False, folder=tmp_path)
    with BlockingCluster(brokers=1, security=security) as cluster:
        good = settings((security, cluster), "reader")
        strange = other.java("reader")
        name, reason = "ssl.truststore.location", "unable to get local issuer|self.signed"
        with Producer(good | {name: strange[name]}) as producer:
            with pytest.raises(SendError, match=reason) as refused:
                producer.send("t", "x").result(20)
            assert refused.value.error == "SSL_AUTHENTICATION_FAILED"


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"security.protocol": "TLS"}, "security.protocol"),
        ({"security.protocol": "SASL_SSL"}, "sasl.mechanism: Those that are here are PLAIN"),
        (
            {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"},
            "sasl.jaas.config is needed: it names the user of PLAIN",
        ),
        (
            {
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "PLAIN",
                "sasl.jaas.config": 'PlainLoginModule required username="u";',
            },
            "password=",
        ),
        (
            {
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "OAUTHBEARER",
                "sasl.jaas.config": "OAuthBearerLoginModule required;",
            },
            "unsecuredLoginStringClaim_sub",
        ),
        (
            {"security.protocol": "SSL", "ssl.truststore.location": "/nowhere.pem"},
            "The file cannot be read: No such file or directory",
        ),
        (
            {"security.protocol": "SSL", "ssl.enabled.protocols": "TLSv1.1"},
            "Those that are here are TLSv1.2, TLSv1.3",
        ),
    ],
)
def test_settings_that_cannot_be_are_refused_at_the_start(
    wrong: dict[str, str], reason: str
) -> None:
    for make in (AsyncProducer, AsyncConsumer):
        with pytest.raises(ConfigError, match=reason):
            make({"bootstrap.servers": "localhost:1", **wrong})


def test_a_broker_that_does_not_know_the_password_is_refused() -> None:
    login = ScramLogin("SCRAM-SHA-256", "u", "secret")
    nonce = login.first().decode().rpartition("r=")[2]
    assert login.answer(f"r={nonce}x,s=c2FsdCBvZiAxMiBieXRlcw==,i=4096".encode())
    with pytest.raises(LoginFailed, match="does not prove"):
        login.answer(b"v=bm8gcHJvb2Y=")
