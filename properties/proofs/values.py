"""TLA+ values that may hold z3 terms: sets, functions, records and sequences.

Every operation takes constants and terms alike, and returns a constant if it can.
"""

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from attrs import field, frozen

from properties.proofs.terms import (
    UNBOUNDED,
    Bool,
    Num,
    Number,
    Term,
    add,
    at_most,
    choose_bool,
    choose_number,
    choose_word,
    conjunction,
    disjunction,
    every,
    highest,
    implication,
    is_bool,
    is_number,
    is_unbounded,
    is_word,
    lowest,
    negation,
    same_bool,
    same_number,
    same_word,
    subtract,
    term,
    z3,
)
from properties.tla.errors import InputError

# bool | z3 Bool | int | Num | str | Word | Set | EndlessSet | Fun | Variants | Seq | Endless
Value: TypeAlias = Any
Candidate: TypeAlias = tuple[Bool, Value]

_fresh = itertools.count()


def fresh_name(about: str) -> str:
    """A name that no other z3 constant has."""
    return f"{about} {next(_fresh)}"


class OutOfRangeError(InputError):
    """A function was applied outside its domain, or a construct has no meaning here."""


def _possible(items: Iterable[Candidate]) -> list[Candidate]:
    return [item for item in items if item[0] is not False]


@frozen(eq=False)
class Set:
    """Candidates, each with the condition under which it is a member.

    `element` is the shape of an element, if a state variable gives one.
    """

    items: list[Candidate] = field(converter=_possible)
    element: Any = None


@frozen(eq=False)
class EndlessSet:
    """A set that cannot be listed: the shape of its elements, and its membership predicate.

    An interval of numbers, or a part of one, has no shape: it is finite, and no variable.
    `any_element` makes an element of z3 variables: these, the facts about them, and the element.
    `added` are the elements added since all had an assumed shape.
    """

    shape: Any
    any_element: Callable[[], tuple[list[Term], Bool, Value]]
    has: Callable[[Value], Bool]
    added: list[Candidate] = field(factory=list[Candidate])

    @property
    def items(self) -> list[Candidate]:
        raise OutOfRangeError("a set of any size cannot be listed")

    def some(self) -> tuple[list[Term], Bool, Value]:
        """Fresh variables, the condition under which they are a member, and the element."""
        variables, known, element = self.any_element()
        return variables, conjunction(known, self.has(element)), element


@frozen(eq=False)
class Fun:
    """A function on a constant domain, or a record."""

    of: Mapping[Any, Value]


@frozen(eq=False)
class Variants:
    """A record of one of several kinds, each under its condition: exactly one of them holds."""

    of: list[tuple[Bool, Fun]]


def variants(record: Fun | Variants) -> list[tuple[Bool, Fun]]:
    """The kinds that a record may be of."""
    return record.of if isinstance(record, Variants) else [(True, record)]


@frozen(eq=False)
class Seq:
    """A sequence of bounded length; cells beyond the length mean nothing."""

    cells: Sequence[Value]
    length: Number


@frozen(eq=False)
class Endless:
    """A sequence of any length: its element at an index, and its length."""

    at: Callable[[Number], Value]
    length: Number


def as_seq(value: Value) -> Seq:
    """A function on 1..n is a sequence."""
    if isinstance(value, Fun):
        return Seq([value.of[key] for key in sorted(value.of)], len(value.of))
    return value


def constant(value: Value) -> Any:
    """A hashable key for a value without terms, else None."""
    if isinstance(value, int | str):
        return value
    if isinstance(value, Seq) and isinstance(value.length, int):
        value = Fun(dict(enumerate(value.cells[: value.length], 1)))
    if isinstance(value, Fun):
        parts = [(key, constant(item)) for key, item in value.of.items()]
        return None if any(item is None for _, item in parts) else tuple(parts)
    return None


def merged(items: Iterable[Candidate], element: Any = None) -> Set:
    """A set in which equal constants are one candidate."""
    known: dict[Any, Candidate] = {}
    rest: list[Candidate] = []
    for condition, item in items:
        if condition is False:
            continue
        key = constant(item)
        if key is None:
            rest.append((condition, item))
        elif key in known:
            known[key] = (disjunction(known[key][0], condition), item)
        else:
            known[key] = (condition, item)
    return Set([*known.values(), *rest], element)


