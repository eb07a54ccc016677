"""The built pages quote what is there: stale ones, and names that no longer exist, fail here."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_built_pages_are_up_to_date() -> None:
    built = subprocess.run(
        [sys.executable, ROOT / "docs/build.py", "--check"], capture_output=True, text=True
    )
    assert built.returncode == 0, built.stderr
