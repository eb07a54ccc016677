"""The coordinator's assignors beside those of Kafka's own: thousands of groups in one JVM."""

import json
import os
import subprocess

from chaos.real.kafka.judge import java
from tests.refimpl.groups.assignor_cases import answer_of, case_of

SEED = int(os.environ.get("HIGHWATER_SEED", "1"))
CASES = 5000


def test_assignments_are_those_of_kafka() -> None:
    print(f"seed {SEED}: HIGHWATER_SEED repeats it")
    seeds = range(SEED * CASES, (SEED + 1) * CASES)
    asked = "".join(json.dumps(case_of(seed)) + "\n" for seed in seeds)
    told = subprocess.run(
        java("ServerAssignors"),
        input=asked.encode(),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        check=True,
    )
    answers = told.stdout.splitlines()
    assert len(answers) == CASES
    for seed, answer in zip(seeds, answers, strict=True):
        assert answer_of(case_of(seed)) == json.loads(answer), f"case_of({seed})"