def member(value: Value, of: Set | EndlessSet) -> Bool:
    r"""value \in of."""
    if isinstance(value, Variants):
        return disjunction(*(conjunction(c, member(one, of)) for c, one in value.of))
    if isinstance(of, EndlessSet):
        return of.has(value)
    return disjunction(*(conjunction(c, equal(value, item)) for c, item in of.items))


def subset(a: Set | EndlessSet, b: Set | EndlessSet) -> Bool:
    r"""a \subseteq b."""
    if isinstance(a, EndlessSet):
        variables, inside, element = a.some()
        return z3.ForAll(variables, implication(inside, member(element, b)))
    return conjunction(*(implication(c, member(item, b)) for c, item in a.items))


def equal(a: Value, b: Value) -> Bool:
    """a = b, for two values of one kind."""
    if is_number(a):
        return same_number(a, b)
    if is_word(a):
        return same_word(a, b)
    if is_bool(a):
        return same_bool(a, b)
    if isinstance(a, Set | EndlessSet):
        return a is b or conjunction(subset(a, b), subset(b, a))
    if isinstance(a, Endless) or isinstance(b, Endless):
        return _equal_endless(a, b)
    if isinstance(a, Seq) or isinstance(b, Seq):
        return _equal_seq(as_seq(a), as_seq(b))
    if isinstance(a, Variants) or isinstance(b, Variants):
        pairs = itertools.product(variants(a), variants(b))
        return disjunction(
            *(conjunction(c, d, equal(one, other)) for (c, one), (d, other) in pairs)
        )
    if a.of.keys() != b.of.keys():
        return False
    return conjunction(*(equal(a.of[key], b.of[key]) for key in a.of))


def _equal_endless(a: Value, b: Value) -> Bool:
    """Of equal lengths, and equal as far as they go."""
    if a is b:
        return True
    same = equal(length(a), length(b))
    if isinstance(a, Endless) and isinstance(b, Endless):
        variables, inside, index = offsets(a).some()
        elements = implication(inside, equal(a.at(index), b.at(index)))
        return conjunction(same, every(variables, elements))
    endless, listed = (a, as_seq(b)) if isinstance(a, Endless) else (b, as_seq(a))
    cells = (
        implication(at_most(index, listed.length), equal(endless.at(index), cell))
        for index, cell in enumerate(listed.cells, 1)
    )
    return conjunction(same, *cells)


def _equal_seq(a: Seq, b: Seq) -> Bool:
    both = min(len(a.cells), len(b.cells))
    cells = (
        implication(at_most(i + 1, a.length), equal(a.cells[i], b.cells[i])) for i in range(both)
    )
    return conjunction(equal(a.length, b.length), at_most(a.length, both), *cells)


def if_then_else(condition: Bool, a: Value, b: Value) -> Value:
    """IF condition THEN a ELSE b, for two values of one kind."""
    if condition is True or a is b:
        return a
    if condition is False:
        return b
    if is_bool(a):
        return choose_bool(condition, a, b)
    if is_number(a):
        return choose_number(condition, a, b)
    if is_word(a):
        return choose_word(condition, a, b)
    if isinstance(a, EndlessSet) or isinstance(b, EndlessSet):
        here = [(conjunction(condition, c), item) for c, item in _added(a)]
        there = [(conjunction(negation(condition), c), item) for c, item in _added(b)]
        return _endless(
            (a, b),
            lambda item: choose_bool(condition, member(item, a), member(item, b)),
            here + there,
        )
    if isinstance(a, Set):
        here = [(conjunction(condition, c), item) for c, item in a.items]
        there = [(conjunction(negation(condition), c), item) for c, item in b.items]
        return merged(here + there, a.element or b.element)
    if isinstance(a, Endless) or isinstance(b, Endless):
        return Endless(
            lambda index: _choose_at(condition, a, index, b, index),
            if_then_else(condition, length(a), length(b)),
        )
    if isinstance(a, Seq) or isinstance(b, Seq):
        return _choose_seq(condition, as_seq(a), as_seq(b))
    if isinstance(a, Variants) or isinstance(b, Variants) or _of_two_kinds(a, b):
        return _choose_record(condition, a, b)
    if isinstance(a, Fun):
        return Fun({key: if_then_else(condition, a.of[key], b.of[key]) for key in a.of})
    if a == b:
        return a
    raise OutOfRangeError(f"IF with branches of two kinds: {a!r} and {b!r}")


