"""Kafka leaves a partition without a leader when min.insync.replicas is changed meanwhile.

The finding: docs/findings/kafka-elr-cleared.md.
"""

from tests.kafka.played import ATTEMPTS, NOT_PLAYED, python


def exit_code(*arguments: str) -> int:
    """Of the example, in the first attempt that could be played."""
    tries = (python("examples/kafka-elr-cleared", *arguments) for _ in range(ATTEMPTS))
    found = next((one for one in tries if one.returncode != NOT_PLAYED), None)
    assert found is not None, f"the scenario could not be played in {ATTEMPTS} attempts"
    assert found.returncode in (0, 1), found.stdout + found.stderr
    return found.returncode


def test_nobody_is_elected_after_a_change_of_the_setting() -> None:
    mended = "this Kafka elects a leader: say so in docs/findings/kafka-elr-cleared.md"
    assert exit_code() == 1, mended


def test_a_leader_is_elected_without_it() -> None:
    assert exit_code("--keep-config") == 0
