"""The connections and the timer of a client's machine, hosted in a run."""

from collections.abc import Iterator

from attrs import define, field

from chaos.sim.simulation import Simulation
from refimpl.clients.network import node_of
from refimpl.messages.broker import Request, Response, Timer


@define(eq=False)
class ConnectedClient:
    """All connections of one client, each in order; its machine knows them by targets."""

    id: int
    simulation: Simulation
    #: The requests so far, of all processes of the client
    requests: int = 0
    #: By target: the requests that wait, each as the machine knows it, and its answer
    _waiting: dict[int, dict[int, tuple[Request, Response | None]]] = field(
        factory=dict[int, dict[int, tuple[Request, Response | None]]]
    )
    _targets: dict[int, int] = field(factory=dict[int, int])
    _due_ms: int = -1

    def __attrs_post_init__(self) -> None:
        """Brokers read this client's requests in order."""
        self.simulation.connections.clients.add(self.id)

    def send(self, request: Request, *, expects_answer: bool = True) -> int:
        """Send a machine's request; its number is this client's own."""
        self.requests += 1
        number, target = self.requests, request.target
        if expects_answer:
            self._waiting.setdefault(target, {})[number] = request, None
            self._targets[number] = target
        sent = Request(self.id, node_of(target), number, request.body)
        self.simulation.connections.send(sent, target)
        self.simulation.network.send(sent)
        return number

    def close(self, target: int) -> None:
        """End a connection: nothing that waits there is answered."""
        for number in self._waiting.pop(target, {}):
            del self._targets[number]
        self.simulation.connections.close(self.id, target)

    def end(self) -> None:
        """The client's process ends, with all its connections and its timer."""
        self._due_ms = -1
        for target in [*self._waiting]:
            self.close(target)

    def set_timer(self, timer: Timer) -> None:
        """The machine's timer, which each new one replaces; it comes back later than now."""
        timeline = self.simulation.timeline
        self._due_ms = max(timer.at_ms, timeline.now + 1)
        timeline.at(self._due_ms, self.id, timer)

    def is_due(self) -> bool:
        """True once for each timer, late if the process was paused."""
        if not 0 <= self._due_ms <= self.simulation.timeline.now:
            return False
        self._due_ms = -1
        return True

    def waits_for(self, message: Response) -> bool:
        """True unless the connection of its request has ended."""
        return message.correlation_id in self._targets

    def answered(self, message: Response) -> Iterator[tuple[int, Request, Response]]:
        """The answers that can be read now: number, request and answer as the machine knows them.

        A connection that is closed meanwhile brings nothing more.
        """
        number = message.correlation_id
        target = self._targets.get(number)
        if target is None:
            return
        waiting = self._waiting[target]
        request, _ = waiting[number]
        mine = Response(target, message.target, request.correlation_id, message.body)
        waiting[number] = request, mine
        while waiting := self._waiting.get(target, {}):
            first = next(iter(waiting))
            request, answer = waiting[first]
            if answer is None:
                return
            del waiting[first], self._targets[first]
            yield first, request, answer
