"""Bugs of the consumer group, and of the abstract log."""

from properties.mutants.shelf import breaks
from refimpl.errors import IllegalGeneration, InvalidRequest, OvertakenCommit, UnknownMember
from refimpl.machines.abstract_log import AbstractLog
from refimpl.machines.group import Coordinator, Member, OffsetCommit

# Mutants reach into the machines: that is what they are for.
# pyright: reportPrivateUsage=false

GROUP = ("ConsumerCommit",)
TOP = ("AbsLog",)

# ------------------------------------------------------------------------------ the coordinator


@breaks(Coordinator, "receive_commit", GROUP)
def zombies_commit(self: Coordinator, commit: OffsetCommit) -> None:
    """A member of an older generation moves the group back behind what the new owner did."""
    sender = (commit.member, commit.generation)
    if commit.offset < self.received.get(sender, 0):
        raise OvertakenCommit
    self.received[sender] = commit.offset
    self.committed = commit.offset


@breaks(Coordinator, "receive_commit", GROUP)
def overtaken_commits_count(self: Coordinator, commit: OffsetCommit) -> None:
    """Commits are taken in the order in which they arrive, not that in which they were sent."""
    if commit.generation != self.generation:
        raise IllegalGeneration
    self.received[commit.member, commit.generation] = commit.offset
    self.committed = commit.offset


@breaks(
    Coordinator,
    "receive_commit",
    GROUP,
    equivalent="With generations fenced and order kept no commit ever moves the group back "
    "(CommittedMonotone holds in every such configuration), so the greater of the two is the new.",
)
def committed_offset_is_the_greatest(self: Coordinator, commit: OffsetCommit) -> None:
    """The group keeps the greatest offset that was ever committed."""
    if commit.generation != self.generation:
        raise IllegalGeneration
    sender = (commit.member, commit.generation)
    if commit.offset < self.received.get(sender, 0):
        raise OvertakenCommit
    self.received[sender] = commit.offset
    self.committed = max(self.committed, commit.offset)


@breaks(Coordinator, "rebalance", GROUP)
def rebalance_in_the_same_generation(self: Coordinator, owner: int) -> None:
    """The partition changes hands within a generation, so nobody is fenced."""
    self.owner = owner


@breaks(Coordinator, "rebalance", GROUP)
def rebalance_forgets_what_was_committed(self: Coordinator, owner: int) -> None:
    """A new generation begins from the start of the log."""
    self.generation += 1
    self.owner = owner
    self.committed = 0


@breaks(Coordinator, "join", GROUP)
def anybody_is_the_owner(self: Coordinator, member: int) -> tuple[int, int]:
    """Whoever asks is told that the partition is its own."""
    if self.owner is None:
        raise UnknownMember
    return self.generation, self.committed


# ------------------------------------------------------------------------------ a member


@breaks(Member, "join", GROUP)
def starts_where_it_was(self: Member, generation: int, committed: int) -> None:
    """A member that gets the partition back goes on at its own position."""
    if generation <= self.last:
        raise IllegalGeneration
    self.generation = self.last = generation
    self.position = max(committed, self.position)
    self.done = max(committed, self.done)
    self.sent = self.answered = 0


@breaks(Member, "join", GROUP)
def joins_the_same_generation_again(self: Member, generation: int, committed: int) -> None:
    """A member joins a generation that it was in before."""
    if generation < self.last or generation == 0:
        raise IllegalGeneration
    self.generation = self.last = generation
    self.position = self.done = committed
    self.sent = self.answered = 0


@breaks(Member, "join", GROUP)
def old_answers_count_in_the_new_generation(self: Member, generation: int, committed: int) -> None:
    """Joining does not forget which commits were answered: state that no spec variable shows."""
    if generation <= self.last:
        raise IllegalGeneration
    self.generation = self.last = generation
    self.position = self.done = committed


@breaks(Member, "poll", GROUP)
def polls_ahead(self: Member, log_end: int) -> int:
    """The next record is handed out before the last one is processed."""
    self._must_be_joined()
    if self.position >= log_end:
        raise InvalidRequest
    self.position += 1
    return self.position - 1


@breaks(Member, "poll", GROUP)
def polls_behind_the_end(self: Member, log_end: int) -> int:
    """A record is handed out that the log does not have."""
    self._must_be_joined()
    if self.position != self.done or self.position > log_end:
        raise InvalidRequest
    self.position += 1
    return self.position - 1


@breaks(Member, "process", GROUP)
def processes_before_the_answer(self: Member) -> int:
    """Who commits first does not wait until the commit has arrived."""
    self._must_be_joined()
    if self.done >= self.position:
        raise InvalidRequest
    self.done = self.position
    return self.done - 1


@breaks(Member, "send_commit", GROUP)
def commits_before_processing(self: Member) -> OffsetCommit:
    """Whatever the discipline, what was polled is committed."""
    self._must_be_joined()
    if self.position in (0, self.sent):
        raise InvalidRequest
    self.sent = self.position
    return OffsetCommit(self.id, self.generation, self.position)


@breaks(Member, "send_commit", GROUP)
def commits_one_too_few(self: Member) -> OffsetCommit:
    """The offset of the last record is committed, not that of the next: Kafka's oldest misuse."""
    self._must_be_joined()
    offset = (self.done if self.commit_when == "after" else self.position) - 1
    if offset <= 0 or offset == self.sent:
        raise InvalidRequest
    self.sent = offset
    return OffsetCommit(self.id, self.generation, offset)


@breaks(
    Member,
    "take_answer",
    GROUP,
    equivalent="What was answered is committed, and the group never goes back; so who joins later "
    "starts at or behind that offset, and never waits for the answer to it.",
)
def answers_of_any_generation_count(self: Member, commit: OffsetCommit) -> None:
    """An answer to a commit of an earlier generation counts in this one."""
    self.answered = max(self.answered, commit.offset)


@breaks(Member, "crash", GROUP)
def crash_remembers_the_position(self: Member) -> None:
    """A member that died still knows where it was."""
    self._must_be_joined()
    self.generation = self.sent = self.answered = 0


@breaks(Member, "_must_be_joined", GROUP)
def acts_without_joining(self: Member) -> None:
    """A member that never joined polls, and commits."""


# ------------------------------------------------------------------------------ the abstract log


@breaks(AbstractLog, "observe", TOP)
def readers_look_ahead(self: AbstractLog, reader: int, length: int) -> None:
    """A reader asks for more than there is, and is shown what there is."""
    self.views[reader] = tuple(self.committed[:length])


@breaks(AbstractLog, "lose", TOP)
def loss_without_leave(self: AbstractLog, length: int) -> None:
    """The log loses its end where nobody has allowed it."""
    if not 0 <= length < len(self.committed):
        raise InvalidRequest
    del self.committed[length:]
    self.views = {reader: view[:length] for reader, view in self.views.items()}


@breaks(AbstractLog, "lose", TOP)
def readers_keep_what_was_lost(self: AbstractLog, length: int) -> None:
    """Who has seen the lost records still does."""
    if not self.loss_allowed or not 0 <= length < len(self.committed):
        raise InvalidRequest
    del self.committed[length:]


@breaks(AbstractLog, "commit", TOP)
def commits_in_front(self: AbstractLog, record: object) -> None:
    """A record goes before the others: offsets shift."""
    self.committed.insert(0, record)
