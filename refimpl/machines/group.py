"""A consumer group and one partition: its coordinator and its members.

Spec: ConsumerCommit. Offsets are Kafka's: the offset of the next record to read, which is the
number of records passed.
"""

from typing import Literal

from attrs import define, field, frozen

from refimpl.machines import group_errors as errors

CommitWhen = Literal["after", "before", "polled"]


@frozen
class OffsetCommit:
    """An OffsetCommit request: the group's next offset for the partition."""

    member: int
    generation: int
    offset: int


@define
class CommitCoordinator:
    """The group's side: generation, owner and committed offset of one partition.

    Commits of an older generation are refused. Their sender may no longer own the partition, and
    could move the group back behind the new owner's commits.
    """

    generation: int = 0
    owner: int | None = None
    committed: int = 0
    received: dict[tuple[int, int], int] = field(factory=dict[tuple[int, int], int])

    def rebalance(self, owner: int) -> None:
        """Begin a new generation, in which `owner` owns the partition."""
        self.generation += 1
        self.owner = owner

    def receive_commit(self, commit: OffsetCommit) -> None:
        """Accept a commit of the current generation, unless a later one has overtaken it."""
        if commit.generation != self.generation:
            raise errors.IllegalGeneration(commit.generation, self.generation)
        sender = (commit.member, commit.generation)
        newest = self.received.get(sender, 0)
        if commit.offset < newest:
            raise errors.OvertakenCommit(commit.member, commit.offset, newest)
        self.received[sender] = commit.offset
        self.committed = commit.offset

    def join(self, member: int) -> tuple[int, int]:
        """The generation and the start offset of the partition's owner."""
        if member != self.owner:
            raise errors.NotTheOwner(member, self.owner)
        return self.generation, self.committed


@define
class CommittingMember:
    """The consumer's side: one member and the partition that it believes to own.

    `commit_when` is the application's discipline. "after" commits after processing (at least once).
    "before" commits before it and waits for the answer (at most once). "polled" commits all records
    handed out, processed or not, as automatic commits do.
    """

    id: int
    commit_when: CommitWhen = "after"
    generation: int = 0
    position: int = 0
    done: int = 0
    last: int = 0
    sent: int = 0
    answered: int = 0

    def join(self, generation: int, committed: int) -> None:
        """Start in a newer generation, at the group's committed offset."""
        if generation <= self.last:
            raise errors.IllegalGeneration(generation, self.last)
        self.generation = self.last = generation
        self.position = self.done = committed
        self.sent = self.answered = 0

    def poll(self, log_end: int) -> int:
        """Hand out the next record, once the one before is processed, and return its offset."""
        self._must_be_joined()
        if self.position != self.done:
            raise errors.NotProcessedYet(self.position, self.done)
        if self.position >= log_end:
            raise errors.EndOfLog(self.position, log_end)
        self.position += 1
        return self.position - 1

    def process(self) -> int:
        """Process the record that was handed out.

        A member that commits before processing waits for the answer first.
        """
        self._must_be_joined()
        if self.done >= self.position:
            raise errors.NothingHandedOut(self.position, self.done)
        if self.commit_when == "before" and self.answered != self.position:
            raise errors.CommitNotAnswered(self.position, self.answered)
        self.done = self.position
        return self.done - 1

    def send_commit(self) -> OffsetCommit:
        """Commit the offset that the discipline allows, without waiting."""
        self._must_be_joined()
        offset = self.done if self.commit_when == "after" else self.position
        if offset == 0 or offset == self.sent:
            raise errors.NothingNewToCommit(offset, self.sent)
        self.sent = offset
        return OffsetCommit(self.id, self.generation, offset)

    def take_answer(self, commit: OffsetCommit) -> None:
        """Take the answer to our commit.

        An answer of another generation is void.
        """
        if commit.member != self.id:
            raise errors.ForeignAnswer(self.id, commit.member)
        if commit.generation != self.generation:
            raise errors.IllegalGeneration(commit.generation, self.generation)
        self.answered = max(self.answered, commit.offset)

    def crash(self) -> None:
        """Lose all state that the group does not have."""
        self._must_be_joined()
        self.generation = self.position = self.done = self.sent = self.answered = 0

    def _must_be_joined(self) -> None:
        if self.generation == 0:
            raise errors.NotJoined(self.id)
