"""The rules of one type of groups, as a group coordinator calls them."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

from attrs import frozen

from refimpl.coordinator.operation import Handler, Outcome, TimerKey
from refimpl.records.coordinators import CoordinatorRecord

Group: TypeAlias = Any
"""A group's value, which only the logic of its type looks into; it is never changed in place."""


@frozen
class CommitBy:
    """The client that commits or reads offsets: the claims of its OffsetCommit or OffsetFetch
    request.
    """

    member_id: str
    generation_id: int
    group_instance_id: str | None = None
    knows_member_epochs: bool = True
    transactional: bool = False


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
        """True if a group is of this type."""
        ...

    def replay(self, group: Group | None, record: CoordinatorRecord) -> Group | None:
        """The group after a record; None if it leaves none. `group` may be None, or of another
        type.
        """
        ...

    def loaded(self, now: int, group_id: str, group: Group) -> Outcome:
        """Start the timers of a loaded group afresh."""
        ...

    # The interface for any type of group

    def check_commit(
        self, now: int, group: Group, by: CommitBy, request: Any
    ) -> Mapping[TimerKey, int | None]:
        """Refuse a commit that must not count. Return timers: a commit counts as a heartbeat."""
        ...

    def check_fetch(self, group: Group, by: CommitBy) -> None:
        """Refuse a client that may not read the group's offsets."""
        ...

    def subscribed_topics(self, group: Group) -> frozenset[str] | None:
        """The topics that members subscribe to; None if they cannot be known."""
        ...

    def listed(self, group: Group) -> tuple[str, str]:
        """Protocol type and state, as ListGroups has them."""
        ...

    def check_delete_offsets(self, group: Group) -> None:
        """Refuse to delete offsets if the group's subscriptions cannot be known."""
        ...

    def described(self, group_id: str, group: Group) -> Any:
        """The response to DescribeGroup, or to ConsumerGroupDescribe."""
        ...

    def deletion(self, group_id: str, group: Group) -> Sequence[CoordinatorRecord]:
        """The tombstones of a group without members; a group with members is refused."""
        ...

    def offsets_expire_from(self, group: Group, topic: str, commit_timestamp: int) -> int | None:
        """The time from which an offset counts as unused (KIP-211); None while it is in use."""
        ...

    def is_empty(self, group: Group) -> bool:
        """True if a group without offsets may be removed."""
        ...


def is_blank(text: str | None) -> bool:
    """True for a text that is there and has nothing in it but spaces."""
    return text is not None and not text.strip()
