"""EDN for the second checker: one form after the other, from the text as a whole.

Keywords are strings that begin with a colon, symbols and characters are strings, lists and sets are
lists; a tag in front of a form is dropped. Text that is not EDN raises `ValueError`: the first
checker has reported it to the user before.
"""

import re
from collections.abc import Iterator
from typing import Any, cast

_TOKEN = re.compile(
    r"""[\s,]+|;[^\n]*                      # nothing
    |(?P<open>\#\{|[\[({])|(?P<close>[\])}])
    |"(?P<string>(?:[^"\\]|\\.)*)"
    |(?P<before>\#_|\#(?![_{\#])[^\s,;{}\[\]()"]+)   # discards the next form, or is its tag
    |(?P<atom>\\.[^\s,;{}\[\]()"]*|[^\s,;{}\[\]()"]+)""",
    re.VERBOSE | re.DOTALL,
)
_INTEGER = re.compile(r"[+-]?\d+N?")
_ESCAPED = {"t": "\t", "r": "\r", "n": "\n", "b": "\b", "f": "\f"}
_ENDS = {"(": ")", "[": "]", "{": "}", "#{": "}"}
_WORDS: dict[str, Any] = {"nil": None, "true": True, "false": False}
_DISCARD = object()
# The bracket that opened it, what is in it so far, and whether its elements are forms.
_Open = tuple[str, list[Any], bool]


def forms(text: str) -> Iterator[Any]:
    """The forms of a text; the elements of a vector or list that is no element itself, too."""
    stack: list[_Open] = []
    at, top = 0, list[Any]()
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise ValueError(f"unexpected {text[at]}")
        at, kind, word = found.end(), found.lastgroup, found[0]
        if kind is None:
            continue
        if kind == "open":
            discarded = bool(top) and not stack
            stack.append((word, [], not stack and word in "([" and not discarded))
            continue
        if kind == "close":
            if not stack or _ENDS[stack[-1][0]] != word:
                raise ValueError(f"unexpected {word}")
            bracket, items, split = stack.pop()
            if split:
                continue
            value: Any = _map(items) if bracket == "{" else items
        elif kind == "before":
            value = _DISCARD if word == "#_" else None
            if value is None:
                continue  # a tag
        else:
            value = _string(found["string"]) if kind == "string" else _atom(word)
        inside = stack[-1][1] if stack else top
        if inside and inside[-1] is _DISCARD and value is not _DISCARD:
            inside.pop()
        else:
            inside.append(value)
        outermost = not stack or (len(stack) == 1 and stack[0][2])
        if outermost and inside and inside[-1] is not _DISCARD:
            yield inside.pop()
    if stack:
        raise ValueError(f"expected {_ENDS[stack[-1][0]]} before the end")


def _map(items: list[Any]) -> dict[Any, Any]:
    keys = [tuple(cast("list[Any]", key)) if type(key) is list else key for key in items[::2]]
    return dict(zip(keys, items[1::2], strict=True))


def _string(inside: str) -> str:
    if "\\" not in inside:
        return inside
    plain = re.sub(r"\\u([0-9A-Fa-f]{4})", lambda m: chr(int(m[1], 16)), inside)
    return re.sub(r"\\(.)", lambda m: _ESCAPED.get(m[1], m[1]), plain, flags=re.DOTALL)


def _atom(word: str) -> Any:
    if word in _WORDS:
        return _WORDS[word]
    if word[0] == ":":
        return word
    if _INTEGER.fullmatch(word):
        return int(word.removesuffix("N"))
    if word[0] == "\\":
        return word[1:]
    try:
        return float(word.removesuffix("M"))
    except ValueError:
        return word
