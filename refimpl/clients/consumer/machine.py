"""The consumer without I/O: `handle(now, input) → outputs`, as Kafka's KafkaConsumer.

Everything that changes an application's partitions happens while it polls: its listener is called,
and until that has returned nothing else changes. Its host carries requests, says when a connection
has ended, calls the listener, and comes back when a timer is due. Time is in ms.
"""

from base64 import urlsafe_b64encode
from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from math import inf
from re import Pattern
from typing import Any

from attrs import define, field

from refimpl.clients.backoff import Backoff, Chance
from refimpl.clients.consumer.classic import ClassicMembership
from refimpl.clients.consumer.commits import Commits
from refimpl.clients.consumer.config import ConsumerConfig
from refimpl.clients.consumer.fetcher import Fetcher
from refimpl.clients.consumer.lookups import Lookups, Query
from refimpl.clients.consumer.membership import Membership, Step
from refimpl.clients.consumer.messages import (
    AskCommitted,
    AskOffsets,
    AutoCommitted,
    CallDone,
    Called,
    CallFailed,
    CallListener,
    CloseConsumer,
    CommitOffsets,
    Disconnect,
    Disconnected,
    Input,
    Kind,
    Output,
    Poll,
    Polled,
    Unsubscribe,
)
from refimpl.clients.consumer.position import OffsetAndEpoch, Position
from refimpl.clients.consumer.reconciling import ReconcilingMembership
from refimpl.clients.consumer.records import Opener
from refimpl.clients.coordinator import Coordinator
from refimpl.clients.errors import RETRIABLE
from refimpl.clients.metadata import NOBODY, ClientMetadata
from refimpl.clients.network import NetworkClient
from refimpl.clients.requests import Nodes
from refimpl.errors import Refusal
from refimpl.messages.broker import Response, Timer, TopicPartition

CONSUMER = "consumer"
"""The name of the consumer's timer."""

INTERNAL = frozenset(("__consumer_offsets", "__transaction_state", "__share_group_state"))
MOST_IN_FLIGHT = 100
"""Requests to one broker: a consumer keeps no order among them."""


@define(eq=False)
class AssignmentChange:
    """A change of the assignment that the application has to hear of, and what follows it."""

    kind: Kind
    partitions: tuple[TopicPartition, ...]
    then: Step
    #: Positions are committed before, until a time
    commits: bool = False
    committing: bool = False
    until_ms: float = inf
    not_before: int = 0


