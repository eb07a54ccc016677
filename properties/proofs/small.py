"""Counterexamples with few elements in each endless part.

They need no quantifier, so z3 finds them soon. Each is one in the whole scope as well, so the whole
scope is asked only for claims without a small counterexample.
"""

from collections.abc import Mapping

from attrs import evolve

from properties.proofs.endless import limited
from properties.proofs.evaluate import Evaluator
from properties.proofs.induct import ProofAnswer, Prover, Question
from properties.proofs.shapes import Shape

#: The number of elements of an endless set or sequence in a small counterexample.
FEW = 3
#: The limit of each question about one conjunct, in seconds.
PATIENCE_S = 60.0


def small(shapes: Mapping[str, Shape]) -> dict[str, Shape]:
    """The variables' ranges, with few elements in each endless part."""
    return {name: limited(shape, FEW) for name, shape in shapes.items()}


def refute(ev: Evaluator, shapes: Mapping[str, Shape], question: Question) -> ProofAnswer:
    """Ask everything of something that is expected to fail."""
    prover, limits = Prover(ev, shapes, question), small(shapes)
    if limits != dict(shapes):
        asked = evolve(question, within=False, seconds=PATIENCE_S, again=())
        found = Prover(ev, limits, asked).run().failures
        prover.answer.failures += [one for one in found if not one.unknown]
    return prover.run()
