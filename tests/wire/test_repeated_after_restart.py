"""A producer sends batches in flight again to a broker that has started again in between."""

from pathlib import Path
from typing import Any

import pytest

from refimpl.edge.testing.blocking import BlockingCluster
from tests.wire.asking import create, produce, topic
from tests.wire.client import Client


def asked(client: Client, api: str, version: int, **fields: Any) -> dict[str, Any]:
    return client.ask(api, version, fields)


@pytest.mark.parametrize("killed", [False, True], ids=["stopped", "killed"])
def test_batches_in_flight_are_known_after_a_restart(tmp_path: Path, killed: bool) -> None:
    """A snapshot in Kafka's format has the last one alone, and the log has the others."""
    with BlockingCluster(brokers=1, data=tmp_path) as cluster:
        port = int(cluster.bootstrap.rpartition(":")[2])

        def sent(client: Client, sequence: int) -> tuple[str, int]:
            answer = produce(
                lambda *a, **f: asked(client, *a, **f), "t", 2, producer=(7, 0, sequence)
            )
            (one,) = answer["responses"][0]["partition_responses"]
            return one["error_code"], one["base_offset"]

        with Client.connect(port) as client:
            create(lambda *a, **f: asked(client, *a, **f), topic("t"))
            assert [sent(client, sequence) for sequence in (0, 2, 4)] == [
                ("NONE", 0),
                ("NONE", 2),
                ("NONE", 4),
            ]
        if killed:
            cluster.kill(1)
        else:
            cluster.stop(1)
        cluster.restart(1)
        with Client.connect(port) as client:
            while sent(client, 2)[0] == "NOT_LEADER_OR_FOLLOWER":
                pass  # until it has been made the leader
            assert [sent(client, sequence) for sequence in (2, 4, 6)] == [
                ("NONE", 2),
                ("NONE", 4),
                ("NONE", 6),
            ]
