"""What points from one room to another points at something: built pages, names of formulas."""

import re
import subprocess
import sys
from pathlib import Path

from docs import kafka_lines
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


def test_every_class_of_kafka_has_its_line_in_the_release_that_was_read() -> None:
    """`make test-kafka` holds the lines against the sources."""
    page = kafka_lines.PAGE.read_text(encoding="utf-8")
    used, defined = kafka_lines.used(page), kafka_lines.defined(page)
    assert used.keys() == defined.keys()
    for symbol, release in used.items():
        url = defined[symbol]
        assert url.startswith(f"https://github.com/apache/kafka/blob/{release}/"), symbol
        assert re.search(r"\.(scala|java)#L\d+$", url), symbol
    for section in re.findall(r"^## (.*\n(?:(?!## ).*\n)*)", page, re.MULTILINE):
        if "\n| rule | Kafka " in section:
            assert re.search(r"\]\[\w+", section), section.splitlines()[0]
