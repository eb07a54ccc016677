"""A generated trace holds the lies that it names, and the checks find those and no others."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from bench.generate import plan_of
from bench.generator.lies import LIES
from bench.generator.lines import write_lines
from bench.generator.write import Generated, context_in, table_of, truth_in, write_parquet
from tests.traces.judging import counts, judged
from traces import local
from traces.arrow import pq
from traces.jepsen import add_cycles
from traces.verdict import tally


def found(table: Any, context: Any) -> Mapping[str, int]:
    """How often each check found something."""
    tallies = tally(local.find(table, {0: context})).get(0, {})
    add_cycles(tallies, jepsen=False)
    return {check: one.total for check, one in sorted(tallies.items()) if one.total}


@pytest.mark.parametrize("seed", [7, 8])
def test_all_lies_are_found_and_none_is_invented(seed: int) -> None:
    made = Generated(plan_of(100_000, seed))
    table = table_of(made)
    assert {one["lie"] for one in made.told} == set(LIES)
    assert found(table, made.cast.context()) == made.truth


def test_without_lies_nothing_is_found() -> None:
    made = Generated(plan_of(50_000, seed=1, lies=0))
    assert found(table_of(made), made.cast.context()) == {}


def test_what_is_written_is_what_is_made(tmp_path: Path) -> None:
    made = Generated(plan_of(100_000))
    write_parquet(made, tmp_path / "run")
    table = pq.read_table(tmp_path / "run" / "ops")
    assert table.num_rows == made.rows
    assert truth_in(tmp_path / "run") == made.truth
    assert found(table, context_in(tmp_path / "run")) == made.truth


def test_one_seed_is_one_trace() -> None:
    assert table_of(Generated(plan_of(80_000, lies=1))).equals(
        table_of(Generated(plan_of(80_000, lies=1)))
    )


def test_its_lines_say_the_same(tmp_path: Path) -> None:
    """Ingest makes of the lines what the generator writes by itself."""
    made = Generated(plan_of(80_000, lies=1))
    write_lines(made, tmp_path / "run")
    one = judged(tmp_path / "run")
    assert one.run is not None
    assert not one.run.warnings
    assert counts(one) == made.truth