def _endless(
    of: Sequence[Set | EndlessSet], has: Callable[[Value], Bool], added: list[Candidate]
) -> EndlessSet:
    """A set made of others, of which one at least is of any size."""
    first, *more = (one for one in of if isinstance(one, EndlessSet))
    if any(one.shape != first.shape for one in more):
        raise OutOfRangeError("sets of any size, whose elements are of two shapes")
    from_first = len(of) == 1 or first.shape is not None
    return EndlessSet(first.shape, first.any_element if from_first else any_number, has, added)


def any_number(least: Number = -UNBOUNDED) -> tuple[list[Term], Bool, Num]:
    """A fresh variable, that it is no less, and the number."""
    number = z3.Int(fresh_name("any"))
    known = True if lowest(least) <= -UNBOUNDED else term(least) <= number
    return [number], known, Num(number, lowest(least), UNBOUNDED)


def _added(of: Set | EndlessSet) -> list[Candidate]:
    """The elements that a set of no assumed shape may have."""
    return of.added if isinstance(of, EndlessSet) else of.items


def _of_two_kinds(a: Value, b: Value) -> bool:
    return isinstance(a, Fun) and isinstance(b, Fun) and a.of.keys() != b.of.keys()


def _choose_record(condition: Bool, a: Fun | Variants, b: Fun | Variants) -> Variants:
    found: dict[frozenset[Any], tuple[Bool, Fun]] = {}
    for chosen, record in ((condition, a), (negation(condition), b)):
        for c, one in variants(record):
            holds, kind = conjunction(chosen, c), frozenset(one.of)
            if kind in found:
                before, other = found[kind]
                found[kind] = (disjunction(before, holds), if_then_else(holds, one, other))
            elif holds is not False:
                found[kind] = (holds, one)
    return Variants(list(found.values()))


def _choose_at(condition: Bool, a: Value, i: Number, b: Value, j: Number) -> Value:
    """IF condition THEN a[i] ELSE b[j], where an empty sequence has nothing to choose."""
    if isinstance(a, Seq) and not a.cells:
        return apply(b, j)
    if isinstance(b, Seq) and not b.cells:
        return apply(a, i)
    return if_then_else(condition, apply(a, i), apply(b, j))


def _choose_seq(condition: Bool, a: Seq, b: Seq) -> Seq:
    def cell(one: Seq, other: Seq, index: int) -> Value:
        return one.cells[index] if index < len(one.cells) else other.cells[index]

    cells = [
        if_then_else(condition, cell(a, b, i), cell(b, a, i))
        for i in range(max(len(a.cells), len(b.cells)))
    ]
    return Seq(cells, if_then_else(condition, a.length, b.length))


def interval(a: Number, b: Number) -> Set | EndlessSet:
    """a..b; where b has no bound it cannot be listed."""
    if is_unbounded(b):
        return _unlisted(a, b)
    return Set(
        [(conjunction(at_most(a, i), at_most(i, b)), i) for i in range(lowest(a), highest(b) + 1)]
    )


def offsets(sequence: Endless) -> EndlessSet:
    """1..Len(sequence)."""
    return _unlisted(1, sequence.length)


def _unlisted(a: Number, b: Number) -> EndlessSet:
    return EndlessSet(
        None, lambda: any_number(a), lambda one: conjunction(at_most(a, one), at_most(one, b))
    )


