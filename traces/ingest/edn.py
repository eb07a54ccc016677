"""EDN as a stream of forms, so that no file is too long for memory and nothing in it is dropped.

Own code, because the library that was used takes half a millisecond for a map, and drops without a
word what follows the first form of a text. All of EDN is read. Keywords are strings that begin
with a colon; symbols and characters are strings; lists and sets are lists. A tag in front of a map
is the name of a record and is dropped; any other tagged value is a map of the tag to the value.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any, cast

from attrs import define, field

_END = r"(?=[\s,{}\[\]()\";]|$)"
# A whole token each; what begins none of them is a mistake. The commonest come first.
_TOKEN = re.compile(
    rf"""[\s,]*(?:
        ([{{}}\[\]()]|\#\{{|\#_)                                      # 1  brackets, discard
      | (-?(?:0|[1-9][0-9]*)){_END}                                   # 2  whole number
      | (:[^\s,{{}}\[\]()\";\\^`~@]+){_END}                           # 3  keyword
      | "([^"\\]*(?:\\.[^"\\]*)*)"                                    # 4  string
      | ([+-]?[0-9]+(?:N|/[0-9]+|(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?M?)){_END}  # 5  other number
      | ((?![0-9\#:])[^\s,{{}}\[\]()\";\\^`~@]+){_END}                # 6  nil, true, false, symbol
      | \#([A-Za-z][^\s,{{}}\[\]()\";\\^`~@]*)                        # 7  tag
      | \\(u[0-9A-Fa-f]{{4}}|[a-z]+|.){_END}                          # 8  character
      | \#\#(Inf|-Inf|NaN){_END}                                      # 9
      | (;.*|$)                                                       # 10 remark, end of line
    )""",
    re.VERBOSE | re.DOTALL,
)
_BRACKET, _INT, _KEYWORD, _STRING, _NUMBER, _WORD, _TAG, _CHARACTER, _FLOAT = range(1, 10)
_CLOSES = {"{": "}", "[": "]", "(": ")", "#{": "}"}
_WORDS: dict[str, Any] = {"nil": None, "true": True, "false": False}
_CHARACTERS = {
    **{"newline": "\n", "return": "\r", "space": " ", "tab": "\t"},
    **{"formfeed": "\f", "backspace": "\b"},
}
_ESCAPE = re.compile(r"\\(u[0-9A-Fa-f]{4}|.)", re.DOTALL)
_ESCAPES = {"t": "\t", "r": "\r", "n": "\n", "b": "\b", "f": "\f", '"': '"', "\\": "\\"}
_INSIDE = re.compile(r'[^"\\]*(?:\\.[^"\\]*)*', re.DOTALL)  # a string
_DIGITS = 1_000  # more than any number of a history has


class NotEdn(ValueError):
    """A text that is not EDN, with its line."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(message)
        self.line = line


def forms(lines: Iterable[bytes], split: bool = True) -> Iterator[tuple[int, Any]]:
    """The forms of a file, each with the line on which it begins.

    With `split` the elements of a vector (or list) that is no element itself are forms, too: so a
    history may be one vector of maps, or one map after the other. Raises `NotEdn`.
    """
    reader, number = _Reader(split), 0
    for number, raw in enumerate(lines, 1):
        try:
            line = raw.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            raise NotEdn(number, f"expected UTF-8, found byte {raw[error.start]:#04x}") from None
        reader.line = number
        if reader.quoted:
            line = reader.rest_of_string(line)
        yield from reader.read(line)
    reader.end()


@define
class _Open:
    """A collection that is not closed yet, or a tag that waits for its value."""

    bracket: str
    line: int
    items: list[Any] = field(factory=list[Any])


@define
class _Reader:
    """One pass over the tokens with a stack of what is open."""

    split: bool = True
    line: int = 1
    quoted: list[str] = field(factory=list[str])  # a string that goes on on the next line
    _stack: list[_Open] = field(factory=lambda: [_Open("", 0)])
    _began: int = 0  # the line on which the form that is being read begins

    def read(self, line: str) -> Iterator[tuple[int, Any]]:
        """The forms that end on this line."""
        match, stack, top = _TOKEN.match, self._stack, self._top()
        items, at, end, opened = stack[-1].items, 0, len(line), _Open
        while at < end:
            found = match(line, at)
            if found is None:
                return self._no_token(line, at)
            at, kind = found.end(), found.lastindex
            if kind == _INT:
                items.append(self._int(found[_INT]))
            elif kind == _KEYWORD:
                items.append(found[_KEYWORD])
            elif kind == _BRACKET:
                bracket = found[_BRACKET]
                if bracket in _CLOSES or bracket == "#_":
                    if len(stack) <= top:
                        self._began = self.line
                    stack.append(opened(bracket, self.line))
                    items, top = stack[-1].items, self._top()
                    continue
                self._close(bracket)
                items, top = stack[-1].items, self._top()
            elif kind == _TAG:
                if len(stack) <= top:
                    self._began = self.line
                stack.append(opened(f"#{found[_TAG]}", self.line))
                items = stack[-1].items
                continue
            elif kind is not None and kind <= _FLOAT:
                items.append(self._rare(kind, found[kind]))
            else:
                continue  # a remark
            if stack[-1].bracket[:1] == "#" and stack[-1].bracket != "#{":
                self._tagged()
                items = stack[-1].items
            if len(stack) <= top:
                began = self._began or self.line
                self._began = 0
                for value in items:
                    yield began, value
                items.clear()

    def rest_of_string(self, line: str) -> str:
        """The line from the end of the string on that began on an earlier one, if it ends here."""
        found = _INSIDE.match(line)
        end = found.end() if found else 0
        self.quoted.append(line)
        if end >= len(line):
            return ""
        whole = "".join(self.quoted)
        self.quoted = []
        return whole

    def end(self) -> None:
        """Nothing comes any more."""
        if self.quoted:
            raise NotEdn(self.line, "a string is not closed")
        if len(self._stack) > 1:
            left = self._stack[-1]
            what = _CLOSES.get(left.bracket)
            expected = f"expected {what}" if what else f"expected a value after {left.bracket}"
            raise NotEdn(
                left.line, f"{expected}, found the end of the file: what follows is missing"
            )

    def _top(self) -> int:
        """The stack depth of a form that is handed out: 1, or 2 inside the outermost vector."""
        return 1 + (self.split and len(self._stack) > 1 and self._stack[1].bracket in ("[", "("))

    def _no_token(self, line: str, at: int) -> None:
        rest = line[at:].lstrip(" \t\r\n,")
        if not rest.startswith('"'):
            raise NotEdn(self.line, f"column {len(line) - len(rest) + 1}: no token of EDN")
        if _INSIDE.fullmatch(rest, 1) is None and not rest.endswith("\\"):
            raise NotEdn(self.line, f"column {len(line) - len(rest) + 1}: no string of EDN")
        self.quoted = [rest]

    def _close(self, bracket: str) -> None:
        left = self._stack.pop()
        if _CLOSES.get(left.bracket) != bracket:
            wanted = _CLOSES.get(left.bracket)
            expected = f", expected {wanted} for line {left.line}" if wanted else ""
            raise NotEdn(self.line, f"unexpected {bracket}{expected}")
        if not self._stack:
            raise NotEdn(self.line, f"unexpected {bracket}")
        outermost = self.split and len(self._stack) == 1 and bracket in "])"
        if not outermost:
            value = left.items if left.bracket != "{" else self._map(left.items)
            self._stack[-1].items.append(value)

    def _tagged(self) -> None:
        """The value of a tag is there, and it may be that of another tag."""
        while (tag := self._stack[-1]).bracket[:1] == "#" and tag.bracket != "#{":
            if not tag.items:
                return
            self._stack.pop()
            if tag.bracket == "#_":
                return
            (value,) = tag.items
            self._stack[-1].items.append(value if type(value) is dict else {tag.bracket: value})

    def _int(self, digits: str) -> int:
        if len(digits) > _DIGITS:
            raise NotEdn(self.line, f"a number of {len(digits):,} digits")
        return int(digits)

    def _rare(self, kind: int, text: str) -> Any:
        if kind == _WORD:
            return _WORDS.get(text, text)
        if kind == _STRING:
            return _ESCAPE.sub(self._escaped, text) if "\\" in text else text
        if kind == _NUMBER:
            return self._number(text)
        if kind == _CHARACTER:
            named = _CHARACTERS.get(text)
            if named is None and len(text) > 1 and text[0] != "u":
                raise NotEdn(self.line, f"no character of EDN: \\{text}")
            return named or (self._character(text[1:]) if len(text) > 1 else text)
        return float(text)

    def _number(self, text: str) -> Any:
        if text.endswith("N") or text.lstrip("+").isdecimal():
            digits = text.rstrip("N").lstrip("+")
            if digits.lstrip("-")[:1] == "0" and digits.lstrip("-") != "0":
                raise NotEdn(self.line, f"a number that begins with 0: {text[:40]}")
            return self._int(digits)
        if "/" in text:
            return text
        return float(text.rstrip("M"))

    def _escaped(self, found: re.Match[str]) -> str:
        escape = found[1]
        if escape in _ESCAPES:
            return _ESCAPES[escape]
        if len(escape) == 1:
            raise NotEdn(self.line, f"no escape of EDN: \\{escape}")
        return self._character(escape[1:])

    def _character(self, digits: str) -> str:
        """A character by its number; half of a pair of UTF-16 is none."""
        number = int(digits, 16)
        if 0xD800 <= number <= 0xDFFF:
            raise NotEdn(self.line, f"a lone surrogate: \\u{digits}")
        return chr(number)

    def _map(self, items: list[Any]) -> dict[Any, Any]:
        if len(items) % 2:
            raise NotEdn(self.line, "a map with a key and no value")
        keys = items[::2]
        try:
            found = dict(zip(keys, items[1::2], strict=True))
        except TypeError:  # a key that is a collection
            keys = [_hashable(key) for key in keys]
            found = dict(zip(keys, items[1::2], strict=True))
        if len(found) < len(keys):
            twice = next(key for n, key in enumerate(keys) if key in keys[:n])
            raise NotEdn(self.line, f"a map with the key {str(twice)[:40]} twice")
        return found


def _hashable(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_hashable(one) for one in cast("list[Any]", value))
    if isinstance(value, dict):
        return frozenset((k, _hashable(v)) for k, v in cast("dict[Any, Any]", value).items())
    return value
