"""Jepsen histories: exactly the anomalies that are in them, by name."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.traces.judging import judged
from traces.ingest.history import Reading

HISTORIES = Path(__file__).parent / "data" / "histories"
EXPECTED: dict[str, dict[str, Any]] = json.loads((HISTORIES / "expected.json").read_text())


def reading(expected: dict[str, Any]) -> Reading:
    return Reading(
        subscribed=expected["mode"] == "subscribe",
        compacted=expected.get("cleanup_policy") == "compact",
        ww_deps=expected["ww_deps"],
    )


def test_every_history_has_a_truth() -> None:
    assert set(EXPECTED) == {path.name for path in HISTORIES.glob("*.edn")}
    assert len(EXPECTED) == 30


@pytest.mark.parametrize("name", EXPECTED)
def test_a_history_gets_exactly_its_anomalies(name: str) -> None:
    expected = EXPECTED[name]
    one = judged(HISTORIES / name, reading=reading(expected))
    assert one.anomalies == expected["expected"], expected["note"]
    assert (one.verdict == "violated") == (not expected["valid"])


@pytest.mark.parametrize("name", EXPECTED)
def test_a_witness_is_at_most_four_events_of_the_history(name: str) -> None:
    one = judged(HISTORIES / name, reading=reading(EXPECTED[name]))
    written = one.as_json()
    witnesses = [w for c in written["checks"].values() for w in c["witnesses"]]
    if EXPECTED[name]["expected"]:
        assert witnesses
    for witness in witnesses:
        assert 1 <= len(witness["events"]) <= 4
        assert {event["file"] for event in witness["events"]} == {name}


def test_a_class_that_cannot_be_decided_is_not_called_absent() -> None:
    one = judged(HISTORIES / "basic.edn")
    assert {"hw-regression", "fencing-violation", "offset-for-time-wrong"} <= set(one.undecided)
    assert "duplicate" not in one.undecided
    assert one.as_json()["anomalies_not_checked"] == one.undecided


def test_under_subscription_only_what_one_poll_shows_is_a_skip() -> None:
    """The same history with an assignment has a consumer that jumps."""
    path = HISTORIES / "subscribe-skip-legal.edn"
    assert judged(path, reading=Reading(subscribed=True)).anomalies == []
    assert judged(path, reading=Reading(subscribed=False)).anomalies == ["poll-skip"]


def test_a_history_in_which_anybody_subscribes_needs_nobody_to_say_so() -> None:
    path = HISTORIES / "subscribe-skip-legal.edn"
    assert ":subscribe" in path.read_text()
    assert judged(path).anomalies == []


def test_a_hole_is_a_skip_and_a_loss_unless_the_topic_is_compacted() -> None:
    path = HISTORIES / "compaction-never-read.edn"
    assert judged(path, reading=Reading(compacted=True)).anomalies == []
    found = judged(path, reading=Reading()).anomalies
    assert found == ["int-poll-skip", "lost-write", "unseen"]


CLAIMED_WRONGLY_ELSEWHERE: dict[str, tuple[list[str], list[str]]] = {
    # A send that nobody answered happened after all, and its reader is the only one of its key.
    "an undecided send that was read": (
        [
            "{:index 0, :time 0, :process 0, :type :invoke, :f :send, :value [[:send 1 7]]}",
            "{:index 1, :time 1, :process 1, :type :invoke, :f :poll, :value [[:poll]]}",
            "{:index 2, :time 2, :process 1, :type :ok, :f :poll, :value [[:poll {1 [[0 7]]}]]}",
            "{:index 3, :time 3, :process 0, :type :info, :f :send, :value [[:send 1 7]]}",
        ],
        [],
    ),
    "a failed send read by a poll that nobody answered": (
        [
            "{:index 0, :time 0, :process 0, :type :invoke, :f :send, :value [[:send 1 7]]}",
            "{:index 1, :time 1, :process 0, :type :fail, :f :send, :value [[:send 1 7]]}",
            "{:index 2, :time 2, :process 1, :type :invoke, :f :poll, :value [[:poll]]}",
            "{:index 3, :time 3, :process 1, :type :info, :f :poll, :value [[:poll {1 [[0 7]]}]]}",
        ],
        ["G1a"],
    ),
    "an assignment between two sends hides no reversal": (
        [
            "{:index 0, :time 0, :process 0, :type :invoke, :f :send, :value [[:send 1 7]]}",
            "{:index 1, :time 1, :process 0, :type :ok, :f :send, :value [[:send 1 [5 7]]]}",
            "{:index 2, :time 2, :process 0, :type :invoke, :f :assign, :value [2]}",
            "{:index 3, :time 3, :process 0, :type :ok, :f :assign, :value [2]}",
            "{:index 4, :time 4, :process 0, :type :invoke, :f :send, :value [[:send 1 8]]}",
            "{:index 5, :time 5, :process 0, :type :ok, :f :send, :value [[:send 1 [3 8]]]}",
            "{:index 6, :time 6, :process 1, :type :invoke, :f :poll, :value [[:poll]]}",
            "{:index 7, :time 7, :process 1, :type :ok, :f :poll, "
            ":value [[:poll {1 [[3 8] [5 7]]}]]}",
        ],
        ["append-order-realtime", "nonmonotonic-send"],
    ),
    "a seek to the beginning is no step back": (
        [
            "{:index 0, :time 0, :process 0, :type :invoke, :f :send, :value [[:send 1 7]]}",
            "{:index 1, :time 1, :process 0, :type :ok, :f :send, :value [[:send 1 [0 7]]]}",
            "{:index 2, :time 2, :process 1, :type :invoke, :f :assign, :value [1]}",
            "{:index 3, :time 3, :process 1, :type :ok, :f :assign, :value [1]}",
            "{:index 4, :time 4, :process 1, :type :invoke, :f :poll, :value [[:poll]]}",
            "{:index 5, :time 5, :process 1, :type :ok, :f :poll, :value [[:poll {1 [[0 7]]}]]}",
            "{:index 6, :time 6, :process 1, :type :invoke, :f :assign, :value [1]}",
            "{:index 7, :time 7, :process 1, :type :ok, :f :assign, :value [1], "
            ":seek-to-beginning? true}",
            "{:index 8, :time 8, :process 1, :type :invoke, :f :poll, :value [[:poll]]}",
            "{:index 9, :time 9, :process 1, :type :ok, :f :poll, :value [[:poll {1 [[0 7]]}]]}",
        ],
        [],
    ),
    "a history without an edge is no anomaly": (
        [
            "{:index 0, :time 0, :process 1, :type :invoke, :f :poll, :value [[:poll]]}",
            "{:index 1, :time 1, :process 1, :type :ok, :f :poll, :value [[:poll {}]]}",
        ],
        [],
    ),
    "retention removed the head before anybody read": (
        [
            "{:index 0, :time 0, :process 0, :type :invoke, :f :send, :value [[:send 1 7]]}",
            "{:index 1, :time 1, :process 0, :type :ok, :f :send, :value [[:send 1 [0 7]]]}",
            "{:index 2, :time 2, :process 0, :type :invoke, :f :send, :value [[:send 1 8]]}",
            "{:index 3, :time 3, :process 0, :type :ok, :f :send, :value [[:send 1 [1 8]]]}",
            "{:index 4, :time 4, :process 1, :type :invoke, :f :poll, :value [[:poll]]}",
            "{:index 5, :time 5, :process 1, :type :ok, :f :poll, :value [[:poll {1 [[1 8]]}]], "
            ":log-start-offsets {1 1}}",
        ],
        [],
    ),
    "real time closes a circle through a transaction that reads early": (
        # T1 is sent after T3 had read what M, which read T1, sent: no single read is of the future.
        [
            "{:index 0, :time 0, :process 2, :type :invoke, :f :txn, "
            ":value [[:send 2 20] [:poll]]}",
            "{:index 1, :time 1, :process 3, :type :invoke, :f :poll, :value [[:poll]]}",
            "{:index 2, :time 2, :process 3, :type :ok, :f :poll, :value [[:poll {2 [[0 20]]}]]}",
            "{:index 3, :time 3, :process 1, :type :invoke, :f :send, :value [[:send 1 10]]}",
            "{:index 4, :time 4, :process 1, :type :ok, :f :send, :value [[:send 1 [0 10]]]}",
            "{:index 5, :time 5, :process 2, :type :ok, :f :txn, "
            ":value [[:send 2 [0 20]] [:poll {1 [[0 10]]}]]}",
        ],
        ["G1c-realtime"],
    ),
}


@pytest.mark.parametrize("case", CLAIMED_WRONGLY_ELSEWHERE)
def test_what_jepsens_checker_gets_wrong_is_right_here(case: str, tmp_path: Path) -> None:
    lines, expected = CLAIMED_WRONGLY_ELSEWHERE[case]
    path = tmp_path / "history.edn"
    path.write_text("\n".join(lines))
    assert judged(path).anomalies == expected
