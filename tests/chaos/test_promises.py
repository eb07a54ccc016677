"""Promises that must hold under some settings, and losses that others permit."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pytest

from chaos.campaign import ENOUGH, Orders, SeedResult, Tally, results
from chaos.sim.settings import Settings
from chaos.simulator import build
from refimpl.broker.partition import Partition

# The tests share the runs of one campaign, so all are as slow as that.
pytestmark = [pytest.mark.xdist_group("promises"), pytest.mark.slow]

#: By then all has happened that must happen in ENOUGH seeds, which `make verify` plays
FEW = 92
#: So many more seeds have their logs in files, as all have outside of tests
IN_FILES = 10
#: So many have each of these settings
SOME = 15
CLEAN = {"lossy": False, "unclean": False, "elr": False}
LOSSY_WITH_ELR = {"lossy": True, "unclean": False, "elr": True}
LOSSY = {"lossy": True, "unclean": False, "elr": False}
UNCLEAN = {"lossy": False, "unclean": True}


def campaign(seeds: range, **fixed: Any) -> Tally:
    return tally_of(results(seeds, Orders(fixed)))


def tally_of(found: Iterable[SeedResult]) -> Tally:
    tally = Tally()
    for result in found:
        tally.add(result)
    assert not tally.failed
    return tally


def draws(seed: int, settings: Mapping[str, bool]) -> bool:
    """True if a seed's run has these settings."""
    return settings.items() <= Settings.draw(seed).as_json().items()


@pytest.fixture(scope="module")
def runs() -> Sequence[SeedResult]:
    """Enough seeds for everything to happen, each with the settings that it draws."""
    seeds = {*range(FEW)}
    for kind in (CLEAN, LOSSY_WITH_ELR, LOSSY, UNCLEAN):
        seeds |= {*[seed for seed in range(ENOUGH) if draws(seed, kind)][:SOME]}
    in_memory = results(sorted(seeds), Orders({"files": False}))
    return (*in_memory, *results(range(FEW, FEW + IN_FILES), Orders()))


def drawn(runs: Iterable[SeedResult], settings: Mapping[str, bool]) -> Tally:
    """The tally of the runs that drew these settings."""
    chosen = [run for run in runs if draws(run.seed, settings)]
    assert len(chosen) >= SOME
    return tally_of(chosen)


def test_the_machines_keep_every_promise_and_meet_everything_they_are_meant_to_meet(
    runs: Sequence[SeedResult],
) -> None:
    assert tally_of(runs).never() == []


def test_nothing_is_lost_where_every_append_is_flushed_and_elections_are_clean(
    runs: Sequence[SeedResult],
) -> None:
    tally = drawn(runs, CLEAN)
    assert tally.counts["GoOffline"] > 0
    assert tally.counts["allowed losses"] == 0


def test_nothing_is_lost_with_elr_whatever_the_page_cache_loses(
    runs: Sequence[SeedResult],
) -> None:
    tally = drawn(runs, LOSSY_WITH_ELR)
    assert tally.counts["records lost from page caches"] > 0
    assert tally.counts["elections from the ELR"] > 0
    assert tally.counts["allowed losses"] == 0


def test_without_elr_the_last_in_sync_replica_may_lose_what_was_committed(
    runs: Sequence[SeedResult],
) -> None:
    """DurableIsr!bug_before_kip966, met by chance."""
    tally = drawn(runs, LOSSY)
    assert tally.counts["allowed losses"] > 0


def test_an_unclean_election_may_lose_what_was_committed(runs: Sequence[SeedResult]) -> None:
    tally = drawn(runs, UNCLEAN)
    assert tally.counts["unclean elections"] > 0
    assert tally.counts["allowed losses"] > 0


def test_kafkas_files_on_a_disk_that_tears_writes_keep_every_promise() -> None:
    tally = campaign(range(12), lossy=True)
    assert tally.counts["recoveries from files"] > 0
    assert tally.counts["records lost from page caches"] > 0


def test_a_run_ends_in_a_healed_cluster_that_has_everything() -> None:
    run = build(Settings.draw(3, unclean=False, lossy=False, elr=False), history=True).go()
    assert run.violation is None
    assert run.complete
    for oracle in run.partitions:
        assert oracle.state.isr == {1, 2, 3}
        assert {r.log.end for r in oracle.replicas.values()} == {len(oracle.log.committed)}
        assert len(oracle.log.committed) > 20
    assert all(g.reached == len(g.partition.log.committed) for g in run.group.partitions)


def test_a_spent_event_budget_is_reported_as_such() -> None:
    run = build(Settings.draw(0, events=500)).go()
    assert run.violation is not None
    assert (run.violation.oracle, run.events) == ("EventBudget", 500)


def test_each_kind_of_fault_is_met() -> None:
    counts: Counter[str] = Counter()
    for seed in range(25):
        counts += build(Settings.draw(seed, fault_ms=2000, files=False)).go().simulation.counts
    met = {name.removeprefix("fault: ") for name in counts if name.startswith("fault: ")}
    assert met == {
        *("crash", "stop", "pause", "cut", "slow", "noise", "elect", "lag"),
        *("member_crash", "member_pause", "member_leave"),
        *("expire", "depose", "reassign", "store"),
        *("client_crash", "client_pause", "client_takeover", "markers", "configure", "clock"),
        *("share_crash", "share_pause", "share_leave", "share_moves"),
    }


def test_disks_that_fail_end_brokers_and_break_no_promise() -> None:
    """Answers that were waited for are refused, another one leads, and the log is recovered."""
    kinds = ("disk", "crash", "cut", "elect")
    tally = campaign(range(16), faults=kinds, fault_ms=3000)
    assert tally.counts["disks that failed"] > 10


def test_consumers_that_read_at_followers_see_committed_records_alone() -> None:
    tally = campaign(range(12), files=False, follower_reads=True)
    assert tally.counts["records read at followers"] > 100


def test_a_follower_that_gives_all_it_has_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def all_of_it(self: Partition, isolation_level: int) -> int:
        return self.replica.high_watermark if self.replica.leads else self.replica.log.end

    monkeypatch.setattr(Partition, "fetchable_end", all_of_it)
    found = results(range(60), Orders({"files": False, "follower_reads": True}))
    assert any(result.oracle == "ViewsArePrefixes" for result in found)
