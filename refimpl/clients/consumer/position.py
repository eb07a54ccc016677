"""One partition's position: where it came from, whether it is of the leader's log, what comes next.

Spec: Consumer. KIP-320 (a position is validated when the leader has changed), KIP-392 (followers).
Two rules are ours: records that were fetched before the leader changed are fetched again, and
nothing is returned from a partition that is being given up.
"""

from typing import Any, Literal, NamedTuple, Protocol

from attrs import define, field

from refimpl.clients.consumer.errors import (
    AlreadyFetched,
    BeingRevoked,
    HasPosition,
    LeaderMoved,
    NoPosition,
    NothingFetched,
    NotResetting,
    NotValidating,
    Paused,
    PositionMoved,
)

NONE = -1
INITIALIZING, RESETTING, VALIDATING, FETCHING = (
    *("initializing", "resetting", "validating", "fetching"),
)
Question = tuple[str, str | None, int, int, int]
Validation = Literal["valid", "truncated", "unknown"]


class OffsetAndEpoch(NamedTuple):
    """An offset, and the leader epoch of the record before it; -1 if that is not known."""

    offset: int
    epoch: int = NONE


class Buffer(Protocol):
    """Records that were fetched, and are not returned yet."""

    @property
    def position(self) -> OffsetAndEpoch:
        """The position of the first one."""
        ...

    @property
    def is_empty(self) -> bool:
        """True once all are returned."""
        ...

    def take(self, most: int) -> list[Any]:
        """The next records, after which `position` is that of what follows them."""
        ...


