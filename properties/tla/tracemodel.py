"""The input of TLC's evaluator for traces: a module, a cfg, and the steps, line by line."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import orjson

from properties.tla.errors import InputError
from properties.tla.event_values import from_json
from properties.tla.names import SpecNames
from properties.tla.syntax import to_tla
from properties.tla.tracefile import INIT, Trace


def write_model(
    root: str, folder: Path, names: SpecNames, spec: str, traces: Iterable[Trace]
) -> None:
    """Write `root.tla`, `root.cfg` and `root.traces`; the traces share their constants."""
    traces = list(traces)
    constants = traces[0].constants or {}
    (folder / f"{root}.tla").write_text(_module(root, spec, names, constants), encoding="utf-8")
    (folder / f"{root}.cfg").write_text(_config(root, names), encoding="utf-8")
    with (folder / f"{root}.traces").open("wb") as file:
        for trace in traces:
            file.writelines(_lines(trace, names))


def _module(root: str, spec: str, names: SpecNames, constants: Mapping[str, Any]) -> str:
    """The spec under its constants, with a Next that TLC has nothing to split in."""
    given, declared = set(constants), set(names.constants)
    if given != declared:
        lacks = "".join(f"; no value for {name}" for name in sorted(declared - given))
        extra = "".join(f"; {spec} has no constant {name}" for name in sorted(given - declared))
        raise InputError(f"the header's constants are not those of {spec}{lacks}{extra}")
    lines = [f"---- MODULE {root} ----", f"EXTENDS {spec}"]
    try:
        for name, value in constants.items():
            lines.append(f"{root}_{name} == {to_tla(from_json(value))}")
    except ValueError as wrong:
        raise InputError(f"a constant in the header: {wrong}") from None
    lines += [f"{root}_Next == UNCHANGED <<{', '.join(names.variables)}>>", "====", ""]
    return "\n".join(lines)


def _config(root: str, names: SpecNames) -> str:
    constants = "".join(f"  {name} <- {root}_{name}\n" for name in names.constants)
    return f"INIT Init\nNEXT {root}_Next\n" + (f"CONSTANTS\n{constants}" if constants else "")


def _lines(trace: Trace, names: SpecNames) -> Iterable[bytes]:
    """A trace as TraceCheck reads it; arguments in formal order."""
    yield b"[]\n"
    known = set(names.variables)
    for event in trace.events:
        begins = event.action == INIT and event is trace.events[0]
        formals = () if begins else names.actions.get(event.action)
        if formals is not None and set(event.params) != set(formals):
            takes, has = ", ".join(formals), ", ".join(event.params)
            raise InputError(
                f"{trace.file}:{event.line}: {event.action} takes ({takes}), the event has ({has})"
            )
        if not event.after.keys() <= known:
            unknown = ", ".join(sorted(event.after.keys() - known))
            raise InputError(f"{trace.file}:{event.line}: {trace.spec} has no variable {unknown}")
        args = [event.params[formal] for formal in formals or ()]
        action = event.action if formals is not None else f"?{event.action}"
        yield orjson.dumps([action, args, event.after], option=orjson.OPT_APPEND_NEWLINE)


def check_values(traces: Iterable[Trace]) -> None:
    """Find what cannot be read; done only when something could not, as it takes its time."""
    for trace in traces:
        for event in trace.events:
            for name, value in (*event.params.items(), *event.after.items()):
                try:
                    from_json(value)
                except ValueError as wrong:
                    raise InputError(f"{trace.file}:{event.line}: {name}: {wrong}") from None
