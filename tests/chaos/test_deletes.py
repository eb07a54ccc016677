"""Runs in which a client deletes what the group has committed (KIP-107)."""

from collections import Counter
from typing import Any

from chaos.sim.settings import Settings
from chaos.simulator import Run, build
from properties.mutants.edits import compiled, edited, function_at, patched, tree_of


def run(seed: int, *, files: bool = False) -> Run:
    return build(Settings.draw(seed, deletes=True, files=files)).go()


def test_no_more_is_deleted_than_was_asked_for_and_nothing_comes_back() -> None:
    counts: Counter[str] = Counter()
    for seed in range(9):
        done = run(seed, files=seed in (0, 4))
        assert done.violation is None, (seed, done.violation)
        counts.update(done.simulation.counts)
    assert counts["records deleted at all replicas"] > 200
    assert counts["DeleteRecords refused: REQUEST_TIMED_OUT"] > 0
    assert counts["Fetch refused: OFFSET_OUT_OF_RANGE"] > 0


def test_nobody_is_in_sync_while_its_log_starts_before_the_leaders() -> None:
    """A follower of an older epoch ends where the leader's log starts: what it has before that is
    deleted at the leader, so nobody can compare it, and here it is not what was committed."""
    fast: dict[str, Any] = {"commit_ms": 20, "work_ms": 10, "produce_ms": 60, "batch_records": 1}
    cluster: dict[str, Any] = {"partitions": 1, "min_isr": 1, "store": False, "gap_ms": 200}
    settings = Settings.draw(
        96,
        **{**fast, **cluster, "deletes": True, "files": False, "commit_when": "polled"},
        acks=("1",),
        idempotence=False,
        faults=("elect", "cut", "crash", "lag"),
    )
    heard = function_at("refimpl.broker.leader:Leader.heard")
    wider = edited(tree_of(heard), "max(log_start, 0) >= replica.log.start", "True")
    with patched({heard: compiled(heard, wider)}):
        found = build(settings).go().violation
        assert found is not None
        assert found.oracle == "CommittedInIsr"
    assert build(settings).go().violation is None


def test_a_log_that_forgets_its_start_in_a_crash_is_found() -> None:
    crashed = function_at("chaos.sim.disk:MemoryLogs.crashed")
    forgets = edited(tree_of(crashed), "end = max(end, log.start)", "pass")
    with patched({crashed: compiled(crashed, forgets)}):
        found = next((one for one in map(run, (124,)) if one.violation), None)
    assert found is not None
    assert found.violation is not None
    assert found.violation.oracle == "LogStartMonotone"


def test_a_follower_whose_leader_has_deleted_half_a_batch_copies_the_whole() -> None:
    """It refused that for ever, as it begins before the end of its own log."""
    settings = Settings.draw(311, deletes=True, unclean=True, files=True)
    assert settings.batch_records == 5
    done = build(settings).go()
    assert done.violation is None
    assert done.simulation.counts["replication refused: UNKNOWN_SERVER_ERROR"] == 0


# With unclean elections


def rarely_written(seed: int) -> Settings:
    """All is deleted soon, and few records come after an election that lost some."""
    slow: dict[str, Any] = {"commit_ms": 20, "work_ms": 10, "produce_ms": 300, "batch_records": 1}
    cluster: dict[str, Any] = {"partitions": 1, "min_isr": 1, "store": False, "gap_ms": 150}
    return Settings.draw(
        seed,
        **{**slow, **cluster, "deletes": True, "files": False, "commit_when": "polled"},
        unclean=True,
        faults=("elect", "cut", "crash", "lag"),
        fault_ms=3000,
    )


def test_unclean_elections_are_drawn_with_deletes_only_where_they_are_asked_for() -> None:
    drawn = [Settings.draw(seed, deletes=True) for seed in range(40)]
    assert not any(one.unclean for one in drawn)
    assert any(Settings.draw(seed).unclean for seed in range(40))
    assert Settings.draw(0, deletes=True, unclean=True).unclean


def test_after_an_unclean_election_no_more_is_gone_than_was_to_be_deleted_or_had_been_lost() -> (
    None
):
    counts: Counter[str] = Counter()
    for seed in range(12):
        settings = Settings.draw(seed, deletes=True, unclean=True, files=seed in (0, 4))
        done = build(settings).go()
        assert done.violation is None, (seed, done.violation)
        counts.update(done.simulation.counts)
    assert counts["records deleted at all replicas"] > 200
    assert counts["unclean elections"] > 10
    assert counts["allowed losses"] > 0
    assert counts["logs begun anew behind their end"] > 0


def test_who_has_deleted_more_than_an_unclean_leader_ever_had_copies_its_log() -> None:
    """It began anew where its leader's log started, and that lies behind the new leader's end."""
    settings = rarely_written(62)
    restart = function_at("refimpl.machines.replica:Replica.restart_log")
    compared = "self.log.latest_epoch != UNDEFINED_EPOCH or self.log.end == start"
    trusting = edited(tree_of(restart), compared, "True")
    waits = edited(trusting, "start <= self.log.end <= end", "start <= self.log.end")
    with patched({restart: compiled(restart, waits)}):
        found = build(settings).go().violation
        assert found is not None
        assert (found.oracle, "in sync" in found.what) == ("Progress", True)
    done = build(settings).go()
    assert done.violation is None
    assert done.simulation.counts["logs begun anew before their end"] > 0
