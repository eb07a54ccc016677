"""Unsupported requests fail at once: the client receives a final error, or the broker logs them."""

import asyncio
import ssl
import urllib.request
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest

from refimpl.edge import BlockingCluster

aiokafka: Any = import_module("aiokafka")
aiokafka_errors: Any = import_module("aiokafka.errors")
SAID = "highwater: broker 1: 127.0.0.1 sent "
LOGIN = {
    "security_protocol": "SASL_PLAINTEXT",
    "sasl_mechanism": "PLAIN",
    "sasl_plain_username": "a",
    "sasl_plain_password": "b",
}


@pytest.fixture
def cluster() -> Iterator[BlockingCluster]:
    with BlockingCluster(brokers=1) as cluster:
        yield cluster


def connect(cluster: BlockingCluster, **settings: Any) -> None:
    """Fail to connect with aiokafka, which tries once."""

    async def start() -> None:
        producer = aiokafka.AIOKafkaProducer(bootstrap_servers=cluster.bootstrap, **settings)
        try:
            await producer.start()
        finally:
            await producer.stop()

    with pytest.raises(aiokafka_errors.KafkaConnectionError):
        asyncio.run(start())


def test_who_logs_in_is_refused_and_named_once(
    cluster: BlockingCluster, capfd: pytest.CaptureFixture[str]
) -> None:
    connect(cluster, **LOGIN)
    connect(cluster, **LOGIN)
    said = f"{SAID}SaslHandshake, where nobody logs in: set security.protocol=PLAINTEXT"
    assert capfd.readouterr().err.count(said) == 1


def test_who_expects_tls_hears_that_there_is_none(
    cluster: BlockingCluster, capfd: pytest.CaptureFixture[str]
) -> None:
    host, port = cluster.bootstrap.split(":")
    said = f"{SAID}a TLS handshake, where PLAINTEXT alone is served: set security.protocol"

    async def shake() -> None:
        context = ssl.create_default_context()
        with pytest.raises(ssl.SSLError, match="HANDSHAKE_FAILURE"):
            await asyncio.open_connection(host, int(port), ssl=context)

    asyncio.run(shake())
    assert said in capfd.readouterr().err


def test_who_asks_by_http_is_named(
    cluster: BlockingCluster, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(OSError, match="closed"):
        urllib.request.urlopen(f"http://{cluster.bootstrap}", timeout=10)
    assert f"{SAID}an HTTP request, where Kafka's protocol is served" in capfd.readouterr().err


def test_an_api_that_is_not_served_is_named(
    cluster: BlockingCluster, capfd: pytest.CaptureFixture[str]
) -> None:
    async def ask() -> None:
        host, port = cluster.bootstrap.split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(bytes.fromhex("0000000a 0029 0001 00000001 ffff"))  # DescribeDelegationToken
        assert await reader.read() == b""
        writer.close()

    asyncio.run(ask())
    what = "version 1 of DescribeDelegationToken (API key 41) is not served"
    said = f"{SAID}a request that is not served: {what}"
    assert said in capfd.readouterr().err


def test_what_is_said_of_strangers_has_an_end(
    cluster: BlockingCluster, capfd: pytest.CaptureFixture[str]
) -> None:
    async def ask() -> None:
        host, port = cluster.bootstrap.split(":")
        for version in range(30):
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(bytes.fromhex(f"0000000a 001a {version:04x} 00000001 ffff"))
            assert await reader.read() == b""
            writer.close()

    asyncio.run(ask())
    lines = capfd.readouterr().err.splitlines()
    assert len(lines) == 17
    assert lines[-1].endswith("(nothing more is said of such clients)")
