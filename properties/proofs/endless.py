"""Shapes of variables without a bound: sequences of any length, and sets of any size.

Uninterpreted functions of the index, or of an element's parts, give their contents.
"""

import itertools
from collections.abc import Callable, Iterator
from typing import Any

from attrs import frozen

from properties.proofs.shapes import (
    Flags,
    Mapped,
    Numbers,
    Sequences,
    Shape,
    Subsets,
    Words,
    as_function,
    holds_in,
    name_of,
    number_in,
    size,
)
from properties.proofs.terms import (
    UNBOUNDED,
    Bool,
    Num,
    Term,
    Word,
    code,
    conjunction,
    disjunction,
    every,
    implication,
    is_word,
    term,
    word_term,
    z3,
)
from properties.proofs.values import (
    Endless,
    EndlessSet,
    Fun,
    Seq,
    Set,
    Value,
    fresh_name,
    if_then_else,
    member,
    offsets,
)
from properties.tla.errors import InputError
from properties.tla.values import Value as Plain

# The elements of an endless sequence that a story shows.
SHOWN = 12
# The elements of a set of any size that a story tries.
MOST_TRIED = 20_000


@frozen
class EndlessSubsets:
    """The subsets of a set that is infinite, or too large to be listed.

    Membership is an uninterpreted predicate of the parts of an element.
    """

    of: Shape

    def fresh(self, name: str, given: list[Bool]) -> Value:
        variables, inside, _ = self._any_element()
        predicate = z3.Function(name, *(one.sort() for one in variables), z3.BoolSort())
        if inside is not True:
            given.append(z3.ForAll(variables, z3.Implies(predicate(*variables), inside)))

        def has(item: Value) -> Bool:
            known = not isinstance(self.of, Mapped) or as_function(item).keys() == self.of.of.keys()
            return predicate(*parts(self.of, item)) if known else False

        return EndlessSet(self.of, self._any_element, has)

    def _any_element(self) -> tuple[list[Term], Bool, Value]:
        variables: list[Term] = []
        known: list[Bool] = []
        element = _raw(self.of, fresh_name("element"), variables, known)
        return variables, conjunction(*known), element

    def lift(self, plain: Plain) -> Value:
        return Subsets(self.of).lift(plain)

    def constants(self) -> Iterator[Value]:
        raise NotImplementedError("subsets of a set of any size cannot be counted")

    def plain(self, value: Value, model: Any) -> Plain:
        """Of a set of any size: its elements of numbers that occur in the model."""
        if isinstance(value, Set):
            return Subsets(self.of).plain(value, model)
        numbers = sorted({model[one].as_long() for one in model.decls() if _is_int(model[one])})
        tried = itertools.islice(_elements(self.of, numbers), MOST_TRIED)
        return frozenset(
            self.of.plain(item, model) for item in tried if holds_in(value.has(item), model)
        )

    def fit(self, value: Value, obligations: list[Bool]) -> Value:
        if isinstance(value, Set):
            return Subsets(self.of).fit(value, obligations)
        if value.shape != self.of:
            raise InputError("a set of any size becomes one whose elements are of another shape")
        Subsets(self.of).fit(Set(value.added), obligations)
        return EndlessSet(value.shape, value.any_element, value.has)


def parts(shape: Shape, value: Value) -> list[Term]:
    """The z3 terms that distinguish the elements of a shape."""
    if isinstance(shape, Mapped):
        function = as_function(value)
        return [part for key, one in shape.of.items() for part in parts(one, function[key])]
    if isinstance(shape, Subsets):
        conditions = [member(item, value) for item in shape.of.constants()]
        return [z3.BoolVal(one) if isinstance(one, bool) else one for one in conditions]
    if isinstance(shape, Flags):
        return [z3.BoolVal(value) if isinstance(value, bool) else value]
    if is_word(value):
        return [word_term(value)]
    return [term(value)]


def _raw(shape: Shape, name: str, variables: list[Term], known: list[Bool]) -> Value:
    """An element of z3 variables alone, and what makes them one of the shape."""
    if isinstance(shape, Mapped):
        return Fun(
            {key: _raw(one, f"{name}.{key}", variables, known) for key, one in shape.of.items()}
        )
    if isinstance(shape, Subsets):
        value = shape.fresh(name, known)
        variables.extend(condition for condition, _ in value.items)
        return value
    if isinstance(shape, Flags):
        variables.append(z3.Bool(name))
        return variables[-1]
    variables.append(z3.Int(name))
    if isinstance(shape, Words):
        known.append(disjunction(*(variables[-1] == code(one) for one in shape.of)))
        return Word(variables[-1], frozenset(shape.of))
    if not isinstance(shape, Numbers):
        raise NotImplementedError(f"a set of any size of {shape}")
    known.append(variables[-1] >= shape.lowest)
    if shape.highest < UNBOUNDED // 2:
        known.append(variables[-1] <= shape.highest)
    return Num(variables[-1], shape.lowest, shape.highest)


def _is_int(interpretation: Any) -> bool:
    return bool(z3.is_int_value(interpretation))


