"""Numbers of which a formula is known and nothing else: what CHOOSE takes, and Cardinality.

Of a set that cannot be listed, as the offsets of a log of any length, neither can be computed. So
z3 is given a new constant, and what is true of it.
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
class Known:
    """Such numbers, and the facts about them that z3 must be told."""

    facts: list[Bool] = field(factory=list[Bool])
    _numbers: dict[int, tuple[Bool, Num]] = field(factory=dict[int, tuple[Bool, Num]])
    _depth: int = 0

    def number(self, of: EndlessSet, fact: Callable[[Num], Bool]) -> Num:
        """The number with this fact about a set; the same one where the fact is the same."""
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
    """What is known of how many numbers there are in a finite set.

    Of 1, 2, and so on it is the last one. The names are always the same, so that the same set has
    the same formula.
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
    """What is known of the number that CHOOSE takes from a finite set.

    Where there is any, one is taken to fit, and only one: so it is of Min and Max.
    """
    variables, inside, _ = of.some()
    return every(variables, implication(inside, conjunction(member(one, of), holds(one))))
