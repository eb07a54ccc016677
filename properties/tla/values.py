"""TLA+ values as plain, hashable Python values, and the three ways in which they are written.

Equal TLA+ values are equal Python values, however they were written: `1..3` is `{1, 2, 3}`, and a
function with domain `1..n` is the sequence it is equal to in TLA+.

| TLA+                               | Python                     | in a protocol event        |
|------------------------------------|----------------------------|----------------------------|
| number, boolean, string            | `int`, `bool`, `str`       | the same                   |
| sequence, function on `1..n`       | `tuple`                    | list                       |
| set                                | `frozenset`                | `{"set": [...]}`           |
| record, function on strings        | `Rec`                      | object                     |
| any other function                 | `Rec`                      | `{"fun": [[k, v], ...]}`   |
| model value                        | `ModelValue`               | `{"model": "name"}`        |
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeAlias, cast

from attrs import frozen

# A recursive alias would make every caller narrow at each step; canonical values are built by
# this module and compared as wholes, so "hashable" is the promise that matters.
Value: TypeAlias = Any

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_NAMED_FORMS = frozenset({"set", "fun", "model"})


class Rec(tuple[Value, ...]):
    """A record, or a function whose domain is not `1..n`: a mapping that can be hashed.

    It is a tuple `(..., key, value, key, value)` in key order underneath, so that hashing and
    comparing run at C speed; the leading `...`, which no TLA+ value contains, keeps it apart
    from the sequence with the same elements. `Rec.of` and `Rec.function` build one.
    """

    __slots__ = ()

    @classmethod
    def of(cls, **fields: Value) -> "Rec":
        """The record with these fields."""
        flat: list[Value] = [...]
        for key in sorted(fields):
            flat += (key, fields[key])
        return cls(flat)

    @classmethod
    def function(cls, pairs: Iterable[tuple[Value, Value]]) -> Value:
        """The function with these `(argument, value)` pairs: a tuple if its domain is `1..n`."""
        mapping = dict(pairs)
        count = len(mapping)
        if all(isinstance(key, int) for key in mapping) and mapping.keys() == {
            *range(1, count + 1)
        }:
            return tuple(mapping[index] for index in range(1, count + 1))
        flat: list[Value] = [...]
        for key in sorted(mapping, key=order):
            flat += (key, mapping[key])
        return cls(flat)

    def items(self) -> Iterator[tuple[Value, Value]]:
        flat = super().__iter__()
        next(flat)
        return zip(flat, flat, strict=True)

    def __iter__(self) -> Iterator[Value]:
        return (key for key, _ in self.items())

    def __len__(self) -> int:
        return super().__len__() // 2

    def __contains__(self, key: object) -> bool:
        return any(key == known for known in self)

    def __getitem__(self, key: Value) -> Value:  # pyright: ignore[reportIncompatibleMethodOverride]
        for known, value in self.items():
            if known == key:
                return value
        raise KeyError(key)

    def replace(self, **fields: Value) -> "Rec":
        """The same record with these fields changed: TLA+'s EXCEPT."""
        return Rec.of(**{**dict(self.items()), **fields})

    def __repr__(self) -> str:
        return f"Rec({to_tla(self)})"


@frozen
class ModelValue:
    """A constant that is equal to itself and to nothing else."""

    name: str


def order(value: Value) -> tuple[Any, ...]:
    """A key that sorts canonical values of any mixture, the same way in every run."""
    if isinstance(value, bool):
        return (0, value)
    if isinstance(value, int):
        return (1, value)
    if isinstance(value, str):
        return (2, value)
    if isinstance(value, ModelValue):
        return (3, value.name)
    if isinstance(value, Rec):
        return (5, len(value), tuple((order(key), order(item)) for key, item in value.items()))
    if isinstance(value, frozenset):
        members = cast("frozenset[Value]", value)
        return (6, len(members), tuple(sorted(order(member) for member in members)))
    return (4, len(value), tuple(order(item) for item in value))


# ---------------------------------------------------------------------------- TLA+ text

_TOKEN = re.compile(r'\s*(<<|>>|\|->|:>|@@|\.\.|[\[\]{}(),]|-?\d+|"(?:[^"\\]|\\.)*"|\w+)')
_ESCAPES = {"t": "\t", "n": "\n", "f": "\f", "r": "\r"}


def parse(text: str) -> Value:
    """The value that TLC printed. Raises `ValueError` that shows what could not be read."""
    try:
        return _Parser(text).whole()
    except IndexError:
        raise ValueError(f"a TLA+ value ends too early: {text!r}") from None


