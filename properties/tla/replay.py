"""Find the arguments of a counterexample's actions: TLC 2.15 reports the names only."""

import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

import orjson
from attrs import evolve

from properties.tla.checker import CounterexampleStep, Outcome
from properties.tla.event_values import to_json
from properties.tla.graph import parse_label
from properties.tla.names import spec_names
from properties.tla.processes import run
from properties.tla.specs import ModelConfig, SpecTree
from properties.tla.syntax import to_tla
from properties.tla.tlc import jvm
from properties.tla.values import Value

_LIMIT_S = 120.0
#: The module that begins in the first state of a counterexample.
BEGUN = "Begun"


def with_arguments(
    outcome: Outcome, module: str, cfg: Path, tree: SpecTree, *, anywhere: bool = False
) -> Outcome:
    """The same outcome with its steps' arguments; unchanged if they cannot be found.

    A counterexample to induction begins `anywhere`, not in the model's initial states.
    """
    if len(outcome.steps) < 2:
        return outcome
    scratch = Path(tempfile.mkdtemp(prefix="highwater-replay-"))
    try:
        (scratch / "states").write_bytes(b"".join(_line(step) for step in outcome.steps))
        model, begun, folder = scratch / "model.cfg", module, tree.folder(module)
        if anywhere:
            begun, folder = BEGUN, scratch
            (scratch / f"{BEGUN}.tla").write_text(_begun(module, outcome.steps[0]), "utf-8")
        text = _model(ModelConfig.read(cfg), module, tree, "First" if anywhere else "Init")
        model.write_text(text, encoding="utf-8")
        command = [*jvm(tree, scratch, heap_mb=1024, quick=True)]
        command += ["Replay", begun, str(model), str(scratch / "states")]
        told = run(command, folder, _LIMIT_S)
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


def _begun(module: str, first: CounterexampleStep) -> str:
    """The module, with a state of it as the initial one."""
    state = "".join(f"  /\\ {name} = {to_tla(value)}\n" for name, value in first.state.items())
    return f"---- MODULE {BEGUN} ----\nEXTENDS {module}\nFirst ==\n{state}====\n"


def _ordered(step: CounterexampleStep, variables: Sequence[str]) -> dict[str, Value]:
    """The state with the variables in the order of the spec, which TLC does not keep."""
    return {name: step.state[name] for name in variables}


def _line(step: CounterexampleStep) -> bytes:
    state = {name: to_json(value) for name, value in step.state.items()}
    return orjson.dumps([step.action or "Init", state], option=orjson.OPT_APPEND_NEWLINE)


def _model(config: ModelConfig, module: str, tree: SpecTree, init: str) -> str:
    """The model, but with the module's own Next: a fairness formula may hide the actions in it."""
    if spec_names(module, tree).actions:
        config = config.without("SPECIFICATION", "INIT", "NEXT")
        return f"INIT {init}\nNEXT Next\n{config.behaviour_only()}"
    return config.behaviour_only()
