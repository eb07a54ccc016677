"""The part of a member that both group protocols share, and what it wants of its consumer."""

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, Protocol

from attrs import define, field

from refimpl.clients.consumer.config import ConsumerConfig
from refimpl.clients.consumer.errors import NOT_A_MEMBER
from refimpl.clients.coordinator import Coordinator
from refimpl.clients.metadata import ClientMetadata
from refimpl.messages.broker import TopicPartition
from refimpl.records.schema import NO_ID, Uuid

Step = Callable[[int], None]


class Owner(Protocol):
    """The consumer, whose application hears of every change before the next one begins.

    Each is done in its turn, while the application polls: `then` is called after it.
    """

    metadata: ClientMetadata

    @property
    def is_settled(self) -> bool:
        """True if the application has heard of all changes so far."""
        ...

    def revoke(
        self,
        now: int,
        partitions: Collection[TopicPartition],
        then: Step,
        *,
        commits: bool = True,
    ) -> None:
        """These are given up: positions are committed, and the listener is called."""
        ...

    def lose(self, now: int, partitions: Collection[TopicPartition], then: Step) -> None:
        """These are lost: others may own them, and nothing is committed."""
        ...

    def take(self, now: int, partitions: Collection[TopicPartition]) -> None:
        """These are owned from now on, beside those that were before."""
        ...


@define(eq=False)
class Membership:
    """A member of a group by one of the protocols; `group_generation` is that of its commits."""

    config: ConsumerConfig
    coordinator: Coordinator
    owner: Owner
    topics: frozenset[str] = frozenset()
    member_id: str = ""
    #: A request of the protocol waits for its answer
    asking: bool = field(default=False, init=False)
    #: Nothing is sent before this time
    not_before: int = field(default=0, init=False)
    #: When it joined the last time
    joined_ms: int = field(default=0, init=False)
    next_heartbeat: int = field(default=0, init=False)
    #: It has left because the application polls no more (max.poll.interval.ms)
    expired: bool = field(default=False, init=False)
    #: The application's next poll ends with this, before anything else is done
    error: tuple[str, str] | None = field(default=None, init=False)
    #: Another member has its group.instance.id: no poll succeeds any more
    is_fenced: bool = field(default=False, init=False)
    #: It has left for good
    ended: bool = field(default=False, init=False)

    @property
    def group_generation(self) -> int:
        """The generation, or member epoch, that it is in; -1 if in none."""
        raise NotImplementedError

    @property
    def is_member(self) -> bool:
        """True if the group counts on it."""
        raise NotImplementedError

    def is_heard(self, now: int) -> bool:
        """True while its coordinator answers."""
        return True

    @property
    def rejoins(self) -> bool:
        """True if it joins, or is about to: then it commits nothing automatically at a poll."""
        return False

    @property
    def lives(self) -> bool:
        """True if the group waits for its heartbeats."""
        return self.is_member

    def subscribe(self, topics: frozenset[str]) -> None:
        """It reads these topics from now on."""
        raise NotImplementedError

    def run(self, now: int, polling: bool) -> None:
        """Do what the protocol requires now."""
        raise NotImplementedError

    def lost(self, now: int, error: str) -> None:
        """The group has gone on without it."""
        raise NotImplementedError

    def commit_refused(self, now: int, error: str, generation: int) -> None:
        """A commit of a generation was refused with an error of its member."""
        if generation == self.group_generation and error in NOT_A_MEMBER:
            self.lost(now, error)

    @property
    def commit_refusal(self) -> str | None:
        """The error of a commit that it may not send now."""
        return None

    def leaving(self) -> Any:
        """The request by which it leaves, None if it ends without a word."""
        raise NotImplementedError

    def leave(self, now: int, then: Step) -> None:
        """Leave the group; `then` is called when it has heard of it, or cannot."""
        body = self.leaving() if self.is_member else None
        self.ended = True
        if body is None or not self.coordinator.is_ready(now):
            then(now)
        else:
            self.coordinator.ask(now, body, lambda at, _: then(at))

    def due(self, now: int, polling: bool) -> float:
        """When there is something to do next."""
        raise NotImplementedError

    def _trouble(self, now: int, error: str | None) -> bool:
        """True if the coordinator itself is in trouble; the request is sent again later."""
        self.not_before = now + self.coordinator.network.backoff.wait_ms(0)
        return self.coordinator.is_trouble(now, error)

    def _fatal(self, error: str, message: str) -> None:
        self.error = error, message


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """The numbers of partitions, topic by topic."""
    found: dict[str, list[int]] = {}
    for topic, number in sorted(partitions):
        found.setdefault(topic, []).append(number)
    return found


def names(metadata: ClientMetadata) -> dict[Uuid, str]:
    """The topics in use by their ids."""
    return {id: name for name, id in metadata.topic_ids.items() if id != NO_ID}


def sorted_partitions(partitions: Iterable[Sequence[Any]]) -> list[TopicPartition]:
    """Pairs of topic and number as partitions, in order."""
    return sorted(TopicPartition(*one) for one in partitions)
