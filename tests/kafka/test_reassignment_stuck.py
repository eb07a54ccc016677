"""Kafka never ends a move that was turned back by another one.

The finding: docs/findings/kafka-reassignment-stuck.md.
"""

from tests.kafka.played import ATTEMPTS, NOT_PLAYED, python


def exit_code(*arguments: str) -> int:
    """Of the example, in the first attempt that could be played."""
    tries = (python("examples/kafka-reassignment-stuck", *arguments) for _ in range(ATTEMPTS))
    found = next((one for one in tries if one.returncode != NOT_PLAYED), None)
    assert found is not None, f"the scenario could not be played in {ATTEMPTS} attempts"
    assert found.returncode in (0, 1), found.stdout + found.stderr
    return found.returncode


def test_the_move_never_ends() -> None:
    mended = "this Kafka ends it: say so in docs/findings/kafka-reassignment-stuck.md"
    assert exit_code() == 1, mended


def test_it_ends_if_it_is_taken_back_by_its_own_request() -> None:
    assert exit_code("--cancel") == 0
