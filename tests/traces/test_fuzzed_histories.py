"""Random histories get exactly the classes that the definitions say, and both checkers agree."""

from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.traces.fuzz.classes import Definitions
from tests.traces.fuzz.edn import history
from tests.traces.fuzz.operations import Operation, Step, corrupt, run
from tests.traces.judging import SEEDED, judged
from tests.traces.test_second_checker import disagreements
from traces.ingest.history import Reading
from traces.second_checker import read

SKIPPED = {"group-delivery-gap"}  # needs to know which commit a member was told


def found(operations: list[Operation], subscribed: bool) -> tuple[set[str], list[Any]]:
    """The classes that are found, and the witnesses that the second checker refutes."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "history.edn"
        path.write_text(history(operations))
        one = judged(path, reading=Reading(subscribed=subscribed))
        assert one.error is None
        return set(one.anomalies) - SKIPPED, disagreements(one, read(path))


@given(seed=st.integers(0, 10**9), subscribed=st.booleans())
@example(seed=77, subscribed=False)  # a commit that is lower than one that overlapped the last
@settings(max_examples=max(150, settings().max_examples), phases=SEEDED)
def test_a_random_history_gets_the_classes_of_the_definitions(seed: int, subscribed: bool) -> None:
    random = Random(seed)
    operations = run(random)
    corrupt(random, operations)
    expected = Definitions(operations, subscribed).classes()
    assert found(operations, subscribed) == (expected, [])


def sends(*steps: Step, process: int = 0, kind: str = "ok", at: int = 0) -> Operation:
    return Operation(process, "send", kind, at, at + 1, list(steps))


def polls(*polled: dict[int, Any], process: int = 1, kind: str = "ok", at: int = 0) -> Operation:
    return Operation(process, "poll", kind, at, at + 1, [["poll", one] for one in polled])


def assigns(*keys: int, at: int, process: int = 1) -> Operation:
    return Operation(process, "assign", "ok", at, at + 1, listed=list(keys))


def shaken(one: Operation) -> Operation:
    one.more["rebalance-log"] = [{"keys": [1]}]
    return one


def member(one: Operation) -> Operation:
    one.more |= {"group": "g", "generation": 1, "assigned": [1]}
    return one


def stored(*offsets: int) -> list[Operation]:
    """One process sends a value to each of these offsets, each by an operation of its own."""
    return [sends(["send", 1, o, o], at=2 * n) for n, o in enumerate(offsets)]


CASES: dict[str, tuple[list[Operation], set[str]]] = {
    # What nobody answered, and only a poll that nobody answered read, is there to be skipped.
    "a skip of what a lost poll has shown": (
        [
            *stored(0, 2),
            sends(["send", 1, None, 1], process=5, kind="info", at=0),
            polls({1: [[0, 0], [1, 1], [2, 2]]}, process=2, kind="info", at=20),
            polls({1: [[0, 0]]}, at=30),
            polls({1: [[2, 2]]}, at=40),
        ],
        {"poll-skip"},
    ),
    "an assignment forgets what it does not list, listed before or not": (
        [
            *stored(0, 1),
            polls({1: [[0, 0], [1, 1]]}, at=30),
            assigns(2, at=40),
            polls({1: [[0, 0]]}, at=50),
        ],
        set(),
    ),
    "failed sends that are read are in an order, too": (
        [
            sends(["send", 1, None, 8], kind="fail", at=0),
            sends(["send", 1, None, 9], kind="fail", at=2),
            polls({1: [[0, 9], [1, 8]]}, at=10),
        ],
        {"G1a", "nonmonotonic-send"},
    ),
    "a rebalance excuses what its own operation read": (
        [*stored(0, 1), shaken(polls({1: [[1, 1], [0, 0]]}, at=30))],
        set(),
    ),
    # Under manual assignment no group can move a partition between two operations.
    "a rebalance excuses nothing between operations": (
        [
            *stored(0, 1, 2),
            shaken(polls({1: [[0, 0]]}, at=30)),
            polls({1: [[2, 2]]}, at=40),
            polls({1: [[1, 1]]}, process=3, at=50),
        ],
        {"poll-skip"},
    ),
    "one poll delivers a record twice": (
        [*stored(0, 1), polls({1: [[0, 0], [0, 0], [1, 1]]}, at=30)],
        {"int-nonmonotonic-poll"},
    ),
    "two polls of an operation that failed": (
        [
            *stored(0, 1, 2),
            polls({1: [[2, 2]]}, {1: [[0, 0]]}, kind="fail", at=30),
            polls({1: [[0, 0], [1, 1], [2, 2]]}, at=40),
        ],
        {"int-nonmonotonic-poll"},
    ),
    "two polls of an operation that nobody answered": (
        [
            *stored(0, 1, 2),
            polls({1: [[0, 0]]}, {1: [[2, 2]]}, process=2, kind="info", at=30),
            polls({1: [[0, 0], [1, 1], [2, 2]]}, at=40),
        ],
        {"int-poll-skip"},
    ),
    "an assigned group member keeps its position": (
        [*stored(0, 1), member(polls({1: [[0, 0], [1, 1]]}, at=30)), polls({1: [[0, 0]]}, at=40)],
        {"nonmonotonic-poll"},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_small_history_gets_its_classes(case: str) -> None:
    operations, expected = CASES[case]
    assert Definitions(operations).classes() == expected
    assert found(operations, subscribed=False) == (expected, [])
