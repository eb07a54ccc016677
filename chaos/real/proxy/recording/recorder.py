"""The recorder of a proxy: each request is told when it comes, each answer when it goes back."""

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from attrs import define, field

from chaos.real.proxy.passing import Answered, Connection, Passing
from chaos.real.proxy.recording.administering import Administrators
from chaos.real.proxy.recording.fetching import Reads
from chaos.real.proxy.recording.grouping import Groups
from chaos.real.proxy.recording.journals import Journals, folder_of
from chaos.real.proxy.recording.links import Link, Topics
from chaos.real.proxy.recording.sending import PRODUCE, Sends
from chaos.real.proxy.recording.sessions import Sessions
from chaos.real.proxy.recording.sharing import ShareGroups
from chaos.real.proxy.recording.transacting import Transactions
from refimpl.wire.api_names import api_names
from refimpl.wire.headers import read_client_id
from refimpl.wire.messages import is_flexible, read_request, read_response

log = logging.getLogger(__name__)
Handler = Callable[[Link, Any], Callable[[Any], None] | None]


@define
class Recorder:
    """All that passes a proxy, written down in the folder of a run. Raises NotOursError."""

    run: Path
    #: Requests and answers that could not be read, by API
    unread: dict[str, int] = field(factory=dict[str, int], init=False)
    _journals: Journals = field(init=False)
    _links: dict[Connection, Link] = field(factory=dict[Connection, Link], init=False)
    _sessions: Sessions = field(init=False)
    _sends: Sends = field(init=False)
    _reads: Reads = field(init=False)
    _groups: Groups = field(init=False)
    _share_groups: ShareGroups = field(init=False)
    _handlers: Mapping[int, Handler] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._journals = Journals(folder_of(self.run))
        topics = Topics()
        told = self._journals.begin("proxy", "admin", {})
        self._sessions = Sessions(self._journals)
        self._sends = Sends(topics, self._sessions)
        self._reads = Reads(topics)
        self._groups = Groups(topics)
        self._share_groups = ShareGroups(topics)
        transactions = Transactions(topics, self._sessions)
        administrators = Administrators(topics, told)
        by_name: Mapping[str, Any] = {
            "Fetch": self._reads.fetch,
            "ListOffsets": self._reads.list_offsets,
            "OffsetCommit": self._groups.commit,
            "OffsetFetch": self._groups.committed,
            "SyncGroup": self._groups.sync,
            "Heartbeat": self._groups.heartbeat,
            "LeaveGroup": self._groups.leave,
            "ConsumerGroupHeartbeat": self._groups.consumer_heartbeat,
            "ShareFetch": self._share_groups.fetch,
            "ShareAcknowledge": self._share_groups.acknowledge,
            "InitProducerId": transactions.init,
            "AddPartitionsToTxn": transactions.add_partitions,
            "AddOffsetsToTxn": transactions.add_offsets,
            "TxnOffsetCommit": transactions.send_offsets,
            "EndTxn": transactions.end,
            "Metadata": administrators.metadata,
            "DescribeConfigs": administrators.describe_configs,
            "AlterConfigs": administrators.alter_configs,
            "IncrementalAlterConfigs": administrators.alter_configs,
            "CreateTopics": administrators.create_topics,
            "DeleteTopics": administrators.delete_topics,
            "CreatePartitions": administrators.create_partitions,
            "DeleteRecords": administrators.delete_records,
            "DeleteGroups": administrators.delete_groups,
            "OffsetDelete": administrators.delete_offsets,
        }
        self._handlers = {
            key: by_name[name] for key, name in api_names().items() if name in by_name
        }

    def reads(self, key: int) -> bool:
        """True for an API of which no version may pass that cannot be read."""
        return key == PRODUCE or key in self._handlers

    def asked(self, passing: Passing) -> Answered | None:
        """A request has come; returned is what to do with its answer when that goes back."""
        if not self.reads(passing.key):
            return None
        try:
            return self._asked(passing)
        except Exception as error:  # a client's bytes; they pass, and the trace lacks them
            self._lacks(passing, error)
            return None

    def _asked(self, passing: Passing) -> Answered | None:
        key, version, frame = passing.key, passing.version, passing.frame
        client, position = read_client_id(frame, flexible=is_flexible(key, version))
        link = self._link(passing.connection, client)
        if key == PRODUCE:
            return self._safely(passing, self._sends.produce(link, version, frame, position))
        answer = self._handlers[key](link, read_request(key, version, frame, position))
        if answer is None:
            return None
        return self._safely(
            passing, lambda found, at: answer(read_response(key, version, found, at))
        )

    def _safely(self, passing: Passing, answered: Answered) -> Answered:
        def safely(found: bytes, at: int) -> None:
            try:
                answered(found, at)
            except Exception as error:  # a broker's bytes, and as with those of clients
                self._lacks(passing, error)

        return safely

    def _lacks(self, passing: Passing, error: Exception) -> None:
        name = api_names().get(passing.key, str(passing.key))
        if name not in self.unread:
            log.warning("%s version %d is not recorded: %r", name, passing.version, error)
        self.unread[name] = self.unread.get(name, 0) + 1

    def _link(self, connection: Connection, client: str | None) -> Link:
        if connection not in self._links:
            link = Link(client or "client", connection.node, self._journals)
            self._links[connection] = link
        return self._links[connection]

    def gone(self, connection: Connection) -> None:
        """A connection is closed."""
        link = self._links.pop(connection, None)
        if link is not None:
            self._reads.gone(link)
            self._groups.gone(link)
            self._share_groups.gone(link)
            self._sessions.gone(link)
            link.end()

    def ending(self) -> None:
        """The proxy ends, and then closes the connections of clients that go on."""
        self._sessions.cut()

    def end(self) -> None:
        """All connections are closed."""
        for connection in tuple(self._links):
            self.gone(connection)
        self._journals.end_all()
