"""Booleans, numbers and strings that may be z3 terms.

- A boolean is a `bool` or a z3 Bool.
- A number is an `int` or a `Num`: a z3 Int with known bounds.
- A string is a `str` or a `Word`, one of known strings.

A value that the bounds decide becomes a constant, so a step that the constants forbid costs
nothing.
"""

from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from typing import Any, TypeAlias

from attrs import frozen

# z3 ships no types; what comes from it is `Any` here and nowhere else.
z3: Any = import_module("z3")

Term: TypeAlias = Any
Bool: TypeAlias = Any

# Terms are made by z3's C functions: its Python operators look up and compare the sorts of all
# operands each time, which took a third of a proof. The operands here are of known sorts.
_Z3: Any = z3.main_ctx()
_REF: Any = _Z3.ref()

# As an upper bound: there is none. Half of it is the limit, so that sums stay recognizable.
UNBOUNDED = 10**9


def is_unbounded(number: "int | Num") -> bool:
    """True if a number has no known upper bound."""
    return highest(number) >= UNBOUNDED // 2


@frozen(eq=False)
class Num:
    """A z3 Int and its interval, both ends included."""

    term: Term
    lowest: int
    highest: int


Number: TypeAlias = int | Num


_codes: dict[str, int] = {}


@frozen(eq=False)
class Word:
    """A string that is not known: a z3 Int with the code of one of these strings."""

    term: Term
    of: frozenset[str]


def lowest(number: Number) -> int:
    """The least value that the number may have."""
    return number if isinstance(number, int) else number.lowest


def highest(number: Number) -> int:
    """The greatest value that the number may have."""
    return number if isinstance(number, int) else number.highest


@cache
def _numeral(number: int) -> Term:
    return z3.IntVal(number)


def term(number: Number) -> Term:
    """The number as z3 takes it."""
    return _numeral(number) if isinstance(number, int) else number.term


def is_bool(value: Any) -> bool:
    """True if a value is a boolean, constant or not."""
    return isinstance(value, bool | z3.BoolRef)


def is_number(value: Any) -> bool:
    """True if a value is a number, constant or not."""
    return isinstance(value, int | Num) and not isinstance(value, bool)


def add(a: Number, b: Number) -> Number:
    """a + b."""
    if isinstance(a, int) and isinstance(b, int):
        return a + b
    if isinstance(b, int) and b == 0:
        return a
    return Num(_sum(z3.Z3_mk_add, a, b), lowest(a) + lowest(b), highest(a) + highest(b))


def subtract(a: Number, b: Number) -> Number:
    """a - b."""
    if isinstance(a, int) and isinstance(b, int):
        return a - b
    if isinstance(b, int) and b == 0:
        return a
    return Num(_sum(z3.Z3_mk_sub, a, b), lowest(a) - highest(b), highest(a) - lowest(b))


def _sum(make: Callable[..., Any], a: Number, b: Number) -> Term:
    return z3.ArithRef(make(_REF, 2, _array((term(a), term(b)))), _Z3)


def _array(terms: Sequence[Term]) -> Any:
    return (z3.Ast * len(terms))(*(one.ast for one in terms))


def at_most(a: Number, b: Number) -> Bool:
    """a <= b."""
    if highest(a) <= lowest(b):
        return True
    if lowest(a) > highest(b):
        return False
    return z3.BoolRef(z3.Z3_mk_le(_REF, term(a).ast, term(b).ast), _Z3)


def same_number(a: Number, b: Number) -> Bool:
    """a = b."""
    if isinstance(a, int) and isinstance(b, int):
        return a == b
    if highest(a) < lowest(b) or highest(b) < lowest(a):
        return False
    return _same(term(a), term(b))


def _same(a: Term, b: Term) -> Bool:
    return z3.BoolRef(z3.Z3_mk_eq(_REF, a.ast, b.ast), _Z3)


def conjunction(*parts: Bool) -> Bool:
    """All of these; TRUE for none."""
    left: list[Bool] = []
    for part in parts:
        if part is False:
            return False
        if part is not True:
            left.append(part)
    return True if not left else left[0] if len(left) == 1 else _joined(z3.Z3_mk_and, left)


def disjunction(*parts: Bool) -> Bool:
    """Any of these; FALSE for none."""
    left: list[Bool] = []
    for part in parts:
        if part is True:
            return True
        if part is not False:
            left.append(part)
    return False if not left else left[0] if len(left) == 1 else _joined(z3.Z3_mk_or, left)


