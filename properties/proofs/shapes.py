"""The range of a state variable: the only fact about a module that its text does not state.

A shape makes a fresh value of z3 terms, lifts a value of TLC's graph, and reads a value back from a
z3 model. Its `fit` gives the condition under which a computed value has the shape.
"""

import itertools
from collections.abc import Iterator, Mapping
from math import prod
from typing import Any, Protocol, cast

from attrs import frozen

from properties.proofs.terms import (
    UNBOUNDED,
    Bool,
    Num,
    Word,
    at_most,
    code,
    conjunction,
    disjunction,
    highest,
    implication,
    is_number,
    lowest,
    z3,
)
from properties.proofs.values import (
    Fun,
    Seq,
    Set,
    Value,
    Variants,
    as_seq,
    equal,
    variants,
)
from properties.tla.errors import InputError
from properties.tla.values import Rec
from properties.tla.values import Value as Plain


class Shape(Protocol):
    """The operations of every shape."""

    def fresh(self, name: str, given: list[Bool]) -> Value:
        """Any value of this shape; `given` collects what z3 must know about it."""
        ...

    def lift(self, plain: Plain) -> Value:
        """A value of TLC's graph, as the evaluator holds it."""
        ...

    def constants(self) -> Iterator[Value]:
        """Every value of the shape, if they can be counted."""
        ...

    def plain(self, value: Value, model: Any) -> Plain:
        """The value in a z3 model, as TLC's graph writes it."""
        ...

    def fit(self, value: Value, obligations: list[Bool]) -> Value:
        """The value within the shape; the condition to be shown for that goes to `obligations`."""
        ...


def number_in(value: Any, model: Any) -> int:
    """A number in a z3 model."""
    return value if isinstance(value, int) else model.eval(value.term, True).as_long()


def holds_in(condition: Bool, model: Any) -> bool:
    """True if a condition holds in a z3 model."""
    if isinstance(condition, bool):
        return condition
    return bool(z3.is_true(model.eval(condition, True)))


@frozen
class Numbers:
    """The integers lowest..highest."""

    lowest: int
    highest: int

    def fresh(self, name: str, given: list[Bool]) -> Value:
        if self.lowest == self.highest:
            return self.lowest
        number = z3.Int(name)
        given.append(number >= self.lowest)
        if self.highest < UNBOUNDED // 2:
            given.append(number <= self.highest)
        return Num(number, self.lowest, self.highest)

    def lift(self, plain: Plain) -> Value:
        return plain

    def constants(self) -> Iterator[Value]:
        return iter(range(self.lowest, self.highest + 1))

    def plain(self, value: Value, model: Any) -> Plain:
        return number_in(value, model)

    def fit(self, value: Value, obligations: list[Bool]) -> Value:
        if lowest(value) >= self.lowest and highest(value) <= self.highest:
            return value
        bounded = self.highest >= UNBOUNDED // 2 or at_most(value, self.highest)
        obligations.append(conjunction(at_most(self.lowest, value), bounded))
        if isinstance(value, int):
            return value
        return Num(value.term, max(self.lowest, value.lowest), min(self.highest, value.highest))


@frozen
class Flags:
    """TRUE and FALSE."""

    def fresh(self, name: str, given: list[Bool]) -> Value:
        return z3.Bool(name)

    def lift(self, plain: Plain) -> Value:
        return plain

    def constants(self) -> Iterator[Value]:
        return iter((False, True))

    def plain(self, value: Value, model: Any) -> Plain:
        return holds_in(value, model)

    def fit(self, value: Value, obligations: list[Bool]) -> Value:
        return value


