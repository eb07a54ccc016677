"""Our producer beside Kafka's own accumulator, sender and partitioner: scripts, step by step."""

import os

import pytest

from chaos.real.kafka.judge import answering
from tests.refimpl.clients.producer.scripts import Play, difference, script_of

SEED = int(os.environ.get("HIGHWATER_SEED", "0"))
SCRIPTS = int(os.environ.get("HIGHWATER_SCRIPTS", "3000"))
PLAYER = "org.apache.kafka.clients.producer.internals.Producers"

pytestmark = pytest.mark.kafka


def test_the_same_batches_go_at_the_same_time_and_are_completed_with_the_same() -> None:
    compared = steps = sent = failed = 0
    with answering(PLAYER) as kafka:
        for seed in range(SEED, SEED + SCRIPTS):
            script = script_of(seed)
            theirs = kafka(script)
            assert (found := difference(script, theirs)) is None, f"seed {seed}: {found}"
            ours = Play(script).all()
            compared, steps = compared + len(ours), steps + len(script["steps"])
            sent += sum(len(step["sent"]) for step in ours)
            failed += sum("error" in one for step in ours for one in step["completed"])
    # Where ours is stronger on purpose, the rest of a script is not compared.
    assert compared > 0.8 * steps
    assert sent > 3 * SCRIPTS
    assert failed > SCRIPTS / 3