def _joined(make: Callable[..., Any], parts: Sequence[Term]) -> Bool:
    return z3.BoolRef(make(_REF, len(parts), _array(parts)), _Z3)


def negation(part: Bool) -> Bool:
    """Not this."""
    if isinstance(part, bool):
        return not part
    return z3.BoolRef(z3.Z3_mk_not(_REF, part.ast), _Z3)


def implication(condition: Bool, consequence: Bool) -> Bool:
    """condition => consequence."""
    return disjunction(negation(condition), consequence)


def every(variables: Sequence[Term], body: Bool) -> Bool:
    """The body, for all values of these variables."""
    return _quantified(z3.ForAll, variables, body)


def some(variables: Sequence[Term], body: Bool) -> Bool:
    """The body, for some values of these variables."""
    return _quantified(z3.Exists, variables, body)


def _quantified(binder: Any, variables: Sequence[Term], body: Bool) -> Bool:
    """z3 tries the numbers at which a function in the body is applied.

    If there are none, as in the largest n with a property, it tries `tried`.
    """
    if isinstance(body, bool):
        return body
    (one, *others) = variables
    if others or not z3.is_int(one) or _is_argument(one, body):
        return binder(variables, body)
    return binder(variables, body, patterns=[tried(one)])


def tried(number: Term) -> Bool:
    """A mark without a meaning, on numbers with which a formula may be tried."""
    return z3.Function("tried", z3.IntSort(), z3.BoolSort())(number)


def _is_argument(variable: Term, body: Term) -> bool:
    """True if the body applies an uninterpreted function to this variable."""
    waiting, seen = [(body, False)], set[tuple[int, bool]]()
    while waiting:
        one, within = waiting.pop()
        if within and z3.eq(one, variable):
            return True
        if (key := (one.get_id(), within)) not in seen:
            seen.add(key)
            named = z3.is_app(one) and one.decl().kind() == z3.Z3_OP_UNINTERPRETED
            waiting += [(child, within or named) for child in one.children()]
    return False


def same_bool(a: Bool, b: Bool) -> Bool:
    """a <=> b."""
    if isinstance(a, bool):
        return b if a else negation(b)
    if isinstance(b, bool):
        return a if b else negation(a)
    return _same(a, b)


def choose_bool(condition: Bool, a: Bool, b: Bool) -> Bool:
    """IF condition THEN a ELSE b, of booleans."""
    if isinstance(a, bool):
        return disjunction(condition, b) if a else conjunction(negation(condition), b)
    if isinstance(b, bool):
        return disjunction(negation(condition), a) if b else conjunction(condition, a)
    return z3.BoolRef(_either(condition, a, b), _Z3)


def _either(condition: Bool, a: Term, b: Term) -> Any:
    return z3.Z3_mk_ite(_REF, condition.ast, a.ast, b.ast)


def choose_number(condition: Bool, a: Number, b: Number) -> Number:
    """IF condition THEN a ELSE b, of numbers."""
    if isinstance(a, int) and isinstance(b, int) and a == b:
        return a
    return Num(
        z3.ArithRef(_either(condition, term(a), term(b)), _Z3),
        min(lowest(a), lowest(b)),
        max(highest(a), highest(b)),
    )


def code(word: str) -> int:
    """The number that represents a string in z3 terms."""
    return _codes.setdefault(word, len(_codes))


def is_word(value: Any) -> bool:
    """True if a value is a string, constant or not."""
    return isinstance(value, str | Word)


def word_term(word: str | Word) -> Term:
    """A string as z3 takes it."""
    return _numeral(code(word)) if isinstance(word, str) else word.term


def same_word(a: str | Word, b: str | Word) -> Bool:
    """a = b, of strings."""
    if isinstance(a, str) and isinstance(b, str):
        return a == b
    return _same(word_term(a), word_term(b)) if _words(a) & _words(b) else False


def choose_word(condition: Bool, a: str | Word, b: str | Word) -> str | Word:
    """IF condition THEN a ELSE b, of strings."""
    if isinstance(a, str) and a == b:
        return a
    chosen = z3.ArithRef(_either(condition, word_term(a), word_term(b)), _Z3)
    return Word(chosen, _words(a) | _words(b))


def _words(word: str | Word) -> frozenset[str]:
    return frozenset({word}) if isinstance(word, str) else word.of
