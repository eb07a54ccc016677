"""Forwarding of clients' requests that only the controller can carry out (KIP-590)."""

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
"""The requests that a broker forwards."""

WITHOUT_TIMEOUT = (c.ListPartitionReassignmentsRequest, c.UpdateFeaturesRequest)
"""Requests that are carried out whatever their timeout, as with Kafka."""

GIVE_UP_MS = 60_000
"""The wait for an answer to a request that names no timeout."""


@define(eq=False)
class Forwarded:
    """A client's request, and the end of its wait."""

    request: Request
    until: int


@define(eq=False)
class Forwarding:
    """The requests that the controller has not answered, by our correlation ids.

    A request without an answer is not sent twice: nobody knows whether the controller has carried
    it out, and the client decides. A request that is answered with NOT_CONTROLLER was certainly not
    carried out, and goes to the next controller. Clients never receive that error, as with Kafka
    4.x (KIP-590).
    """

    context: Context
    waiting: dict[int, Forwarded] = field(factory=dict[int, Forwarded])
    again: list[Forwarded] = field(factory=list[Forwarded])

    def forward(self, now: int, request: Request) -> None:
        """Send a request to the controller."""
        timeout_ms: int = getattr(request.body, "timeout_ms", GIVE_UP_MS)
        if timeout_ms <= 0 and not isinstance(request.body, WITHOUT_TIMEOUT):
            self._refuse(request, "REQUEST_TIMED_OUT", None)  # before anything is done
            return
        self._send(Forwarded(request, now + timeout_ms))

    def _send(self, one: Forwarded) -> None:
        if self.context.controller < 0:
            self.again.append(one)  # no controller is known
            return
        number = self.context.request(self.context.controller, c.Envelope(one.request.body))
        self.waiting[number] = one

    def answered(self, response: Response) -> bool:
        """Give the controller's answer to the client; True if a client waited for it."""
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
        """Send refused requests to the controller that we know now, and answer those whose time is
        over.

        The outcome of these is not known.
        """
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
        self._refuse(one.request, "REQUEST_TIMED_OUT", "The request timed out.")

    def _refuse(self, request: Request, error: str, message: str | None) -> None:
        self.context.outputs.append(Refused(type(request.body).__name__, error))
        self.context.respond(request, c.ControlResponse(error, message))


# Topics that are created on demand


@frozen(kw_only=True)
class AutoTopicsConfig:
    """The settings of topics that are created on demand, by Kafka's names."""

    auto_create_topics_enable: bool = True
    offsets_topic_num_partitions: int = 50
    offsets_topic_replication_factor: int = 3
    offsets_topic_segment_bytes: int = 100 << 20
    transaction_state_log_num_partitions: int = 50
    transaction_state_log_replication_factor: int = 3
    transaction_state_log_min_isr: int = 2
    transaction_state_log_segment_bytes: int = 100 << 20
    share_coordinator_state_topic_num_partitions: int = 50
    share_coordinator_state_topic_replication_factor: int = 3
    share_coordinator_state_topic_min_isr: int = 2
    share_coordinator_state_topic_segment_bytes: int = 100 << 20


_COMPACTED = (("cleanup.policy", "compact"), ("compression.type", "producer"))


@define(eq=False)
class AutoTopics:
    """Asks the controller to create topics that clients ask for and that do not exist.

    `asked` are those that it has not answered yet.
    """

    context: Context
    metadata: ClusterMetadata
    config: AutoTopicsConfig = AutoTopicsConfig()
    asked: dict[int, frozenset[str]] = field(factory=dict[int, frozenset[str]])

    def errors(
        self, topics: Iterable[str], client_id: str | None = None, *, allowed: bool
    ) -> dict[str, str]:
        """The error for each of these topics that cannot be described; topics that may be created
        are requested.
        """
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
        """Ask the controller to create topics, once for each until it answers.

        The request is on behalf of a client, for its quota, or of the broker itself.
        """
        busy = frozenset[str]().union(*self.asked.values())
        wanted = [self._topic(name) for name in topics if name not in busy]
        if wanted:
            body = c.Envelope(c.CreateTopicsRequest(tuple(wanted), mutator=mutator))
            number = self.context.request(self.context.controller, body)
            self.asked[number] = frozenset(topic.name for topic in wanted)

    def answered(self, response: Response) -> bool:
        """Take the controller's answer; the topics themselves come with the metadata.

        A broker that is not the controller, or not any more, answers only that.
        """
        if self.asked.pop(response.correlation_id, None) is None:
            return False
        body: Any = response.body
        answers = (body,) if isinstance(body, c.ControlResponse) else body.topics
        for one in answers:
            if one.error is not None:
                self.context.outputs.append(Refused("automatic topics", one.error))
        return True

    def forget(self) -> None:
        """Forget the open requests, whose outcome is not known: topics may be asked for again."""
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
                ("segment.bytes", str(config.transaction_state_log_segment_bytes)),
            )
            return c.CreatableTopic(
                *(name, config.transaction_state_log_num_partitions),
                config.transaction_state_log_replication_factor,
                configs=configs,
            )
        if name == "__share_group_state":
            configs = (
                ("unclean.leader.election.enable", "false"),
                ("compression.type", "uncompressed"),
                ("cleanup.policy", "delete"),
                ("retention.ms", "-1"),
                ("min.insync.replicas", str(config.share_coordinator_state_topic_min_isr)),
                ("segment.bytes", str(config.share_coordinator_state_topic_segment_bytes)),
            )
            return c.CreatableTopic(
                *(name, config.share_coordinator_state_topic_num_partitions),
                config.share_coordinator_state_topic_replication_factor,
                configs=configs,
            )
        return c.CreatableTopic(name)
