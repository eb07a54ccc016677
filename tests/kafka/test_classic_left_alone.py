"""Kafka leaves partitions without an owner where only classic members are in a consumer group.

The finding: docs/findings/kafka-classic-left-alone.md.
"""

from pathlib import Path

from refimpl.edge.testing.blocking import BlockingCluster
from tests.kafka.played import ATTEMPTS, NOT_PLAYED, python

NAME = "examples/kafka-classic-left-alone"


def exit_code(*arguments: str) -> int:
    """Of the example, in the first attempt that could be played."""
    tries = (python(NAME, *arguments) for _ in range(ATTEMPTS))
    found = next((one for one in tries if one.returncode != NOT_PLAYED), None)
    assert found is not None, f"the scenario could not be played in {ATTEMPTS} attempts"
    assert found.returncode in (0, 1), found.stdout + found.stderr
    return found.returncode


def test_nobody_owns_what_the_last_member_of_the_consumer_protocol_left() -> None:
    mended = "this Kafka assigns it: say so in docs/findings/kafka-classic-left-alone.md"
    assert exit_code() == 1, mended


def test_a_group_that_may_become_classic_again_goes_on() -> None:
    assert exit_code("--policy", "bidirectional") == 0


def test_ours_assigns_it(tmp_path: Path) -> None:
    configs = {"group.consumer.migration.policy": "upgrade"}
    with BlockingCluster(brokers=1, data=tmp_path, configs=configs) as ours:
        assert exit_code("--bootstrap", ours.bootstrap) == 0
