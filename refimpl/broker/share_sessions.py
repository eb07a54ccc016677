"""Share sessions: the partitions that a member reads at this broker (KIP-932).

A session has an epoch that grows with each request; a request that was overtaken or arrives twice
is refused. Nothing is forgotten between two requests, so each names only what changes.
"""

from collections.abc import Iterable, Sequence

from attrs import define, field, frozen

from refimpl.errors import InvalidRequest, Refusal
from refimpl.messages.broker import TopicPartition
from refimpl.messages.share import FINAL_EPOCH, OPEN_EPOCH

LAST_EPOCH = 2**31 - 1


@frozen
class ShareSessionNotFound(Refusal):
    """The member has no session here."""

    kafka_error = "SHARE_SESSION_NOT_FOUND"
    says = "member {member} of group {group} has no session"
    group: str
    member: str


@frozen
class InvalidShareSessionEpoch(Refusal):
    """The request is not the session's next one."""

    kafka_error = "INVALID_SHARE_SESSION_EPOCH"
    says = "the request has epoch {asked}, and the session's next one is {expected}"
    asked: int
    expected: int


@frozen
class ShareSessionLimitReached(Refusal):
    """The broker has as many sessions as `group.share.max.share.sessions` allows."""

    kafka_error = "SHARE_SESSION_LIMIT_REACHED"
    says = "there are {sessions} sessions, of which none is idle"
    sessions: int


@frozen
class AcknowledgedBeforeFetched(InvalidRequest):
    """The first request of a session acknowledges records."""

    says = "member {member} acknowledges records with its first request"
    member: str


@frozen
class UnknownSharePartition(Refusal):
    """The leader does not have the share partition, such as after it forgot all locks."""

    kafka_error = "UNKNOWN_TOPIC_OR_PARTITION"
    says = "group {group} has no records of {partition} in flight here"
    group: str
    partition: TopicPartition


@define(eq=False)
class ShareSession:
    """One member's session."""

    group_id: str
    member_id: str
    next_epoch: int = 1
    used_at: int = 0
    #: The connection that it was opened by
    connection: int = 0
    #: In the order in which they are served next
    partitions: dict[TopicPartition, None] = field(factory=dict[TopicPartition, None])

    def served(self, name: TopicPartition) -> None:
        """Move a partition that gave records to the end, so that others come first next time."""
        if len(self.partitions) > 1 and name in self.partitions:
            self.partitions[name] = self.partitions.pop(name)


@define(eq=False)
class ShareSessions:
    """All sessions of a broker, by group and member."""

    most: int
    sessions: dict[tuple[str, str], ShareSession] = field(
        factory=dict[tuple[str, str], ShareSession]
    )

    def resolve(
        self,
        now: int,
        group_id: str,
        member_id: str,
        epoch: int,
        *,
        partitions: Iterable[TopicPartition] = (),
        forgotten: Sequence[TopicPartition] = (),
    ) -> ShareSession:
        """The session of a request, after what it changes; a final request leaves it as it is."""
        key = group_id, member_id
        if epoch == OPEN_EPOCH:
            if key not in self.sessions and len(self.sessions) >= self.most:
                raise ShareSessionLimitReached(len(self.sessions))
            self.sessions.pop(key, None)
            session = self.sessions[key] = ShareSession(group_id, member_id)
        else:
            session = self._next(key, epoch)
        session.used_at = now
        if epoch != FINAL_EPOCH:
            session.partitions.update(dict.fromkeys(partitions))
            for name in forgotten:
                session.partitions.pop(name, None)
        return session

    def _next(self, key: tuple[str, str], epoch: int) -> ShareSession:
        session = self.sessions.get(key)
        if session is None:
            raise ShareSessionNotFound(*key)
        if epoch != FINAL_EPOCH:
            if epoch != session.next_epoch:
                raise InvalidShareSessionEpoch(epoch, session.next_epoch)
            session.next_epoch = 1 if epoch == LAST_EPOCH else epoch + 1
        return session

    def close(self, session: ShareSession) -> None:
        """Remove a session."""
        self.sessions.pop((session.group_id, session.member_id), None)

    def idle(self, since: int) -> list[ShareSession]:
        """The sessions that were not used since then."""
        return [one for one in self.sessions.values() if one.used_at < since]

    def knows(self, session: ShareSession) -> bool:
        """True if a session was neither closed nor replaced."""
        return self.sessions.get((session.group_id, session.member_id)) is session

    def has(self, group_id: str) -> bool:
        """True if a group has a session here."""
        return any(group == group_id for group, _ in self.sessions)