class _Parser:
    """Recursive descent over TLC's value syntax, which is a small part of TLA+."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = self._tokens()
        self.at = 0

    def _tokens(self) -> list[str]:
        tokens: list[str] = []
        position, end = 0, len(self.text.rstrip())
        while position < end:
            match = _TOKEN.match(self.text, position)
            if match is None:
                raise ValueError(f"not a TLA+ value at {self.text[position:].strip()[:40]!r}")
            tokens.append(match[1])
            position = match.end()
        return tokens

    def whole(self) -> Value:
        value = self.value()
        if self.at != len(self.tokens):
            raise ValueError(f"more than one TLA+ value: {self.text!r}")
        return value

    def take(self, wanted: str | None = None) -> str:
        token = self.tokens[self.at]
        if wanted is not None and token != wanted:
            raise ValueError(f"expected {wanted!r} and found {token!r} in {self.text!r}")
        self.at += 1
        return token

    def ahead(self, token: str) -> bool:
        return self.at < len(self.tokens) and self.tokens[self.at] == token

    def value(self) -> Value:
        first = self.single()
        if not self.ahead(".."):
            return first
        self.take()
        return frozenset(range(first, self.single() + 1))

    def single(self) -> Value:
        token = self.take()
        inner = _BRACKETS.get(token)
        if inner is not None:
            return inner(self)
        if token[0] == '"':
            return re.sub(r"\\(.)", lambda seen: _ESCAPES.get(seen[1], seen[1]), token[1:-1])
        if token[0].isdigit() or (token[0] == "-" and token != "->"):
            return int(token)
        if token in ("TRUE", "FALSE"):
            return token == "TRUE"
        if not _NAME.match(token):
            raise ValueError(f"unexpected {token!r} in {self.text!r}")
        return ModelValue(token)

    def listed(self, end: str) -> list[Value]:
        found: list[Value] = []
        while not self.ahead(end):
            if found:
                self.take(",")
            found.append(self.value())
        self.take(end)
        return found

    def sequence(self) -> Value:
        return tuple(self.listed(">>"))

    def set(self) -> Value:
        return frozenset(self.listed("}"))

    def record(self) -> Value:
        pairs: list[tuple[Value, Value]] = []
        while not self.ahead("]"):
            if pairs:
                self.take(",")
            name = self.take()
            self.take("|->")
            pairs.append((name, self.value()))
        self.take("]")
        return Rec.function(pairs)

    def function(self) -> Value:
        pairs: list[tuple[Value, Value]] = []
        while not self.ahead(")"):
            if pairs:
                self.take("@@")
            key = self.value()
            self.take(":>")
            pairs.append((key, self.value()))
        self.take(")")
        return Rec.function(pairs)


_BRACKETS: dict[str, Callable[[_Parser], Value]] = {
    "<<": _Parser.sequence,
    "{": _Parser.set,
    "[": _Parser.record,
    "(": _Parser.function,
}


def to_tla(value: Value) -> str:
    """The value in TLA+ syntax, sets and fields in a fixed order."""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, ModelValue):
        return value.name
    if isinstance(value, Rec):
        return _mapping(value)
    if isinstance(value, frozenset):
        members = cast("frozenset[Value]", value)
        return "{" + ", ".join(map(to_tla, sorted(members, key=order))) + "}"
    if isinstance(value, tuple):
        return "<<" + ", ".join(map(to_tla, cast("tuple[Value, ...]", value))) + ">>"
    raise TypeError(f"not a canonical TLA+ value: {value!r}")


def _mapping(function: Rec) -> str:
    if all(isinstance(key, str) and _NAME.match(key) for key in function):
        return "[" + ", ".join(f"{key} |-> {to_tla(item)}" for key, item in function.items()) + "]"
    pairs = (f"{to_tla(key)} :> {to_tla(item)}" for key, item in function.items())
    return "(" + " @@ ".join(pairs) + ")"


def _quoted(text: str) -> str:
    text = text.replace("\\", "\\\\").replace('"', '\\"')
    for letter, sign in _ESCAPES.items():
        text = text.replace(sign, "\\" + letter)
    return f'"{text}"'


# ---------------------------------------------------------------------------- protocol events


def to_json(value: Value) -> Any:
    """The value as it stands in a protocol event (NDJSON)."""
    if isinstance(value, bool | int | str):
        return value
    if isinstance(value, ModelValue):
        return {"model": value.name}
    if isinstance(value, frozenset):
        members = cast("frozenset[Value]", value)
        return {"set": [to_json(member) for member in sorted(members, key=order)]}
    if isinstance(value, Rec):
        plain = all(isinstance(key, str) for key in value)
        if plain and not (len(value) == 1 and next(iter(value)) in _NAMED_FORMS):
            return {key: to_json(item) for key, item in value.items()}
        return {"fun": [[to_json(key), to_json(item)] for key, item in value.items()]}
    if isinstance(value, tuple):
        return [to_json(item) for item in cast("tuple[Value, ...]", value)]
    raise TypeError(f"not a canonical TLA+ value: {value!r}")


def from_json(data: Any) -> Value:
    """The value that a protocol event states. Raises `ValueError` for what no value looks like."""
    if isinstance(data, int) and not -(2**31) <= data < 2**31:
        raise ValueError(f"{data} does not fit into the 32 bits of TLC's integers")
    if isinstance(data, bool | int | str):
        return data
    if isinstance(data, list):
        return tuple(from_json(item) for item in cast("list[Any]", data))
    if isinstance(data, Mapping):
        return _from_object(cast("Mapping[str, Any]", data))
    raise ValueError(
        f"{data!r} is no TLA+ value: expected integers, strings, booleans, lists and objects"
    )


def _from_object(data: Mapping[str, Any]) -> Value:
    form = next(iter(data)) if len(data) == 1 else ""
    inner = data[form] if form in _NAMED_FORMS else None
    if form == "model" and isinstance(inner, str):
        return ModelValue(inner)
    if form == "set" and isinstance(inner, list):
        return frozenset(from_json(item) for item in cast("list[Any]", inner))
    if form == "fun" and isinstance(inner, list):
        pairs = cast("list[tuple[Any, Any]]", inner)
        return Rec.function((from_json(key), from_json(item)) for key, item in pairs)
    if form in _NAMED_FORMS:
        raise ValueError(
            f"{form!r} marks a {form} here; a record with only that field is "
            'written {"fun": [[key, value], ...]}'
        )
    return Rec.function((key, from_json(item)) for key, item in data.items())
