"""The property that detects each mutant of a spec.

Every configuration of the table makes a claim about a named property: an `ok_` row that it holds, a
`bug_` or `probe_` row that it does not. A row detects a mutant if its claim fails. All mutants of a
module are in one text (`spec_mutants`). One JVM per row explores them one after the other
(`spec/java/Mutants.java`), and computes once what they have in common. For promises about whole
behaviours, TLC checks each mutant by itself.

The mutants of promises (`promise_mutants`) are asked of the rows about what they change, `bug_`
rows first: there a promise that was weakened holds.

If the machines are compared with a row's graph edge by edge (`highwater conform`), a mutant with
another graph fails that comparison. This is weaker than a broken property, so it is reported apart.
A mutant that was not explored to its end is reported apart as well; it shows nothing.
"""

import re
from collections.abc import Iterator, Mapping, Sequence, Set

from attrs import define, evolve, field, frozen

from properties.mutants import guards
from properties.mutants.promise_mutants import PromiseMutant, promise_mutants
from properties.mutants.spec_mutants import SpecMutant, source, spec_mutants
from properties.mutants.spec_rows import (
    ANOTHER_GRAPH,
    ANOTHER_LENGTH,
    Control,
    Outcome,
    Run,
    outcome_of,
)
from properties.tla import InputError, SpecTree
from properties.tla.specs import ModelConfig
from properties.tla.twins import promises
from properties.tla.verdicts import ExpectedVerdict, Purpose, Table, load

#: Rows with more states than this are asked last, and with more than that not at all.
LARGE, TOO_LARGE = 20_000, 30_000
#: Likewise those that promise something of whole behaviours, where TLC is asked of each by itself.
TOO_LARGE_ALONE = 10_000


@frozen
class Noticed:
    """The configuration that detects a mutant, and its difference."""

    cfg: str
    by: str

    @property
    def by_property(self) -> bool:
        return self.by != ANOTHER_GRAPH and not self.by_length

    @property
    def by_length(self) -> bool:
        """Only the pinned length of a counterexample tells."""
        return self.by.startswith(ANOTHER_LENGTH)

    def __str__(self) -> str:
        return f"{self.cfg}: {self.by}"


@frozen
class Trials:
    """The results of one module's mutants, in its order."""

    module: str
    found: Mapping[str, Noticed] = field(factory=dict[str, Noticed])
    alive: tuple[str, ...] = ()
    unasked: Mapping[str, Sequence[str]] = field(factory=dict[str, Sequence[str]])
    """The rows that did not come to their end for a mutant that no property notices."""
    cpu_s: float = 0.0

    @property
    def by_property(self) -> Set[str]:
        return {name for name, one in self.found.items() if one.by_property}


def judged(
    module: str,
    tree: SpecTree | None = None,
    before: Trials | None = None,
    of_promises: bool = False,
    of_rules: Trials | None = None,
) -> Trials:
    """The verdict on every mutant of a module's rules or of its promises, from the cache or TLC.

    What noticed a mutant `before` is asked first: most often it still does. Likewise the row that
    noticed a mutant of the rules is the first one that breaks as its promise's control.
    """
    tree = tree or SpecTree()
    table = load(module, tree)
    mutants = promise_mutants(module, tree) if of_promises else asked(module, tree)
    asking = _Asking(table, tree, mutants)
    if before is not None:
        for row in table.verdicts:
            known = {name for name, by in before.found.items() if by.cfg == row.cfg}
            asking.ask(row, only=known & before.by_property)
    for row in sorted(table.verdicts, key=_turn_of_promises if of_promises else _turn):
        if of_promises and row.kind is Purpose.OK and not asking.controlled:
            asking.ask_controls(of_rules)
        if (row.distinct or 0) <= TOO_LARGE:
            asking.ask(row)
    for row in [*asking.lasting]:
        asking.ask(row, alone=True)
    return asking.trials()


