"""What a group coordinator needs to know of topics."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

from refimpl.records.schema import Uuid


class TopicDescription(NamedTuple):
    """A topic: its id, its name, and of each partition the racks that its replicas are in."""

    topic_id: Uuid
    name: str
    racks: Sequence[frozenset[str]]

    @property
    def partitions(self) -> int:
        """How many partitions it has."""
        return len(self.racks)


class Topics(Protocol):
    """The topics of the cluster, as the coordinator's broker was told of them."""

    @property
    def version(self) -> int:
        """Grows whenever something may have changed."""
        ...

    def names(self) -> Iterable[str]:
        """All topics."""
        ...

    def by_name(self, name: str) -> TopicDescription | None:
        """A topic by its name."""
        ...

    def by_id(self, topic_id: Uuid) -> TopicDescription | None:
        """A topic by its id."""
        ...
