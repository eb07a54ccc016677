"""What must hold under which settings, and what may be lost under others."""

from collections import Counter
from typing import Any

import pytest

from chaos.campaign import ENOUGH, Orders, Tally, results
from chaos.settings import Settings
from chaos.sim.simulator import build
from refimpl.broker.partition import Partition

# So many of the seeds have their logs in files, as all have outside of tests.
IN_FILES = 60


def campaign(seeds: range, **fixed: Any) -> Tally:
    tally = Tally()
    for result in results(seeds, Orders(fixed)):
        tally.add(result)
    assert not tally.failed
    return tally


def test_the_machines_keep_every_promise_and_meet_everything_they_are_meant_to_meet() -> None:
    tally = campaign(range(ENOUGH - IN_FILES), files=False)
    for result in results(range(ENOUGH - IN_FILES, ENOUGH), Orders()):
        tally.add(result)
    assert not tally.failed
    assert tally.never() == []


def test_nothing_is_lost_where_every_append_is_flushed_and_elections_are_clean() -> None:
    tally = campaign(range(80), files=False, lossy=False, unclean=False, elr=False)
    assert tally.counts["GoOffline"] > 0
    assert tally.counts["allowed losses"] == 0


def test_nothing_is_lost_with_elr_whatever_the_page_cache_loses() -> None:
    tally = campaign(range(80), files=False, lossy=True, unclean=False, elr=True)
    assert tally.counts["records lost from page caches"] > 0
    assert tally.counts["elections from the ELR"] > 0
    assert tally.counts["allowed losses"] == 0


def test_without_elr_the_last_in_sync_replica_may_lose_what_was_committed() -> None:
    """DurableIsr!bug_before_kip966, met by chance."""
    tally = campaign(range(80), files=False, lossy=True, unclean=False, elr=False)
    assert tally.counts["allowed losses"] > 0


def test_kafkas_files_on_a_disk_that_tears_writes_keep_every_promise() -> None:
    tally = campaign(range(30), lossy=True)
    assert tally.counts["recoveries from files"] > 0
    assert tally.counts["records lost from page caches"] > 0


def test_an_unclean_election_may_lose_what_was_committed() -> None:
    tally = campaign(range(40), files=False, lossy=False, unclean=True)
    assert tally.counts["unclean elections"] > 0
    assert tally.counts["allowed losses"] > 0


def test_a_run_ends_in_a_healed_cluster_that_has_everything() -> None:
    run = build(Settings.draw(3, unclean=False, lossy=False, elr=False), history=True).go()
    assert run.violation is None
    assert run.complete
    for oracle in run.partitions:
        assert oracle.state.isr == {1, 2, 3}
        assert {r.log.end for r in oracle.replicas.values()} == {len(oracle.log.committed)}
        assert len(oracle.log.committed) > 20
    assert all(g.group.committed == len(g.partition.log.committed) for g in run.groups)


def test_a_spent_event_budget_is_reported_as_such() -> None:
    run = build(Settings.draw(0, events=500)).go()
    assert run.violation is not None
    assert (run.violation.oracle, run.events) == ("EventBudget", 500)


def test_each_kind_of_fault_is_met() -> None:
    counts: Counter[str] = Counter()
    for seed in range(20):
        counts += build(Settings.draw(seed, fault_ms=2000)).go().simulation.counts
    met = {name.removeprefix("fault: ") for name in counts if name.startswith("fault: ")}
    assert met == {
        *("crash", "stop", "pause", "cut", "slow", "noise", "elect", "lag"),
        *("member_crash", "member_pause"),
        *("expire", "depose", "reassign", "store"),
    }


def test_disks_that_fail_end_brokers_and_break_no_promise() -> None:
    """Answers that were waited for are refused, another one leads, and the log is recovered."""
    kinds = ("disk", "crash", "cut", "elect")
    tally = campaign(range(16), faults=kinds, fault_ms=3000)
    assert tally.counts["disks that failed"] > 10


def test_consumers_that_read_at_followers_see_committed_records_alone() -> None:
    tally = campaign(range(25), files=False, follower_reads=True)
    assert tally.counts["records read at followers"] > 100


def test_a_follower_that_gives_all_it_has_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def all_of_it(self: Partition, isolation_level: int) -> int:
        return self.replica.high_watermark if self.replica.leads else self.replica.log.end

    monkeypatch.setattr(Partition, "fetchable_end", all_of_it)
    found = results(range(60), Orders({"files": False, "follower_reads": True}))
    assert any(result.oracle == "ViewsArePrefixes" for result in found)
