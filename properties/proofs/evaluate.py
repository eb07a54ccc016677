"""TLA+ expressions, evaluated over values that may hold z3 terms.

One evaluator, two uses: over plain values it is an explicit-state evaluator, which TLC's graph can
check edge by edge; over fresh z3 values the same walk over the same tree leaves a formula.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from attrs import define, field, frozen

from properties.proofs import values as v
from properties.proofs.known import KnownNumbers, is_cardinality, is_chosen
from properties.proofs.sany import Expression, OperatorDefinition, SanyTree
from properties.proofs.terms import (
    Bool,
    Number,
    Term,
    add,
    at_most,
    conjunction,
    disjunction,
    every,
    implication,
    negation,
    same_bool,
    some,
    subtract,
    term,
    tried,
)
from properties.proofs.values import (
    Endless,
    EndlessSet,
    Fun,
    Set,
    Value,
    equal,
    if_then_else,
    member,
)
from properties.tla.errors import InputError

State: TypeAlias = Mapping[str, Value]
Env: TypeAlias = Mapping[str, Value]
# The symbol of EXCEPT's old value among the bound symbols.
OLD = "@"


#: The number of values that are remembered, before all are forgotten.
MOST_REMEMBERED = 200_000


@define
class Memo:
    """Values of definitions, by all that they depend on, with the facts that came with them."""

    of: dict[Any, tuple[Value, Sequence[Bool]]] = field(factory=dict[Any, Any])

    def recall(self, key: Any, known: KnownNumbers, evaluate: Callable[[], Value]) -> Value:
        """The value under this key, evaluated if there is none yet."""
        found = self.of.get(key)
        if found is None:
            before = len(known.facts)
            value = evaluate()
            if len(self.of) >= MOST_REMEMBERED:
                self.of.clear()
            self.of[key] = value, tuple(known.facts[before:])
            return value
        known.facts += found[1]
        return found[0]


@frozen
class Evaluator:
    """A module with values for its constants."""

    tree: SanyTree
    constants: Mapping[str, Value]
    known: KnownNumbers = field(factory=KnownNumbers, eq=False, repr=False)
    memory: Memo = field(factory=Memo, eq=False, repr=False)

    def define(self, name: str, state: State, after: State | None = None) -> Value:
        """The value of a definition without parameters, in a state (and, primed, the next one)."""
        return self.body(self.tree.definition(name), {}, state, after)

    def body(
        self, definition: OperatorDefinition, env: Env, state: State, after: State | None
    ) -> Value:
        """The value of a definition's body: evaluated once for all that it depends on."""
        body = definition.body(self.tree)
        if self.tree.speaks_of_next(body):
            return self.value(body, env, state, after)
        reads, symbols = self.tree.depends(body)
        key = (body, *(_key(env[one]) for one in symbols), *(_key(state[one]) for one in reads))
        return self.memory.recall(key, self.known, lambda: self.value(body, env, state, after))

    def value(self, node: Expression, env: Env, state: State, after: State | None) -> Value:
        """The value of an expression.

        Raises `InputError` for an operator that has no meaning here.
        """
        form = _FORMS.get(node.op)
        if form is not None:
            return form(self, node, env, state, after)
        operator = OPERATORS.get(node.op)
        if operator is None:
            raise InputError(f"the operator {node.op!r} cannot be evaluated")
        return operator(*(self.value(one, env, state, after) for one in node.args))

    def bindings(
        self, node: Expression, env: Env, state: State, after: State | None, unlisted: bool = False
    ) -> list[tuple[Bool, Env]]:
        """Every binding of the bound symbols, with its condition.

        With `unlisted`, one unknown element represents all elements of a set that cannot be listed.
        """
        found: list[tuple[Bool, Env]] = [(True, env)]
        for names, over in node.bounds:
            for name in names:
                found = [
                    (conjunction(c, d), {**bound, name: item})
                    for c, bound in found
                    for d, item in _candidates(self.value(over, bound, state, after), unlisted)
                ]
        return [one for one in found if one[0] is not False]

    def called(self, node: Expression, env: Env, state: State, after: State | None) -> Env:
        """The environment of a call: the arguments by formal parameter."""
        definition: OperatorDefinition = node.ref
        args = [self.value(one, env, state, after) for one in node.args]
        return {**env, **dict(zip(definition.params, args, strict=True))}


def _key(value: Value) -> Any:
    """A value's stand-in in a key; most values are equal only if they are one object."""
    return (value,) if isinstance(value, bool) else value  # for TRUE is not 1


def _candidates(of: Set | EndlessSet, unlisted: bool) -> Sequence[v.Candidate]:
    if unlisted and isinstance(of, EndlessSet):
        _, inside, element = of.some()
        return [(inside, element)]
    return of.items


