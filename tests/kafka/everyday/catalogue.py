"""The operations of a year: each by name, with what people do and how it is played."""

from collections.abc import Callable

from attrs import field, frozen

from tests.kafka.everyday.administrator import Administrator
from tests.kafka.everyday.clients import Clients

#: It is played, sees to it that it has happened, and tells the evidence in one sentence.
Play = Callable[[Administrator, Clients], str]


def _ids(words: str) -> frozenset[str]:
    return frozenset(words.split())


@frozen
class Operation:
    """Something that is done to a healthy cluster, or by its applications.

    `allowed` and `undecided` are the checks that may say so; all others hold, or see nothing.
    """

    name: str
    title: str
    played: str
    play: Play
    alone: bool
    allowed: frozenset[str] = field(converter=_ids)
    undecided: frozenset[str] = field(converter=_ids)


OPERATIONS: dict[str, Operation] = {}


def operation(
    title: str, *, alone: bool = False, allowed: str = "", undecided: str = ""
) -> Callable[[Play], Play]:
    """Put a function into the catalogue. Its docstring tells how the operation is played.

    What is played `alone` disturbs the whole cluster; the others run beside each other.
    """

    def put(play: Play) -> Play:
        name = play.__name__.replace("_", "-")
        played = " ".join((play.__doc__ or "").split())
        OPERATIONS[name] = Operation(name, title, played, play, alone, allowed, undecided)
        return play

    return put
