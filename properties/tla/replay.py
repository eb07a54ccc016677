"""Find the arguments of a counterexample's actions: TLC 2.15 reports the names only."""

import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

import orjson
from attrs import evolve

from properties.tla.checker import Outcome, Step
from properties.tla.event_values import to_json
from properties.tla.graph import parse_label
from properties.tla.names import spec_names
from properties.tla.processes import run
from properties.tla.specs import Config, SpecTree
from properties.tla.tlc import jvm
from properties.tla.values import Value

_LIMIT_S = 120.0


def with_arguments(outcome: Outcome, module: str, cfg: Path, tree: SpecTree) -> Outcome:
    """The same outcome, its steps with arguments; unchanged where they cannot be found."""
    if len(outcome.steps) < 2:
        return outcome
    scratch = Path(tempfile.mkdtemp(prefix="highwater-replay-"))
    try:
        (scratch / "states").write_bytes(b"".join(_line(step) for step in outcome.steps))
        model = scratch / "model.cfg"
        model.write_text(_model(Config.read(cfg), module, tree), encoding="utf-8")
        command = [*jvm(tree, scratch, heap_mb=1024, quick=True)]
        command += ["Replay", module, str(model), str(scratch / "states")]
        told = run(command, tree.folder(module), _LIMIT_S)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    labels = [parse_label(line) for line in told.output.splitlines()]
    if told.code != 0 or len(labels) != len(outcome.steps) - 1:
        return outcome
    order = spec_names(module, tree).variables
    first, *later = (evolve(step, state=_ordered(step, order)) for step in outcome.steps)
    steps = (
        evolve(step, action=label.name, params=label.params)
        for step, label in zip(later, labels, strict=True)
    )
    return evolve(outcome, steps=(first, *steps))


def _ordered(step: Step, variables: Sequence[str]) -> dict[str, Value]:
    """The state with the variables in the order of the spec, which TLC does not keep."""
    return {name: step.state[name] for name in variables}


def _line(step: Step) -> bytes:
    state = {name: to_json(value) for name, value in step.state.items()}
    return orjson.dumps([step.action or "Init", state], option=orjson.OPT_APPEND_NEWLINE)


def _model(config: Config, module: str, tree: SpecTree) -> str:
    """The model, but with the module's own Next: a fairness formula may hide the actions in it."""
    if spec_names(module, tree).actions:
        config = config.without("SPECIFICATION", "INIT", "NEXT")
        return f"INIT Init\nNEXT Next\n{config.behaviour_only()}"
    return config.behaviour_only()