@define(eq=False)
class Position:
    """A partition that is assigned, and the position of the next record to be returned from it."""

    state: str = INITIALIZING
    offset: int = NONE
    epoch: int = NONE
    #: The leader epoch under which the position is, or is to be, validated
    leader_epoch: int = NONE
    #: latest, earliest, or by_duration, while it is resetting
    strategy: str | None = None
    paused: bool = False
    #: It is being given up: nothing more is returned
    revoking: bool = False
    #: The application has not heard yet that it is assigned
    unannounced: bool = False
    buffer: Buffer | None = None
    #: Kafka's client keeps records that were fetched under an older leader
    keeps_buffer: bool = False
    high_watermark: int = NONE
    #: The follower to read at, and until when (KIP-392)
    replica: int = NONE
    replica_until_ms: int = 0
    #: A request about the position that failed is not sent again before this time
    not_before: int = 0
    #: The question about it whose answer is on the way
    asked: "Question | None" = field(default=None, init=False)

    @property
    def question(self) -> "Question":
        """All that an answer about the position depends on."""
        return self.state, self.strategy, self.offset, self.epoch, self.leader_epoch

    # Where to begin

    def begin(self, committed: OffsetAndEpoch) -> None:
        """Start at the group's committed offset, unless there is a position by now."""
        if self.state != INITIALIZING:
            raise HasPosition
        self._stand_at(committed)

    def seek(self, to: OffsetAndEpoch) -> None:
        """The application goes on elsewhere; what was fetched is dropped."""
        self._stand_at(to)

    def reset(self, strategy: str) -> None:
        """The position is to be asked for by a strategy."""
        self.state, self.strategy = RESETTING, strategy
        self.offset = self.epoch = NONE
        self.buffer, self.not_before = None, 0

    def complete_reset(self, strategy: str, found: OffsetAndEpoch) -> None:
        """The leader has answered; whoever has moved the position since then goes before it."""
        if self.state != RESETTING or self.strategy != strategy:
            raise NotResetting(strategy, self.state, self.strategy)
        self._stand_at(found)

    def _stand_at(self, at: OffsetAndEpoch) -> None:
        self.offset, self.epoch = at
        self.buffer, self.strategy = None, None
        self._check()

    def _check(self) -> None:
        """Without an epoch, of the record or of the leader, there is nothing to compare."""
        known = self.epoch != NONE and self.leader_epoch != NONE
        self.state = VALIDATING if known else FETCHING
        self.not_before = 0

    # The leader

    def learn(self, leader_epoch: int) -> None:
        """A leader is known: another one than before has to validate the position."""
        if leader_epoch == self.leader_epoch:
            return
        self.leader_epoch = leader_epoch
        self.replica = NONE
        if not self.keeps_buffer:
            self.buffer = None
        if self.state in (VALIDATING, FETCHING):
            self._check()

    def complete_validation(
        self, asked: OffsetAndEpoch, leader_epoch: int, end: OffsetAndEpoch, *, resets: bool
    ) -> Validation:
        """The leader has said where its log ends in the position's epoch, or that it has no such.

        If its log ends before the position, that has diverged: it goes on where they agree, if
        there is a strategy of reset at all.
        """
        if self.state != VALIDATING:
            raise NotValidating
        self.must_be_at(asked.offset, leader_epoch)
        if end.offset == NONE or end.epoch == NONE:
            return "unknown"
        if end.offset >= self.offset:
            self.state = FETCHING
            return "valid"
        if resets:
            self.offset, self.epoch = end
            self.state, self.buffer = FETCHING, None
        return "truncated"

    def must_be_at(self, offset: int, leader_epoch: int) -> None:
        """Refuse what was asked for at another offset, or under another leader."""
        if offset != self.offset:
            raise PositionMoved(offset, self.offset)
        if leader_epoch != self.leader_epoch and not self.keeps_buffer:
            raise LeaderMoved(leader_epoch, self.leader_epoch)

    # Records

    @property
    def is_fetchable(self) -> bool:
        """True if records may be asked for, and returned."""
        return self.state == FETCHING and not (self.paused or self.revoking or self.unannounced)

    def _must_be_fetchable(self) -> None:
        if self.revoking:
            raise BeingRevoked
        if self.paused or self.unannounced:
            raise Paused
        if self.state != FETCHING:
            raise NoPosition(self.state)

    def ask(self) -> "Question":
        """The question that has to be asked now: for the position, its validation, or records."""
        if self.state == INITIALIZING:
            raise NoPosition(self.state)
        if self.state == FETCHING:
            self._must_be_fetchable()
            if self.buffer is not None:
                raise AlreadyFetched
        return self.question

    def fetched(self, offset: int, leader_epoch: int, buffer: Buffer) -> None:
        """Records have come, which were asked for from this offset under this leader epoch."""
        if self.state not in (FETCHING, VALIDATING):
            raise NoPosition(self.state)
        self.must_be_at(offset, leader_epoch)
        self.buffer = buffer

    def out_of_range(self, offset: int, leader_epoch: int) -> bool:
        """A broker has nothing at an offset. True if the position must be reset.

        A follower may be behind: then the leader is asked (KIP-392).
        """
        if self.state != FETCHING:
            raise NoPosition(self.state)
        self.must_be_at(offset, leader_epoch)
        follower = self.replica != NONE
        self.replica = NONE
        return not follower

    def hand_out(self, most: int) -> list[Any]:
        """The next records for the application; the position is behind them from now on."""
        self._must_be_fetchable()
        if self.buffer is None:
            raise NothingFetched
        records = self.buffer.take(most)
        self.offset, self.epoch = self.buffer.position
        if self.buffer.is_empty:
            self.buffer = None
        return records

    # Commits

    @property
    def consumed(self) -> OffsetAndEpoch | None:
        """The position behind all records that were returned: all that may be committed.

        One that the leader has not validated is none.
        """
        return OffsetAndEpoch(self.offset, self.epoch) if self.state == FETCHING else None

    def auto_commit(self) -> OffsetAndEpoch:
        """The position for an automatic commit at a poll; what is given up has its own commit."""
        if self.revoking:
            raise BeingRevoked
        if self.consumed is None:
            raise NoPosition(self.state)
        return self.consumed

    def revoke(self) -> OffsetAndEpoch | None:
        """It is being given up: nothing is returned after the last commit, which is of this."""
        if self.revoking:
            raise BeingRevoked
        self.revoking = True
        return self.consumed
