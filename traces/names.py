"""Dictionaries beside the table of operations: every name has a small integer."""

from hashlib import blake2b

from attrs import define, field

from traces.schema import NONE


@define
class Dictionary:
    """Numbers names in the order in which they are first seen."""

    names: list[str] = field(factory=list[str])
    _numbers: dict[str, int] = field(factory=dict[str, int])

    def number(self, name: str) -> int:
        """The number of `name`, a new one if it is new."""
        known = self._numbers.get(name)
        if known is None:
            known = self._numbers[name] = len(self.names)
            self.names.append(name)
        return known

    def name(self, number: int) -> str:
        """The name behind a number, empty where there is none."""
        return self.names[number] if 0 <= number < len(self.names) else ""


@define
class Names:
    """All dictionaries of one run."""

    processes: Dictionary = field(factory=Dictionary)
    topics: Dictionary = field(factory=Dictionary)
    groups: Dictionary = field(factory=Dictionary)
    members: Dictionary = field(factory=Dictionary)
    clocks: Dictionary = field(factory=Dictionary)
    transactional_ids: Dictionary = field(factory=Dictionary)
    keys: Dictionary = field(factory=Dictionary)
    topic_ids: Dictionary = field(factory=Dictionary)
    instances: Dictionary = field(factory=Dictionary)
    files: dict[int, str] = field(factory=dict[int, str])
    ids: dict[int, str | int] = field(factory=dict[int, str | int])

    def id(self, value: str | int | None) -> int:
        """The integer that stands for a record's id.

        A natural number stands for itself, so that a trace of a hundred billion records needs no
        dictionary of its ids. Anything else is hashed to a negative number, which needs no
        agreement between the readers of different files; two ids with one hash are an error here,
        not a verdict.
        """
        if value is None:
            return NONE
        if type(value) is int and value >= 0:
            return value
        hashed = _hashed(value)
        known = self.ids.setdefault(hashed, value)
        if known != value:
            raise ValueError(f"the ids {known!r} and {value!r} have the same hash")
        return hashed

    def id_name(self, number: int) -> str | int | None:
        """The id as the trace has it."""
        if number == NONE:
            return None
        return self.ids.get(number, number)


def _hashed(value: str | int) -> int:
    """A negative 62-bit number below NONE."""
    digest = blake2b(f"{type(value).__name__}:{value}".encode(), digest_size=8).digest()
    return -2 - (int.from_bytes(digest, "big") >> 2)