@frozen
class Mapped:
    """A function on constant keys, or a record, with a shape for each key."""

    of: Mapping[Any, Shape]

    def fresh(self, name: str, given: list[Bool]) -> Value:
        return Fun({key: one.fresh(f"{name}.{key}", given) for key, one in self.of.items()})

    def lift(self, plain: Plain) -> Value:
        if isinstance(plain, tuple) and not isinstance(plain, Rec):
            plain = dict(enumerate(cast("tuple[Plain, ...]", plain), 1))
        return Fun({key: one.lift(plain[key]) for key, one in self.of.items()})

    def constants(self) -> Iterator[Value]:
        for combined in itertools.product(*(one.constants() for one in self.of.values())):
            yield Fun(dict(zip(self.of, combined, strict=True)))

    def plain(self, value: Value, model: Any) -> Plain:
        function = as_function(value)
        return Rec.function((key, one.plain(function[key], model)) for key, one in self.of.items())

    def fit(self, value: Value, obligations: list[Bool]) -> Value:
        function = as_function(value)
        return Fun({key: one.fit(function[key], obligations) for key, one in self.of.items()})


def as_function(value: Value) -> Mapping[Any, Value]:
    """A function's or a sequence's values by argument."""
    return dict(enumerate(value.cells, 1)) if isinstance(value, Seq) else value.of


@frozen
class Constants:
    """A finite set of constants: numbers, strings or booleans.

    As a variable's range it must be an interval of numbers without gaps, or one constant.
    """

    of: Set

    def __attrs_post_init__(self) -> None:
        if any(condition is not True for condition, _ in self.of.items):
            raise InputError("a range may depend on constants only")

    def _numbers(self) -> Numbers:
        items = sorted(self.constants()) if all(map(is_number, self.constants())) else []
        if not items or items[-1] - items[0] != len(items) - 1:
            raise InputError("a range of constants that is no interval of numbers")
        return Numbers(items[0], items[-1])

    def fresh(self, name: str, given: list[Bool]) -> Value:
        return self._numbers().fresh(name, given)

    def lift(self, plain: Plain) -> Value:
        return plain

    def constants(self) -> Iterator[Value]:
        return (item for _, item in self.of.items)

    def plain(self, value: Value, model: Any) -> Plain:
        return value if isinstance(value, str) else self._numbers().plain(value, model)

    def fit(self, value: Value, obligations: list[Bool]) -> Value:
        return value if isinstance(value, str) else self._numbers().fit(value, obligations)


@frozen
class Words:
    """Strings, of which there are two at least."""

    of: tuple[str, ...]

    def fresh(self, name: str, given: list[Bool]) -> Value:
        word = z3.Int(name)
        given.append(disjunction(*(word == code(one) for one in self.of)))
        return Word(word, frozenset(self.of))

    def lift(self, plain: Plain) -> Value:
        return plain

    def constants(self) -> Iterator[Value]:
        return iter(self.of)

    def plain(self, value: Value, model: Any) -> Plain:
        if isinstance(value, str):
            return value
        number = model.eval(value.term, True).as_long()
        return next((one for one in value.of if code(one) == number), "")

    def fit(self, value: Value, obligations: list[Bool]) -> Value:
        others = ({value} if isinstance(value, str) else value.of) - {*self.of}
        if others:
            obligations.append(disjunction(*(equal(value, one) for one in self.of)))
        return value


@frozen
class Sequences:
    """Sequences of at least `least` and at most `most` elements."""

    of: Shape
    most: int
    least: int = 0

    def fresh(self, name: str, given: list[Bool]) -> Value:
        cells = [self.of.fresh(f"{name}[{i}]", given) for i in range(1, self.most + 1)]
        return Seq(cells, Numbers(self.least, self.most).fresh(f"Len({name})", given))

    def lift(self, plain: Plain) -> Value:
        return Seq([self.of.lift(item) for item in plain], len(plain))

    def constants(self) -> Iterator[Value]:
        for count in range(self.least, self.most + 1):
            for cells in itertools.product(*[list(self.of.constants())] * count):
                yield Seq(cells, count)

    def plain(self, value: Value, model: Any) -> Plain:
        seq = as_seq(value)
        count = number_in(seq.length, model)
        return tuple(self.of.plain(cell, model) for cell in seq.cells[:count])

    def fit(self, value: Value, obligations: list[Bool]) -> Value:
        seq = as_seq(value)
        length = Numbers(self.least, self.most).fit(seq.length, obligations)
        cells: list[Value] = []
        for index, cell in enumerate(seq.cells[: self.most], 1):
            inner: list[Bool] = []
            cells.append(self.of.fit(cell, inner))
            if inner:
                obligations.append(implication(at_most(index, length), conjunction(*inner)))
        return Seq(cells, length)


