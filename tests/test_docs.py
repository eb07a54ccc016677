"""What points from one room to another points at something: built pages, names of formulas."""

import re
import subprocess
import sys
from pathlib import Path

from traces.checks.catalogue import CHECKS

ROOT = Path(__file__).parents[1]


def test_built_pages_are_up_to_date() -> None:
    built = subprocess.run(
        [sys.executable, ROOT / "docs/build.py", "--check"], capture_output=True, text=True
    )
    assert built.returncode == 0, built.stderr


def test_checks_name_formulas_that_exist() -> None:
    named = [name for check in CHECKS.values() for name in re.findall(r"(\w+)!(\w+)", check.spec)]
    assert len(named) >= 10
    for module, formula in named:
        spec = (ROOT / "spec" / "tla" / module / f"{module}.tla").read_text(encoding="utf-8")
        assert re.search(rf"^{formula}\b.* ==", spec, re.MULTILINE), f"{module}!{formula}"
