"""Files of agents for lines that nobody has played, and the judgement of altered lines."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any, TypeAlias

import orjson

from chaos.recorders.kafka_lines import AgentLinesError, Recorded
from chaos.recorders.kafka_recorder import KafkaRecorder
from chaos.recorders.kafka_steps import ContradictingLinesError
from properties.kafka import judged as judging
from properties.tla.tracecheck import validate_all
from properties.tla.tracefile import Trace

NODES = (1, 2, 3)
AS_IT_IS = "as it is"
Lines: TypeAlias = list[dict[str, Any]]


def write_files(folder: Path, lines: Sequence[dict[str, Any]], version: str = "4.3.1") -> Path:
    """The files of three nodes that have started, with these lines, a millisecond apart."""
    start = {"ev": "start", "format": 1, "kafka": version, "boot": "b"}
    every = [*({**start, "node": node} for node in NODES), *lines]
    timed = [{**line, "t": number * 1_000_000} for number, line in enumerate(every)]
    for node in NODES:
        mine = [line for line in timed if line["node"] == node]
        texts = [orjson.dumps({**line, "n": n}) for n, line in enumerate(mine)]
        (folder / f"node-{node}.steps.ndjson").write_bytes(b"\n".join(texts))
    return folder


def noticed(
    lines: Lines,
    altered: Iterable[tuple[str, Lines]],
    traces: Callable[[KafkaRecorder, str], list[Trace]],
) -> tuple[Counter[str], Counter[str]]:
    """The alterations that contradict the other lines or are rejected by TLC, and all of them.

    Both are counted by kind. `traces` makes the traces of a merged run, under this run's name. As
    they are the lines must be accepted.
    """
    cases = [(AS_IT_IS, lines), *altered]
    merged = [_merged(changed) for _, changed in cases]
    made = [
        None if one is None else traces(one, f"altered-{number}")
        for number, one in enumerate(merged)
    ]
    verdicts = iter(validate_all([one for those in made for one in those or ()]))
    found, all_of = Counter[str](), Counter[str]()
    for (what, _), those in zip(cases, made, strict=True):
        all_of[what] += 1
        accepted = [next(verdicts).accepted for _ in those or ()]
        found[what] += those is None or not all(accepted)
    assert (found.pop(AS_IT_IS, 0), all_of.pop(AS_IT_IS)) == (0, 1)
    return found, all_of


def _merged(lines: Lines) -> KafkaRecorder | None:
    try:
        return judging.merged(Recorded(deepcopy(lines)))
    except (AgentLinesError, ContradictingLinesError):
        return None