def apply(function: Value, argument: Value) -> Value:
    """function[argument].

    For a term outside the domain the value is arbitrary (that of the last key), as in TLA+.
    """
    if isinstance(function, Endless):
        return function.at(argument)
    if isinstance(function, Variants):
        return _field(function, argument)
    if isinstance(function, Seq):
        if not function.cells:
            raise OutOfRangeError("an empty sequence has no element")
        function = Fun(dict(enumerate(function.cells, 1)))
        if isinstance(argument, int):
            return function.of.get(argument, function.of[len(function.of)])
    if isinstance(argument, int | str):
        if argument not in function.of:
            raise OutOfRangeError(f"{argument!r} is not in the domain of a function")
        return function.of[argument]
    keys = [key for key in function.of if lowest(argument) <= key <= highest(argument)]
    keys = keys or list(function.of)
    found = function.of[keys[-1]]
    for key in reversed(keys[:-1]):
        found = if_then_else(equal(argument, key), function.of[key], found)
    return found


def _field(record: Variants, name: str) -> Value:
    """A field of a record; a record of a kind without that field gives an arbitrary value."""
    *others, (_, last) = ((c, one.of[name]) for c, one in record.of if name in one.of)
    for condition, value in others:
        last = if_then_else(condition, value, last)
    return last


def updated(function: Value, path: Sequence[Value], change: Callable[[Value], Value]) -> Value:
    """EXCEPT: the function with the value at the end of this path changed."""
    if not path:
        return change(function)
    at, rest = path[0], path[1:]
    if isinstance(function, Endless):
        old, new = function, updated(function.at(at), rest, change)
        return Endless(lambda index: if_then_else(equal(index, at), new, old.at(index)), old.length)
    if isinstance(function, Seq):
        cells = [
            _updated_if(equal(at, index), cell, rest, change)
            for index, cell in enumerate(function.cells, 1)
        ]
        return Seq(cells, function.length)
    return Fun(
        {key: _updated_if(equal(at, key), item, rest, change) for key, item in function.of.items()}
    )


def _updated_if(
    here: Bool, item: Value, path: Sequence[Value], change: Callable[[Value], Value]
) -> Value:
    """Another field of a record may be of a kind that the change has no meaning for."""
    return item if here is False else if_then_else(here, updated(item, path, change), item)


def subsequence(value: Value, first: Number, last: Number) -> Seq | Endless:
    """SubSeq(value, first, last)."""
    if isinstance(value, Endless):
        count = subtract(add(last, 1), first)
        count = count if lowest(count) >= 0 else if_then_else(at_most(0, count), count, 0)
        return Endless(lambda index: value.at(subtract(add(first, index), 1)), count)
    seq = as_seq(value)
    if isinstance(first, int) and first == 1:
        length = last if lowest(last) >= 0 else if_then_else(at_most(0, last), last, 0)
        return Seq(seq.cells[: highest(last)], length)
    if not seq.cells:
        return Seq([], 0)
    most = min(len(seq.cells), max(0, highest(last) - lowest(first) + 1))
    raw = subtract(add(last, 1), first)
    bounded = raw if isinstance(raw, int) else Num(raw.term, 0, most)
    length = if_then_else(at_most(first, last), bounded, 0)
    return Seq([apply(seq, add(first, i)) for i in range(most)], length)


def concatenation(a: Value, b: Value) -> Seq | Endless:
    r"""a \o b."""
    if isinstance(a, Endless) or isinstance(b, Endless):
        return Endless(
            lambda index: _choose_at(
                at_most(index, length(a)), a, index, b, subtract(index, length(a))
            ),
            add(length(a), length(b)),
        )
    front, back = as_seq(a), as_seq(b)
    if not back.cells:
        return front
    cells: list[Value] = []
    for i in range(highest(front.length) + len(back.cells)):
        from_front = front.cells[i] if i < len(front.cells) else None
        if i < lowest(front.length):
            cells.append(from_front)
            continue
        from_back = apply(back, subtract(i + 1, front.length))
        cells.append(
            from_back
            if from_front is None
            else if_then_else(at_most(i + 1, front.length), from_front, from_back)
        )
    return Seq(cells, add(front.length, back.length))


