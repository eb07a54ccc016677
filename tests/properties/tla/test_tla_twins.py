"""Passing rows could fail: a negative twin for every `ok_` row, a control for every promise."""

import shutil
from pathlib import Path

import pytest
from attrs import evolve

from properties.tla.errors import InputError
from properties.tla.specs import SpecTree
from properties.tla.twins import check_twins
from properties.tla.verdicts import Purpose, Table, load

MODULES = SpecTree().modules()


def without(table: Table, *gone: str) -> Table:
    return evolve(table, verdicts=tuple(row for row in table.verdicts if row.cfg not in gone))


@pytest.mark.parametrize("module", MODULES)
def test_every_module_says_which_constants_are_rules_and_has_twins(module: str) -> None:
    table = load(module, SpecTree())
    assert table.rules
    check_twins(table, SpecTree())


@pytest.mark.parametrize("module", MODULES)
def test_a_row_that_passes_without_a_twin_is_refused(module: str) -> None:
    table = load(module, SpecTree())
    bugs = [row.cfg for row in table.verdicts if row.kind is Purpose.BUG]
    with pytest.raises(InputError, match="has no bug_ row at the same bound"):
        check_twins(without(table, *bugs), SpecTree())


def test_a_promise_that_nothing_breaks_is_refused() -> None:
    table = load("DurableIsr", SpecTree())
    with pytest.raises(InputError, match=r"ElrKept \(ok_\w+\) is broken by no bug_ row"):
        check_twins(without(table, "bug_elr_lost"), SpecTree())


def test_a_twin_at_another_bound_does_not_count(tmp_path: Path) -> None:
    root = tmp_path / "tla"
    shutil.copytree(SpecTree().root, root)
    twin = root / "AbsLog/cfg/bug_lose_three_readers.cfg"
    twin.write_text(twin.read_text().replace("MaxLength = 3", "MaxLength = 4"))
    tree = SpecTree(root)
    with pytest.raises(InputError, match="ok_three_readers has no bug_ row at the same bound"):
        check_twins(load("AbsLog", tree), tree)
