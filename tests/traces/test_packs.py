"""Small partitions that are judged together come to what each of them comes to by itself."""

import json
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.traces.damage import damage
from tests.traces.fixture import TOPIC, fixture, write
from tests.traces.judging import SEEDED, examples
from traces.checks.catalogue import CHECKS
from traces.engines import kernel, packs
from traces.generate.small import IN_CALLS, NotHere, injected
from traces.ingest.run import Run, read_trace
from traces.model.columns import calls
from traces.model.context import Context, same
from traces.model.problems import BadInput
from traces.model.schema import COLUMNS, NONE

CHECKED = [check for check in CHECKS.values() if check.scope == "partition"]


def some_run(random: Random) -> Run | None:
    """A fixture with a fault in it, or none, that may be damaged besides."""
    w, name = fixture(random.randrange(10**9), steps=8), random.choice([None, *IN_CALLS])
    try:
        lines, meta = injected(w, IN_CALLS[name]) if name else (w.lines, w.meta)
    except NotHere:
        return None
    lines, meta = json.loads(json.dumps([lines, meta]))
    if random.random() < 0.5:
        damage(random, lines, meta)
    with TemporaryDirectory() as folder:
        try:
            return read_trace(write(Path(folder), lines, meta))
        except BadInput:
            return None


def many_partitions(random: Random, runs: list[Run]) -> dict[str, Any]:
    """Those runs' rows of one topic side by side, without what no pack takes."""
    parts: list[dict[str, Any]] = []
    for number, run in enumerate(runs):
        topic = run.names.topics.number(TOPIC)
        columns = {name: np.asarray(run.columns.get(name, [0])) for name in COLUMNS}
        rows = (columns["topic"] == topic) & (columns["partition"] != NONE)
        rows &= ~calls(columns, *packs._SPECIAL)  # pyright: ignore[reportPrivateUsage]
        if random.random() < 0.2:  # nobody asked for the log start, or read to the end
            rows &= columns["op"] != random.choice([17, 23])
        whole = {n: c[rows].astype(np.int64) for n, c in columns.items() if len(c) == len(rows)}
        whole["run"] = np.zeros(int(rows.sum()), np.int64)
        whole["topic"] = np.full(int(rows.sum()), topic)
        parts.append(whole | {"partition": whole["partition"] + 100 * number})
    return {name: np.concatenate([part[name] for part in parts]) for name in COLUMNS}


def judged(columns: dict[str, Any], context: Context, fewest: int) -> tuple[Any, Any]:
    """The counts, by check, kind and clause, and the witnesses."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(packs, "FEWEST", fewest)
        found = kernel.judge(columns, "partition", CHECKED, {0: context})
    names = ("check", "kind", "clause", "found", "seen", "extra")
    counted = [tuple(row[n] for n in names) for row in found if row["events"] is None]
    shown = [json.dumps(row) for row in found if row["events"] is not None]
    return sorted(row for row in counted if any(row[3:])), sorted(shown)


@given(seed=st.integers(0, 10**9))
@settings(max_examples=examples(8), phases=SEEDED)
def test_packed_partitions_are_judged_as_if_alone(seed: int) -> None:
    random = Random(seed)
    runs = [run for run in (some_run(random) for _ in range(4)) if run is not None]
    if not runs:
        return
    none = same(-1)
    context = evolve(
        runs[0].context,
        lock=none,
        delivery_limit=none,
        share_committed_only=none,
        compacted=same(0),
    )
    columns = many_partitions(random, runs)
    assert judged(columns, context, 2) == judged(columns, context, 10**9)


def test_packs_are_made_at_all() -> None:
    run = some_run(Random(4))
    assert run is not None
    none = same(-1)
    context = evolve(
        run.context, lock=none, delivery_limit=none, share_committed_only=none, compacted=same(0)
    )
    columns = many_partitions(Random(0), [run] * 8)
    order = np.lexsort((columns["process"], columns["partition"]))
    columns = {name: column[order] for name, column in columns.items()}
    starts = np.flatnonzero(np.r_[True, np.diff(columns["partition"]) != 0]).tolist()
    spans = list(zip(starts, [*starts[1:], len(order)], strict=True))
    assert [len(pack) for pack in packs.packed(columns, spans, context)] == [16]
