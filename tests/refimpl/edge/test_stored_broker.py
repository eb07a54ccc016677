"""`highwater broker --zookeeper`, where there is none, or where it was asked for in a wrong way."""

import pytest
from click.testing import CliRunner

from refimpl.edge.command import broker


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--id", "1"], "--id is for one broker of a cluster: name its --zookeeper"),
        (["--zookeeper", "127.0.0.1:1"], "has a number of its own: --id N"),
        (
            ["--id", "1", "--zookeeper", "127.0.0.1:1"],
            "127.0.0.1:1: no ZooKeeper server answers there within 0.3 s",
        ),
        (
            ["--set", "zookeeper.connect=127.0.0.1:1/kafka", "--set", "broker.id=7"],
            "127.0.0.1:1: no ZooKeeper server answers there within 0.3 s",
        ),
    ],
)
def test_a_mistake_is_named_in_one_line(arguments: list[str], complaint: str) -> None:
    soon = ["--set", "zookeeper.connection.timeout.ms=300"]
    ran = CliRunner().invoke(broker, [*arguments, *soon])
    assert ran.exit_code == 2
    assert complaint in ran.output
    assert "Traceback" not in ran.output
