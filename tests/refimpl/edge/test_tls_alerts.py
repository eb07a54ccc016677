"""A client whose handshake a broker refuses hears why, by an alert of TLS."""

import socket
import ssl
from collections.abc import Iterator

import pytest

from highwater import BlockingCluster, Security
from tests.refimpl.edge.patience import PATIENCE_S

VERSIONS = [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]
ALERT = 21


@pytest.fixture(scope="module")
def security() -> Security:
    return Security(users={"reader": "r"}, protocol="SSL")


@pytest.fixture(scope="module")
def port(security: Security) -> Iterator[int]:
    with BlockingCluster(brokers=1, security=security) as cluster:
        yield int(cluster.bootstrap.rpartition(":")[2])


def refusal(port: int, context: ssl.SSLContext, version: ssl.TLSVersion) -> str:
    """The reason that the client's library tells, at the handshake or at the first answer."""
    context.minimum_version = context.maximum_version = version
    with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as plain:
        try:
            with context.wrap_socket(plain, server_hostname="127.0.0.1") as client:
                client.sendall(bytes(4096))  # as a client does that is sure of its handshake
                client.recv(1)
        except ssl.SSLError as failed:
            return failed.reason or ""
    return "no reason"


@pytest.mark.parametrize("version", VERSIONS)
def test_a_client_without_a_certificate_hears_that_one_is_required(
    port: int, security: Security, version: ssl.TLSVersion
) -> None:
    context = ssl.create_default_context(cafile=security.file("ca.pem"))
    of_version = {
        ssl.TLSVersion.TLSv1_2: "SSLV3_ALERT_HANDSHAKE_FAILURE",
        ssl.TLSVersion.TLSv1_3: "TLSV13_ALERT_CERTIFICATE_REQUIRED",
    }
    assert refusal(port, context, version) == of_version[version]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_certificate_of_nobody_known_is_refused_as_such(
    port: int, security: Security, version: ssl.TLSVersion
) -> None:
    other = Security(users={"reader": "r"}, protocol="SSL")
    context = ssl.create_default_context(cafile=security.file("ca.pem"))
    context.load_cert_chain(other.file("user-reader.pem"))
    assert refusal(port, context, version) == "TLSV1_ALERT_UNKNOWN_CA"


def test_a_client_of_another_version_hears_of_it(port: int) -> None:
    """As bytes, for no library sends such a hello any more: that of SSL 3.0."""
    hello = bytes.fromhex("160300002d01000029 0300") + bytes(32) + bytes.fromhex("00000200050100")
    with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as client:
        client.sendall(hello)
        assert client.recv(1)[0] == ALERT


def test_who_never_reads_the_alert_keeps_nobody_waiting(port: int, security: Security) -> None:
    context = ssl.create_default_context(cafile=security.file("ca.pem"))
    silent = [socket.create_connection(("127.0.0.1", port), PATIENCE_S) for _ in range(8)]
    for one in silent:
        one.sendall(b"no TLS at all, and nobody who reads")
    assert refusal(port, context, VERSIONS[1]) == "TLSV13_ALERT_CERTIFICATE_REQUIRED"
    for one in silent:
        one.close()
