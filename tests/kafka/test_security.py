"""Real Kafka's permissions, entry by entry, are those that were recorded."""

import os
from pathlib import Path

from chaos.real.kafka.judge import Judge, KafkaBroker, free_port
from tests.wire.authorization import USERS, differences, keep, kept, matrix

STANDARD = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


def secured(folder: Path, port: int) -> KafkaBroker:
    """A broker whose clients log in by PLAIN at this port, beside its own plain listener."""
    broker = KafkaBroker(folder)
    users = " ".join(f'user_{user}="{word}"' for user, word in USERS.items())
    places = {
        "PLAINTEXT": broker.port,
        "SASL_PLAINTEXT": port,
        "CONTROLLER": broker.controller,
    }
    broker.settings.update(
        {
            "listeners": ",".join(f"{one}://127.0.0.1:{at}" for one, at in places.items()),
            "listener.security.protocol.map": ",".join(
                (
                    *(f"{one}:{one}" for one in ("PLAINTEXT", "SASL_PLAINTEXT")),
                    "CONTROLLER:PLAINTEXT",
                )
            ),
            "inter.broker.listener.name": "PLAINTEXT",
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.sasl_plaintext.plain.sasl.jaas.config": f"{PLAIN} required {users};",
            "authorizer.class.name": STANDARD,
            "super.users": "User:admin;User:ANONYMOUS",
        }
    )
    return broker


def test_kafka_allows_what_was_recorded(judge: Judge, tmp_path: Path) -> None:
    port = free_port()
    broker = secured(tmp_path, port)
    broker.format(judge)
    with broker.running():
        found = matrix(port)
    if os.environ.get("HIGHWATER_RECORD"):
        keep(found)
    assert list(differences(kept(), found)) == []
