"""Offset commits: sent in order, tried again where they may be, as the member that it is then."""

from collections.abc import Callable, Mapping
from math import inf

from attrs import define, field

from refimpl.clients.consumer.membership import Membership
from refimpl.clients.consumer.position import OffsetAndEpoch
from refimpl.clients.coordinator import Coordinator
from refimpl.messages import group as g
from refimpl.messages.broker import TopicPartition

Offsets = Mapping[TopicPartition, tuple[OffsetAndEpoch, str]]
Then = Callable[[int, str | None], None]
STALE = "STALE_MEMBER_EPOCH"


@define(eq=False)
class PendingCommit:
    """A commit without a result; `then` takes the error that it ends with, None for none."""

    offsets: Offsets
    then: Then
    #: Until when it is sent again after an error that may be over; 0 for once only
    until_ms: float
    in_flight: bool = False
    not_before: int = 0
    failures: int = 0
    #: The lookups of a coordinator that had failed before it
    lookups: int = 0


@define(eq=False)
class Commits:
    """The commits of one consumer."""

    coordinator: Coordinator
    membership: Membership | None = None
    pending: list[PendingCommit] = field(factory=list[PendingCommit], init=False)

    def commit(self, offsets: Offsets, then: Then, until_ms: float = 0) -> None:
        """Commit these offsets; nothing at all is committed at once."""
        lookups = self.coordinator.failed
        self.pending.append(PendingCommit(offsets, then, until_ms, lookups=lookups))

    def run(self, now: int) -> None:
        """Send what may be sent; what nobody takes in time fails."""
        for one in [*self.pending]:
            if not one.offsets:
                self._end(now, one, None)
            elif one.in_flight or now < one.not_before:
                continue
            elif self.coordinator.is_ready(now):
                self._send(now, one)
            elif self.coordinator.error is not None:
                self._end(now, one, self.coordinator.error)
            elif not one.until_ms and one.lookups != self.coordinator.failed:
                self._end(now, one, self.coordinator.failure)
            elif now >= one.until_ms and one.until_ms:
                self._end(now, one, "REQUEST_TIMED_OUT")
            else:
                self.coordinator.find(now)

    def _send(self, now: int, one: PendingCommit) -> None:
        member = self.membership
        refusal = None if member is None else member.commit_refusal
        if refusal is not None:
            self._end(now, one, refusal)
            return
        generation = g.UNKNOWN_GENERATION if member is None else member.group_generation
        who = "" if generation < 0 or member is None else member.member_id
        instance = None if member is None else member.config.group_instance_id
        partitions = [
            g.CommittedPartition(name, at.offset, at.epoch, metadata)
            for name, (at, metadata) in one.offsets.items()
        ]
        body = g.OffsetCommitRequest(
            *(self.coordinator.key, who, generation, instance, partitions),
            knows_member_epochs=member is not None and not member.config.is_classic,
        )
        one.in_flight = True
        self.coordinator.ask(now, body, lambda at, a: self._answered(at, one, generation, a))

    def _answered(
        self, now: int, one: PendingCommit, generation: int, answer: g.OffsetCommitResponse | None
    ) -> None:
        one.in_flight = False
        errors = [] if answer is None else [e for _, e in answer.partitions if e is not None]
        if answer is not None and not errors:
            self._end(now, one, None)
            return
        error = errors[0] if errors else None
        again = self.coordinator.is_trouble(now, error) or error == STALE
        if again and now < one.until_ms:
            one.not_before = now + self.coordinator.network.backoff.wait_ms(one.failures)
            one.failures += 1
            return
        if self.membership is not None and error is not None:
            self.membership.commit_refused(now, error, generation)
        self._end(now, one, error or "NETWORK_EXCEPTION")

    def _end(self, now: int, one: PendingCommit, error: str | None) -> None:
        if one in self.pending:
            self.pending.remove(one)
            one.then(now, error)

    def fail(self, now: int, error: str) -> None:
        """None of them can succeed."""
        for one in [*self.pending]:
            self._end(now, one, error)

    def due(self, now: int) -> float:
        """When a commit may be sent again, or is given up."""
        ready = self.coordinator.due(now)
        return min(
            (
                min(max(one.not_before, ready, now + 1), max(one.until_ms, now + 1) or inf)
                for one in self.pending
                if not one.in_flight
            ),
            default=inf,
        )