@frozen
class Subsets:
    """The subsets of a finite set of constants."""

    of: Shape

    def fresh(self, name: str, given: list[Bool]) -> Value:
        items = [(z3.Bool(f"{name_of(item)} in {name}"), item) for item in self.of.constants()]
        return Set(items, self.of)

    def lift(self, plain: Plain) -> Value:
        return Set([(True, self.of.lift(item)) for item in plain], self.of)

    def constants(self) -> Iterator[Value]:
        items = list(self.of.constants())
        for count in range(len(items) + 1):
            for chosen in itertools.combinations(items, count):
                yield Set([(True, item) for item in chosen], self.of)

    def plain(self, value: Value, model: Any) -> Plain:
        return frozenset(
            self.of.plain(item, model)
            for condition, item in value.items
            if holds_in(condition, model)
        )

    def fit(self, value: Value, obligations: list[Bool]) -> Value:
        items: list[tuple[Bool, Value]] = []
        for condition, item in value.items:
            inner: list[Bool] = []
            items.append((condition, self.of.fit(item, inner)))
            if inner:
                obligations.append(implication(condition, conjunction(*inner)))
        return Set(items, self.of)


@frozen
class Either:
    """Records of several kinds, which differ in the names of their fields."""

    of: tuple[Mapped, ...]

    def fresh(self, name: str, given: list[Bool]) -> Value:
        kind = z3.Int(f"kind of {name}")
        given.append(z3.And(kind >= 0, kind < len(self.of)))
        return Variants(
            [(kind == at, one.fresh(f"{name}/{at}", given)) for at, one in enumerate(self.of)]
        )

    def lift(self, plain: Plain) -> Value:
        return self._kind(dict(cast("Rec", plain).items())).lift(plain)

    def constants(self) -> Iterator[Value]:
        return (item for one in self.of for item in one.constants())

    def plain(self, value: Value, model: Any) -> Plain:
        record = next(one for c, one in variants(value) if holds_in(c, model))
        return self._kind(record.of).plain(record, model)

    def fit(self, value: Value, obligations: list[Bool]) -> Value:
        found: list[tuple[Bool, Fun]] = []
        for condition, one in variants(value):
            inner: list[Bool] = []
            found.append((condition, self._kind(one.of).fit(one, inner)))
            if inner:
                obligations.append(implication(condition, conjunction(*inner)))
        return Variants(found)

    def _kind(self, fields: Mapping[Any, Any]) -> Mapped:
        found = next((one for one in self.of if one.of.keys() == fields.keys()), None)
        if found is None:
            raise InputError(f"a record of fields {', '.join(fields)} is in no range")
        return found


def shape_of(constant: Value) -> Shape:
    """The shape that has this constant alone."""
    if isinstance(constant, Fun):
        return Mapped({key: shape_of(item) for key, item in constant.of.items()})
    if isinstance(constant, Set):
        if constant.items:
            raise InputError("a range may have no constant with a set in it but the empty one")
        return Subsets(Constants(constant))
    return Constants(Set([(True, constant)]))


def size(shape: Shape) -> int:
    """The number of values of a shape: UNBOUNDED if they cannot be counted."""
    if isinstance(shape, Mapped):
        return min(UNBOUNDED, prod(size(one) for one in shape.of.values()))
    if isinstance(shape, Numbers):
        return shape.highest - shape.lowest + 1
    if isinstance(shape, Subsets):
        return 1 << size(shape.of)
    if isinstance(shape, Flags):
        return 2
    if isinstance(shape, Either):
        return sum(size(one) for one in shape.of)
    return sum(1 for _ in shape.constants())


def name_of(constant: Value) -> str:
    """A constant, in the name of a z3 term about it."""
    if isinstance(constant, Fun):
        return ",".join(str(item) for item in constant.of.values())
    return str(constant)
