"""The agent's table of hooks: each names an advice, each advice is used, each step is known."""

import re
from pathlib import Path

from chaos.real.agent import build
from properties.tla.names import spec_actions
from properties.tla.specs import SpecTree

JAVA = Path(build.__file__).parent / "java" / "highwater" / "agent"


def hooks() -> list[list[str]]:
    lines = (JAVA / "hooks.txt").read_text(encoding="utf-8").splitlines()
    rows = [line for line in lines if line and not line.startswith("#")]
    return [[part.strip() for part in row.split("|")] for row in rows]


def test_each_hook_has_an_advice_and_each_advice_a_hook() -> None:
    text = (JAVA / "Advices.java").read_text(encoding="utf-8")
    advices = {name.lower() for name in re.findall(r"static class (\w+)", text)}
    assert {row[0].lower() for row in hooks()} == advices


def test_each_hook_names_its_steps_or_says_what_it_is_for() -> None:
    specs = ("Replication", "TransactionCoordinator", "ConsumerCoordinator")
    actions = {"Init", *(name for spec in specs for name in spec_actions(spec, SpecTree()))}
    for advice, types, method, steps, *without in hooks():
        assert without in ([], ["groups"])
        named = {step.strip() for step in steps.partition(":")[0].split(",")}
        assert named <= actions or advice in ("topic", "removed"), (method, named - actions)
        assert all("." in one for one in types.split(","))
