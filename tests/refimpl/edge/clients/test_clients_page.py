"""docs/clients.md says what is so: its examples run, and its defaults are those of the table."""

import re
from pathlib import Path
from typing import Any

import pytest

from refimpl.configs import CONSUMER, PRODUCER, show

SETTINGS = {**CONSUMER, **PRODUCER}
PAGE = (Path(__file__).parents[4] / "docs" / "clients.md").read_text("utf-8")


EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize(
    ("at", "printed"),
    [
        (0, "RecordMetadata(topic='orders'"),
        (1, "RecordMetadata(topic='orders'"),
        (2, "RecordMetadata(topic='bills'"),
        (3, "ConsumerRecord(topic='orders'"),
    ],
)
def test_an_example_runs(at: int, printed: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert len(EXAMPLES) == 4
    known: dict[str, Any] = {}
    exec(EXAMPLES[at], known)
    assert capsys.readouterr().out.startswith(f"{printed}, partition=")


def test_the_defaults_are_those_of_the_settings() -> None:
    _, table = PAGE.split("## Defaults")
    rows = re.findall(r"^\| `([a-z.]+)` \| (\S+) \| (\S+) \|", table, re.MULTILINE)
    assert len(rows) == 24
    for name, ours, kafka in rows:
        assert ours == kafka == show(SETTINGS[name].default), name


def test_each_setting_of_a_stage_is_one_that_has_an_effect() -> None:
    stages = PAGE.split("## The stages")[1].split("## Defaults")[0]
    cells = [line.split("|")[3] for line in stages.splitlines() if line.startswith("| ")]
    for name in re.findall(r"`([a-z.]+[*]?)`", " ".join(cells)):
        meant = [one for one in SETTINGS.values() if one.name.startswith(name.rstrip("*"))]
        assert any(one.supported for one in meant), name
