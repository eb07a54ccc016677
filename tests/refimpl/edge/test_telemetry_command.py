"""`highwater broker --client-telemetry`: what is no function is one line."""

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("nowhere:take", "No module named 'nowhere'"),
        ("given", "module 'given' has no attribute ''"),
        ("given:none", "module 'given' has no attribute 'none'"),
        ("given:number", "a function is expected"),
        (":take", "Empty module name"),
    ],
)
def test_what_is_no_function_is_one_line(tmp_path: Path, text: str, why: str) -> None:
    (tmp_path / "given.py").write_text("number = 1\n")
    command = [sys.executable, "-m", "refimpl", "broker", "--client-telemetry", text]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == f"Error: --client-telemetry {text}: {why}"
