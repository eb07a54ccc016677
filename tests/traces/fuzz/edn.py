"""Operations as a Jepsen history."""

from typing import Any, cast

from tests.traces.fuzz.operations import Operation, Step


def history(operations: list[Operation]) -> str:
    """One map per line, in the order of the times."""
    events: list[tuple[int, int, dict[str, Any]]] = []
    for number, one in enumerate(operations):
        common = {"process": one.process, "f": f":{one.f}"}
        asked = one.listed if one.f == "assign" else [_asked(step) for step in one.steps]
        value = one.listed if one.f == "assign" else [_completed(step) for step in one.steps]
        events.append((one.inv, number, {**common, "type": ":invoke", "value": asked}))
        ended = {**common, "type": f":{one.kind}", "value": value, **one.more}
        events.append((one.ret, number, ended))
    events.sort(key=lambda event: event[:2])
    lines = [
        _written({"index": index, "time": time, **event})
        for index, (time, _, event) in enumerate(events)
    ]
    return "\n".join(lines) + "\n"


def _asked(step: Step) -> list[Any]:
    return [":send", step[1], step[3]] if step[0] == "send" else [":poll"]


def _completed(step: Step) -> list[Any]:
    return [":send", step[1], [step[2], step[3]]] if step[0] == "send" else [":poll", step[1]]


def _written(value: Any) -> str:
    if value is None:
        return "nil"
    if value is True or value is False:
        return str(value).lower()
    if isinstance(value, dict):
        found = cast("dict[Any, Any]", value)
        keys = [f":{k}" if isinstance(k, str) else str(k) for k in found]
        pairs = zip(keys, found.values(), strict=True)
        return "{" + ", ".join(f"{k} {_written(v)}" for k, v in pairs) + "}"
    if isinstance(value, list):
        return "[" + " ".join(_written(one) for one in cast("list[Any]", value)) + "]"
    text = str(value)
    return text if text.startswith(":") or isinstance(value, int) else f'"{text}"'
