"""TLA+ values as TLC prints them, and as TLA+ reads them."""

import re
from collections.abc import Callable
from typing import cast

from properties.tla.values import ModelValue, Rec, Value, order

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
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
