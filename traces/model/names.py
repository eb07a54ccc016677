"""Dictionaries beside the table of operations: every name is a number there.

Pieces of a trace are read apart, in any order, and again after a crash, so a number must not
depend on who saw the name first. The names that are known before anything is read (the processes,
and what meta.json tells of) are counted from 0, because small numbers sort fast; all others get a
number from a hash, above all counted ones.
"""

from collections.abc import Iterable, Mapping
from hashlib import blake2b

from attrs import define, field

from traces.model.problems import BadInput, Problem
from traces.model.schema import NONE

NARROW, WIDE = 31, 62  # bits of a number: of an int32 column, of an int64 column


def same_number(what: str, one: str, other: str) -> BadInput:
    """The refusal of two names with one number, which no table could tell apart."""
    first, second = sorted((one, other))
    message = f"{first} and {second} have the same number here: name one of them in meta.json"
    return BadInput([Problem("meta.json", None, what, message)], 1)


@define
class Dictionary:
    """The numbers of one kind of name. With `counts` every new name gets the next one."""

    what: str
    bits: int = NARROW
    counts: bool = False
    known: Mapping[str, int] = field(factory=dict[str, int])  # what `fresh` took over
    _numbers: dict[str, int] = field(factory=dict[str, int])
    _names: dict[int, str] = field(factory=dict[int, str])

    def fresh(self) -> "Dictionary":
        """A dictionary that gives the same numbers, and tells only of names that it was asked."""
        return Dictionary(self.what, self.bits, known=self._numbers)

    def seed(self, names: Iterable[str]) -> None:
        """Count these names, in this order, before any other is seen."""
        for number, name in enumerate(dict.fromkeys(names), len(self._names)):
            self.put(name, number)

    def number(self, name: str) -> int:
        """The number of `name`."""
        known = self._numbers.get(name)
        if known is None:
            known = self.known.get(name)
            if known is None:
                known = len(self._names) if self.counts else self._hashed(name)
            self.put(name, known)
        return known

    def _hashed(self, name: str) -> int:
        high = 1 << (self.bits - 1)
        return high | (hashed(name) & (high - 1))

    def put(self, name: str, number: int) -> None:
        """Learn a number that was given elsewhere."""
        known = self._names.setdefault(number, name)
        if known != name:
            raise same_number(self.what, repr(known), repr(name))
        self._numbers[name] = number

    def name(self, number: int) -> str:
        """The name behind a number, empty where there is none."""
        return self._names.get(number, "")

    @property
    def names(self) -> list[str]:
        """All names, by number."""
        return [self._names[number] for number in self.numbers]

    @property
    def numbers(self) -> list[int]:
        """All numbers that stand for a name."""
        return sorted(self._names)


@define
class Names:
    """All dictionaries of one run; those of names that may be very many are wide."""

    processes: Dictionary = field(factory=lambda: Dictionary("processes"))
    topics: Dictionary = field(factory=lambda: Dictionary("topics"))
    groups: Dictionary = field(factory=lambda: Dictionary("groups"))
    clocks: Dictionary = field(factory=lambda: Dictionary("clocks"))
    members: Dictionary = field(factory=lambda: Dictionary("members", WIDE))
    transactional_ids: Dictionary = field(factory=lambda: Dictionary("transactional ids", WIDE))
    topic_ids: Dictionary = field(factory=lambda: Dictionary("topic ids", WIDE))
    instances: Dictionary = field(factory=lambda: Dictionary("instances", WIDE))
    files: dict[int, str] = field(factory=dict[int, str])
    ids: dict[int, str | int] = field(factory=dict[int, str | int])

    @classmethod
    def counted(cls) -> "Names":
        """Dictionaries for one reader of everything, who may count."""
        names = cls()
        for dictionary in names.dictionaries().values():
            dictionary.counts = True
        return names

    @classmethod
    def seeded(cls, known: Mapping[str, Iterable[str]]) -> "Names":
        """Dictionaries in which these names are counted, and no others."""
        names = cls()
        for kind, dictionary in names.dictionaries().items():
            dictionary.seed(known.get(kind, ()))
        return names

    def fresh(self) -> "Names":
        """Names for the reader of one piece."""
        names = Names()
        for kind, dictionary in self.dictionaries().items():
            setattr(names, kind, dictionary.fresh())
        return names

    def dictionaries(self) -> dict[str, Dictionary]:
        """Every dictionary by its name here."""
        return {name: d for name in _DICTIONARIES for d in (getattr(self, name),)}

    def learn(self, numbers: Mapping[str, Mapping[str, int]]) -> None:
        """Take over what another reader saw."""
        for kind, dictionary in self.dictionaries().items():
            for name, number in numbers.get(kind, {}).items():
                dictionary.put(name, number)

    def met(self) -> dict[str, dict[str, int]]:
        """All names and numbers, for another reader."""
        return {
            kind: dict(zip(d.names, d.numbers, strict=True))
            for kind, d in self.dictionaries().items()
        }

    def id(self, value: str | int | None) -> int:
        """The integer that stands for a record's id.

        A natural number stands for itself, so that a trace of a hundred billion records needs no
        dictionary of its ids. Anything else is hashed to a negative number, which needs no
        agreement between the readers of different files; two ids with one hash are an error here,
        not a verdict.
        """
        if value is None:
            return NONE
        if type(value) is int and 0 <= value < 2**63:
            return value
        number = id_number(value)
        self.know_id(number, value)
        return number

    def know_id(self, number: int, value: str | int) -> None:
        """Learn which id a number stands for."""
        known = self.ids.setdefault(number, value)
        if known != value:
            raise same_number("ids", repr(known), repr(value))

    def id_name(self, number: int) -> str | int | None:
        """The id as the trace has it."""
        if number == NONE:
            return None
        return self.ids.get(number, number)


_DICTIONARIES = (
    "processes",
    "topics",
    "groups",
    "clocks",
    "members",
    "transactional_ids",
    "topic_ids",
    "instances",
)


def id_number(value: str | int) -> int:
    """A negative 62-bit number below NONE."""
    return -2 - hashed(f"{type(value).__name__}:{value}")


def hashed(text: str) -> int:
    """A natural number of 62 bits, the same on every machine."""
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big") >> 2


def key_number(text: str) -> int:
    """The number of a record's key: too many to be kept, and of no interest but whether equal."""
    return hashed(text)
