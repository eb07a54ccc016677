"""Producer ids for idempotent producers, from blocks that the controller allocates (KIP-730)."""

from collections import deque

from attrs import define, field

from refimpl.broker.context import Context
from refimpl.messages.broker import Request, Response
from refimpl.messages.controller import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
    InitProducerIdResponse,
)
from refimpl.messages.observations import Refused


@define(eq=False)
class ProducerIds:
    """The ids that this broker may give out, and the requests that wait for some.

    `asked` is the correlation id of the request for a block that has no answer, 0 for none.
    """

    context: Context
    next: int = 0
    end: int = 0
    asked: int = 0
    waiting: deque[Request] = field(factory=deque[Request])

    def init(self, request: Request) -> None:
        """Give a producer without transactions an id that no other has had.

        A producer that names its own id gets a new one too: it may raise its epoch by itself
        (KIP-360).
        """
        self.waiting.append(request)
        self._serve()

    def _serve(self) -> None:
        while self.waiting and self.next < self.end:
            self.context.respond(self.waiting.popleft(), InitProducerIdResponse(None, self.next, 0))
            self.next += 1
        if self.waiting and not self.asked:
            self.ask()

    def ask(self) -> None:
        """Ask for a block, again if no answer came; a block whose answer was lost is not used."""
        context = self.context
        if self.waiting and context.broker_epoch >= 0:
            body = AllocateProducerIdsRequest(context.id, context.broker_epoch)
            self.asked = context.request(context.controller, body)

    def allocated(self, response: Response) -> None:
        """Take the controller's answer."""
        body: AllocateProducerIdsResponse = response.body
        if response.correlation_id != self.asked:
            return
        self.asked = 0
        if body.error is not None:
            self.context.outputs.append(Refused("AllocateProducerIds", body.error))
            return
        self.next, self.end = body.first_producer_id, body.first_producer_id + body.length
        self._serve()
