"""What the quick tiers vouch for is right: where they see no doubt, nothing is to be found."""

from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from bench.generate import plan_of
from bench.generator.write import Generated, table_of
from tests.traces.mutations import MUTATIONS, NotHere, told
from tests.traces.world import Line, world, write
from traces import local
from traces.ingest.run import read_trace
from traces.jepsen import add_cycles
from traces.tiers import alone
from traces.tiers.quick import COVERED
from traces.verdict import tally

SEEDS = st.integers(0, 10**9)


def said(findings: list[dict[str, Any]], *, seen: bool = False) -> Mapping[str, Any]:
    """What was found by each check, under which clause, with which witnesses."""
    tallies = tally(findings).get(0, {})
    add_cycles(tallies, jepsen=False)
    return {
        check: (dict(one.found), one.first_witnesses(), one.seen if seen else bool(one.seen))
        for check, one in sorted(tallies.items())
        if check in COVERED and (one.found or one.seen)
    }


def agree(table: Any, contexts: Any, *, seen: bool = False) -> None:
    quick, exact = alone.find(table, contexts), local.find(table, contexts, COVERED)
    assert said(quick, seen=seen) == said(exact, seen=seen)


def table_and_contexts(lines: dict[str, list[Line]], meta: dict[str, Any]) -> tuple[Any, Any]:
    with TemporaryDirectory() as folder:
        run = read_trace(write(Path(folder), lines, meta))
    return run.table(0), {0: run.context}


@given(SEEDS)
@settings(max_examples=10)
def test_a_world_that_keeps_its_promises(seed: int) -> None:
    w = world(seed)
    agree(*table_and_contexts(w.lines, w.meta))


@pytest.mark.parametrize("name", MUTATIONS)
@given(seed=SEEDS)
@settings(max_examples=3)
def test_every_lie_about_it(name: str, seed: int) -> None:
    w, mutation = world(seed), MUTATIONS[name]
    try:
        lines, meta = told(w, mutation)
    except NotHere:
        assume(False)
        return
    agree(*table_and_contexts(lines, meta))


@pytest.mark.parametrize("seed", [7, 8])
def test_every_lie_of_a_generated_trace(seed: int) -> None:
    made = Generated(plan_of(100_000, seed))
    agree(table_of(made), {0: made.cast.context()}, seen=True)


def test_a_trace_without_a_lie_leaves_no_doubt() -> None:
    made = Generated(plan_of(100_000, lies=0))
    left = alone.doubts(table_of(made), {0: made.cast.context()})
    assert (left.places, left.groups, left.producers) == ({}, set(), set())
