"""Our member of a classic group beside Kafka's own ConsumerCoordinator: scripts, step by step."""

import os

import pytest

from chaos.real.kafka.judge import answering
from tests.refimpl.clients.consumer.coordinator_scripts import Script

SEED = int(os.environ.get("HIGHWATER_SEED", "0"))
SCRIPTS = int(os.environ.get("HIGHWATER_SCRIPTS", "600"))
PLAYER = "org.apache.kafka.clients.consumer.internals.Coordinators"

pytestmark = pytest.mark.kafka


def test_the_same_is_asked_committed_and_told_at_the_same_time() -> None:
    steps = 0
    seen: set[str] = set()
    with answering(PLAYER) as kafka:
        for seed in range(SEED, SEED + SCRIPTS):
            script = Script(seed, kafka)
            found = script.play(60)
            assert found is None, f"seed {seed}: {found}"
            steps, seen = steps + len(script.steps), seen | script.seen
    # Where ours differs on purpose, a script ends.
    assert steps > 45 * SCRIPTS
    assert seen >= {
        *("FindCoordinator", "JoinGroup", "SyncGroup", "Heartbeat", "OffsetCommit", "LeaveGroup"),
        *("revoked", "lost", "assigned", "error GROUP_AUTHORIZATION_FAILED"),
    }
