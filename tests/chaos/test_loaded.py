"""A coordinator that loads its log is what it would be if it had lived: state, and timers."""

import re
from typing import Any

import pytest

from chaos.campaign import first_failing_seed
from chaos.oracles.loaded import differences
from chaos.sim.settings import Settings
from chaos.simulator import build
from properties.mutants.edits import compiled, edited, function_at, patched, tree_of
from refimpl.groups.classic_records import record_of
from refimpl.groups.store import GroupStore
from refimpl.machines.classic_group import ClassicGroup
from refimpl.records.transactional import InTransaction
from tests.refimpl.groups.coordinating import NOW, Log, elected
from tests.refimpl.groups.test_store import commit

GROUPS, IDS = "refimpl.groups", "refimpl.transactions"
CONSUMER = {"group_protocol": "consumer", "static_members": True}
CLASSIC = {"group_protocol": "classic", "static_members": True}
SESSION = "timers[session] = now + (own or self.config.own(group_id, SESSION_TIMEOUT))"
MEMBER = "self.timers[session(member.id)] = member.session_ms"
# What a load gets wrong: in a function, `old` has become `new`; and the first seed that sees it
LOADS: dict[str, tuple[str, str, str, int, dict[str, Any]]] = {
    "a static member that is away never expires": (
        f"{GROUPS}.consumer:ConsumerGroups.loaded",
        SESSION,
        f"if member.epoch >= 0:\n    {SESSION}",
        4,
        CONSUMER,
    ),
    "members may keep for ever what they must give up": (
        f"{GROUPS}.consumer:ConsumerGroups.loaded",
        "member.state == UNREVOKED",
        "False",
        2,
        CONSUMER,
    ),
    "a classic static member never expires": (
        "refimpl.machines.classic_operations:Turn.loaded",
        MEMBER,
        f"if member.instance is None:\n    {MEMBER}",
        0,
        CLASSIC,
    ),
    "offsets expire as if the group had always been empty": (
        f"{GROUPS}.classic_records:group_of",
        "value.current_state_timestamp",
        "-1",
        0,
        CLASSIC,
    ),
    "a member has other timeouts than it asked for": (
        f"{GROUPS}.classic_records:_read",
        "session_ms if member.rebalance_timeout < 0 else member.rebalance_timeout",
        "session_ms",
        0,
        CLASSIC,
    ),
    "no offset ever expires": (
        f"{GROUPS}.shard:GroupShard.loaded",
        "yield Outcome(timers=self._next_expiry(now))",
        "pass",
        0,
        {},
    ),
    "offsets of an aborted transaction count": (
        f"{GROUPS}.store:GroupStore._replay_end",
        "end.committed and not one.superseded",
        "(end.committed or offset is None) and not one.superseded",
        2,
        {"transactions": True},
    ),
    "a decided transaction is told to nobody": (
        f"{IDS}.store:TransactionStore.replay",
        "metadata is not None and metadata.prepared",
        "metadata is not None and metadata.prepared and offset is not None",
        0,
        {"transactions": True},
    ),
    "no transactional id ever expires": (
        f"{IDS}.shard:TransactionShard.loaded",
        "{TIME_OUT: self._next(now, TIME_OUT), EXPIRE: self._next(now, EXPIRE)}",
        "{TIME_OUT: self._next(now, TIME_OUT)}",
        0,
        {"transactions": True},
    ),
}


@pytest.mark.parametrize("what", LOADS)
def test_a_load_that_differs_from_the_live_coordinator_is_reported(what: str) -> None:
    path, old, new, seed, fixed = LOADS[what]
    function = function_at(path)
    with patched({function: compiled(function, edited(tree_of(function), old, new))}):
        found = first_failing_seed(range(seed, seed + 12), files=False, **fixed)
    assert found is not None
    assert found.oracle == "LoadedIsLive"


def _has_a_group(live: GroupStore, loaded: GroupStore) -> None:
    live.replay(record_of("g", ClassicGroup(since=NOW)))


def _has_an_offset(live: GroupStore, loaded: GroupStore) -> None:
    live.replay(commit(1))


def _takes_for_committed_what_is_not(live: GroupStore, loaded: GroupStore) -> None:
    live.replay(commit(1), 5)
    loaded.replay(commit(1))


def _has_a_pending_offset(live: GroupStore, loaded: GroupStore) -> None:
    live.replay(InTransaction(commit(1), 7))


@pytest.mark.parametrize(
    ("differ", "told"),
    [
        (_has_a_group, {"group"}),
        (_has_an_offset, {"offset", "committed offset", "expiry"}),
        (_takes_for_committed_what_is_not, {"committed offset"}),
        (_has_a_pending_offset, {"pending offset", "expiry"}),
    ],
)
def test_everything_in_the_store_of_groups_is_compared(differ: Any, told: set[str]) -> None:
    live, loaded = elected(Log()), elected(Log())

    def found() -> set[str]:
        """The kinds of differences; timers, of which neither has any, are left out."""
        lines = differences(NOW, live, {}, loaded, {})
        return {words[0] for line in lines if (words := re.match(r"[a-z ]+(?= \(| g:)", line))}

    assert found() == set()
    differ(live.shard.store, loaded.shard.store)
    assert found() == told


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_static_members_come_and_go_and_their_coordinators_load_well(protocol: str) -> None:
    fixed = {
        "group_protocol": protocol,
        "static_members": True,
        "transactions": False,
        "share_members": 0,
    }
    runs = [build(Settings.draw(seed, files=False, **fixed)).go() for seed in range(4)]
    assert [run.violation for run in runs] == [None] * 4
    assert all(run.simulation.counts["coordinators loaded beside live ones"] >= 3 for run in runs)


def test_records_of_version_0_keep_neither_the_next_producer_nor_the_last() -> None:
    """transaction.version 0 has no tagged fields: what its records cannot keep is no difference."""
    fixed = {"transactions": True, "transaction_version": 0, "share_members": 0}
    for seed in (100004, 100013):
        run = build(Settings.draw(seed, **fixed)).go()
        assert run.violation is None
        assert run.simulation.counts["transactions that timed out"]
