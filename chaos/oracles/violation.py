"""The report of a broken promise."""

from attrs import frozen


@frozen
class Violation(Exception):
    """A promise was broken: which, and how it was seen."""

    oracle: str
    what: str

    def __str__(self) -> str:
        """Both, on a line."""
        return f"{self.oracle}: {self.what}"
