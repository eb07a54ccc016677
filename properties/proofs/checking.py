"""Run the rows of a table of proofs, each as one task, and compare with the expected result."""

import time
from collections.abc import Sequence
from enum import Enum
from typing import Any

from attrs import define, evolve, field, frozen

from properties.proofs import sany
from properties.proofs.evaluate import Evaluator
from properties.proofs.faithful import LiftedGraph, Story, compare, reached
from properties.proofs.induct import Failure, ProofAnswer, Prover, Question
from properties.proofs.needs import Needs, needs
from properties.proofs.ranges import shapes_of
from properties.proofs.small import refute
from properties.proofs.table import (
    Control,
    Proof,
    ProofTable,
    Reachable,
    Scope,
    constants_of,
    is_bounded,
    shown,
)
from properties.tla.event_values import to_json
from properties.tla.graph import load_graph
from properties.tla.specs import SpecTree

# The most states of a graph that are compared, and with --full.
SAMPLE, FULL_SAMPLE = 150, 10_000


class ProofClaim(Enum):
    """The claim of a task."""

    FAITHFUL = "the evaluator is the spec"
    INDUCTIVE = "inductive"
    CONTROL = "fails without the rule"
    NECESSARY = "fails without each conjunct"


@frozen
class ProofTask:
    """One row's work."""

    folder: str
    proof: Proof
    kind: ProofClaim
    scope: Scope = field(factory=dict[str, Any])
    control: Control | None = None
    full: bool = False

    @property
    def name(self) -> str:
        """Module, proof, and the claim to be shown."""
        about = {
            ProofClaim.FAITHFUL: f"against TLC's graph of {self.proof.cfg}",
            ProofClaim.INDUCTIVE: shown(self.scope),
            ProofClaim.CONTROL: self.control.name if self.control else "",
            ProofClaim.NECESSARY: "each conjunct dropped",
        }
        return f"{self.folder}/{self.proof.name} {about[self.kind]}"


#: With quantifiers it is luck how long z3 takes: another seed shows in seconds what one does not.
SEEDS = (1, 2, 3)


@define
class ProofResult:
    """The result of a task. It is as expected if there are no `differences`."""

    task: ProofTask
    said: str
    differences: list[str] = field(factory=list[str])
    failures: list[Failure] = field(factory=list[Failure])
    story: Story | None = None
    needed: dict[str, str] = field(factory=dict[str, str])
    """The failures without each conjunct, by action and conjunct, and the scope."""
    cpu_s: float = 0.0

    @property
    def as_expected(self) -> bool:
        """True if the result agrees with the table."""
        return not self.differences

    def line(self) -> str:
        """The result in one line."""
        ended = "as expected" if self.as_expected else "DIFFERS"
        return f"{self.task.name}: {self.said}, {self.cpu_s:.1f} CPU s, {ended}"

    def as_json(self) -> dict[str, Any]:
        """The result, its counterexamples' values as in protocol events."""
        return {
            "task": self.task.name,
            "shows": self.task.kind.value,
            "said": self.said,
            "as_expected": self.as_expected,
            "differences": self.differences,
            "cpu_s": round(self.cpu_s, 2),
            "failures": [
                {
                    "step": one.step,
                    "conjunct": one.conjunct,
                    "unknown": one.unknown,
                    "before": {name: to_json(v) for name, v in (one.before or {}).items()},
                    "after": {name: to_json(v) for name, v in (one.after or {}).items()},
                }
                for one in self.failures
            ],
            "reachable": None if self.story is None else list(self.story.steps),
            "needed": self.needed,
        }


def tasks(
    tables: Sequence[tuple[ProofTable, set[str]]], *, full: bool = False, necessary: bool = False
) -> list[ProofTask]:
    """The tasks, in the tables' order."""
    found: list[ProofTask] = []
    for table, chosen in tables:
        for proof in table.proofs:
            if not chosen or proof.name in chosen:
                found += _of(table.folder, proof, full=full, necessary=necessary)
    return found


def _of(folder: str, proof: Proof, *, full: bool, necessary: bool) -> list[ProofTask]:
    found = [ProofTask(folder, proof, ProofClaim.FAITHFUL, full=full)]
    scopes = [*proof.scopes, *(proof.full if full else ())]
    found += [ProofTask(folder, proof, ProofClaim.INDUCTIVE, scope, full=full) for scope in scopes]
    found += [
        ProofTask(folder, proof, ProofClaim.CONTROL, proof.control_scope, control)
        for control in proof.controls
        if full or not control.full
    ]
    if necessary:
        found.append(ProofTask(folder, proof, ProofClaim.NECESSARY, full=full))
    return found


def run(task: ProofTask, tree: SpecTree) -> ProofResult:
    """Do one task."""
    began = time.process_time()
    result = _RUNS[task.kind](task, tree)
    result.cpu_s = time.process_time() - began
    return result


def _evaluator(task: ProofTask, tree: SpecTree, scope: Scope) -> Evaluator:
    syntax = sany.read(task.proof.module, task.folder, tree)
    return Evaluator(syntax, constants_of(task.proof, scope, task.folder, tree))


