"""TLA+ actions as branches: under which condition a step is taken, and the state behind it.

This is how TLC takes them. There are no primed variables to solve for: each is given its value.
"""

from collections.abc import Iterator, Sequence
from typing import TypeAlias

from attrs import field, frozen

from properties.proofs.evaluate import Env, Evaluator, State
from properties.proofs.sany import Expression, OperatorDefinition
from properties.proofs.terms import Bool, Num, conjunction, negation
from properties.proofs.values import EndlessSet, Fun, Value, equal, fresh_name, member
from properties.tla.errors import InputError

Branch: TypeAlias = tuple[Bool, State]


@frozen(eq=False)
class ActionStep:
    """One disjunct of Next: an action with constant arguments."""

    action: str
    args: tuple[Value, ...]
    node: Expression = field(repr=False)
    env: Env = field(repr=False)
    given: Bool = field(repr=False, default=True)

    def __str__(self) -> str:
        return f"{self.action}({', '.join(map(_shown, self.args))})"


def _shown(value: Value) -> str:
    if isinstance(value, Num):
        return str(value.term)
    return str(list(value.of.values())) if isinstance(value, Fun) else str(value)


def steps_of_next(ev: Evaluator, alike: str | None = None) -> list[ActionStep]:
    r"""Next, split as TLC splits it: each disjunct, for each value of its leading \E.

    `alike` names a set whose elements no rule distinguishes. Then only the first of the steps that
    differ by a renaming of its elements is kept.
    """
    found: list[ActionStep] = []
    nothing: Env = {}
    for quantified, call in _disjuncts(ev.tree.definition("Next").body(ev.tree)):
        if call.op != "call":
            raise InputError("a disjunct of Next is no action: name it, so that it can be told")
        action: OperatorDefinition = call.ref
        bindings = (
            ev.bindings(quantified, {}, {}, None, unlisted=True)
            if quantified
            else [(True, nothing)]
        )
        named = _bound_to(quantified, alike) if quantified and alike else ()
        for given, env in bindings:
            if not _is_first([env[name] for name in named]):
                continue
            args = tuple(ev.value(one, env, {}, None) for one in call.args)
            found.append(ActionStep(action.name, args, call, env, given))
    return found


def _disjuncts(node: Expression) -> Iterator[tuple[Expression | None, Expression]]:
    r"""The actions of a disjunction, each with the \E that leads it, if one does."""
    if node.op in ("$DisjList", "\\lor"):
        for one in node.args:
            yield from _disjuncts(one)
    elif node.op == "$BoundedExists":
        for within, call in _disjuncts(node.args[0]):
            if within is not None:
                raise InputError(r"a disjunct of Next has one \E within another: join them")
            yield node, call
    else:
        yield None, node


def _bound_to(quantified: Expression, name: str) -> tuple[str, ...]:
    """The bound symbols that range over a definition of this name."""
    return tuple(
        symbol
        for symbols, over in quantified.bounds
        if over.op == "call" and over.ref.name == name
        for symbol in symbols
    )


def _is_first(elements: Sequence[Value]) -> bool:
    """True if numbers from 1 on appear in their order, as in the first of all renamings."""
    seen = list(dict.fromkeys(elements))
    return seen == list(range(1, len(seen) + 1))


def taken(ev: Evaluator, step: ActionStep, state: State) -> list[Branch]:
    """The branches of a step from a state, without those that are surely not possible."""
    return _branches(ev, step.node, step.env, state, {})


def _branches(
    ev: Evaluator, node: Expression, env: Env, state: State, after: State
) -> list[Branch]:
    if not ev.tree.speaks_of_next(node):
        return _possible([(ev.value(node, env, state, after), after)])
    if node.op in ("$ConjList", "\\land"):
        found: list[Branch] = [(True, after)]
        for one in node.args:
            found = _possible(
                [
                    (conjunction(c, d), behind)
                    for c, before in found
                    for d, behind in _branches(ev, one, env, state, before)
                ]
            )
        return found
    if node.op in ("$DisjList", "\\lor"):
        return [b for one in node.args for b in _branches(ev, one, env, state, after)]
    if node.op == "$IfThenElse":
        condition = ev.value(node.args[0], env, state, after)
        arms = ((condition, node.args[1]), (negation(condition), node.args[2]))
        return _under([(c, env, one) for c, one in arms], ev, state, after)
    if node.op == "$BoundedExists":
        witnesses = _witnesses(ev, node, env, state, after)
        return _under([(c, bound, node.args[0]) for c, bound in witnesses], ev, state, after)
    if node.op == "call":
        definition: OperatorDefinition = node.ref
        inner = ev.called(node, env, state, after)
        return _branches(ev, definition.body(ev.tree), inner, state, after)
    if node.op == "let":
        return _branches(ev, node.args[0], env, state, after)
    if node.op == "UNCHANGED":
        return [(True, {**after, **{name: state[name] for name in _named(ev, node.args[0])}})]
    if node.op == "=" and node.args[0].op == "'" and node.args[0].args[0].op == "variable":
        name = node.args[0].args[0].ref
        value = ev.value(node.args[1], env, state, after)
        if name in after:
            return _possible([(equal(after[name], value), after)])
        return [(True, {**after, name: value})]
    return _possible([(ev.value(node, env, state, after), after)])


def _possible(branches: list[Branch]) -> list[Branch]:
    return [branch for branch in branches if branch[0] is not False]


def _under(
    parts: list[tuple[Bool, Env, Expression]], ev: Evaluator, state: State, after: State
) -> list[Branch]:
    return _possible(
        [
            (conjunction(condition, c), behind)
            for condition, env, node in parts
            if condition is not False
            for c, behind in _branches(ev, node, env, state, after)
        ]
    )


def _named(ev: Evaluator, node: Expression) -> list[str]:
    """The variables of UNCHANGED: one, a tuple of them, or the name of such a tuple."""
    if node.op == "$Tuple":
        return [name for one in node.args for name in _named(ev, one)]
    if node.op == "call":
        definition: OperatorDefinition = node.ref
        return _named(ev, definition.body(ev.tree))
    return [node.ref]


def _witnesses(
    ev: Evaluator, node: Expression, env: Env, state: State, after: State
) -> list[tuple[Bool, Env]]:
    r"""The values that \E may pick: each candidate, or any element of a set that varies."""
    ((name, *others), over), *more = node.bounds
    domain = ev.value(over, env, state, after)
    if isinstance(domain, EndlessSet):
        if others or more:
            raise InputError("one element at a time can be picked from a set of any size")
        _, inside, item = domain.some()
        return [(inside, {**env, name: item})]
    constant = all(condition is True for condition, _ in domain.items)
    if constant or domain.element is None or others or more:
        return ev.bindings(node, env, state, after)
    given: list[Bool] = []
    some = domain.element.fresh(fresh_name("some"), given)
    return [(conjunction(member(some, domain), *given), {**env, name: some})]
