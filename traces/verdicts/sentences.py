"""Sentences about findings, counted, in an operator's words: one for each check."""

from collections.abc import Iterable
from typing import Final

from traces.checks.catalogue import CHECKS
from traces.verdicts.verdict import ALLOWED, HOLDS, NOT_CHECKED, VIOLATED, Verdict

_ONE = {"s": "", "is": "is", "was": "was", "has": "has", "its": "its", "y": "y", "es": "s"}
_MANY = {"s": "s", "is": "are", "was": "were", "has": "have", "its": "their", "y": "ies", "es": ""}


def found(check: str, count: int) -> str:
    """So many findings of a check, in words."""
    return f"{count:,} {CHECKS[check].found.format_map(_ONE if count == 1 else _MANY)}"


def counted(verdict: Verdict) -> str:
    """The number of breaches of a promise, and the setting that allows or forbids them."""
    if verdict.verdict == ALLOWED:
        return f"{found(verdict.check, verdict.count)}: {verdict.reason}."
    return f"{found(verdict.check, verdict.broken)}: {_why(verdict)}."


def sentences(verdicts: Iterable[Verdict]) -> list[str]:
    """The findings in an operator's order: violated ones first, then those that are allowed."""
    listed = list(verdicts)
    lines = [counted(v) for word in (VIOLATED, ALLOWED) for v in listed if v.verdict == word]
    if not lines:
        lines = ["Nothing is violated." if any(v.verdict == HOLDS for v in listed) else NOTHING]
    held, unchecked = (sum(v.verdict == said for v in listed) for said in (HOLDS, NOT_CHECKED))
    said = "promise holds" if held == 1 else "promises hold"
    were = "was" if unchecked == 1 else "were"
    return [*lines, f"{held} {said}, {unchecked} {were} not checked."]


NOTHING: Final = "Nothing was checked."


def _why(verdict: Verdict) -> str:
    _, _, why = verdict.reason.partition("; ")
    return why or verdict.reason
