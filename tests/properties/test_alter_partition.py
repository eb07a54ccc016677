"""The leader's requests and the controller's answers are AlterPartition.

Its known bugs, each one that Kafka had or has, are in the catalogue; some of them are put in here.
"""

import pytest

from properties.modules.descriptor import module
from properties.mutants import methods
from properties.mutants.catalogue import catalogue
from properties.mutants.matrix import kills

pytestmark = pytest.mark.java


@pytest.mark.parametrize(
    "name",
    [
        "waits_for_the_confirmed_isr_alone",
        "any_answer_settles_what_is_pending",
        "news_of_the_same_partition_epoch_settle",
        "a_copy_is_accepted_after_a_refusal",
        "the_dead_join_the_isr",
    ],
)
def test_the_exhaustive_check_finds_what_kafka_had_or_has(name: str) -> None:
    assert "AlterPartition" in catalogue()[name].modules
    assert kills(methods.by_exhaustion, catalogue()[name])


def test_the_machines_stand_for_every_rule_of_the_spec() -> None:
    knobs = module("AlterPartition").binding.knobs
    assert [name for name, value in knobs.items() if value is False] == [
        "OnlyResent",
        "GiveUp",
        "FenceRaisesEpoch",
    ]
