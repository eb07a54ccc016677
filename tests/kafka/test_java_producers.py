"""Our producer beside Kafka's own accumulator, sender and partitioner: scripts, step by step."""

import json
import os
import subprocess

import pytest

from chaos.real.kafka.judge import java
from tests.refimpl.clients.producer.scripts import Play, difference, script_of

SEED = int(os.environ.get("HIGHWATER_SEED", "0"))
SCRIPTS = int(os.environ.get("HIGHWATER_SCRIPTS", "3000"))
PLAYER = "org.apache.kafka.clients.producer.internals.Producers"

pytestmark = pytest.mark.kafka


def test_the_same_batches_go_at_the_same_time_and_are_completed_with_the_same() -> None:
    compared = steps = sent = failed = 0
    with subprocess.Popen(
        java(PLAYER),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as jvm:
        assert jvm.stdin is not None
        assert jvm.stdout is not None
        for seed in range(SEED, SEED + SCRIPTS):
            script = script_of(seed)
            jvm.stdin.write(json.dumps(script) + "\n")
            jvm.stdin.flush()
            theirs = json.loads(jvm.stdout.readline())
            assert (found := difference(script, theirs)) is None, f"seed {seed}: {found}"
            ours = Play(script).all()
            compared, steps = compared + len(ours), steps + len(script["steps"])
            sent += sum(len(step["sent"]) for step in ours)
            failed += sum("error" in one for step in ours for one in step["completed"])
        jvm.stdin.close()
    # Where ours is stronger on purpose, the rest of a script is not compared.
    assert compared > 0.8 * steps
    assert sent > 3 * SCRIPTS
    assert failed > SCRIPTS / 3