def _call(ev: Evaluator, node: Expression, env: Env, state: State, after: State | None) -> Value:
    return ev.body(node.ref, ev.called(node, env, state, after), state, after)


def _primed(ev: Evaluator, node: Expression, env: Env, state: State, after: State | None) -> Value:
    if after is None:
        raise InputError("a primed expression where there is no next state")
    return ev.value(node.args[0], env, after, None)


def _every(ev: Evaluator, node: Expression, env: Env, state: State, after: State | None) -> Bool:
    parts: list[Bool] = []
    for one in node.args:
        part = ev.value(one, env, state, after)
        if part is False:
            return False
        parts.append(part)
    return conjunction(*parts)


def _some(ev: Evaluator, node: Expression, env: Env, state: State, after: State | None) -> Bool:
    parts: list[Bool] = []
    for one in node.args:
        part = ev.value(one, env, state, after)
        if part is True:
            return True
        parts.append(part)
    return disjunction(*parts)


def _implies(ev: Evaluator, node: Expression, env: Env, state: State, after: State | None) -> Bool:
    condition = ev.value(node.args[0], env, state, after)
    if condition is False:
        return True
    return implication(condition, ev.value(node.args[1], env, state, after))


def _if(ev: Evaluator, node: Expression, env: Env, state: State, after: State | None) -> Value:
    condition, then, otherwise = node.args
    known = ev.value(condition, env, state, after)
    if isinstance(known, bool):
        return ev.value(then if known else otherwise, env, state, after)
    return if_then_else(
        known, ev.value(then, env, state, after), ev.value(otherwise, env, state, after)
    )


def _case(ev: Evaluator, node: Expression, env: Env, state: State, after: State | None) -> Value:
    found: Value = None
    for arm in reversed(node.args):
        condition, then = arm.args
        other = condition.op == "$Other"
        known = True if other else ev.value(condition, env, state, after)
        if known is False:
            continue
        value = ev.value(then, env, state, after)
        found = value if found is None else if_then_else(known, value, found)
    if found is None:
        raise InputError("a CASE of which no arm can be true")
    return found


def _quantified(
    join: Callable[..., Bool],
    guard: Callable[[Bool, Bool], Bool],
    binder: Callable[[Sequence[Term], Bool], Bool],
) -> Callable[[Evaluator, Expression, Env, State, State | None], Bool]:
    def whole(ev: Evaluator, node: Expression, env: Env, state: State, after: State | None) -> Bool:
        symbols = [(name, over) for names, over in node.bounds for name in names]

        def over_symbol(at: int, bound: Env) -> Bool:
            if at == len(symbols):
                return ev.value(node.args[0], bound, state, after)
            name, over = symbols[at]
            domain: Set | EndlessSet = ev.value(over, bound, state, after)
            if isinstance(domain, EndlessSet):
                variables, inside, item = domain.some()
                with ev.known.for_each():
                    body = guard(inside, over_symbol(at + 1, {**bound, name: item}))
                return binder(variables, body)
            return join(
                *(guard(c, over_symbol(at + 1, {**bound, name: i})) for c, i in domain.items)
            )

        return over_symbol(0, env)

    return whole


def _choose(ev: Evaluator, node: Expression, env: Env, state: State, after: State | None) -> Value:
    ((name,), over) = node.bounds[0]
    domain = ev.value(over, env, state, after)

    def holds(item: Value) -> Bool:
        return ev.value(node.args[0], {**env, name: item}, state, after)

    if not isinstance(domain, EndlessSet):
        return v.chosen(domain, holds)
    ev.known.facts += [tried(term(one.length)) for one in _sequences(state)]
    return ev.known.number(domain, lambda one: is_chosen(domain, holds, one))


def _sequences(state: State) -> Iterator[Endless]:
    """The variables that are sequences of any length, or functions to such."""
    for value in state.values():
        items = value.of.values() if isinstance(value, Fun) else (value,)
        yield from (one for one in items if isinstance(one, Endless))


def _cardinality(
    ev: Evaluator, node: Expression, env: Env, state: State, after: State | None
) -> Number:
    of = ev.value(node.args[0], env, state, after)
    if not isinstance(of, EndlessSet):
        return v.cardinality(of)
    return ev.known.number(of, lambda size: is_cardinality(of, size))


def _filtered(
    ev: Evaluator, node: Expression, env: Env, state: State, after: State | None
) -> Value:
    ((name,), over) = node.bounds[0]
    domain = ev.value(over, env, state, after)

    def holds(item: Value) -> Bool:
        return ev.value(node.args[0], {**env, name: item}, state, after)

    def holds_for_each(item: Value) -> Bool:
        with ev.known.for_each():
            return holds(item)

    return v.filtered(domain, holds_for_each if isinstance(domain, EndlessSet) else holds)


