"""Runs whose producers and consumers are the project's own."""

from collections import Counter
from typing import Any
from unittest.mock import patch

import pytest

from chaos.campaign import first_failing_seed
from chaos.sim.settings import Settings
from chaos.simulator import build
from properties.mutants.catalogue import applied, catalogue
from refimpl.clients.consumer.position import FETCHING, OffsetAndEpoch, Position
from refimpl.clients.consumer.reconciling import ReconcilingMembership
from refimpl.clients.metadata import ClientMetadata
from refimpl.machines.classic_consumer import ClassicConsumer

OURS: dict[str, Any] = {"reference_clients": True, "files": False}
IDEMPOTENT: dict[str, Any] = {**OURS, "idempotence": True}

SEEDS = (0, 1, 3, 5)
# (a mutant of the catalogue, the oracle that sees it, and a seed in which it does)
FOUND = [
    ("producer_order_is_fatal", "NoDuplicates", 77),
    ("producer_two_epochs_in_flight", "NoDuplicates", 36),
    ("producer_past_the_window", "NoDuplicates", 563),
]


@pytest.mark.parametrize("fixed", [OURS, IDEMPOTENT, {**IDEMPOTENT, "files": True}])
def test_our_producer_keeps_its_promises_under_every_fault(fixed: dict[str, Any]) -> None:
    seen: Counter[str] = Counter()
    for seed in SEEDS:
        run = build(Settings.draw(seed, **fixed), history=True).go()
        assert run.violation is None, f"seed {seed}: {run.violation}"
        seen.update(run.simulation.counts)
    assert seen["batches of our own producer"] > 500
    for what in ("sends repeated", "late acknowledgements", "sends of unknown outcome"):
        assert seen[what] > 0, what


def test_what_else_a_seed_draws_is_as_without_it() -> None:
    for seed in range(20):
        settings, plain = Settings.draw(seed, **OURS).as_json(), Settings.draw(seed, files=False)
        differs = {name for name, value in plain.as_json().items() if settings[name] != value}
        assert differs <= {"reference_clients", "acks"}
        assert "acks" not in differs or settings["idempotence"]


@pytest.mark.parametrize(("bug", "oracle", "seed"), FOUND)
def test_a_known_bug_of_our_producer_is_found(bug: str, oracle: str, seed: int) -> None:
    with applied(catalogue()[bug]):
        found = first_failing_seed(range(seed, seed + 40), **IDEMPOTENT)
    assert found is not None
    assert found.oracle == oracle


def test_who_forgets_leader_epochs_when_it_begins_again_writes_a_record_twice() -> None:
    def forget(metadata: ClientMetadata) -> None:
        metadata.leaders.clear()
        metadata.nodes, metadata.wanted = list(metadata.bootstrap), True

    with patch.object(ClientMetadata, "rebootstrap", forget):
        found = first_failing_seed(range(42, 62), **IDEMPOTENT)
    assert found is not None
    assert found.oracle == "NoDuplicates"


def test_an_idempotent_producer_of_kafkas_kind_has_acks_all_alone() -> None:
    with pytest.raises(ValueError, match="acks=all alone"):
        Settings(reference_clients=True, idempotence=True, acks=("all", "1")).check()


def test_our_consumers_share_the_topic_and_end_where_its_end_is() -> None:
    seen: Counter[str] = Counter()
    for seed in (1, 3, 6, 8, 9, 14):
        run = build(Settings.draw(seed, **OURS), history=True).go()
        assert run.violation is None, f"seed {seed}: {run.violation}"
        seen.update(run.simulation.counts)
    for what in ("ReceiveCommit", "Rebalance", "redeliveries", "commits refused: NOT_COORDINATOR"):
        assert seen[what] > 0, what


def test_a_member_that_is_out_of_its_group_commits_where_nobody_is() -> None:
    """A group without members takes a commit of anybody."""
    with patch.object(ReconcilingMembership, "commit_refusal", None):
        found = first_failing_seed(range(20, 21), **OURS)
    assert found is not None
    assert found.oracle == "CommitFenced"


def test_a_leader_that_knew_no_partitions_assigns_again_when_it_knows_some() -> None:
    def only_if_some(consumer: ClassicConsumer, partitions: int) -> bool:
        return consumer.counted not in (-1, 0, partitions)

    with patch.object(ClassicConsumer, "must_assign_again", only_if_some):
        found = first_failing_seed(range(782, 783), **OURS)
    assert found is not None
    assert found.oracle == "Progress"


def test_a_consumer_that_commits_what_it_has_not_returned_loses_it() -> None:
    """Yelp/kafka-python#40."""

    def fetched(position: Position) -> OffsetAndEpoch | None:
        if position.buffer is None or position.state != FETCHING:
            return None
        return OffsetAndEpoch(position.offset + 1, position.epoch)

    with patch.object(Position, "consumed", property(fetched)):
        found = first_failing_seed(range(40), **OURS)
    assert found is not None
    assert found.oracle in ("AtLeastOnce", "CommittedDelivered")