def _question(proof: Proof, scope: Scope) -> Question:
    promises = proof.implies, proof.two_state
    if is_bounded(scope):
        return Question(proof.invariant, *promises)
    return Question(proof.invariant, *promises, vacuity=False, apart=True, again=SEEDS)


def _asked(task: ProofTask, tree: SpecTree, scope: Scope) -> ProofAnswer:
    ev = _evaluator(task, tree, scope)
    question = _question(task.proof, scope)
    if not task.full:
        question = evolve(question, alike=task.proof.alike)
    shapes = shapes_of(ev, task.proof.ranges)
    if task.kind is ProofClaim.INDUCTIVE:
        return Prover(ev, shapes, question).run()
    return refute(ev, shapes, evolve(question, vacuity=False))


def _faithful(task: ProofTask, tree: SpecTree) -> ProofResult:
    ev = _evaluator(task, tree, {})
    shapes = shapes_of(ev, task.proof.ranges)
    lifted = LiftedGraph.of(ev, shapes, load_graph(task.folder, task.proof.cfg, tree))
    found = compare(lifted, task.proof.invariant, FULL_SAMPLE if task.full else SAMPLE)
    differences = [*found.different[:3]]
    differences += [
        f"{name} does not hold in state {number} of the graph"
        for name, number in found.broken.items()
    ]
    of = len(lifted.graph.states)
    said = f"{found.states} of {of} states, {found.edges} edges, {found.pairs} pairs compared"
    return ProofResult(task, said, differences)


def _inductive(task: ProofTask, tree: SpecTree) -> ProofResult:
    answer = _asked(task, tree, task.scope)
    differences = [f"{failure.name} fails" for failure in answer.failures]
    if is_bounded(task.scope):
        dead = [action for action, count in answer.taken.items() if not count]
        differences += [
            f"{action} can never be taken from the invariant: the proof says nothing of it"
            for action in dead
            if action not in task.proof.dead
        ]
        differences += [
            f"{action} was expected to be impossible, and is not"
            for action in task.proof.dead
            if action not in dead
        ]
    count = sum(answer.steps.values())
    said = "inductive" if answer.inductive else "not inductive"
    return ProofResult(task, f"{said}, {count} steps", differences, answer.failures)


def _control(task: ProofTask, tree: SpecTree) -> ProofResult:
    control = task.control
    assert control is not None
    scope = {**task.scope, **control.constants}
    answer = _asked(task, tree, scope)
    found, expected = {failure.name for failure in answer.failures}, set(control.fails)
    differences = [f"{name} was expected to fail, and does not" for name in expected - found]
    differences += [f"{name} fails, and the table does not say so" for name in found - expected]
    result = ProofResult(task, f"fails at {', '.join(sorted(found)) or 'nothing'}", differences)
    result.failures = answer.failures
    if control.reachable is not None:
        _reach(task, control, control.reachable, tree, result)
    return result


def _reach(
    task: ProofTask, control: Control, asked: Reachable, tree: SpecTree, result: ProofResult
) -> None:
    """Find the story of a counterexample to induction, or say that there is none."""
    proof = evolve(task.proof, cfg=asked.graph)
    ev = _evaluator(evolve(task, proof=proof), tree, control.constants)
    lifted = LiftedGraph.of(
        ev, shapes_of(ev, proof.ranges), load_graph(task.folder, asked.graph, tree)
    )
    result.story = story = reached(lifted, asked.action, asked.conjunct)
    if story is None:
        result.differences.append(
            f"no state of {asked.graph} leads to a breach of {asked.conjunct}"
        )
    elif story.length != asked.length:
        result.differences.append(
            f"{asked.conjunct} breaks in {story.length} states, expected {asked.length}"
        )
    result.said += f"; reachable in {story.length if story else 'no'} states"


def _necessary(task: ProofTask, tree: SpecTree) -> ProofResult:
    """Judged at all scopes, the largest first: a small one can do without."""
    proof, found = task.proof, Needs()
    needed: dict[str, str] = {}
    scopes = [*proof.scopes, *proof.full]
    scopes.sort(key=is_bounded, reverse=True)
    for scope in reversed(scopes):
        if found.needed.keys() < set(proof.invariant):
            ev = _evaluator(task, tree, scope)
            question = evolve(_question(proof, scope), alike=proof.alike)
            needs(ev, shapes_of(ev, proof.ranges), question, found)
            at = shown(scope)
            needed = {name: f"{what}, at {at}" for name, what in found.needed.items()} | needed
    # What is promised stands in the invariant for its own sake, needed by others or not.
    rest = [name for name in proof.invariant if name not in found.needed]
    rest = [name for name in rest if name not in proof.implies]
    differences = [
        f"{name} is not known to be needed: z3 gives up at {found.doubtful[name]}"
        if name in found.doubtful
        else f"{name} is not needed: it may go"
        for name in rest
    ]
    said = f"{len(found.needed)} of {len(proof.invariant)} conjuncts are needed by others"
    return ProofResult(task, said, differences, needed=needed)


_RUNS = {
    ProofClaim.FAITHFUL: _faithful,
    ProofClaim.INDUCTIVE: _inductive,
    ProofClaim.CONTROL: _control,
    ProofClaim.NECESSARY: _necessary,
}
