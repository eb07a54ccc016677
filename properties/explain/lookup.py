"""Find a property: the modules that promise it, and the configurations that keep or break it."""

from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches

from attrs import frozen

from properties.tla import InputError, SpecTree
from properties.tla.specs import ModelConfig
from properties.tla.twins import promises
from properties.tla.verdicts import ExpectedVerdict, Purpose, Table, load

#: The number of names that the message lists for an unknown or ambiguous name.
FEW = 6


@frozen
class FoundProperty:
    """A property of one module, and the rows of its table that are about it."""

    name: str
    table: Table
    keep: tuple[ExpectedVerdict, ...]
    """The configurations in which TLC finds that it holds."""
    break_it: tuple[ExpectedVerdict, ...]
    """Those in which it is violated, the shortest counterexample first."""

    @property
    def module(self) -> str:
        return self.table.module

    def broken_in(self, cfg: str | None) -> ExpectedVerdict | None:
        """The row of the shown counterexample: the requested one, else the shortest."""
        if cfg is None:
            return next(iter(self.break_it), None)
        return next((row for row in self.break_it if row.cfg == cfg), None)


def find(name: str, tree: SpecTree) -> Sequence[FoundProperty]:
    """The property in each module that has it; `Module.Property` means that one alone.

    Raises InputError with the nearest names for one that no module checks.
    """
    wanted, _, short = name.rpartition(".")
    tables = [load(module, tree) for module in ([wanted] if wanted else tree.modules())]
    found = [one for table in tables for one in _in_table(short, table, tree)]
    if not found:
        known = sorted({known for table in tables for known in _names(table, tree)})
        near = get_close_matches(short, known, n=3, cutoff=0.4)
        few = get_close_matches(short, known, n=FEW, cutoff=0)
        hint = f"did you mean {' or '.join(near)}?" if near else f"the nearest: {', '.join(few)}"
        raise InputError(f"no configuration checks a property {name!r}: {hint}")
    if len(found) > FEW:
        some = ", ".join(f"{one.module}.{short}" for one in found[:FEW])
        raise InputError(f"{len(found)} modules check {short}: name one of them, such as {some}")
    return found


def _in_table(name: str, table: Table, tree: SpecTree) -> Iterator[FoundProperty]:
    keep = tuple(
        row
        for row in table.verdicts
        if row.kind is Purpose.OK
        and name in promises(ModelConfig.read(tree.model(table.module, row.cfg)))
    )
    breaks = [row for row in table.verdicts if row.property == name]
    if keep or breaks:
        breaks.sort(key=lambda row: (row.kind is Purpose.PROBE, row.length or 0, row.distinct or 0))
        yield FoundProperty(name, table, keep, tuple(breaks))


def _names(table: Table, tree: SpecTree) -> set[str]:
    checked = {row.property for row in table.verdicts if row.property}
    for row in table.verdicts:
        checked.update(promises(ModelConfig.read(tree.model(table.module, row.cfg))))
    return checked


def switched_off(
    table: Table, row: ExpectedVerdict, tree: SpecTree
) -> Mapping[str, tuple[str, str]]:
    """The rules in which a row differs from the nearest one that passes: name, there, here."""
    here = ModelConfig.read(tree.model(table.module, row.cfg)).assigned()
    near: dict[str, tuple[str, str]] | None = None
    for other in table.verdicts:
        if other.kind is not Purpose.OK:
            continue
        there = ModelConfig.read(tree.model(table.module, other.cfg)).assigned()
        differ = {k: (there[k], here[k]) for k in here if k in there and there[k] != here[k]}
        if differ and (near is None or len(differ) < len(near)):
            near = differ
    return near or {}
