"""Mistakes in an input, said so that its owner can mend them."""

from typing import Any

from attrs import define, field, frozen


@frozen
class Problem:
    """One place of an input that is not what the format says."""

    file: str
    line: int | None
    field: str
    message: str

    def __str__(self) -> str:
        location = self.file if self.line is None else f"{self.file}:{self.line}"
        return (
            f"{location}: {self.field}: {self.message}"
            if self.field
            else f"{location}: {self.message}"
        )


@define
class BadInput(Exception):
    """An input that cannot be judged, with everything found wrong (the first few kept)."""

    problems: list[Problem] = field(factory=list[Problem])
    count: int = 0

    def __str__(self) -> str:
        shown = "\n".join(str(problem) for problem in self.problems)
        more = self.count - len(self.problems)
        return f"{shown}\n… and {more} more" if more > 0 else shown


SHOWN = 20
_LONGEST = 80


def shown(value: Any) -> str:
    """A value as a message shows it: not longer than a line, whatever it is."""
    if type(value) is int and abs(value) >= 10**_LONGEST:
        return f"a number of more than {_LONGEST} digits"
    try:
        text = repr(value)
    except (RecursionError, ValueError):  # nested too deep; a number too long to be written
        return f"a {type(value).__name__}"
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


@define
class Problems:
    """Counts problems and keeps the first few."""

    first: list[Problem] = field(factory=list[Problem])
    count: int = 0

    def add(self, file: str, line: int | None, field: str, message: str) -> None:
        """Note one problem."""
        self.count += 1
        if len(self.first) < SHOWN:
            self.first.append(Problem(file, line, field, message))

    def raise_any(self) -> None:
        """Refuse the input if anything was wrong with it."""
        if self.count:
            raise BadInput(self.first, self.count)
