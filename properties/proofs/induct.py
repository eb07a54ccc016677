"""Is an invariant inductive? One question to z3 for each step, or one for each conjunct of it.

The questions, with the invariant a conjunction of named definitions:
- Init implies each conjunct, and the conjunction implies each promise;
- each step from a state of the invariant stays within the variables' ranges, keeps each conjunct,
  and does what each two-state formula says;
- in a bounded scope, each step can be taken from some state of the invariant, or the constants
  forbid it (no vacuity). With quantifiers z3 seldom finds such a state.

`unknown` counts as a failure. The constants give the bounds: a proof covers so many replicas and
records, and any number of steps.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from attrs import define, field, frozen

from properties.proofs.actions import ActionStep, steps_of_next, taken
from properties.proofs.evaluate import Evaluator
from properties.proofs.shapes import Shape
from properties.proofs.terms import Bool, conjunction, negation, z3
from properties.proofs.values import Value
from properties.tla.values import Value as Plain

INIT = "Init"
PROMISE = "implied"
RANGES = "ranges"


@frozen
class Question:
    """The claims to be shown of a module."""

    invariant: tuple[str, ...]
    promises: tuple[str, ...] = ()
    two_state: tuple[str, ...] = ()
    vacuity: bool = True
    """True to ask which steps can be taken."""
    apart: bool = False
    """True to ask for each conjunct alone: with quantifiers z3 sees many at once late."""
    again: tuple[int, ...] = ()
    """Random seeds with which a question is asked again after z3 gave up on it."""
    within: bool = True
    """True to ask that each step stays within the variables' ranges."""
    alike: str | None = None
    """A set whose elements no rule tells apart: of the steps that a renaming of them makes the
    same one is asked."""
    seconds: float = 60.0
    """The limit of each question to z3, in seconds of its own clock."""


@frozen
class Failure:
    """A conjunct that a step does not keep, with a counterexample to induction where z3 has one.

    `action` is the action's name, `Init`, or `implied` for a promise that does not follow.
    """

    action: str
    step: str
    conjunct: str
    unknown: bool = False
    before: Mapping[str, Plain] | None = None
    after: Mapping[str, Plain] | None = None

    @property
    def name(self) -> str:
        """Action and conjunct, as the table of proofs names them."""
        return f"{self.action}: {self.conjunct}"


@define
class ProofAnswer:
    """The result of a proof. `steps` counts, by action, the steps with arguments that were shown.

    `taken` counts those of them that some state of the invariant can take.
    """

    failures: list[Failure] = field(factory=list[Failure])
    steps: dict[str, int] = field(factory=dict[str, int])
    taken: dict[str, int] = field(factory=dict[str, int])

    @property
    def inductive(self) -> bool:
        """True if nothing failed."""
        return not self.failures


@frozen
class Taken:
    """One branch of a step from a state of the invariant: its condition, and its goals.

    `goals` has a formula for each conjunct that reads a changed variable, and for each two-state
    formula. `within` says that the next state is within the variables' ranges.
    """

    given: Bool
    within: Bool
    goals: Mapping[str, Bool]
    after: Mapping[str, Value]


