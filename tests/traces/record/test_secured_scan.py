"""The scan of a recording logs in by the file of Kafka's own tools."""

from pathlib import Path

import pytest
from click.testing import CliRunner
from confluent_kafka import Producer

from highwater import BlockingCluster, Security, recorded
from tests.refimpl.edge.patience import PATIENCE_S
from traces.record.cli import record_scan


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-512", "PLAIN", "OAUTHBEARER"])
def test_a_secured_recording_is_scanned(tmp_path: Path, mechanism: str) -> None:
    security = Security(users={"admin": "a b"}, mechanism=mechanism)
    file, run = tmp_path / "client.properties", tmp_path / "run"
    lines = (f"{key}={value}" for key, value in security.java("admin").items())
    file.write_text("\n".join(lines))
    with BlockingCluster(brokers=1, security=security) as cluster:
        cluster.create_topic("t")
        producer = recorded(Producer, run, security.confluent(cluster.bootstrap, "admin"))
        producer.produce("t", b"v")
        assert producer.flush(PATIENCE_S) == 0
        producer.close()
        arguments = [str(run), "--bootstrap", cluster.bootstrap, "--command-config", str(file)]
        done = CliRunner().invoke(record_scan, arguments)
    assert done.exit_code == 0, done.output