def appended(value: Value, item: Value) -> Value:
    """Append(value, item)."""
    if not isinstance(value, Endless):
        return concatenation(value, Seq([item], 1))
    new = add(value.length, 1)
    return Endless(lambda index: if_then_else(equal(index, new), item, value.at(index)), new)


def selected(value: Value, holds: Callable[[Value], Bool]) -> Value:
    """SelectSeq(value, holds), of a sequence of bounded length."""
    if isinstance(value, Endless):
        raise InputError("SelectSeq of a sequence of any length cannot be evaluated")
    seq = as_seq(value)
    found: Value = Seq([], 0)
    for index, cell in enumerate(seq.cells, 1):
        taken = conjunction(at_most(index, seq.length), holds(cell))
        if taken is not False:
            longer = concatenation(found, Seq([cell], 1))
            found = longer if taken is True else if_then_else(taken, longer, found)
    return found


def length(value: Value) -> Number:
    """Len(value)."""
    return value.length if isinstance(value, Endless) else as_seq(value).length


def cardinality(of: Set) -> Number:
    """Cardinality(of), for a set whose candidates are constants."""
    if any(constant(item) is None for _, item in of.items):
        raise OutOfRangeError("Cardinality of a set whose elements are not constants")
    certain = sum(condition is True for condition, _ in of.items)
    unsure = [condition for condition, _ in of.items if condition is not True]
    if not unsure:
        return certain
    total = z3.IntVal(certain)
    for condition in unsure:
        total = total + z3.If(condition, z3.IntVal(1), z3.IntVal(0))
    return Num(total, certain, certain + len(unsure))


def chosen(of: Set, holds: Callable[[Value], Bool]) -> Value:
    """CHOOSE: the first candidate that fits.

    That is TLA+'s meaning only if exactly one element fits, as in Min and Max.
    """
    if not of.items:
        raise OutOfRangeError("CHOOSE from the empty set")
    found = of.items[-1][1]
    for condition, item in reversed(of.items[:-1]):
        found = if_then_else(conjunction(condition, holds(item)), item, found)
    return found


def union(a: Set | EndlessSet, b: Set | EndlessSet) -> Set | EndlessSet:
    r"""a \union b."""
    if isinstance(a, EndlessSet) or isinstance(b, EndlessSet):
        either = [*_added(a), *_added(b)]
        return _endless((a, b), lambda item: disjunction(member(item, a), member(item, b)), either)
    return merged([*a.items, *b.items], a.element or b.element)


def filtered(of: Set | EndlessSet, holds: Callable[[Value], Bool]) -> Set | EndlessSet:
    r"""{x \in of : holds(x)}."""
    if isinstance(of, EndlessSet):
        return _endless((of,), lambda item: conjunction(member(item, of), holds(item)), of.added)
    return Set([(conjunction(c, holds(item)), item) for c, item in of.items], of.element)


def intersection(a: Set | EndlessSet, b: Set | EndlessSet) -> Set | EndlessSet:
    r"""a \intersect b."""
    return filtered(a, lambda item: member(item, b))


def difference(a: Set | EndlessSet, b: Set | EndlessSet) -> Set | EndlessSet:
    r"""a \ b."""
    return filtered(a, lambda item: negation(member(item, b)))


def enumerated(*items: Value) -> Set:
    """{items}."""
    return merged([(True, item) for item in items])


def powerset(of: Set | EndlessSet) -> Set:
    """SUBSET of: every subset of a set whose members are certain."""
    if isinstance(of, EndlessSet) or any(condition is not True for condition, _ in of.items):
        raise InputError("the subsets of a set that is not constant cannot be listed")
    items = [item for _, item in of.items]
    sizes = range(len(items) + 1)
    subsets = (some for size in sizes for some in itertools.combinations(items, size))
    return Set([(True, enumerated(*some)) for some in subsets])


def tuple_of(*items: Value) -> Seq:
    """<<items>>."""
    return Seq(list(items), len(items))


def domain(function: Value) -> Set | EndlessSet:
    """DOMAIN function."""
    if isinstance(function, Fun):
        return Set([(True, key) for key in function.of])
    return interval(1, length(function))
