r"""The shapes of a module's variables, read from a definition of the form `/\ x \in S /\ ...`.

The ranges are part of the proof module, so TLC checks them as an invariant. Each step must be shown
to stay inside them before they are assumed of the next state.
"""

from collections.abc import Mapping
from typing import Any

from properties.proofs.endless import EndlessSequences, EndlessSubsets
from properties.proofs.evaluate import Evaluator
from properties.proofs.sany import Expression, OperatorDefinition
from properties.proofs.shapes import (
    Constants,
    Either,
    Flags,
    Mapped,
    Numbers,
    Sequences,
    Shape,
    Subsets,
    Words,
    shape_of,
    size,
)
from properties.proofs.terms import UNBOUNDED, highest, lowest
from properties.tla.errors import InputError

# The operator of spec/tla/lib/Ranges.tla that stands for sequences of bounded length.
SEQUENCES = "SeqOf"
# Subsets of a larger set than this are predicates: one z3 Bool for each element costs more.
LISTED = 200


def shapes_of(ev: Evaluator, ranges: str) -> dict[str, Shape]:
    """The shape of each variable, by the definition of this name.

    Raises `InputError` if a variable has no range, or a range of no known form.
    """
    body = ev.tree.definition(ranges).body(ev.tree)
    found: dict[str, Shape] = {}
    for part in body.args if body.op in ("$ConjList", "\\land") else (body,):
        if part.op != "\\in" or part.args[0].op != "variable":
            raise InputError(f"{ranges}: each conjunct must say of one variable what it is in")
        found[part.args[0].ref] = _shape(ev, part.args[1], {})
    missing = [name for name in ev.tree.variables if name not in found]
    if missing:
        raise InputError(f"{ranges} says nothing of {', '.join(missing)}")
    return found


def _shape(ev: Evaluator, node: Expression, env: Mapping[str, Any]) -> Shape:
    form = _FORMS.get(node.op)
    if form is not None:
        return form(ev, node, env)
    if node.op == "call":
        return _called(ev, node, env)
    constants = Constants(ev.value(node, env, {}, None))
    words = tuple(constants.constants())
    if len(words) > 1 and all(isinstance(one, str) for one in words):
        return Words(words)
    return constants


def _called(ev: Evaluator, node: Expression, env: Mapping[str, Any]) -> Shape:
    definition: OperatorDefinition = node.ref
    if definition.name != SEQUENCES:
        inner = ev.called(node, env, {}, None) if definition.params else env
        return _shape(ev, definition.body(ev.tree), inner)
    of = _shape(ev, node.args[0], env)
    least, most = (ev.value(one, env, {}, None) for one in node.args[1:])
    if highest(most) >= UNBOUNDED // 2:
        return EndlessSequences(of, least)
    return Sequences(of, most, least)


def _numbers(ev: Evaluator, node: Expression, env: Mapping[str, Any]) -> Shape:
    first, last = (ev.value(one, env, {}, None) for one in node.args)
    return Numbers(lowest(first), highest(last))


def _flags(ev: Evaluator, node: Expression, env: Mapping[str, Any]) -> Shape:
    return Flags()


def _functions(ev: Evaluator, node: Expression, env: Mapping[str, Any]) -> Shape:
    of = _shape(ev, node.args[1], env)
    return Mapped(dict.fromkeys(_shape(ev, node.args[0], env).constants(), of))


def _records(ev: Evaluator, node: Expression, env: Mapping[str, Any]) -> Shape:
    return Mapped({pair.args[0].ref: _shape(ev, pair.args[1], env) for pair in node.args})


def _tuples(ev: Evaluator, node: Expression, env: Mapping[str, Any]) -> Shape:
    return Mapped({number: _shape(ev, one, env) for number, one in enumerate(node.args, 1)})


def _subsets(ev: Evaluator, node: Expression, env: Mapping[str, Any]) -> Shape:
    of = _shape(ev, node.args[0], env)
    return EndlessSubsets(of) if size(of) > LISTED else Subsets(of)


def _union(ev: Evaluator, node: Expression, env: Mapping[str, Any]) -> Shape:
    """Of records of several kinds; a set of one constant may be one of them."""
    kinds: list[Shape] = []
    for one in node.args:
        shape = _shape(ev, one, env)
        kinds += map(shape_of, shape.constants()) if isinstance(shape, Constants) else [shape]
    if not all(isinstance(one, Mapped) for one in kinds):
        return Constants(ev.value(node, env, {}, None))
    return Either(tuple(one for one in kinds if isinstance(one, Mapped)))


def _either(ev: Evaluator, node: Expression, env: Mapping[str, Any]) -> Shape:
    condition = ev.value(node.args[0], env, {}, None)
    if not isinstance(condition, bool):
        raise InputError("a range may depend on constants only")
    return _shape(ev, node.args[1 if condition else 2], env)


_FORMS = {
    "..": _numbers,
    "BOOLEAN": _flags,
    "$SetOfFcns": _functions,
    "$SetOfRcds": _records,
    "\\union": _union,
    "$CartesianProd": _tuples,
    "SUBSET": _subsets,
    "$IfThenElse": _either,
}
