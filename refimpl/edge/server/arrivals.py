"""The order of the requests of one connection, some of which a fault holds back."""

from collections.abc import Callable
from typing import Generic, TypeVar

from attrs import define, field

Request = TypeVar("Request")


@define(eq=False)
class Arrivals(Generic[Request]):
    """Requests of one connection, which go on in the order in which they came, as TCP has it.

    A request that a fault holds back keeps all behind it back as well.
    """

    hand_on: Callable[[Request], None]
    #: True for a request that may go on once all before it have
    _waiting: dict[Request, bool] = field(factory=dict[Request, bool], init=False)

    def __bool__(self) -> bool:
        """True while a request waits."""
        return bool(self._waiting)

    def wait(self, request: Request) -> None:
        """Keep a request, and all that come after it, until it begins."""
        self._waiting[request] = False

    def begin(self, request: Request) -> None:
        """Hand a request on, unless another one waits before it."""
        self._waiting[request] = True
        while self._waiting:
            first = next(iter(self._waiting))
            if not self._waiting[first]:
                return
            del self._waiting[first]
            self.hand_on(first)
