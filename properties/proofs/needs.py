"""Finds the conjuncts that an inductive invariant needs, and the failures without each.

z3 reports, for each goal of each step, the conjuncts from which it follows (an unsat core). Only
those can be needed for the goal. Each is tried: if the goal does not follow from the others, there
is a counterexample to induction; small ones are searched first (`small`). A conjunct that only its
own goal needs may go, because the others are inductive without it.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from attrs import define, field, frozen

from properties.proofs.actions import ActionStep, steps_of_next
from properties.proofs.evaluate import Evaluator
from properties.proofs.induct import PROMISE, RANGES, Prover, Question, Taken, solver
from properties.proofs.shapes import Shape
from properties.proofs.small import PATIENCE_S, small
from properties.proofs.terms import Bool, negation, z3


@frozen
class Goal:
    """Something that must follow from the invariant, and the state that it speaks of."""

    name: str
    given: tuple[Bool, ...]
    formula: Bool


@define
class Needs:
    """The findings about each conjunct."""

    needed: dict[str, str] = field(factory=dict[str, str])
    """The failure without it, by action and conjunct."""
    doubtful: dict[str, str] = field(factory=dict[str, str])
    """The goal that z3 could neither show nor refute without it."""


class Assumed:
    """The conjuncts of an invariant, any of which may be assumed."""

    def __init__(self, prover: Prover, seconds: float) -> None:
        self.prover = prover
        self.solver = solver(prover.given, seconds)
        self.marks = {name: z3.Bool(f"assume {name}") for name in prover.invariant}
        for name, formula in prover.invariant.items():
            self.solver.add(z3.Implies(self.marks[name], formula))

    def ask(self, goal: Goal, names: Sequence[str]) -> tuple[Any, set[str]]:
        """Checks if the goal follows from these: `unsat` if so, with the conjuncts used."""
        self.solver.push()
        self.solver.add(*goal.given, negation(goal.formula))
        said = self.solver.check(*(self.marks[name] for name in names))
        used = {str(mark) for mark in self.solver.unsat_core()} if said == z3.unsat else set[str]()
        self.solver.pop()
        return said, {name for name, mark in self.marks.items() if str(mark) in used}

    def goals(self, step: ActionStep) -> Iterator[Goal]:
        """The goals that a step must keep."""
        for branch in self.prover.branches(step):
            yield Goal(f"{step.action}: {RANGES}", (branch.given,), branch.within)
            yield from _kept(step, branch)

    def promised(self) -> Iterator[Goal]:
        """The goals that the invariant must imply."""
        for name in self.prover.question.promises:
            formula = self.prover.ev.define(name, self.prover.state)
            yield Goal(f"{PROMISE}: {name}", (), formula)


def _kept(step: ActionStep, branch: Taken) -> Iterator[Goal]:
    for name, formula in branch.goals.items():
        yield Goal(f"{step.action}: {name}", (branch.given, branch.within), formula)


def needs(
    ev: Evaluator, shapes: Mapping[str, Shape], question: Question, known: Needs | None = None
) -> Needs:
    """Search a failure without each conjunct of an inductive invariant.

    A conjunct that is `known` to be needed in another scope is not searched again.
    """
    whole = Assumed(Prover(ev, shapes, question), PATIENCE_S)
    few = Assumed(Prover(ev, small(shapes), question), PATIENCE_S)
    found = known or Needs()
    _settle(whole, few, list(whole.promised()), list(few.promised()), found)
    for step in steps_of_next(ev, question.alike):
        _settle(whole, few, list(whole.goals(step)), list(few.goals(step)), found)
    found.doubtful = {n: why for n, why in found.doubtful.items() if n not in found.needed}
    return found


def _settle(
    whole: Assumed, few: Assumed, goals: list[Goal], likewise: list[Goal], found: Needs
) -> None:
    """Try each conjunct that a goal follows from, and of which nothing is known yet."""
    every = list(whole.marks)
    for goal in goals:
        said, used = whole.ask(goal, every)
        itself = goal.name.split(": ")[1]
        if said != z3.unsat:
            found.doubtful |= dict.fromkeys(every, goal.name)
            continue
        spared = set[str]()
        for name in sorted(used - found.needed.keys() - {itself}):
            if name in spared:
                continue
            rest = [one for one in every if one != name]
            alike = [one for one in likewise if one.name == goal.name]
            if any(few.ask(one, rest)[0] == z3.sat for one in alike):
                found.needed[name] = goal.name
                continue
            said, others = whole.ask(goal, rest)
            if said == z3.sat:
                found.needed[name] = goal.name
            elif said == z3.unsat:
                spared |= set(every) - others
            else:
                found.doubtful[name] = goal.name
