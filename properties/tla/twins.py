"""Checks that passing rows could fail: each `ok_` row has a twin, each promise a control."""

from collections.abc import Iterator, Mapping

from properties.tla.errors import InputError
from properties.tla.specs import ModelConfig, SpecTree
from properties.tla.verdicts import Purpose, Table


def check_twins(table: Table, tree: SpecTree) -> None:
    """Refuse a table with a passing row that is not shown to be able to fail.

    Constants named in `rules` are rules and settings; all others are bounds and faults. A twin is a
    `bug_` row with the same bounds that violates a promise of the `ok_` row. Every promise of some
    `ok_` row is violated by some `bug_` row, with any bounds, or by the mutant of the spec that the
    table names (`highwater mutants --specs` checks it).
    """
    missing = [*_alone(table, tree), *_uncontrolled(table, tree)]
    if table.rules and missing:
        raise InputError(f"{table.path}: " + "; ".join(missing))


def _alone(table: Table, tree: SpecTree) -> Iterator[str]:
    configs = {
        row.cfg: ModelConfig.read(tree.model(table.module, row.cfg)) for row in table.verdicts
    }
    bugs = [row for row in table.verdicts if row.kind is Purpose.BUG]
    for row in table.verdicts:
        if row.kind is not Purpose.OK:
            continue
        bounds = _bounds(configs[row.cfg], table.rules)
        promised = promises(configs[row.cfg])
        twins = (bug for bug in bugs if _bounds(configs[bug.cfg], table.rules) == bounds)
        if not any(bug.property in promised for bug in twins):
            named = ", ".join(f"{name} = {value}" for name, value in bounds.items())
            yield f"{row.cfg} has no bug_ row at the same bound ({named}) that breaks its promises"


def _uncontrolled(table: Table, tree: SpecTree) -> Iterator[str]:
    broken = {row.property for row in table.verdicts if row.kind is Purpose.BUG}
    for row in table.verdicts:
        if row.kind is Purpose.OK:
            config = ModelConfig.read(tree.model(table.module, row.cfg))
            for name in promises(config):
                if name not in broken and name not in table.controls:
                    yield f"{name} ({row.cfg}) is broken by no bug_ row"


def promises(config: ModelConfig) -> tuple[str, ...]:
    """The properties that a configuration has TLC check."""
    return (*config.invariants, *config.properties)


def _bounds(config: ModelConfig, rules: tuple[str, ...]) -> Mapping[str, str]:
    return {name: value for name, value in config.assigned().items() if name not in rules}
