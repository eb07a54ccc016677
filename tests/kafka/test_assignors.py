"""Our assignors beside those of Kafka's own consumer: thousands of groups, asked in one JVM."""

import os
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest

from chaos.real.kafka.judge import answering
from refimpl.java_hash import HashSet, string_hash
from tests.refimpl.clients.assignors.cases import Case, case_of
from tests.refimpl.clients.assignors.stored import answer_of

SEED = int(os.environ.get("HIGHWATER_SEED", "1"))
CASES = 5000
Ask = Callable[[Case], Any]


@pytest.fixture(scope="module")
def ask() -> Iterator[Ask]:
    """A JVM that answers one case after the other."""
    with answering("Assignors") as answer:
        yield answer


def test_assignments_and_what_travels_are_those_of_kafka(ask: Ask) -> None:
    print(f"seed {SEED}: HIGHWATER_SEED repeats it")
    for seed in range(SEED * CASES, (SEED + 1) * CASES):
        case = case_of(seed)
        assert answer_of(case) == ask(case), f"case_of({seed})"


def test_hash_sets_iterate_as_those_of_java(ask: Ask) -> None:
    rng = Random(SEED)
    for size in (0, 1, 3, 12, 13, 24, 25, 100, 1000):
        for capacity in (1, 16, 64):
            keys = [f"{rng.choice('aß本')}{rng.randrange(10 * size)}" for _ in range(size)]
            answer = ask({"strings": keys, "capacity": capacity})
            assert list(HashSet(string_hash, keys, capacity)) == answer["strings"]


def test_a_full_bucket_doubles_a_small_table_as_in_java(ask: Ask) -> None:
    keys = [a + b + c for a in ("Aa", "BB") for b in ("Aa", "BB") for c in ("Aa", "BB")]
    for more in ("AaAaC#", "x"):
        collide = [*keys, more, "k0", "k1", "zz"]
        assert list(HashSet(string_hash, collide)) == ask({"strings": collide})["strings"]


def member(name: str, topics: str, owned: list[tuple[str, int]], generation: int) -> dict[str, Any]:
    return {
        **{"id": name, "instance_id": None, "rack": None, "version": 3, "topics": list(topics)},
        **{"owned": owned, "generation": generation},
    }


# Where ours differ on purpose. What a group of these members gets from Kafka's sticky assignors: a
# part of a topic that the member does not read, and twice an exception in the leader's `poll`.
NOTHING_READ = [member("a", "", [], -1), member("b", "t", [], -1)]
GONE = [member("a", "tu", [("t", 1), ("u", 0)], 1), member("b", "tu", [("u", 1), ("u", 2)], 1)]
OF_T = [("t", partition) for partition in range(6)]
STALE = [member("a", "t", OF_T, 5), member("b", "t", [], -1), member("c", "u", OF_T[:2], 4)]
DIFFERENCES = {
    "reads nothing": (NOTHING_READ, {"t": 2}, {"a": [["t", 0]], "b": [["t", 1]]}),
    "gone": (GONE, {"t": 1, "u": 3}, "IllegalStateException"),
    "stale claim": (STALE, {"t": 6, "u": 1}, "NullPointerException"),
}


@pytest.mark.parametrize("name", ["sticky", "cooperative-sticky"])
@pytest.mark.parametrize("difference", DIFFERENCES)
def test_where_ours_differ_kafka_breaks_a_promise(ask: Ask, name: str, difference: str) -> None:
    members, sizes, theirs = DIFFERENCES[difference]
    topics: dict[str, Any] = {topic: [[]] * count for topic, count in sizes.items()}
    case = {"assignor": name, "topics": topics, "members": members}
    answer = ask(case)
    assert answer.get("error", answer.get("assigned")) == theirs
    assert answer_of(case)["assigned"] != theirs
