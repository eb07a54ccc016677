"""The effect of a fault, as a number in the unit of its kind."""

from attrs import frozen


@frozen
class Effect:
    """A number of milliseconds, requests, leaders; and the reason if it is none."""

    amount: int
    why: str = ""
    about: str = ""

    @classmethod
    def none(cls, why: str) -> "Effect":
        """The fault did nothing."""
        return cls(0, why)
