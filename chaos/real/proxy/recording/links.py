"""A client's connection as its requests show it, and the processes that it stands for.

A connection belongs to one client, and keeps the order of its requests. More is not certain: a
client has several connections, and several clients may have one client.id. So a connection is a
process of its own, apart in what it reads, sends, and asks a coordinator.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any
from uuid import UUID

from attrs import define, field

from chaos.real.proxy.recording.journals import Journals
from refimpl.wire.errors import error_names
from traces.record.process import Process
from traces.record.topic_ids import in_our_words

#: Topics of the brokers themselves: no application's promises are about them.
INTERNAL = ("__consumer_offsets", "__transaction_state", "__share_group_state")


@define(eq=False)
class Link:
    """A connection. `node` tells the broker behind it, once it is known."""

    client: str
    node: Callable[[], int | None]
    journals: Journals
    processes: dict[str, Process] = field(factory=dict[str, Process], init=False)

    def process(self, use: str, role: str, configured: Mapping[str, Any]) -> Process:
        """The process of a use of this connection, begun with the first call."""
        if use not in self.processes:
            node = self.node()
            broker = "" if node is None else f"@{node}"
            name = f"{self.client}{broker}-{use}"
            self.processes[use] = self.journals.begin(name, role, configured)
        return self.processes[use]

    def end(self) -> None:
        """The connection is closed."""
        for process in self.processes.values():
            self.journals.end(process)
        self.processes.clear()


@define
class Topics:
    """Names of topics by their ids, as answers of Metadata and CreateTopics tell them."""

    names: dict[UUID, str] = field(factory=dict[UUID, str], init=False)

    def name_of(self, topic: Any) -> str | None:
        """The name of a topic in a request or an answer; None if nobody has told it."""
        name = getattr(topic, "name", None) or getattr(topic, "topic", None)
        if name is not None:
            return None if name in INTERNAL else str(name)
        id = getattr(topic, "topic_id", None)
        return None if id is None else self.named(id)

    def named(self, id: UUID) -> str | None:
        """The name of the topic with this id."""
        name = self.names.get(id)
        return None if name in INTERNAL else name

    def ids(self, topics: Iterable[Any]) -> dict[str, str]:
        """The ids of topics that a request names by id."""
        found = {self.name_of(one): getattr(one, "topic_id", None) for one in topics}
        return {name: in_our_words(id) for name, id in found.items() if name is not None and id}


def code_of(answer: Any) -> int:
    """The number of an error in an answer, 0 for none."""
    found = answer if not hasattr(answer, "error_code") else answer.error_code
    return int(getattr(found, "value", found))


def name_of(code: int) -> str:
    """Kafka's name of an error."""
    return error_names().get(code, f"UNKNOWN_{code}")


def placed(topic: str, partition: int) -> str:
    """A partition as the trace names it."""
    return f"{topic}:{partition}"
