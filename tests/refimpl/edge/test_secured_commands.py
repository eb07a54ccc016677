"""Our verbs log in by each mechanism, with the files of Java's clients."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509 import load_pem_x509_certificates

from highwater import BlockingCluster, Security
from refimpl.edge.commands.topics import topics
from tests.refimpl.edge.asking import alone

WORD = "a b,c=d'x\"y"
WAYS = (
    *(("SSL", ""), ("SASL_SSL", "PLAIN"), ("SASL_SSL", "SCRAM-SHA-256")),
    *(("SASL_SSL", "SCRAM-SHA-512"), ("SASL_SSL", "OAUTHBEARER")),
)


def written(settings: dict[str, str], file: Path) -> str:
    """A file of settings, as Java reads it."""
    lines = (f"{key}={value}".replace("\\", "\\\\") for key, value in settings.items())
    file.write_text("\n".join(lines))
    return str(file)


@pytest.mark.parametrize(("protocol", "mechanism"), WAYS)
def test_topics_are_listed_by_each_mechanism(protocol: str, mechanism: str, tmp_path: Path) -> None:
    word = WORD.replace('"', "") if mechanism != "OAUTHBEARER" else "unused"
    more: Any = {"mechanism": mechanism} if mechanism else {}
    security = Security(users={"admin": word}, protocol=protocol, **more)
    with BlockingCluster(brokers=1, security=security) as cluster:
        cluster.create_topic("orders")
        file = written(security.java("admin"), tmp_path / "client.properties")
        code, said = alone(topics, cluster.bootstrap, "--list", "--command-config", file)
        assert (code, said.split()) == (0, ["orders"]), said


@pytest.fixture(scope="module")
def certified() -> Iterator[tuple[Security, BlockingCluster]]:
    security = Security(users={"admin": "a"}, protocol="SSL")
    with BlockingCluster(brokers=1, security=security) as cluster:
        cluster.create_topic("orders")
        yield security, cluster


def test_stores_may_be_pkcs12_as_javas_are(
    certified: tuple[Security, BlockingCluster], tmp_path: Path
) -> None:
    security, cluster = certified
    data = Path(security.file("user-admin.pem")).read_bytes()
    key, (first, *rest) = (
        serialization.load_pem_private_key(data, None),
        load_pem_x509_certificates(data),
    )
    hidden = serialization.BestAvailableEncryption(b"secret")
    authorities = load_pem_x509_certificates(Path(security.file("ca.pem")).read_bytes())
    own, trusted = tmp_path / "own.p12", tmp_path / "trusted.p12"
    made = pkcs12.serialize_key_and_certificates(b"k", key, first, rest, hidden)  # type: ignore[arg-type]
    own.write_bytes(made)
    aliased = [pkcs12.PKCS12Certificate(one, b"ca") for one in authorities]
    trusted.write_bytes(pkcs12.serialize_java_truststore(aliased, hidden))
    settings = {"security.protocol": "SSL"}
    for name, path in (("keystore", own), ("truststore", trusted)):
        settings |= {f"ssl.{name}.location": str(path), f"ssl.{name}.password": "secret"}
    file = written(settings, tmp_path / "client.properties")
    code, said = alone(topics, cluster.bootstrap, "--list", "--command-config", file)
    assert (code, said.split()) == (0, ["orders"]), said
    wrong = written({**settings, "ssl.keystore.password": "wrong"}, tmp_path / "wrong.properties")
    code, said = alone(topics, cluster.bootstrap, "--list", "--command-config", wrong)
    assert code == 2
    assert "ssl.keystore.location" in said.splitlines()[-1]
    assert "Traceback" not in said


def test_a_refused_certificate_is_told_as_such(
    certified: tuple[Security, BlockingCluster], tmp_path: Path
) -> None:
    security, cluster = certified
    settings = {**security.java("admin")}
    del settings["ssl.keystore.location"], settings["ssl.keystore.type"]
    file = written(settings, tmp_path / "client.properties")
    limits = ("--list", "--command-config", file, "--timeout", "3")
    code, said = alone(topics, cluster.bootstrap, *limits)
    assert code == 2
    assert "Traceback" not in said
