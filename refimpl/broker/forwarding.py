"""What clients ask of a broker and only the controller can do is passed on to it (KIP-590)."""

from collections.abc import Iterable
from typing import Any, get_args

from attrs import define, field, frozen

from refimpl.broker.context import Context
from refimpl.controller.errors import ApiError
from refimpl.controller.topics import check_name
from refimpl.messages import controller as c
from refimpl.messages.broker import Request, Response
from refimpl.messages.cluster import ClusterMetadata
from refimpl.messages.observations import Refused

FORWARDED: tuple[type, ...] = get_args(c.AdminRequest)
"""What a broker does not answer by itself."""

GIVE_UP_MS = 60_000
"""After which nobody waits for an answer to a request that names no time."""


@define(eq=False)
class Forwarded:
    """A client's request, and until when it waits."""

    request: Request
    until: int


@define(eq=False)
class Forwarding:
    """The requests that the controller has not answered, by the correlation ids that we gave them.

    Without an answer none is sent twice: whether the controller has done it nobody knows, and the
    client decides. What is answered with NOT_CONTROLLER is certainly not done, and goes to the next
    controller; clients never hear of that error, as with Kafka 4.x (KIP-590).
    """

    context: Context
    waiting: dict[int, Forwarded] = field(factory=dict[int, Forwarded])
    again: list[Forwarded] = field(factory=list[Forwarded])

    def forward(self, now: int, request: Request) -> None:
        """Ask the controller."""
        timeout_ms = getattr(request.body, "timeout_ms", GIVE_UP_MS)
        self._send(Forwarded(request, now + timeout_ms))

    def _send(self, one: Forwarded) -> None:
        if self.context.controller < 0:
            self.again.append(one)  # nobody is known to be controller
            return
        number = self.context.request(self.context.controller, c.Envelope(one.request.body))
        self.waiting[number] = one

    def answered(self, response: Response) -> bool:
        """Give the controller's answer to the client; whether somebody waited for it."""
        forwarded = self.waiting.pop(response.correlation_id, None)
        if forwarded is None:
            return False
        body = response.body
        if isinstance(body, c.ControlResponse) and body.error == "NOT_CONTROLLER":
            self.context.outputs.append(Refused("a forwarded request", body.error))
            self.again.append(forwarded)
            return True
        self.context.respond(forwarded.request, response.body)
        return True

    def expire(self, now: int) -> None:
        """Ask the controller that we know now for what another broker refused, and tell those whose
        time is over that nobody knows what became of their requests."""
        late = [number for number, one in self.waiting.items() if one.until <= now]
        for one in [self.waiting.pop(number) for number in late]:
            self._timed_out(one)
        again, self.again = self.again, []
        for one in again:
            if one.until <= now:
                self._timed_out(one)
            else:
                self._send(one)

    def _timed_out(self, one: Forwarded) -> None:
        error = "REQUEST_TIMED_OUT"
        self.context.outputs.append(Refused(type(one.request.body).__name__, error))
        self.context.respond(one.request, c.ControlResponse(error, "The request timed out."))


# Topics that are made because somebody asks for them


@frozen(kw_only=True)
class AutoTopicsConfig:
    """How topics are made that nobody has asked the controller for, by Kafka's names."""

    auto_create_topics_enable: bool = True
    offsets_topic_num_partitions: int = 50
    offsets_topic_replication_factor: int = 3
    offsets_topic_segment_bytes: int = 100 << 20
    transaction_state_log_num_partitions: int = 50
    transaction_state_log_replication_factor: int = 3
    transaction_state_log_min_isr: int = 2


_COMPACTED = (("cleanup.policy", "compact"), ("compression.type", "producer"))
_SEGMENTS = ("segment.bytes", str(100 << 20))


@define(eq=False)
class AutoTopics:
    """Asks the controller for topics that clients ask for and that are not there.

    `asked` are those that it has not answered yet.
    """

    context: Context
    metadata: ClusterMetadata
    config: AutoTopicsConfig = AutoTopicsConfig()
    asked: dict[int, frozenset[str]] = field(factory=dict[int, frozenset[str]])

    def errors(
        self, topics: Iterable[str], client_id: str | None = None, *, allowed: bool
    ) -> dict[str, str]:
        """Why each of these topics cannot be described to a client; what may be made is asked
        for."""
        errors: dict[str, str] = {}
        missing: list[str] = []
        for name in topics:
            if name in self.metadata.topics:
                continue
            try:
                check_name(name)
                errors[name] = "UNKNOWN_TOPIC_OR_PARTITION"
                missing.append(name)
            except ApiError as error:
                errors[name] = error.error
        if allowed and self.config.auto_create_topics_enable:
            self.create(missing, c.Mutator(client_id))
        return errors

    def create(self, topics: Iterable[str], mutator: c.Mutator | None = None) -> None:
        """Ask for topics, once for each until the controller answers; on behalf of a client, for
        its quota, or of the broker itself."""
        busy = frozenset[str]().union(*self.asked.values())
        wanted = [self._topic(name) for name in topics if name not in busy]
        if wanted:
            body = c.Envelope(c.CreateTopicsRequest(tuple(wanted), mutator=mutator))
            number = self.context.request(self.context.controller, body)
            self.asked[number] = frozenset(topic.name for topic in wanted)

    def answered(self, response: Response) -> bool:
        """The controller has answered; the topics come with the news. Who is not the controller,
        or not any more, says only that."""
        if self.asked.pop(response.correlation_id, None) is None:
            return False
        body: Any = response.body
        answers = (body,) if isinstance(body, c.ControlResponse) else body.topics
        for one in answers:
            if one.error is not None:
                self.context.outputs.append(Refused("automatic topics", one.error))
        return True

    def forget(self) -> None:
        """Nobody knows what became of what was asked for: it may be asked for again."""
        self.asked.clear()

    def _topic(self, name: str) -> c.CreatableTopic:
        config = self.config
        if name == "__consumer_offsets":
            return c.CreatableTopic(
                *(name, config.offsets_topic_num_partitions),
                config.offsets_topic_replication_factor,
                configs=(*_COMPACTED, ("segment.bytes", str(config.offsets_topic_segment_bytes))),
            )
        if name == "__transaction_state":
            min_isr = str(config.transaction_state_log_min_isr)
            configs = (
                ("unclean.leader.election.enable", "false"),
                ("compression.type", "uncompressed"),
                ("cleanup.policy", "compact"),
                ("min.insync.replicas", min_isr),
                _SEGMENTS,
            )
            return c.CreatableTopic(
                *(name, config.transaction_state_log_num_partitions),
                config.transaction_state_log_replication_factor,
                configs=configs,
            )
        return c.CreatableTopic(name)
