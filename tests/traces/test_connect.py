"""The checks need nothing of Spark that Spark Connect does not give."""

import os
import subprocess
import sys
from pathlib import Path

import orjson
import pytest

from tests.traces.test_blocks import said
from traces.engines import local
from traces.engines.precheck.quick import COVERED
from traces.generate.schedule import plan_of
from traces.generate.write import Generated, context_in, write_parquet
from traces.model.arrow import pq

ROOT = Path(__file__).parents[2]


@pytest.mark.spark
def test_a_connected_session_finds_the_same(tmp_path: Path) -> None:
    run = tmp_path / "run"
    write_parquet(Generated(plan_of(80_000, anomalies=1)), run)
    exact = said(local.find(pq.read_table(run / "ops"), {0: context_in(run)}))
    done = subprocess.run(
        [sys.executable, "-m", "tests.traces.connected", str(run)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()[-2_000:]
    out = orjson.loads(done.stdout)
    assert ".connect." in out.pop("session")
    for how, findings in out.items():
        found = said(findings)
        if how.endswith("quick"):
            assert {c: found[c][0] for c in found if found[c][0]} == {
                c: exact[c][0] for c in exact if exact[c][0] and c in COVERED
            }
        else:
            assert found == exact, how