@define
class _Asking:
    """The rows that were asked, and their answers."""

    table: Table
    tree: SpecTree
    mutants: Sequence[SpecMutant]
    found: dict[str, Noticed] = field(factory=dict[str, Noticed])
    late: dict[str, list[str]] = field(factory=dict[str, list[str]])
    lasting: list[ExpectedVerdict] = field(factory=list[ExpectedVerdict])
    """Rows that promise something of whole behaviours."""
    cpu_s: float = 0.0
    controlled: bool = False
    """The controls of promises were asked."""

    def ask(self, row: ExpectedVerdict, only: Set[str] | None = None, alone: bool = False) -> None:
        """Ask a row about the mutants that no property has noticed."""
        left = [one for one in self.mutants if only is None or one.name in only]
        left = [one for one in left if not self._promised(one.name) and self._about(row, one)]
        if not left:
            return
        outcome = outcome_of(Run(row, left, self.table, self.tree), alone)
        self.cpu_s += outcome.cpu_s
        alone_too = row.kind is Purpose.OK or isinstance(left[0], PromiseMutant)
        lasting = outcome.temporal and alone_too and row not in self.lasting
        if lasting and (row.distinct or 0) <= TOO_LARGE_ALONE:
            self.lasting.append(row)
        if only is not None:
            outcome = evolve(outcome, late=[])  # they are asked again
        self._take(row, outcome)

    def ask_controls(self, of_rules: Trials | None) -> None:
        """Ask of each promise that mutants of the rules break which of its own still break."""
        self.controlled = True
        found = of_rules.found if of_rules else dict[str, Noticed]()
        small = [one for one in sorted(self.table.verdicts, key=_turn) if _passes_small(one)]
        for control in controls(self.table, self.tree):
            known = found[control.mutant.name].cfg if control.mutant.name in found else None
            rows = sorted(small, key=lambda row: row.cfg != known)
            if not any(self._breaks(row, control) for row in rows):
                named = f"[controls] {control.promise}: {control.mutant.name}"
                raise InputError(f"{self.table.path}: {named}: no row breaks with it")

    def _breaks(self, row: ExpectedVerdict, control: Control) -> bool:
        """True if there is no more to ask about this control."""
        of_it = [one for one in self.mutants if _changes(one, control.promise)]
        left = [one for one in of_it if not self._promised(one.name) and self._about(row, one)]
        if not left:
            return all(self._promised(one.name) for one in of_it)
        outcome = outcome_of(Run(row, left, self.table, self.tree, control))
        self.cpu_s += outcome.cpu_s
        self._take(row, outcome, control)
        return not outcome.holds

    def _take(self, row: ExpectedVerdict, outcome: Outcome, control: Control | None = None) -> None:
        where = f" with `{control.mutant.name}`" if control else ""
        for name in outcome.late:
            self.late.setdefault(name, []).append(row.cfg)
        for name, by in outcome.found.items():
            if name not in self.found or Noticed(row.cfg, by).by_property:
                self.found[name] = Noticed(row.cfg, by + where)

    def _about(self, row: ExpectedVerdict, mutant: SpecMutant) -> bool:
        """False if the row is about other promises than those that the mutant changes."""
        if not isinstance(mutant, PromiseMutant):
            return True
        if row.kind is not Purpose.OK:
            return row.kind is Purpose.BUG and row.property in mutant.promises
        model = ModelConfig.read(self.tree.model(self.table.module, row.cfg))
        return not mutant.promises.isdisjoint(promises(model))

    def _promised(self, name: str) -> bool:
        return name in self.found and self.found[name].by_property

    def trials(self) -> Trials:
        names = [one.name for one in self.mutants]
        found = {name: self.found[name] for name in names if name in self.found}
        alive = tuple(name for name in names if name not in found)
        owed = {name: rows for name, rows in self.late.items() if not self._promised(name)}
        return Trials(self.table.module, found, alive, owed, self.cpu_s)


def controls(table: Table, tree: SpecTree) -> Iterator[Control]:
    """The mutants of the rules that the table names because they break a promise."""
    known = {one.name: one for one in spec_mutants(table.module, tree)}
    for promise, names in table.controls.items():
        for name in names:
            if name not in known:
                raise InputError(f"{table.path}: [controls] {promise}: no mutant {name!r}")
            yield Control(promise, known[name])


def _passes_small(row: ExpectedVerdict) -> bool:
    return row.kind is Purpose.OK and (row.distinct or 0) <= TOO_LARGE


def _changes(mutant: SpecMutant, promise: str) -> bool:
    return isinstance(mutant, PromiseMutant) and promise in mutant.promises


def _turn(row: ExpectedVerdict) -> tuple[bool, bool, int]:
    """The rules as they are first, small rows before large ones, then those that lack a rule.

    Then the large ones.
    """
    states = row.distinct or 0
    bug = row.kind is Purpose.BUG
    return not bug and states > LARGE, bug, states


def _turn_of_promises(row: ExpectedVerdict) -> tuple[bool, int]:
    """The rows that break a promise first, small ones before large ones."""
    return row.kind is Purpose.OK, row.distinct or 0


def asked(module: str, tree: SpecTree) -> list[SpecMutant]:
    """Without those of a bound: that is no rule, and without it there may be no end."""
    bounds = load(module, tree).guards.bounds
    text = guards.blanked(source(module, tree))
    counters = set(re.findall(r"^(\w+)\b", "\n".join(bounds), re.MULTILINE))
    counting = {f"{name}' = {name} + 1" for name in counters if _only_counts(name, text)}
    return [one for one in spec_mutants(module, tree) if one.old not in {*bounds, *counting}]


def _only_counts(name: str, text: str) -> bool:
    """True if only a bound reads this variable."""
    read = re.sub(r"UNCHANGED\s*(<<.*?>>|\w+)|^\w+ == <<.*?>>", "", text, flags=re.S | re.M)
    read = re.sub(
        rf"\b{name}' = {name} \+ 1|\b{name} (<|=) \w+|VARIABLES.*?\n\n", "", read, flags=re.S
    )
    return not re.search(rf"\b{name}\b", read)