@define(eq=False)
class ConsumerMachine:
    """One consumer. `id` is its name in the requests that it sends."""

    config: ConsumerConfig
    opener: Opener
    bootstrap: Sequence[int]
    chance: Chance
    id: int = -1
    #: The time of day at time 0 of its clock
    epoch_ms: int = 0
    metadata: ClientMetadata = field(init=False)
    network: NetworkClient = field(init=False)
    positions: dict[TopicPartition, Position] = field(
        factory=dict[TopicPartition, Position], init=False
    )
    coordinator: Coordinator | None = field(default=None, init=False)
    commits: Commits | None = field(default=None, init=False)
    membership: Membership | None = field(default=None, init=False)
    #: Its name in a group of the consumer protocol, for life
    _member_id: str = field(default="", init=False)
    lookups: Lookups = field(init=False)
    fetcher: Fetcher = field(init=False)
    #: The topics, or the pattern, that it is subscribed to
    topics: frozenset[str] = field(default=frozenset(), init=False)
    pattern: "Pattern[str] | None" = field(default=None, init=False)
    _outputs: list[Output] = field(factory=list[Output], init=False)
    _changes: deque[AssignmentChange] = field(factory=deque[AssignmentChange], init=False)
    _calling: bool = field(default=False, init=False)
    _poll: Poll | None = field(default=None, init=False)
    _poll_until: int = field(default=0, init=False)
    _last_poll: int | None = field(default=None, init=False)
    #: The call in which the application hears of changes
    _caller: Any = field(default=None, init=False)
    _leaving: "Unsubscribe | CloseConsumer | None" = field(default=None, init=False)
    _left: bool = field(default=False, init=False)
    _leave_until: float = field(default=inf, init=False)
    _errors: deque[CallFailed] = field(factory=deque[CallFailed], init=False)
    _next_commit: int | None = field(default=None, init=False)
    _metadata_seen: int = field(default=-1, init=False)
    _timer: float = field(default=inf, init=False)
    is_closed: bool = field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        """Begin without metadata and without partitions."""
        config = self.config
        retry = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms, self.chance)
        reconnect = Backoff(
            config.reconnect_backoff_ms, config.reconnect_backoff_max_ms, self.chance
        )
        self.metadata = ClientMetadata(self.bootstrap, config.metadata_max_age_ms)
        nodes = Nodes(reconnect, config.request_timeout_ms, MOST_IN_FLIGHT)
        self.network = NetworkClient(
            *(self.id, nodes, self.metadata, retry, config.allow_auto_create_topics),
            *(config.rebootstraps, config.rebootstrap_trigger_ms),
        )
        if config.group_id is not None:
            self.coordinator = Coordinator(config.group_id, self.network)
            self.commits = Commits(self.coordinator)
        self.lookups = Lookups(
            *(config, self.network, self.positions, self.fail, self.coordinator),
            epoch_ms=self.epoch_ms,
        )
        self.fetcher = Fetcher(
            *(config, self.network, self.positions, self.opener, self.fail),
            lambda name, one: self.lookups.reset(name, one, f"offset {one.offset} is not there"),
        )

    # The application's calls that are done at once

    @property
    def is_subscribed(self) -> bool:
        """True if the group, and not the application, says which partitions it reads."""
        return self.membership is not None

    def subscribe(
        self, now: int, topics: Iterable[str] = (), pattern: "Pattern[str] | None" = None
    ) -> None:
        """Share these topics, or those that a pattern selects, with the rest of the group."""
        assert self.coordinator is not None
        if self.membership is None:
            kind = ClassicMembership if self.config.is_classic else ReconcilingMembership
            self.membership = kind(self.config, self.coordinator, self)
            if not self.config.is_classic:
                self._member_id = self._member_id or _new_id(self.chance)
                self.membership.member_id = self._member_id
            self.lookups.membership = self.membership
            if self.commits is not None:
                self.commits.membership = self.membership
        self.pattern, self.network.all_topics = pattern, pattern is not None
        self.metadata.wanted = self.metadata.wanted or pattern is not None
        self._use(now, frozenset(topics) if pattern is None else self._matching())

    def _use(self, now: int, topics: frozenset[str]) -> None:
        self.topics = topics
        for topic in topics:
            self.metadata.use(topic, now)
        if self.membership is not None:
            self.membership.subscribe(topics)

    def _matching(self) -> frozenset[str]:
        """The topics that the pattern selects, of all that there are."""
        hidden = INTERNAL if self.config.exclude_internal_topics else frozenset[str]()
        assert self.pattern is not None
        match = self.pattern.fullmatch
        return frozenset(one for one in self.metadata.names - hidden if match(one))

    def assign(self, now: int, partitions: Iterable[TopicPartition]) -> None:
        """Read these partitions, whoever else does; those that stay keep their positions."""
        wanted = dict.fromkeys(partitions)
        if self._auto_commit_due(now, at_once=True):
            self._auto_commit(now)
        for name in [one for one in self.positions if one not in wanted]:
            del self.positions[name]
        for name in wanted:
            self.metadata.use(name.topic, now)
            if name not in self.positions:
                self._own(name)

    def _own(self, name: TopicPartition, unannounced: bool = False) -> None:
        position = self.positions[name] = Position(unannounced=unannounced)
        known = self.metadata.leaders.get(name)
        if known is not None and known.node != NOBODY:
            position.learn(known.epoch)

    def seek(self, name: TopicPartition, to: OffsetAndEpoch) -> None:
        """Go on at this offset. Errors of the position before are no errors of this one."""
        self.positions[name].seek(to)
        self._forget_errors(name)

    def seek_by(self, names: Iterable[TopicPartition], strategy: str) -> None:
        """Go on at the beginning or at the end, which is asked for when it is needed."""
        for name in names:
            self.positions[name].reset(strategy)
            self._forget_errors(name)

    def _forget_errors(self, name: TopicPartition) -> None:
        self._errors = deque(one for one in self._errors if name not in one.partitions)

    def cancel_poll(self) -> None:
        """The application waits for its poll no more."""
        self._poll = self._caller = None

    # What memberships want of it

    @property
    def is_settled(self) -> bool:
        """True if the application has heard of all changes."""
        return not self._changes

    def revoke(
        self,
        now: int,
        partitions: Collection[TopicPartition],
        then: Step,
        *,
        commits: bool = True,
    ) -> None:
        """These are given up, after their positions are committed."""
        names = tuple(sorted(one for one in partitions if one in self.positions))
        for name in names:
            self.positions[name].revoke()
        self._changes.append(
            AssignmentChange("revoked", names, then, commits and self.config.enable_auto_commit)
        )

    def lose(self, now: int, partitions: Collection[TopicPartition], then: Step) -> None:
        """These are lost. What was to be revoked or taken before that is void."""
        kept = [one for one in self._changes if one.kind == "lost"]
        if self._calling:
            self._changes[0].then = _nothing
            kept = [self._changes[0], *(one for one in kept if one is not self._changes[0])]
        self._changes = deque(kept)
        gone = {*self._changes[0].partitions} if self._calling else set[TopicPartition]()
        names = tuple(
            sorted(one for one in partitions if one in self.positions and one not in gone)
        )
        for name in names:
            self.positions[name].revoking = True
        self._changes.append(AssignmentChange("lost", names, then))

    def take(self, now: int, partitions: Collection[TopicPartition]) -> None:
        """These are owned from now on."""
        names = tuple(sorted(partitions))
        for name in names:
            self.metadata.use(name.topic, now)
            self._own(name, unannounced=True)
        self._changes.append(AssignmentChange("assigned", names, _nothing))

    def fail(self, error: str, message: str, partitions: tuple[TopicPartition, ...] = ()) -> None:
        """The application's next poll ends with this error, once."""
        new = CallFailed(None, error, message, partitions)
        if new not in self._errors:
            self._errors.append(new)

    # Inputs

    def handle(self, now: int, message: Input) -> list[Output]:
        """Take one input, and do all that can be done now."""
        match message:
            case Poll():
                self._poll, self._poll_until = message, now + message.timeout_ms
                self._caller, self._last_poll = message.handle, now
            case Response():
                self.network.answered(now, message)
            case Disconnected(node, reason):
                self.network.lost(now, node)
                if self.coordinator is not None and self.coordinator.target == node:
                    self.coordinator.unknown(now)
                if reason is not None:
                    self._refused(now, *reason)
            case Called():
                self._called(now)
            case CommitOffsets():
                self._commit(now, message)
            case AskOffsets() | AskCommitted():
                self._ask(now, message)
            case Unsubscribe() | CloseConsumer():
                self._leave(now, message)
            case Timer():
                self._timer = inf
        self.run(now)
        outputs, self._outputs = self._outputs, []
        return outputs

    def run(self, now: int) -> None:
        """Do all that can be done now, and set a timer for the rest."""
        self.network.run(now)
        self._apply_metadata(now)
        self._expire(now)
        self._refuse_poll()
        self._change(now)
        if self.membership is not None:
            self.membership.run(now, self._is_polling)
            self._change(now)
        if self._is_polling and not self._changes and self._auto_commit_due(now):
            self._auto_commit(now)
        self.lookups.run(now)
        if self.commits is not None:
            self.commits.run(now)
            self._change(now)
        self._settle_poll(now)
        if self._leaving is None:
            self.fetcher.run(now)
        self._settle_leave(now)
        self.network.time_out(now)
        self._send(now)

    @property
    def _is_polling(self) -> bool:
        return self._poll is not None and self._leaving is None

    def _send(self, now: int) -> None:
        for node in self.network.gone:
            self._outputs.append(Disconnect(node))
            if self.coordinator is not None and self.coordinator.target == node:
                self.coordinator.unknown(now)
        self.network.gone.clear()
        self._outputs += self.network.outputs
        self.network.outputs.clear()
        due = self._due(now)
        if due != self._timer or due <= now:
            self._timer = due
            if due != inf:
                self._outputs.append(Timer(max(int(due), now), CONSUMER))

    def _due(self, now: int) -> float:
        due = min(self.network.due(now), self.lookups.due(now), self._leave_until)
        if self.membership is not None:
            due = min(due, self.membership.due(now, self._is_polling))
        if self.commits is not None:
            due = min(due, self.commits.due(now))
        if self._leaving is None:
            due = min(due, self.fetcher.due(now))
        if self._changes and self._changes[0].commits and self._caller is not None:
            change = self._changes[0]
            again = inf
            if self.commits is not None and not change.committing:
                again = max(change.not_before, self.commits.coordinator.due(now), now + 1)
            due = min(due, change.until_ms, again)
        if self._poll is not None:
            due = min(due, self._poll_until)
        elif self._last_poll is not None and self.membership is not None:
            since = max(self._last_poll, self.membership.joined_ms)
            if now < since + self.config.max_poll_interval_ms:
                due = min(due, since + self.config.max_poll_interval_ms)
        return due

    def _refused(self, now: int, error: str, message: str) -> None:
        """A broker does not let this client in: its calls that wait for an answer fail."""
        self.fail(error, message)
        for query in [*self.lookups.queries]:
            self.lookups.queries.remove(query)
            query.then(now, None, error)
        if self.commits is not None:
            self.commits.fail(now, error)

    # Metadata

    def _apply_metadata(self, now: int) -> None:
        """Tell positions of leaders, and the application of topics that it may not read."""
        if self._metadata_seen == self.metadata.updates:
            return
        self._metadata_seen = self.metadata.updates
        if self.pattern is not None:
            self._use(now, self._matching())
        for name, position in self.positions.items():
            known = self.metadata.leaders.get(name)
            if known is not None and known.node != NOBODY:
                position.learn(known.epoch)
        for name, topic in self.metadata.topics.items():
            if topic.error is not None and topic.error not in RETRIABLE:
                self.fail(topic.error, f"the topic {name} cannot be read")

    # Polls

    def _settle_poll(self, now: int) -> None:
        """End the poll if there is something for it, or its time is over."""
        poll = self._poll
        if poll is None or self._calling:
            return
        records = [*self.fetcher.collect(self.config.max_poll_records)] if not self._errors else []
        if records:
            self._outputs.append(Polled(poll.handle, records))
        elif self._errors:
            self._outputs.append(self._errors.popleft()._replace(handle=poll.handle))
        elif now >= self._poll_until:
            self._outputs.append(Polled(poll.handle))
        else:
            return
        self._poll = self._caller = None
        self._last_poll = now

    def _expire(self, now: int) -> None:
        """A member that polls no more leaves, so that others get its partitions (KIP-62)."""
        member = self.membership
        if member is None or not member.lives or self._caller is not None:
            return
        if self._last_poll is None or self._leaving is not None:
            return
        if member.coordinator.target is None or not member.is_heard(now):
            return
        if now - max(self._last_poll, member.joined_ms) >= self.config.max_poll_interval_ms:
            body = member.leaving()
            if body is not None and member.coordinator.is_ready(now):
                member.coordinator.ask(now, body, lambda at, answer: None)
            member.lost(now, "UNKNOWN_MEMBER_ID")

    def _refuse_poll(self) -> None:
        """End the poll with an error of the group, before anything changes."""
        member, coordinator, poll = self.membership, self.coordinator, self._poll
        if poll is None or self._calling:
            return
        if coordinator is not None and coordinator.error is not None:
            error, coordinator.error = coordinator.error, None
            refusal = CallFailed(poll.handle, error, f"the group {coordinator.key} cannot be used")
        elif member is not None and member.error is not None:
            refusal = CallFailed(poll.handle, *member.error)
            member.error = member.error if member.is_fenced else None
        else:
            return
        self._outputs.append(refusal)
        self._poll = self._caller = None

    # Changes of the assignment

    def _change(self, now: int) -> None:
        """Let the application hear of the next change, if it is in a call that waits."""
        while self._changes and not self._calling and self._caller is not None:
            change = self._changes[0]
            if change.commits and not self._commit_before(now, change):
                return
            if change.partitions or (change.kind == "assigned" and not self._leaving):
                self._calling = True
                self._outputs.append(CallListener(self._caller, change.kind, change.partitions))
                return
            self._changed(now)

    def _commit_before(self, now: int, change: AssignmentChange) -> bool:
        """True once the positions before a change are committed, or cannot be."""
        change.until_ms = min(
            change.until_ms, now + self.config.max_poll_interval_ms, self._leave_until
        )
        offsets = self._consumed()
        if self.commits is None or not offsets or (self._leaving and now >= change.until_ms):
            return True
        if not change.committing and not self.commits.coordinator.is_ready(now):
            self.commits.coordinator.find(now)
            return False
        if now >= change.until_ms:
            return True
        if change.committing or now < change.not_before:
            return False
        change.committing = True

        def committed(at: int, error: str | None) -> None:
            change.committing = False
            change.commits = error in RETRIABLE
            change.not_before = at + self.config.retry_backoff_ms
            self._auto_committed(at, offsets, error)

        self.commits.commit(offsets, committed)
        self.commits.run(now)
        return not change.commits

    def _called(self, now: int) -> None:
        if self._calling:
            self._calling = False
            self._changed(now)

    def _changed(self, now: int) -> None:
        change = self._changes.popleft()
        if change.kind == "assigned":
            self._next_commit = now + self.config.auto_commit_interval_ms
        for name in change.partitions:
            position = self.positions.get(name)
            if position is None:
                continue
            if change.kind == "assigned":
                position.unannounced = False
            elif position.revoking:
                del self.positions[name]
        change.then(now)

    # Commits

    def _consumed(self) -> Mapping[TopicPartition, tuple[OffsetAndEpoch, str]]:
        """The positions behind what was returned."""
        found = {name: one.consumed for name, one in self.positions.items()}
        return {name: (at, "") for name, at in found.items() if at is not None}

    def _auto_commit_due(self, now: int, at_once: bool = False) -> bool:
        member = self.membership
        if not self.config.enable_auto_commit:
            return False
        if member is not None and (member.rejoins or member.coordinator.target is None):
            return False  # before it gives anything up, it commits all the same
        if self._next_commit is None:
            self._next_commit = now + self.config.auto_commit_interval_ms
        return at_once or now >= self._next_commit

    def _auto_commit(self, now: int) -> None:
        """Commit what earlier polls have returned: the next one says that it is processed."""
        self._next_commit = now + self.config.auto_commit_interval_ms
        offsets: dict[TopicPartition, tuple[OffsetAndEpoch, str]] = {}
        for name, position in self.positions.items():
            with suppress(Refusal):
                offsets[name] = position.auto_commit(), ""
        if not offsets or self.commits is None:
            return

        def committed(at: int, error: str | None) -> None:
            if error in RETRIABLE:
                self._next_commit = at + self.config.retry_backoff_ms
            self._auto_committed(at, offsets, error)

        self.commits.commit(offsets, committed)

    def _auto_committed(self, now: int, offsets: Any, error: str | None) -> None:
        if error is None:
            self._outputs.append(AutoCommitted(offsets))

    def _commit(self, now: int, call: CommitOffsets) -> None:
        """The application's own commit."""
        if self.commits is None:
            self._outputs.append(
                CallFailed(call.handle, "INVALID_GROUP_ID", "there is no group.id")
            )
            return
        offsets = self._consumed() if call.offsets is None else call.offsets

        def committed(at: int, error: str | None) -> None:
            if error is None:
                self._outputs.append(CallDone(call.handle, offsets))
            else:
                sentence = "the offsets are not committed"
                self._outputs.append(CallFailed(call.handle, error, sentence, tuple(offsets)))

        self.commits.commit(offsets, committed, self._until(now, call.timeout_ms, call.retries))

    def _until(self, now: int, timeout_ms: int | None, retries: bool = True) -> int:
        if not retries:
            return 0
        return now + (self.config.default_api_timeout_ms if timeout_ms is None else timeout_ms)

    # Questions

    def _ask(self, now: int, call: "AskOffsets | AskCommitted") -> None:
        committed = isinstance(call, AskCommitted)
        if committed and self.coordinator is None:
            self._outputs.append(
                CallFailed(call.handle, "INVALID_GROUP_ID", "there is no group.id")
            )
            return
        wanted = dict.fromkeys(call.partitions, 0) if committed else call.times

        def told(at: int, found: Any, error: str | None) -> None:
            if error is None:
                self._outputs.append(CallDone(call.handle, found))
            else:
                sentence = "the offsets cannot be told"
                self._outputs.append(CallFailed(call.handle, error, sentence, tuple(wanted)))

        until = self._until(now, call.timeout_ms)
        self.lookups.queries.append(Query(wanted, told, until, committed))

    # The end

    def _leave(self, now: int, call: "Unsubscribe | CloseConsumer") -> None:
        """Give up everything: with a last commit, if it closes."""
        closes = isinstance(call, CloseConsumer)
        self._leaving, self._left, self._caller = call, False, call.handle
        patience = call.timeout_ms if closes else None
        self._leave_until = self._until(now, patience)
        if self._poll is not None:
            self._outputs.append(Polled(self._poll.handle))
            self._poll = None
        began = [*self._changes][: int(self._calling)]
        kept = (*began, *(one for one in self._changes if one.kind == "lost" and one not in began))
        self._changes = deque(kept)
        told = {name for change in kept for name in change.partitions if change.kind != "assigned"}
        names = tuple(sorted(self.positions.keys() - told)) if self.is_subscribed else ()
        commits = closes and self.config.enable_auto_commit
        kind = "lost" if self.membership is None or self.membership.commit_refusal else "revoked"
        self._changes.append(AssignmentChange(kind, names, self._go, commits))
        for name in names:
            self.positions[name].revoking = True

    def _go(self, now: int) -> None:
        def left(at: int) -> None:
            self._left = True

        if self.membership is None:
            left(now)
        else:
            self.membership.leave(now, left)

    def _settle_leave(self, now: int) -> None:
        call = self._leaving
        if call is None or self._calling:
            return
        closes = isinstance(call, CloseConsumer)
        waits = closes and self.commits is not None and bool(self.commits.pending)
        flushed = self._left and not waits
        if not flushed and now < self._leave_until:
            return
        self.positions.clear()
        self._changes.clear()
        self.topics, self.pattern, self.network.all_topics = frozenset(), None, False
        self.membership = self.lookups.membership = None
        if self.commits is not None:
            self.commits.membership = None
        self._leaving, self._caller, self._leave_until, self._last_poll = None, None, inf, None
        self.is_closed = closes
        self._outputs.append(CallDone(call.handle))


def _new_id(chance: Chance) -> str:
    """A member id, as Kafka's client makes one (KIP-1082): 128 bits, in 22 letters."""
    drawn = bytes(int(256 * chance()) for _ in range(16))
    return urlsafe_b64encode(drawn).rstrip(b"=").decode()


def _nothing(now: int) -> None:
    """Nothing follows."""
