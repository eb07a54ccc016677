"""A group coordinator's interface to topics."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

from refimpl.records.schema import Uuid


class TopicDescription(NamedTuple):
    """A topic: its id, its name, and for each partition the racks of its replicas."""

    topic_id: Uuid
    name: str
    racks: Sequence[frozenset[str]]

    @property
    def partitions(self) -> int:
        """The number of its partitions."""
        return len(self.racks)


class Topics(Protocol):
    """The topics of the cluster, as the coordinator's broker knows them."""

    @property
    def version(self) -> int:
        """A number that grows whenever a topic may have changed."""
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
