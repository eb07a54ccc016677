"""What an operation on a group decides: changes, answers and timers.

An operation changes nothing by itself. The coordinator appends the records among the changes as
one batch, replays them into its state, and lets the answers go once they are committed.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

from attrs import frozen

from refimpl.records.coordinators import CoordinatorRecord

Token: TypeAlias = int
"""Names a request that is not answered yet; an operation may park it, and another answer it."""

Group: TypeAlias = Any
"""A group's value, which only the logic of its type looks into; it is never changed in place."""


class Soft(NamedTuple):
    """A change of what is not written down: the group's value from now on; None for no group."""

    group_id: str
    group: Group | None


class Answer(NamedTuple):
    """A response to the request of this token."""

    token: Token
    body: Any


class TimerKey(NamedTuple):
    """What a timer is for. Setting a timer again replaces it."""

    kind: str
    group_id: str = ""
    member_id: str = ""


@frozen
class Outcome:
    """What an operation decides. A timer is set to a time in ms, or cancelled by None.

    Answers wait until all that is written is committed, but for those who looked at nothing else.
    """

    changes: Sequence[CoordinatorRecord | Soft] = ()
    answers: Sequence[Answer] = ()
    timers: Mapping[TimerKey, int | None] = {}
    waits: bool = True

    @property
    def records(self) -> Sequence[CoordinatorRecord]:
        """The changes that are written down."""
        return [one for one in self.changes if isinstance(one, CoordinatorRecord)]


NOTHING = Outcome()

Handler: TypeAlias = Callable[[int, Token, Any], Outcome]
"""Takes the time, a request's token and the request. Raises Refusal to answer with its error."""


class Performed(NamedTuple):
    """An operation on a group that is over, for whoever watches: the request or the timer, the
    error that it was refused with, the group before and after it, None for no group, and where the
    log ends now."""

    about: Any
    error: str | None
    before: Group
    after: Group
    answers: Sequence[Answer]
    end: int


@frozen
class CommitBy:
    """Who commits or reads offsets: the claims of an OffsetCommit or OffsetFetch request."""

    member_id: str
    generation_id: int
    group_instance_id: str | None = None
    knows_member_epochs: bool = True


class GroupLogic(Protocol):
    """The rules of one type of groups, as a coordinator calls them: CLASSIC or CONSUMER.

    `handlers` are by the type of request, `timers` by the kind of timer, and `record_types` are the
    numbers of the records that `replay` takes.
    """

    group_type: str
    handlers: Mapping[type, Handler]
    timers: Mapping[str, Callable[[int, TimerKey], Outcome]]
    record_types: frozenset[int]

    def owns(self, group: Group) -> bool:
        """Whether a group is of this type."""
        ...

    def replay(self, group: Group | None, record: CoordinatorRecord) -> Group | None:
        """The group after a record; None where it leaves nothing. `group` may be of another type,
        or none."""
        ...

    def loaded(self, now: int, group_id: str, group: Group) -> Outcome:
        """A group has been loaded: its timers start afresh."""
        ...

    # What a coordinator asks of any group

    def check_commit(
        self, now: int, group: Group, by: CommitBy, request: Any
    ) -> Mapping[TimerKey, int | None]:
        """Refuse a commit that must not count. Answers timers: who commits lives."""
        ...

    def check_fetch(self, group: Group, by: CommitBy) -> None:
        """Refuse who may not read the group's offsets."""
        ...

    def subscribed_topics(self, group: Group) -> frozenset[str] | None:
        """The topics that members subscribe to; None where nobody can know."""
        ...

    def listed(self, group: Group) -> tuple[str, str]:
        """Protocol type and state, as ListGroups has them."""
        ...

    def check_delete_offsets(self, group: Group) -> None:
        """Refuse to delete offsets of topics that nobody subscribes to."""
        ...

    def described(self, group_id: str, group: Group) -> Any:
        """The response to DescribeGroup, or to ConsumerGroupDescribe."""
        ...

    def deletion(self, group_id: str, group: Group) -> Sequence[CoordinatorRecord]:
        """The tombstones of a group without members. Refused, for one with members."""
        ...

    def offsets_expire_from(self, group: Group, topic: str, commit_timestamp: int) -> int | None:
        """Since when an offset counts as unused (KIP-211); None while it is in use."""
        ...

    def is_empty(self, group: Group) -> bool:
        """Whether a group without offsets may go."""
        ...
