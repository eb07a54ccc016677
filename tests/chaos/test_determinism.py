"""The same seed is the same run, byte for byte, wherever it runs."""

import os
import subprocess
import sys
from pathlib import Path

from chaos.recording import write_events, write_history
from chaos.sim.settings import Settings
from chaos.simulator import build, trace_hash

HASHES = """
from chaos.simulator import trace_hash
from chaos.sim.settings import Settings
print(trace_hash(Settings.draw(0)))
print([trace_hash(Settings.draw(seed, fault_ms=1500)) for seed in (1, 2, 6)])
"""


def hashes(hash_seed: str) -> str:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    command = [sys.executable, "-c", HASHES]
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, check=True
    ).stdout


def test_a_run_is_the_same_under_two_hash_seeds() -> None:
    assert hashes("1") == hashes("777")


def test_different_seeds_are_different_runs() -> None:
    seeds = (*range(4), 6)  # the last with a metadata store
    hashed = {trace_hash(Settings.draw(seed, fault_ms=1500)) for seed in seeds}
    assert len(hashed) == len(seeds)


def test_what_is_written_down_is_the_same_bytes(tmp_path: Path) -> None:
    for folder in ("one", "two"):
        run = build(Settings.draw(5, fault_ms=1500), events=True, history=True).go()
        write_events(run, tmp_path / folder)
        write_history(run, tmp_path / folder)
    one, two = (
        {file.name: file.read_bytes() for file in (tmp_path / folder).rglob("*.*")}
        for folder in ("one", "two")
    )
    assert one == two


def test_writing_down_changes_nothing() -> None:
    settings = Settings.draw(8)
    quiet, loud = build(settings).go(), build(settings, events=True, history=True).go()
    assert (quiet.events, quiet.simulation.counts - loud.simulation.counts) == (loud.events, {})
