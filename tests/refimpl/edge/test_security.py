"""Listeners with TLS and SASL: who comes in, who does not, and what is told to whom."""

import asyncio
import socket
import ssl
import struct
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from attrs import define
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from highwater import BlockingCluster, Security
from refimpl.edge.server.tls import distinguished_name
from refimpl.messages import controller as c
from refimpl.security.acls import (
    AccessControlEntry,
    AclBinding,
    Operation,
    Permission,
    ResourcePattern,
    ResourceType,
)
from tests.wire.client import Client

SECRET = "a b,c=d'x"
USERS = {"admin": "admin-secret", "reader": SECRET}


def port_of(cluster: BlockingCluster) -> int:
    return int(cluster.bootstrap.rpartition(":")[2])


@pytest.fixture(scope="module")
def logins() -> Security:
    return Security(users=USERS, protocol="SASL_PLAINTEXT", mechanism="SCRAM-SHA-512")


@pytest.fixture(scope="module")
def plain(logins: Security) -> Generator[BlockingCluster]:
    """Logins without TLS, that have to be done again after a second."""
    again = {"connections.max.reauth.ms": 1_200, "connection.failed.authentication.delay.ms": 0}
    with BlockingCluster(brokers=1, security=logins, configs=again) as cluster:
        cluster.create_topic("t")
        yield cluster


def token(user: str, word: str) -> bytes:
    return f"\0{user}\0{word}".encode()


def log_in(client: Client, user: str, word: str, mechanism: str = "PLAIN") -> dict[str, Any]:
    told = client.ask("SaslHandshake", 1, {"mechanism": mechanism})
    assert told["error_code"] == "NONE", told
    return client.ask("SaslAuthenticate", 1, {"auth_bytes": token(user, word)})


def test_what_is_served_and_the_mechanisms_are_told_to_anybody(plain: BlockingCluster) -> None:
    with Client.connect(port_of(plain)) as client:
        software = {"client_software_name": "script", "client_software_version": "1"}
        assert client.ask("ApiVersions", 3, software)["error_code"] == "NONE"
        told = client.ask("SaslHandshake", 1, {"mechanism": "GSSAPI"})
        assert told["error_code"] == "UNSUPPORTED_SASL_MECHANISM"
        wanted = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]
        assert told["mechanisms"] == wanted
        with pytest.raises(ConnectionError):
            client.ask("SaslHandshake", 1, {"mechanism": "PLAIN"})


@pytest.mark.parametrize("handshaken", [False, True])
def test_nothing_else_is_served_before_a_login(plain: BlockingCluster, handshaken: bool) -> None:
    with Client.connect(port_of(plain)) as client:
        if handshaken:
            client.ask("SaslHandshake", 1, {"mechanism": "PLAIN"})
        with pytest.raises(ConnectionError):
            client.ask("Metadata", 9, {"topics": None})