class Prover:
    """A module under an assumed invariant: what may be asked of it, step by step."""

    def __init__(self, ev: Evaluator, shapes: Mapping[str, Shape], question: Question) -> None:
        self.ev, self.shapes, self.question = ev, shapes, question
        self.given: list[Bool] = []
        self.state = {name: shape.fresh(name, self.given) for name, shape in shapes.items()}
        self.given += _terms(ev.constants)
        self.invariant = {name: ev.define(name, self.state) for name in question.invariant}
        self.given += ev.known.facts
        self.solver = self._solver()
        tree = ev.tree
        self.reads = {
            name: tree.variables_in(tree.definition(name).body(tree)) for name in question.invariant
        }
        self.answer = ProofAnswer()

    def run(self, on_step: Callable[[ActionStep], None] = lambda _: None) -> ProofAnswer:
        """Ask every question. `on_step` is called with each step before its questions."""
        self._init()
        self.solver.add(*self.invariant.values())
        for name in self.question.promises:
            self._show(PROMISE, PROMISE, name, self.ev.define(name, self.state), None)
        for step in steps_of_next(self.ev, self.question.alike):
            on_step(step)
            self._step(step)
        return self.answer

    def _init(self) -> None:
        self.solver.push()
        self.solver.add(self.ev.define(INIT, self.state))
        for name, formula in self.invariant.items():
            self._show(INIT, INIT, name, formula, None)
        self.solver.pop()

    def _solver(self) -> Any:
        return solver(self.given, self.question.seconds)

    def _step(self, step: ActionStep) -> None:
        answer = self.answer
        if self.question.apart:  # facts that z3 has learnt of other steps mislead it
            self.solver = self._solver()
            self.solver.add(*self.invariant.values())
        answer.steps[step.action] = answer.steps.get(step.action, 0) + 1
        answer.taken.setdefault(step.action, 0)
        alive = False
        for branch in self.branches(step):
            self.solver.push()
            self.solver.add(branch.given)
            alive = alive or (self.question.vacuity and self.solver.check() == z3.sat)
            if self.question.within:
                self._show(step.action, str(step), RANGES, branch.within, branch.after)
            self.solver.add(branch.within)
            self._keeps(step, branch)
            self.solver.pop()
        answer.taken[step.action] += alive

    def branches(self, step: ActionStep) -> Iterator[Taken]:
        """The ways to take a step, and what each must keep."""
        self.ev.known.facts.clear()
        for condition, behind in taken(self.ev, step, self.state):
            fits: list[Bool] = []
            changed = {name for name in self.shapes if behind[name] is not self.state[name]}
            fitted = {name: self.shapes[name].fit(behind[name], fits) for name in sorted(changed)}
            after = {**self.state, **fitted}
            # A conjunct that reads no changed variable is one of the assumptions.
            touched = [name for name, reads in self.reads.items() if reads & changed]
            goals = {name: self.ev.define(name, after) for name in touched}
            for name in self.question.two_state:
                goals[name] = self.ev.define(name, self.state, after)
            given = conjunction(condition, step.given, *self.ev.known.facts)
            yield Taken(given, conjunction(*fits), goals, after)

    def _keeps(self, step: ActionStep, branch: Taken) -> None:
        # One counterexample for each action and conjunct is enough; z3 takes long to find them.
        failed = {one.conjunct for one in self.answer.failures if one.action == step.action}
        goals = {name: goal for name, goal in branch.goals.items() if name not in failed}
        if not self.question.apart:
            # One question for all conjuncts; one by one only to name what broke.
            said, _ = self._asked(conjunction(*goals.values()))
            if said == z3.unsat:
                return
        for name, goal in goals.items():
            self._show(step.action, str(step), name, goal, branch.after)

    def _asked(self, goal: Bool) -> tuple[Any, Any]:
        """z3's answer about the goal's negation, with a model of it if there is one."""
        if goal is True:
            return z3.unsat, None
        self.solver.push()
        self.solver.add(negation(goal))
        asked, said = self.solver, self.solver.check()
        for seed in self.question.again if said == z3.unknown else ():
            asked = solver(self.solver.assertions(), self.question.seconds)
            asked.set("random_seed", seed)
            said = asked.check()
            if said != z3.unknown:
                break
        model = asked.model() if said == z3.sat else None
        self.solver.pop()
        return said, model

    def _show(
        self,
        action: str,
        step: str,
        conjunct: str,
        goal: Bool,
        after: Mapping[str, Value] | None,
    ) -> None:
        said, model = self._asked(goal)
        if said == z3.unsat:
            return
        self.answer.failures.append(
            Failure(
                action,
                step,
                conjunct,
                unknown=model is None,
                before=None if model is None else self._plain(self.state, model),
                after=None if model is None or after is None else self._plain(after, model),
            )
        )

    def _plain(self, state: Mapping[str, Value], model: Any) -> dict[str, Plain]:
        return {name: shape.plain(state[name], model) for name, shape in self.shapes.items()}


def solver(given: Sequence[Bool], seconds: float) -> Any:
    """A solver that knows this, and gives up on a question after so many seconds."""
    made = z3.Solver()
    made.set("timeout", int(seconds * 1000))
    made.add(*given)
    return made


def _terms(constants: Mapping[str, Value]) -> Sequence[Bool]:
    """The bounds of constants that are terms, for z3."""
    return [value.term >= value.lowest for value in constants.values() if hasattr(value, "lowest")]
