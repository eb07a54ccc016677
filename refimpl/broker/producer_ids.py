"""Producer ids, from blocks that the controller allocates (KIP-730)."""

from collections import deque
from collections.abc import Callable

from attrs import define, field

from refimpl.broker.context import Context
from refimpl.messages.broker import Request, Response
from refimpl.messages.controller import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
    InitProducerIdResponse,
)
from refimpl.messages.observations import Refused
from refimpl.transactions.errors import NoProducerIds


@define(eq=False)
class ProducerIds:
    """The ids that this broker may give out, and the requests that wait for some.

    `asked` has the correlation ids of requests for a block that have no answer. Any of them may
    bring one: an answer may take longer than a heartbeat interval, after which it asks again.
    """

    context: Context
    next: int = 0
    end: int = 0
    asked: set[int] = field(factory=set[int])
    #: Each is called with the time once an id is at hand, which it may take
    waiting: deque[Callable[[int], None]] = field(factory=deque[Callable[[int], None]])

    @property
    def available(self) -> bool:
        """True if an id is at hand."""
        return self.next < self.end

    def init(self, now: int, request: Request) -> None:
        """Give a producer without transactions an id that no other has had.

        A producer that names its own id gets a new one too: it may raise its epoch by itself
        (KIP-360).
        """
        self.wait(lambda _: self._give(request))
        self._serve(now)

    def _give(self, request: Request) -> None:
        self.context.respond(request, InitProducerIdResponse(None, self.take(), 0))

    def take(self) -> int:
        """Take an id. Raises NoProducerIds."""
        if not self.available:
            raise NoProducerIds(self.context.id)
        self.next += 1
        return self.next - 1

    def wait(self, then: Callable[[int], None]) -> None:
        """Call a function once an id is at hand."""
        self.waiting.append(then)
        if not self.available and not self.asked:
            self.ask()

    def _serve(self, now: int) -> None:
        while self.waiting and self.available:
            self.waiting.popleft()(now)
        if self.waiting and not self.asked:
            self.ask()

    def ask(self) -> None:
        """Ask for a block, again if no answer came; a block whose answer was lost is not used."""
        context = self.context
        if self.waiting and context.broker_epoch >= 0:
            body = AllocateProducerIdsRequest(context.id, context.broker_epoch)
            self.asked.add(context.request(context.controller, body))

    def allocated(self, now: int, response: Response) -> None:
        """Take the controller's answer, once: no producer id is given out twice."""
        body: AllocateProducerIdsResponse = response.body
        if response.correlation_id not in self.asked:
            return
        self.asked.discard(response.correlation_id)
        if body.error is not None:
            self.context.outputs.append(Refused("AllocateProducerIds", body.error))
            return
        self.asked.clear()
        self.next, self.end = body.first_producer_id, body.first_producer_id + body.length
        self._serve(now)
