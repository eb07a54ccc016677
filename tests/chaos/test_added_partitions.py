"""Runs in which the topic is given more partitions: clients, members and oracles take them in."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from attrs import evolve

from chaos.faults.script import expand
from chaos.sim.settings import ADD_PARTITION, Settings
from chaos.simulator import Run, build
from refimpl.broker.metadata import Metadata
from refimpl.groups.consumer import ConsumerGroups
from refimpl.machines.classic_consumer import ClassicConsumer
from refimpl.machines.consumer_group import ConsumerGroup
from refimpl.machines.consumer_heartbeat import Rules
from refimpl.messages.cluster import Change, PartitionRegistration
from refimpl.messages.controller import UpdateMetadataRequest

MEMORY: dict[str, Any] = {"adds_partitions": True, "files": False}
CALM: dict[str, Any] = {**MEMORY, "store": False, "faults": ("elect", "lag"), "fault_ms": 2000}
"""Members come at the beginning and stay, so that nothing else makes the group look again."""


def broken(seed: int, **fixed: Any) -> tuple[str, str]:
    """The oracle that a run violates, and the object of the violation."""
    found = build(Settings.draw(seed, **fixed)).go().violation
    return ("", "") if found is None else (found.oracle, found.what)


def test_what_else_a_seed_does_is_as_without_added_partitions() -> None:
    for seed in range(20):
        settings = Settings.draw(seed, adds_partitions=True)
        script, alone = expand(settings), expand(evolve(settings, adds_partitions=False))
        added = [fault for fault in script if fault not in alone]
        assert [fault for fault in script if fault in alone] == list(alone)
        assert sum(fault.what == ADD_PARTITION for fault in added) == 3
        assert all(fault.partition >= settings.partitions for fault in added if fault.partition)


@pytest.mark.parametrize("fixed", [MEMORY, {**MEMORY, "store": True}, {**MEMORY, "files": True}])
def test_added_partitions_are_led_written_shared_and_committed(fixed: dict[str, Any]) -> None:
    seen: Counter[str] = Counter()
    for seed in range(6):
        run = build(Settings.draw(seed, **fixed)).go()
        assert run.violation is None, f"seed {seed}: {run.violation}"
        seen.update(run.simulation.counts)
        seen["judged"] += len(run.partitions) - run.settings.partitions
        seen["committed"] += sum(_committed(run))
    assert seen["partitions added to the topic"] > 5
    assert seen["judged"] > 5
    assert seen["committed"] > 100


def _committed(run: Run) -> list[int]:
    """The group's committed offset in each partition that was added."""
    return [one.committed for one in run.group.partitions[run.settings.partitions :]]


def test_a_leader_that_never_counts_the_partitions_again_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calm = {**CALM, "group_protocol": "classic"}
    assert broken(9, **calm) == ("", "")

    def never(self: ClassicConsumer, partitions: int) -> bool:
        return False

    monkeypatch.setattr(ClassicConsumer, "must_assign_again", never)
    oracle, what = broken(9, **calm)
    assert (oracle, "the group has committed 0 of" in what) == ("Progress", True)


def test_a_coordinator_that_never_looks_at_the_topics_again_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calm, rules = {**CALM, "group_protocol": "consumer"}, ConsumerGroups.rules
    assert broken(0, **calm) == ("", "")

    def unchanged(self: ConsumerGroups, now: int, group: ConsumerGroup) -> Rules:
        return evolve(rules(self, now, group), refresh=False)

    monkeypatch.setattr(ConsumerGroups, "rules", unchanged)
    oracle, what = broken(0, **calm)
    assert (oracle, "the group has committed 0 of" in what) == ("Progress", True)


def test_brokers_that_never_hear_of_an_added_partition_are_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    take = Metadata.take

    def the_first_ones(self: Metadata, news: UpdateMetadataRequest) -> Sequence[Change]:
        known = [one for one in news.changes if not _is_added(one)]
        return take(self, news._replace(changes=known))

    monkeypatch.setattr(Metadata, "take", the_first_ones)
    oracle, what = broken(0, **{**CALM, "faults": ()})
    assert oracle == "ToldAsHeard", what


def _is_added(change: Change) -> bool:
    return isinstance(change, PartitionRegistration) and change.partition.partition > 1
