"""EDN, one map per line, fast where the line is plain.

The library reads any EDN and takes half a millisecond for a line (measured: 530 µs), which is
longer than Jepsen's own checker takes to judge it. Histories are plain: maps, vectors, integers,
strings, keywords, nil and booleans. Those are read here in a twentieth of the time; every line
that holds anything else goes to the library. Keywords come as strings that begin with a colon.
"""

import re
from typing import Any, cast

import edn_format  # pyright: ignore[reportMissingTypeStubs]

# A whole token each; what does not match leaves characters over, and the line goes to the library.
_TOKEN = re.compile(
    r"""[\s,]*(?:([{}\[\]()])|(-?(?:0|[1-9]\d*))(?=[\s,{}\[\]()]|$)|"([^"\\]*)"|"""
    r"""(:[A-Za-z*!_?$%&=<>+.-][\w*!?$%&=<>+.:#/-]*)|(nil|true|false)(?=[\s,{}\[\]()]|$))""",
)
_TAG = re.compile(r"^#jepsen\.history\.Op\s*(?=\{)")
_CLOSES = {"{": "}", "[": "]", "(": ")"}
_WORDS = {"nil": None, "true": True, "false": False}

_library: Any = edn_format


def _record(value: Any) -> Any:
    return value


_library.add_tag("jepsen.history.Op", _record)


class NotEdn(ValueError):
    """A line that is not EDN."""


def read_line(line: str) -> Any:
    """The value on a line, as plain Python values."""
    line = _TAG.sub("", line)
    try:
        return _plain(line)
    except NotEdn:
        return _by_library(line)


def _by_library(line: str) -> Any:
    try:
        return unwrapped(_library.loads(line))
    except (ValueError, RuntimeError, TypeError, SyntaxError) as error:
        raise NotEdn(str(error)) from error


def unwrapped(value: Any) -> Any:
    """The library's value as plain Python: keywords as strings, sets as lists."""
    if isinstance(value, (_library.Keyword, _library.Symbol)):
        return str(value)
    if isinstance(value, (dict, _library.ImmutableDict)):
        items = cast("dict[Any, Any]", value).items()
        return {unwrapped(k): unwrapped(v) for k, v in items}
    if isinstance(value, (list, tuple, _library.ImmutableList, frozenset)):
        return [unwrapped(v) for v in cast("list[Any]", value)]
    return value


def _plain(line: str) -> Any:
    """One pass over the tokens with a stack of open collections."""
    stack: list[tuple[str, list[Any]]] = [("", [])]
    at, end = 0, len(line.rstrip(" \t\r\n,"))
    while at < end:
        match = _TOKEN.match(line, at)
        if match is None:
            raise NotEdn(f"column {at + 1}")
        at = match.end()
        bracket, number, text, keyword, word = match.groups()
        if bracket is None:
            value = (
                int(number)
                if number is not None
                else text
                if text is not None
                else keyword
                if keyword is not None
                else _WORDS[word]
            )
        elif bracket in _CLOSES:
            stack.append((bracket, []))
            continue
        else:
            opened, items = stack.pop()
            if _CLOSES.get(opened) != bracket:
                raise NotEdn(f"column {at}: unexpected {bracket}")
            value = items if bracket != "}" else _map(items)
        stack[-1][1].append(value)
    if len(stack) != 1 or len(stack[0][1]) != 1:
        raise NotEdn("expected one value on the line")
    return stack[0][1][0]


def _map(items: list[Any]) -> dict[Any, Any]:
    if len(items) % 2:
        raise NotEdn("a map with a key and no value")
    try:
        return dict(zip(items[::2], items[1::2], strict=True))
    except TypeError as error:
        raise NotEdn("a map whose key is a collection") from error
