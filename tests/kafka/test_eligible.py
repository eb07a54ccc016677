"""Kafka elects replicas, cleanly, whose log is no longer the one that made them eligible.

The findings: docs/findings/kafka-elr-removed-replica.md, kafka-directory-taken-out.md and
kafka-future-copy.md. What Kafka's classes do with a fix: test_fixes.py.
"""

from pathlib import Path

import pytest

from tests.kafka import played

#: By finding, the control: what keeps the records.
CONTROLS = {
    "kafka-elr-removed-replica": "--at-once",
    "kafka-directory-taken-out": "--replaced",
    "kafka-future-copy": "--undelivered",
}
#: By finding, topic, replicas and partition.
TOPICS = {
    "kafka-elr-removed-replica": ("elr-removed", 3),
    "kafka-directory-taken-out": ("taken-out", 2),
    "kafka-future-copy": ("moved", 2),
}


@pytest.mark.parametrize("name", CONTROLS)
def test_the_check_names_the_records_that_a_clean_election_lost(
    name: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    run = played.shown(name, name, tmp_path_factory)
    played.assert_that_no_leader_was_unclean(run, *TOPICS[name])
    sent = played.sends(run)
    assert {line["outcome"] for line in sent} == {"ok"}
    broken = played.broken(run)
    assert set(broken) == {"L1", "L3", "L4", "L9"}
    kept = {one["id"] for line in played.lines(run, "scan-ru#0") for one in line.get("records", [])}
    lost = [one["id"] for line in sent for one in line["records"] if one["id"] not in kept]
    assert len(lost) > 10
    for witness in broken["L3"]:
        assert {event.get("id") for event in witness["events"]} & {*lost}


@pytest.mark.parametrize("name", CONTROLS)
def test_the_control_keeps_every_record(name: str, tmp_path: Path) -> None:
    run = played.assert_that_the_control_holds(name, tmp_path, CONTROLS[name])
    judged = played.judged(run)
    assert judged["L3"]["verdict"] == "holds", judged["L3"]
    assert not [id for id, one in judged.items() if one["verdict"] == "violated"]


@pytest.mark.parametrize("how", [(), ("--killed",), ("--taken-back",)], ids=str)
def test_a_copy_that_is_behind_replaces_the_only_replica(
    how: tuple[str, ...], tmp_path_factory: pytest.TempPathFactory
) -> None:
    name = "kafka-future-copy"
    played.shown(name, name, tmp_path_factory, "--one-broker", *how)


def test_a_replica_that_a_cancelled_move_had_added_stays_eligible(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    name = "kafka-elr-removed-replica"
    run = played.shown(name, name, tmp_path_factory, "--cancelled")
    played.assert_that_no_leader_was_unclean(run, "elr-removed", 2)
    assert set(played.broken(run)) == {"L1", "L3", "L4", "L9"}