@pytest.mark.parametrize(
    ("user", "word"), [("reader", "wrong"), ("nobody", SECRET), ("reader", "")]
)
def test_a_wrong_password_is_refused_and_repeated_nowhere(
    plain: BlockingCluster, user: str, word: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with Client.connect(port_of(plain)) as client:
        told = log_in(client, user, word)
        assert told["error_code"] == "SASL_AUTHENTICATION_FAILED"
        assert told["error_message"].startswith("Authentication failed: ")
        with pytest.raises(ConnectionError):
            client.ask("Metadata", 9, {"topics": None})
    said = told["error_message"] + "".join(capfd.readouterr())
    assert SECRET not in said
    assert "wrong" not in said


def test_a_frame_before_a_login_is_small(plain: BlockingCluster) -> None:
    with socket.create_connection(("127.0.0.1", port_of(plain)), 30) as client:
        client.sendall(struct.pack(">i", 600_000))
        assert client.recv(1) == b""


def test_a_login_of_version_0_has_bare_tokens(plain: BlockingCluster) -> None:
    with Client.connect(port_of(plain)) as client:
        client.ask("SaslHandshake", 0, {"mechanism": "PLAIN"})
        sent = token("admin", USERS["admin"])
        client.connection.sendall(struct.pack(">i", len(sent)) + sent)
        assert client.connection.recv(4) == bytes(4)
        assert client.ask("Metadata", 9, {"topics": None})["topics"][0]["name"] == "t"


def test_a_session_ends_unless_its_client_logs_in_again(plain: BlockingCluster) -> None:
    with Client.connect(port_of(plain)) as lasting, Client.connect(port_of(plain)) as ending:
        for client in (lasting, ending):
            assert log_in(client, "admin", USERS["admin"])["session_lifetime"] == 1_200
        plain.advance(1_100)
        assert log_in(lasting, "admin", USERS["admin"])["error_code"] == "NONE"
        plain.advance(1_100)
        assert lasting.ask("Metadata", 9, {"topics": None})["topics"]
        with pytest.raises(ConnectionError):
            ending.ask("Metadata", 9, {"topics": None})


@pytest.mark.parametrize(
    ("user", "mechanism", "why"),
    [
        ("reader", "PLAIN", "Cannot change principals during re-authentication from User.admin"),
        ("admin", "SCRAM-SHA-256", "requested by client is not supported for re-authentication"),
    ],
)
def test_who_logs_in_again_is_the_same_by_the_same_mechanism(
    plain: BlockingCluster, user: str, mechanism: str, why: str
) -> None:
    with Client.connect(port_of(plain)) as client:
        log_in(client, "admin", USERS["admin"])
        plain.advance(1_100)
        told = log_in(client, user, USERS[user], mechanism)
        assert told["error_code"] == "SASL_AUTHENTICATION_FAILED"
        assert why in told["error_message"]


def _name(error: Any) -> str:
    return error.name()


def test_scram_knows_the_password_and_an_acl_what_its_user_may(
    plain: BlockingCluster, logins: Security
) -> None:
    security = logins
    entry = AccessControlEntry("User:reader", "*", Operation.READ, Permission.ALLOW)
    reads = AclBinding(ResourcePattern(ResourceType.TOPIC.value, "t"), entry)
    plain.ask(c.CreateAclsRequest([reads]))
    plain.settled()
    producer = Producer(security.confluent(plain.bootstrap, "admin"))
    producer.produce("t", b"value")
    assert producer.flush(30) == 0
    client: Any = AdminClient(security.confluent(plain.bootstrap, "reader"))
    assert list(client.list_topics(timeout=30).topics) == ["t"]
    refused: list[str] = []
    other = Producer(security.confluent(plain.bootstrap, "reader"))
    other.produce("t", b"value", on_delivery=lambda error, _: refused.append(_name(error)))
    other.flush(30)
    assert refused == ["TOPIC_AUTHORIZATION_FAILED"]
    wrong = {**security.confluent(plain.bootstrap, "reader"), "sasl.password": "x", "log_level": 0}
    with pytest.raises(KafkaException):
        AdminClient(wrong).list_topics(timeout=2)


def test_a_quota_counts_by_the_user_who_has_logged_in(plain: BlockingCluster) -> None:
    entity = (("user", "admin"),)
    wanted = c.QuotaAlteration(entity, (("producer_byte_rate", 1.0),))
    plain.ask(c.AlterClientQuotasRequest([wanted]))
    plain.settled()
    asked: dict[str, Any] = {"acks": 1, "timeout": 1000, "topic_data": []}
    try:
        with Client.connect(port_of(plain)) as client:
            log_in(client, "admin", USERS["admin"])
            assert client.ask("Produce", 9, asked)["throttle_time"] > 0
        with Client.connect(port_of(plain)) as client:
            log_in(client, "reader", USERS["reader"])
            assert client.ask("Produce", 9, asked)["throttle_time"] == 0
    finally:
        none = c.QuotaAlteration(entity, (("producer_byte_rate", None),))
        plain.ask(c.AlterClientQuotasRequest([none]))


# TLS


@define
class Mutual:
    """A cluster that wants certificates of clients."""

    cluster: BlockingCluster
    security: Security

    @property
    def port(self) -> int:
        return port_of(self.cluster)


@pytest.fixture(scope="module")
def mutual() -> Generator[Mutual]:
    security = Security(users=USERS, protocol="SSL")
    with BlockingCluster(brokers=1, security=security) as cluster:
        cluster.create_topic("t")
        yield Mutual(cluster, security)


def handshake(of: Mutual, certificate: str | None) -> ssl.SSLSocket:
    context = ssl.create_default_context(cafile=of.security.file("ca.pem"))
    if certificate is not None:
        context.load_cert_chain(certificate)
    raw = socket.create_connection(("127.0.0.1", of.port), 30)
    return context.wrap_socket(raw, server_hostname="127.0.0.1")


def test_a_certificate_says_who_a_client_is(mutual: Mutual) -> None:
    security, cluster = mutual.security, mutual.cluster
    admin = Producer(security.confluent(cluster.bootstrap, "admin"))
    admin.produce("t", b"value")
    assert admin.flush(30) == 0
    consumer = {"group.id": "g", **security.confluent(cluster.bootstrap, "reader")}
    metadata: Any = Consumer(consumer).list_topics(timeout=30)
    assert metadata.topics == {}


def comes_in(of: Mutual, certificate: str | None) -> bool:
    """True if a request is answered; TLS 1.3 tells of a refusal only after the handshake."""
    try:
        with handshake(of, certificate) as client:
            client.sendall(struct.pack(">ihhih", 10, 18, 0, 1, -1))
            return bool(client.recv(1))
    except OSError:
        return False


def test_who_has_no_certificate_of_ours_does_not_come_in(
    mutual: Mutual, capfd: pytest.CaptureFixture[str]
) -> None:
    stranger = Security(users={"admin": "x"}, protocol="SSL")
    for certificate in (None, stranger.file("user-admin.pem")):
        assert not comes_in(mutual, certificate)
    assert "a TLS handshake that failed" in capfd.readouterr().err


def test_plain_text_at_a_tls_listener_ends_that_connection_alone(mutual: Mutual) -> None:
    with socket.create_connection(("127.0.0.1", mutual.port), 30) as client:
        client.sendall(struct.pack(">ihhih", 10, 18, 0, 1, -1))
        assert client.recv(7)[:1] in (b"", b"\x15")  # the end, behind an alert or not
    test_a_certificate_says_who_a_client_is(mutual)


def test_another_certificate_is_shown_without_a_restart(mutual: Mutual) -> None:
    security = mutual.security
    mine = security.file("user-admin.pem")

    def shown() -> bytes | None:
        with handshake(mutual, mine) as client:
            return client.getpeercert(binary_form=True)

    def shown_soon(other_than: bytes | None) -> bytes | None:
        until = time.monotonic() + 30
        while (found := shown()) == other_than and time.monotonic() < until:
            pass  # files are looked at once in a second
        return found

    before = shown()
    security.renew()
    after = shown_soon(before)
    assert before != after
    Path(security.file("broker.pem")).write_text("nothing")
    assert shown() == after
    security.renew()
    assert shown_soon(after) != after, "a file that could not be used is looked at again"
    assert before is not None
    assert distinguished_name(before).startswith("CN=broker")


def test_a_hundred_handshakes_that_never_go_on_keep_nobody_out(mutual: Mutual) -> None:
    idle = [socket.create_connection(("127.0.0.1", mutual.port), 30) for _ in range(100)]
    try:
        test_a_certificate_says_who_a_client_is(mutual)
    finally:
        for one in idle:
            one.close()


@pytest.mark.parametrize("kind", ["PKCS12", "PEM with a password", "PEM in the settings"])
def test_a_key_store_may_have_other_forms(kind: str, tmp_path: Path) -> None:
    from cryptography.hazmat.primitives import serialization as s
    from cryptography.hazmat.primitives.serialization import pkcs12
    from cryptography.x509 import load_pem_x509_certificates

    security = Security(users=USERS, protocol="SSL", authorizer=False)
    data = Path(security.file("broker.pem")).read_bytes()
    key: Any = s.load_pem_private_key(data, None)
    first, *rest = load_pem_x509_certificates(data)
    hidden = s.BestAvailableEncryption(b"secret")
    chain = b"".join(one.public_bytes(s.Encoding.PEM) for one in (first, *rest))
    locked = key.private_bytes(s.Encoding.PEM, s.PrivateFormat.PKCS8, hidden)
    path = tmp_path / "store"
    if kind == "PKCS12":
        path.write_bytes(pkcs12.serialize_key_and_certificates(b"k", key, first, rest, hidden))
        settings = {"ssl.keystore.type": kind, "ssl.keystore.password": "secret"}
    elif kind == "PEM with a password":
        path.write_bytes(locked + chain)
        settings = {"ssl.key.password": "secret"}
    else:
        one_line = locked.decode().replace("\n", " "), chain.decode().replace("\n", " ")
        settings = {"ssl.keystore.key": one_line[0], "ssl.keystore.certificate.chain": one_line[1]}
        settings |= {"ssl.key.password": "secret"}
    if kind != "PEM in the settings":
        settings["ssl.keystore.location"] = str(path)
    else:
        settings["ssl.keystore.location"] = ""
    with BlockingCluster(brokers=1, security=security, configs=settings) as cluster:
        client: Any = AdminClient(security.confluent(cluster.bootstrap, "admin"))
        assert client.list_topics(timeout=30).topics == {}


def test_credentials_and_acls_outlive_a_restart(tmp_path: Path) -> None:
    security = Security(users=USERS, protocol="SASL_PLAINTEXT")
    entry = AccessControlEntry("User:reader", "*", Operation.READ, Permission.ALLOW)
    reads = AclBinding(ResourcePattern(ResourceType.TOPIC.value, "t"), entry)

    async def live(ask: Any) -> Any:
        from highwater import Cluster

        async with Cluster(brokers=1, data=tmp_path, security=security) as cluster:
            return await ask(cluster)

    async def first(cluster: Any) -> None:
        await cluster.ask(c.CreateAclsRequest([reads]))

    async def second(cluster: Any) -> Any:
        metadata = cluster.hosts[1].node.metadata
        return list(metadata.acls.bindings()), sorted(metadata.scram)

    asyncio.run(live(first))
    assert asyncio.run(live(second)) == ([reads], ["admin", "reader"])