def _elements(shape: Shape, numbers: list[int]) -> Iterator[Value]:
    """Values of a shape: all of them or, if they are many, those with these numbers."""
    if isinstance(shape, Mapped):
        for combined in itertools.product(*(_elements(i, numbers) for i in shape.of.values())):
            yield Fun(dict(zip(shape.of, combined, strict=True)))
    elif isinstance(shape, Numbers) and size(shape) > len(numbers):
        yield from (one for one in numbers if shape.lowest <= one <= shape.highest)
    else:
        yield from shape.constants()


@frozen
class EndlessSequences:
    """Sequences of any length: their elements are uninterpreted functions of the index."""

    of: Shape
    least: int

    def fresh(self, name: str, given: list[Bool]) -> Value:
        length = Numbers(self.least, UNBOUNDED).fresh(f"Len({name})", given)
        given += _facts(self.of, name)
        return Endless(_reader(self.of, name), length)

    def lift(self, plain: Plain) -> Value:
        return Sequences(self.of, len(plain)).lift(plain)

    def constants(self) -> Iterator[Value]:
        raise NotImplementedError("sequences of any length cannot be counted")

    def plain(self, value: Value, model: Any) -> Plain:
        if isinstance(value, Seq):
            return Sequences(self.of, len(value.cells)).plain(value, model)
        count = min(number_in(value.length, model), SHOWN)
        return tuple(self.of.plain(value.at(index), model) for index in range(1, count + 1))

    def fit(self, value: Value, obligations: list[Bool]) -> Value:
        if isinstance(value, Seq):
            return Sequences(self.of, len(value.cells), self.least).fit(value, obligations)
        length = Numbers(self.least, UNBOUNDED).fit(value.length, obligations)
        fitted = Endless(value.at, length)
        variables, inside, index = offsets(fitted).some()
        inner: list[Bool] = []
        self.of.fit(value.at(index), inner)
        if inner:
            obligations.append(every(variables, implication(inside, conjunction(*inner))))
        return fitted


@frozen
class FewSubsets:
    """Of the subsets of a large set those of at most so many elements, which z3 may choose.

    Nothing about them takes a quantifier, so that a counterexample is found soon, where there is
    one as small. Behind a step there may be more elements.
    """

    of: Shape
    most: int

    def fresh(self, name: str, given: list[Bool]) -> Value:
        numbers = range(1, self.most + 1)
        items = [(z3.Bool(f"{i} in {name}"), self.of.fresh(f"{name}.{i}", given)) for i in numbers]
        return Set(items, self.of)

    def lift(self, plain: Plain) -> Value:
        return Subsets(self.of).lift(plain)

    def constants(self) -> Iterator[Value]:
        raise NotImplementedError("subsets of a large set are not counted")

    def plain(self, value: Value, model: Any) -> Plain:
        return Subsets(self.of).plain(value, model)

    def fit(self, value: Value, obligations: list[Bool]) -> Value:
        return Subsets(self.of).fit(value, obligations)


@frozen
class FewSequences(Sequences):
    """Of the sequences of any length those of at most so many elements; behind a step, more."""

    def fit(self, value: Value, obligations: list[Bool]) -> Value:
        return value


def limited(shape: Shape, most: int) -> Shape:
    """The shape with at most so many elements in each endless part."""
    if isinstance(shape, EndlessSubsets):
        return FewSubsets(shape.of, most)
    if isinstance(shape, EndlessSequences):
        return FewSequences(shape.of, most, shape.least)
    if isinstance(shape, Mapped):
        return Mapped({key: limited(one, most) for key, one in shape.of.items()})
    return shape


def _reader(shape: Shape, name: str) -> Callable[[Any], Value]:
    return lambda index: _element(shape, name, term(index))


def _element(shape: Shape, name: str, index: Term) -> Value:
    """An endless sequence's element at an index, by one uninterpreted function for each part."""
    if isinstance(shape, Mapped):
        return Fun({key: _element(one, f"{name}.{key}", index) for key, one in shape.of.items()})
    if isinstance(shape, Subsets):
        return Set(
            [(_predicate(f"{name_of(i)} in {name}")(index), i) for i in shape.of.constants()]
        )
    if isinstance(shape, Flags):
        return _predicate(name)(index)
    if isinstance(shape, Words):
        return Word(_number(name, index), frozenset(shape.of))
    if not isinstance(shape, Numbers):
        raise NotImplementedError(f"an endless sequence of {shape}")
    number = _number(name, index)
    if shape.highest >= UNBOUNDED // 2:
        return Num(z3.If(number < shape.lowest, shape.lowest, number), shape.lowest, UNBOUNDED)
    found: Value = shape.highest  # a function into lowest..highest, and into nothing else
    for value in reversed(range(shape.lowest, shape.highest)):
        found = if_then_else(number == value, value, found)
    return found


def _facts(shape: Shape, name: str) -> Iterator[Bool]:
    """The facts about the words in an endless sequence: each is one of its shape."""
    if isinstance(shape, Mapped):
        for key, one in shape.of.items():
            yield from _facts(one, f"{name}.{key}")
    if isinstance(shape, Words):
        index = z3.Int(fresh_name("index"))
        word = _number(name, index)
        yield z3.ForAll([index], disjunction(*(word == code(one) for one in shape.of)))


def _number(name: str, index: Term) -> Term:
    return z3.Function(name, z3.IntSort(), z3.IntSort())(index)


def _predicate(name: str) -> Callable[[Term], Bool]:
    return z3.Function(name, z3.IntSort(), z3.BoolSort())