def _selected(
    ev: Evaluator, node: Expression, env: Env, state: State, after: State | None
) -> Value:
    definition: OperatorDefinition = node.args[1].ref
    (name,) = definition.params

    def holds(item: Value) -> Bool:
        return ev.body(definition, {**env, name: item}, state, after)

    return v.selected(ev.value(node.args[0], env, state, after), holds)


def _image(ev: Evaluator, node: Expression, env: Env, state: State, after: State | None) -> Set:
    bindings = ev.bindings(node, env, state, after)
    return v.merged([(c, ev.value(node.args[0], bound, state, after)) for c, bound in bindings])


def _function(ev: Evaluator, node: Expression, env: Env, state: State, after: State | None) -> Fun:
    ((name,), over) = node.bounds[0]
    domain: Set = ev.value(over, env, state, after)
    if any(condition is not True for condition, _ in domain.items):
        raise InputError("a function whose domain is not constant cannot be evaluated")
    return Fun(
        {
            item: ev.value(node.args[0], {**env, name: item}, state, after)
            for _, item in domain.items
        }
    )


def _except(ev: Evaluator, node: Expression, env: Env, state: State, after: State | None) -> Value:
    function = ev.value(node.args[0], env, state, after)
    for pair in node.args[1:]:
        path = [ev.value(one, env, state, after) for one in pair.args[0].args]

        def change(old: Value, new: Expression = pair.args[1]) -> Value:
            return ev.value(new, {**env, OLD: old}, state, after)

        function = v.updated(function, path, change)
    return function


def _record(ev: Evaluator, node: Expression, env: Env, state: State, after: State | None) -> Fun:
    return Fun({pair.args[0].ref: ev.value(pair.args[1], env, state, after) for pair in node.args})


def _lookup(
    where: Callable[[Evaluator, Env, State], Mapping[str, Value]],
) -> Callable[[Evaluator, Expression, Env, State, State | None], Value]:
    return lambda ev, node, env, state, after: where(ev, env, state)[node.ref]


_FORMS: dict[str, Callable[[Evaluator, Expression, Env, State, State | None], Any]] = {
    "number": lambda ev, node, env, state, after: node.ref,
    "string": lambda ev, node, env, state, after: node.ref,
    "@": lambda ev, node, env, state, after: env[OLD],
    "let": lambda ev, node, env, state, after: ev.value(node.args[0], env, state, after),
    "param": _lookup(lambda ev, env, state: env),
    "variable": _lookup(lambda ev, env, state: state),
    "constant": _lookup(lambda ev, env, state: ev.constants),
    "'": _primed,
    "call": _call,
    "$ConjList": _every,
    "\\land": _every,
    "$DisjList": _some,
    "\\lor": _some,
    "=>": _implies,
    "$IfThenElse": _if,
    "$Case": _case,
    "$BoundedForall": _quantified(conjunction, implication, every),
    "$BoundedExists": _quantified(disjunction, conjunction, some),
    "$BoundedChoose": _choose,
    "Cardinality": _cardinality,
    "$SubsetOf": _filtered,
    "SelectSeq": _selected,
    "$SetOfAll": _image,
    "$FcnConstructor": _function,
    "$Except": _except,
    "$RcdConstructor": _record,
}


def _differs(a: Value, b: Value) -> Bool:
    return negation(equal(a, b))


def _is_no_member(item: Value, of: Set) -> Bool:
    return negation(member(item, of))


def _at_least(a: Number, b: Number) -> Bool:
    return at_most(b, a)


def _less(a: Number, b: Number) -> Bool:
    return negation(at_most(b, a))


def _greater(a: Number, b: Number) -> Bool:
    return negation(at_most(a, b))


def _head(sequence: Value) -> Value:
    return v.apply(sequence, 1)


def _tail(sequence: Value) -> Value:
    return v.subsequence(sequence, 2, v.length(sequence))


OPERATORS: dict[str, Callable[..., Any]] = {
    "TRUE": lambda: True,
    "FALSE": lambda: False,
    "BOOLEAN": lambda: v.enumerated(False, True),
    "=": equal,
    "/=": _differs,
    "\\lnot": negation,
    "\\equiv": same_bool,
    "\\in": member,
    "\\notin": _is_no_member,
    "\\subseteq": v.subset,
    "\\union": v.union,
    "\\intersect": v.intersection,
    "\\": v.difference,
    "$SetEnumerate": v.enumerated,
    "$Tuple": v.tuple_of,
    "$FcnApply": v.apply,
    "$RcdSelect": v.apply,
    "SUBSET": v.powerset,
    "DOMAIN": v.domain,
    "+": add,
    "-": subtract,
    "\\leq": at_most,
    "\\geq": _at_least,
    "<": _less,
    ">": _greater,
    "..": v.interval,
    "Len": v.length,
    "Head": _head,
    "Tail": _tail,
    "SubSeq": v.subsequence,
    "\\o": v.concatenation,
    "Append": v.appended,
}
