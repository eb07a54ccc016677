"""References from one room to another are valid: built pages, names of formulas."""

import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as Tree

from docs import finding_drawings, kafka_lines
from traces.checks.catalogue import CHECKS

ROOT = Path(__file__).parents[1]


def test_built_pages_are_up_to_date() -> None:
    built = subprocess.run(
        [sys.executable, ROOT / "docs/build.py", "--check"], capture_output=True, text=True
    )
    assert built.returncode == 0, built.stderr


def test_every_check_shows_a_drawing_that_stands_alone() -> None:
    """Checks that are gone have no drawing, and no drawing needs a page around it."""
    page, folder = (ROOT / "docs" / name for name in ("checks.md", "checks"))
    shown = re.findall(r"^!\[.+]\(checks/(\w+)\.svg\)$", page.read_text("utf-8"), re.MULTILINE)
    assert shown == list(CHECKS)
    assert {file.name for file in folder.iterdir()} == {f"{id}.svg" for id in CHECKS}
    for file in folder.iterdir():
        root = Tree.parse(file).getroot()
        size = [root.attrib["width"], root.attrib["height"]]
        title, style, paper = root[:3]
        assert root.attrib["viewBox"].split() == ["0", "0", *size], file.name
        assert [paper.attrib["width"], paper.attrib["height"]] == size, file.name
        assert file.stem in (title.text or "").split(), file.name
        styled = set(re.findall(r"\.([a-z]+)", style.text or ""))
        used = {name for one in root for name in one.attrib.get("class", "").split()}
        assert used <= styled, file.name
        assert not re.search(r"var\(|url\(|href", file.read_text("utf-8")), file.name


def test_every_report_on_kafka_has_a_drawing() -> None:
    """It is of the counterexample that the spec's table pins: its name, promise and length."""
    rows, folder = finding_drawings.rows(), finding_drawings.FINDINGS
    reports = {file.stem: file.read_text("utf-8") for file in folder.glob("kafka-*.md")}
    assert {file.stem for file in folder.glob("*.svg")} == rows.keys()
    assert {name for name, text in reports.items() if "```mermaid" not in text} == rows.keys()
    for report, row in rows.items():
        assert finding_drawings.is_drawn(report, row), f"{report}: make drawings"
        assert f"]({report}.svg)" in reports[report]


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
