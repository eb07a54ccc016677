"""The import rules can fail: each contract is broken on purpose in a copy and must be reported."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ROOMS = ("highwater", "refimpl", "properties", "chaos", "traces")


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    for room in ROOMS:
        pattern = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / room, tmp_path / room, ignore=pattern)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def lint(checkout: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache", "--no-logo"],
        cwd=checkout,
        env={**os.environ, "PYTHONPATH": str(checkout)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_contracts_are_kept(copied: Path) -> None:
    ran = lint(copied)
    assert ran.returncode == 0, ran.stdout
    assert "11 kept, 0 broken" in ran.stdout


@pytest.mark.parametrize(
    ("module", "line", "reported"),
    [
        ("refimpl/intruder.py", "import time", "refimpl.intruder -> time"),
        ("refimpl/intruder.py", "from random import Random", "refimpl.intruder -> random"),
        ("refimpl/intruder.py", "import chaos", "refimpl.intruder -> chaos"),
        ("properties/intruder.py", "import highwater", "properties.intruder -> highwater"),
        ("chaos/sim/intruder.py", "import properties", "chaos.sim.intruder -> properties"),
        ("chaos/sim/intruder.py", "import traces", "chaos.sim.intruder -> traces"),
        (
            "traces/ingest/intruder.py",
            "from refimpl import __main__",
            "traces.ingest.intruder -> refimpl",
        ),
        (
            "traces/ingest/intruder.py",
            "from refimpl.storage.format import batch",
            "traces.ingest.intruder -> refimpl.storage",
        ),
        ("traces/ingest/intruder.py", "import properties", "traces.ingest.intruder -> properties"),
        (
            "traces/ingest/intruder.py",
            "from traces.checks import base",
            "traces.ingest.intruder -> traces.checks",
        ),
        (
            "traces/checks/intruder.py",
            "def late() -> None:\n    from traces.verdicts import verdict",
            "traces.checks.intruder -> traces.verdicts.verdict",
        ),
        (
            "traces/second_checker/intruder.py",
            "def late() -> None:\n    import traces.model.problems",
            "traces.second_checker.intruder -> traces.model.problems",
        ),
        (
            "refimpl/machines/intruder.py",
            "import refimpl.storage.disk.interface",
            "refimpl.machines.intruder -> refimpl.storage",
        ),
        (
            "refimpl/storage/log/intruder.py",
            "from refimpl.storage.cleaner import compaction",
            "refimpl.storage.log.intruder -> refimpl.storage.cleaner",
        ),
        (
            "refimpl/edge/server/intruder.py",
            "from refimpl.edge.testing import cluster",
            "refimpl.edge.server.intruder -> refimpl.edge.testing",
        ),
        (
            "refimpl/edge/server/received.py",
            "from refimpl.edge.server import listener",
            "refimpl.edge.server.received -> refimpl.edge.server.listener",
        ),
        (
            "chaos/sim/intruder.py",
            "from chaos.oracles import violation",
            "chaos.sim.intruder -> chaos.oracles",
        ),
        ("chaos/sim/intruder.py", "import chaos.real.live", "chaos.sim.intruder -> chaos.real"),
        (
            "chaos/real/live/intruder.py",
            "from properties.tla import specs",
            "chaos.real.live.intruder -> properties",
        ),
        (
            "chaos/real/kafka/intruder.py",
            "from chaos.real.stored import brokers",
            "chaos.real.kafka.intruder -> chaos.real.stored",
        ),
        (
            "refimpl/controller/intruder.py",
            "from refimpl.broker import node",
            "refimpl.controller.intruder -> refimpl.broker",
        ),
        (
            "refimpl/metadata/intruder.py",
            "from refimpl.broker import node",
            "refimpl.metadata.intruder -> refimpl.broker",
        ),
        (
            "refimpl/machines/intruder.py",
            "from refimpl.metadata import contract",
            "refimpl.machines.intruder -> refimpl.metadata",
        ),
        (
            "refimpl/machines/intruder.py",
            "from refimpl.broker import node",
            "refimpl.machines.intruder -> refimpl.broker",
        ),
    ],
)
def test_a_forbidden_import_is_reported(
    copied: Path, module: str, line: str, reported: str
) -> None:
    (copied / module).write_text(line + "\n")
    ran = lint(copied)
    assert ran.returncode == 1
    assert "10 kept, 1 broken" in ran.stdout
    assert reported in ran.stdout
