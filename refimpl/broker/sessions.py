"""Incremental fetch sessions (KIP-227): both sides name only changes.

A session has an id and an epoch that grows with each request, so a request that was overtaken or
arrives twice is refused.
"""

from collections.abc import Mapping, Sequence

from attrs import define, field

from refimpl.broker.errors import FetchSessionIdNotFound, InvalidFetchSessionEpoch
from refimpl.messages.broker import (
    NEW_SESSION,
    SESSIONLESS,
    FetchedPartition,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    TopicPartition,
)


@define(eq=False)
class SessionPartition:
    """A session's state of one partition: the last position, and the last answer."""

    wanted: FetchPartition
    number: int = 0
    high_watermark: int = -1
    log_start_offset: int = -1
    failed: bool = False

    def answered(self, fetched: FetchedPartition) -> None:
        """Record an answer that was sent."""
        self.high_watermark, self.failed = fetched.high_watermark, fetched.error is not None
        self.log_start_offset = fetched.log_start_offset


@define(eq=False)
class FetchSession:
    """A session at the answering broker."""

    id: int
    replica_id: int
    next_epoch: int = 1
    partitions: dict[TopicPartition, SessionPartition] = field(
        factory=dict[TopicPartition, SessionPartition]
    )

    def update(self, request: FetchRequest) -> None:
        """Apply the partitions that a request names."""
        for known in self.partitions.values():
            known.number += 1
        for wanted in request.partitions:
            known = self.partitions.get(wanted.partition)
            if known is None:
                self.partitions[wanted.partition] = SessionPartition(wanted, wanted.number)
            else:
                known.wanted, known.number = wanted, wanted.number
        for partition in request.forgotten:
            self.partitions.pop(partition, None)

    def served(self, partition: TopicPartition) -> None:
        """Move a partition that got records to the end, so that others come first next time
        (KIP-74).
        """
        if len(self.partitions) > 1 and partition in self.partitions:
            self.partitions[partition] = self.partitions.pop(partition)


@define(eq=False)
class FetchSessions:
    """All sessions of a broker; the oldest is removed when there is no room."""

    slots: int
    sessions: dict[int, FetchSession] = field(factory=dict[int, FetchSession])
    created: int = 0

    def resolve(self, request: FetchRequest) -> tuple[FetchSession | None, list[SessionPartition]]:
        """The session of a request, and all partitions that it asks for.

        Raises FetchSessionIdNotFound, InvalidFetchSessionEpoch.
        """
        if request.session_epoch == SESSIONLESS:
            self.sessions.pop(request.session_id, None)
            return None, [SessionPartition(one, one.number) for one in request.partitions]
        if request.session_epoch == NEW_SESSION:
            session = self._create(request)
        else:
            session = self._next(request)
        session.update(request)
        return session, list(session.partitions.values())

    def _create(self, request: FetchRequest) -> FetchSession:
        """Create a session; a replica has at most one."""
        self.sessions.pop(request.session_id, None)
        if request.replica_id >= 0:
            for session in list(self.sessions.values()):
                if session.replica_id == request.replica_id:
                    del self.sessions[session.id]
        if len(self.sessions) >= self.slots:
            del self.sessions[next(iter(self.sessions))]
        self.created += 1
        session = FetchSession(self.created, request.replica_id)
        self.sessions[session.id] = session
        return session

    def _next(self, request: FetchRequest) -> FetchSession:
        session = self.sessions.get(request.session_id)
        if session is None or session.replica_id != request.replica_id:
            raise FetchSessionIdNotFound(request.session_id)
        if request.session_epoch != session.next_epoch:
            raise InvalidFetchSessionEpoch(session.id, request.session_epoch, session.next_epoch)
        session.next_epoch += 1
        return session


@define(eq=False)
class FetchSessionHandler:
    """A session at the broker that fetches."""

    session_id: int = 0
    epoch: int = NEW_SESSION
    sent: Mapping[TopicPartition, FetchPartition] = field(
        factory=dict[TopicPartition, FetchPartition]
    )

    def build(
        self, wanted: Mapping[TopicPartition, FetchPartition]
    ) -> tuple[Sequence[FetchPartition], Sequence[TopicPartition]]:
        """The partitions that the next request must name, and those that it removes from the
        session.

        Numbers go on by themselves. A partition is unchanged if it is the same object as before.
        """
        sent, self.sent = self.sent, wanted
        if self.epoch == NEW_SESSION:
            return tuple(wanted.values()), ()
        changed = tuple([one for name, one in wanted.items() if sent.get(name) is not one])
        if len(sent) == len(wanted) and not changed:
            return (), ()
        return changed, tuple([name for name in sent if name not in wanted])

    def answered(self, response: FetchResponse) -> None:
        """Go on with the session after an answer; after an error a new session has to be made."""
        if response.error is not None:
            self.reset()
        else:
            self.session_id = response.session_id
            self.epoch += 1

    def reset(self) -> None:
        """Begin a new session, because an answer is missing: the other side's state is not
        known.
        """
        self.session_id, self.epoch, self.sent = 0, NEW_SESSION, {}
