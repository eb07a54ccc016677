"""Numbers known only by a formula: CHOOSE's choice, and Cardinality.

For a set that cannot be listed, such as the offsets of a log of any length, neither can be
computed. So z3 gets a new constant, and the facts about it.
"""

from collections.abc import Callable, Generator
from contextlib import contextmanager

from attrs import define, field

from properties.proofs.terms import (
    UNBOUNDED,
    Bool,
    Num,
    at_most,
    conjunction,
    every,
    implication,
    same_bool,
    z3,
)
from properties.proofs.values import EndlessSet, Value, fresh_name, member
from properties.tla.errors import InputError


@define
class KnownNumbers:
    """Such numbers, and their facts for z3."""

    facts: list[Bool] = field(factory=list[Bool])
    _numbers: dict[int, tuple[Bool, Num]] = field(factory=dict[int, tuple[Bool, Num]])
    _depth: int = 0

    def number(self, of: EndlessSet, fact: Callable[[Num], Bool]) -> Num:
        """The number with this fact about a set; the same fact gives the same number."""
        if self._depth or of.shape is not None:
            raise InputError("CHOOSE and Cardinality need a list, or one interval of numbers")
        about = z3.And(fact(Num(z3.Int("number"), -UNBOUNDED, UNBOUNDED)))
        new = Num(z3.Int(fresh_name("number")), -UNBOUNDED, UNBOUNDED)
        _, number = self._numbers.setdefault(about.get_id(), (about, new))
        self.facts.append(fact(number))
        return number

    @contextmanager
    def for_each(self) -> Generator[None]:
        """While something is evaluated for any element of a set that cannot be listed.

        What would be known then is of each element another number.
        """
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1


def is_cardinality(of: EndlessSet, size: Num) -> Bool:
    """The facts about the number of elements of a finite set.

    For 1, 2, and so on it is the last one. The names never change, so one set has one formula.
    """
    any_number = Num(z3.Int("any number"), -UNBOUNDED, UNBOUNDED)
    one, smaller = (Num(z3.Int(f"{name} number"), 1, UNBOUNDED) for name in ("one", "smaller"))
    positive = implication(member(any_number, of), at_most(1, any_number))
    within = conjunction(one.term >= 1, smaller.term >= 1, at_most(smaller, one))
    begins = implication(conjunction(within, member(one, of)), member(smaller, of))
    counts = implication(one.term >= 1, same_bool(member(one, of), at_most(one, size)))
    from_1_on = conjunction(
        every([any_number.term], positive), every([one.term, smaller.term], begins)
    )
    return conjunction(size.term >= 0, implication(from_1_on, every([one.term], counts)))


def is_chosen(of: EndlessSet, holds: Callable[[Value], Bool], one: Num) -> Bool:
    """The facts about the number that CHOOSE takes from a finite set.

    If the set has an element, exactly one is assumed to fit; this is true of Min and Max.
    """
    variables, inside, _ = of.some()
    return every(variables, implication(inside, conjunction(member(one, of), holds(one))))
