"""Settings of Kafka's own tools become those of librdkafka; a mistake is one line."""

from pathlib import Path

import pytest

from traces.model.output import Refusal
from traces.record.command_config import command_config

CERTIFICATE = "-----BEGIN CERTIFICATE-----"


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("ca.pem").write_text(CERTIFICATE)
    Path("own.p12").write_bytes(b"\x30\x82")
    return Path("client.properties")


def test_a_login_and_authorities_are_translated(file: Path) -> None:
    file.write_text(
        "# mine\nsecurity.protocol = SASL_SSL\nsasl.mechanism=SCRAM-SHA-256\n"
        'sasl.jaas.config=org.apache.X required username="u" password="a b\\\\"c";\n'
        "ssl.truststore.location=ca.pem\n"
    )
    assert command_config(file) == {
        **{"security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-256"},
        **{"sasl.username": "u", "sasl.password": 'a b"c', "ssl.ca.location": "ca.pem"},
    }


@pytest.mark.parametrize("kind", ["ca.pem", "own.p12"])
def test_a_certificate_of_its_own_is_translated(file: Path, kind: str) -> None:
    lines = f"ssl.keystore.location={kind}\nssl.keystore.password=x\nssl.key.password=y\n"
    file.write_text(lines)
    pem = {"ssl.certificate.location": kind, "ssl.key.location": kind, "ssl.key.password": "y"}
    packed = {f"ssl.keystore.{key}": one for key, one in (("location", kind), ("password", "x"))}
    assert command_config(file) == (pem if kind == "ca.pem" else packed | {"ssl.key.password": "y"})


def test_a_token_for_tests_is_translated(file: Path) -> None:
    jaas = 'X required unsecuredLoginStringClaim_sub="u";'
    file.write_text(f"sasl.mechanism=OAUTHBEARER\nsasl.jaas.config={jaas}\n")
    found = command_config(file)
    assert found["sasl.oauthbearer.config"] == "principal=u principalClaimName=sub"
    assert found["enable.sasl.oauthbearer.unsecure.jwt"] == "true"


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("acks", ":1: expected KEY=VALUE, found 'acks'"),
        ("ssl.truststore.location=gone.pem", "ssl.truststore.location=gone.pem: No such file"),
        ("ssl.truststore.location=own.p12", "ssl.truststore.type=PKCS12: librdkafka reads PEM"),
        ("sasl.jaas.config=X required;", 'expected username="…" and password="…"'),
    ],
)
def test_a_mistake_is_one_line(file: Path, line: str, why: str) -> None:
    file.write_text(line + "\n")
    with pytest.raises(Refusal) as refused:
        command_config(file)
    assert why in str(refused.value)
