"""A generated trace holds the anomalies that it names, and the checks find those and no others."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from tests.traces.judging import counts, judged, said
from tests.traces.test_second_checker import disagreements, witnesses
from traces.checks.catalogue import CHECKS
from traces.engines import local
from traces.generate.anomalies import IN_ROWS
from traces.generate.lines import write_lines
from traces.generate.schedule import plan_of
from traces.generate.write import Generated, context_in, table_of, truth_in, write_parquet
from traces.model.arrow import pq
from traces.model.lives import GroupLives
from traces.model.sizes import Sizes
from traces.second_checker import partitions_of, read
from traces.verdicts.jepsen import add_cycles
from traces.verdicts.verdict import Tally, tally


def tallies_of(table: Any, context: Any) -> Mapping[str, Tally]:
    """The tally of each check."""
    tallies = tally(local.find(table, {0: context})).get(0, {})
    add_cycles(tallies, jepsen=False)
    return tallies


def found(table: Any, context: Any) -> Mapping[str, int]:
    """The number of findings of each check."""
    tallies = tallies_of(table, context)
    return {check: one.total for check, one in sorted(tallies.items()) if one.total}


@pytest.mark.parametrize("seed", [7, 8])
def test_all_anomalies_are_found_and_none_is_invented(seed: int) -> None:
    made = Generated(plan_of(100_000, seed))
    table = table_of(made)
    assert {one["anomaly"] for one in made.injected} == set(IN_ROWS)
    assert found(table, made.context()) == made.truth


def test_without_anomalies_every_check_looks_and_finds_nothing() -> None:
    made = Generated(plan_of(50_000, seed=1, anomalies=0, scenarios=True))
    tallies = tallies_of(table_of(made), made.context())
    assert {check for check, one in tallies.items() if one.seen} == set(CHECKS)
    assert not {check: one.found for check, one in tallies.items() if one.found}


def test_groups_made_again_and_added_partitions_are_healthy_for_who_knows_of_them() -> None:
    """Without lives a new group's first generation is a second one; without counts a key is moved.

    So what the context knows of them decides.
    """
    made = Generated(plan_of(20_000, seed=1, anomalies=0, scenarios=True))
    table, context = table_of(made), made.context()
    assert found(table, context) == {}
    assert set(found(table, evolve(context, lives=GroupLives()))) >= {"G1", "G7"}
    assert set(found(table, evolve(context, sizes=Sizes()))) == {"P6"}


def test_its_lines_keep_every_promise(tmp_path: Path) -> None:
    write_lines(Generated(plan_of(20_000, seed=1, anomalies=0, scenarios=True)), tmp_path / "run")
    one = judged(tmp_path / "run", strict=True)
    assert said(one, "holds") == set(CHECKS)


def test_what_is_written_is_what_is_made(tmp_path: Path) -> None:
    made = Generated(plan_of(100_000))
    write_parquet(made, tmp_path / "run")
    table = pq.read_table(tmp_path / "run" / "ops")
    assert table.num_rows == made.rows
    assert truth_in(tmp_path / "run") == made.truth
    assert found(table, context_in(tmp_path / "run")) == made.truth


def test_one_seed_is_one_trace() -> None:
    assert table_of(Generated(plan_of(80_000, anomalies=1))).equals(
        table_of(Generated(plan_of(80_000, anomalies=1)))
    )


def test_its_lines_say_the_same(tmp_path: Path) -> None:
    """Ingest makes of the lines what the generator writes by itself; all of it is confirmed."""
    made = Generated(plan_of(80_000, seed=5, anomalies=1))
    write_lines(made, tmp_path / "run")
    one = judged(tmp_path / "run")
    assert one.run is not None
    assert not one.run.warnings
    assert counts(one) == made.truth
    assert said(one, "violated") | said(one, "allowed") == set(CHECKS)
    found = witnesses(one)
    assert disagreements(one, read(tmp_path / "run", partitions_of(found))) == []
