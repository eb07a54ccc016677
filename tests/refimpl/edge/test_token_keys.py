"""Logins by signed tokens whose keys come from a server (KIP-768), which may hang."""

import json
import threading
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from typing import Any

import pytest
from attrs import define, field
from cryptography.hazmat.primitives.asymmetric import rsa

from highwater import BlockingCluster, Security
from refimpl.edge.server import jwks
from tests.refimpl.edge.patience import PATIENCE_S
from tests.wire.client import Client

jwt: Any = import_module("jwt")
HOUR_S = 3600.0


@define(eq=False)
class Clock:
    """The time of the keys' age."""

    now: float = 1.0

    def monotonic(self) -> float:
        return self.now


@define(eq=False)
class KeyServer:
    """A server of one key, whose answers may be held up."""

    keys: dict[str, Any] = field(factory=dict[str, Any])
    answers: threading.Event = field(factory=threading.Event)
    asked: threading.Semaphore = field(factory=partial(threading.Semaphore, 0))
    port: int = 0

    def add(self, kid: str) -> None:
        self.keys[kid] = rsa.generate_private_key(65537, 2048)

    def token(self, kid: str, user: str) -> bytes:
        claims = {"sub": user, "exp": 4_000_000_000}
        signed = jwt.encode(claims, self.keys[kid], algorithm="RS256", headers={"kid": kid})
        return b"n,,\x01auth=Bearer " + signed.encode() + b"\x01\x01"

    def body(self) -> bytes:
        to_jwk = jwt.algorithms.RSAAlgorithm.to_jwk
        found = [
            {**to_jwk(key.public_key(), as_dict=True), "kid": kid, "alg": "RS256"}
            for kid, key in self.keys.items()
        ]
        return json.dumps({"keys": found}).encode()


@pytest.fixture
def server() -> Generator[KeyServer]:
    of = KeyServer()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            of.asked.release()
            of.answers.wait(PATIENCE_S)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(of.body())

        def log_message(self, format: str, *args: Any) -> None:
            pass

    served = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    of.port = served.server_address[1]
    of.add("first")
    of.answers.set()
    thread = threading.Thread(target=served.serve_forever)
    thread.start()
    yield of
    of.answers.set()
    served.shutdown()
    thread.join()
    served.server_close()


def log_in(port: int, mechanism: str, message: bytes) -> dict[str, Any]:
    with Client.connect(port) as client:
        assert client.ask("SaslHandshake", 1, {"mechanism": mechanism})["error_code"] == "NONE"
        told = client.ask("SaslAuthenticate", 1, {"auth_bytes": message})
        if told["error_code"] == "NONE" and not told["auth_bytes"]:
            assert client.ask("Metadata", 1, {"topics": []})["brokers"]
        return told


def test_a_login_that_waits_for_keys_holds_up_nobody(
    server: KeyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    monkeypatch.setattr(jwks, "time", clock)
    monkeypatch.setattr(jwks, "TIMEOUT_S", PATIENCE_S)
    security = Security(users={"admin": "secret"}, protocol="SASL_PLAINTEXT")
    configs = {"sasl.oauthbearer.jwks.endpoint.url": f"http://localhost:{server.port}/"}
    with (
        ThreadPoolExecutor() as pool,
        BlockingCluster(brokers=1, security=security, configs=configs) as cluster,
    ):
        port = int(cluster.bootstrap.rpartition(":")[2])
        assert log_in(port, "OAUTHBEARER", server.token("first", "u"))["error_code"] == "NONE"
        while server.asked.acquire(blocking=False):
            pass  # at the start
        server.answers.clear()
        server.add("second")
        clock.now += 2 * HOUR_S
        tokens = [server.token(kid, "u") for kid in ("first", "second", "second")]
        waiting = [pool.submit(log_in, port, "OAUTHBEARER", one) for one in tokens]
        assert server.asked.acquire(timeout=PATIENCE_S), "the broker looks for the keys again"
        assert log_in(port, "PLAIN", b"\0admin\0secret")["error_code"] == "NONE"
        assert not any(one.done() for one in waiting)
        server.answers.set()
        assert [one.result(PATIENCE_S)["error_code"] for one in waiting] == ["NONE"] * 3
        assert not server.asked.acquire(blocking=False), "one look for all of them"
        # A key that is missing is looked for once in a while, and not again for each token.
        server.keys["third"] = server.keys["second"]
        unknown = server.token("third", "u")
        del server.keys["third"]
        for looks in (False, True):
            clock.now += 2 * jwks.LEAST_S * looks
            assert log_in(port, "OAUTHBEARER", unknown)["auth_bytes"], "what is wrong"
            assert server.asked.acquire(blocking=False) == looks
