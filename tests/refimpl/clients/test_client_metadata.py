"""A client's metadata: older leader epochs are refused, and a topic made anew is another."""

from refimpl.clients.metadata import NOBODY, ClientMetadata
from refimpl.messages.broker import MetadataResponse, PartitionMetadata, TopicPartition
from refimpl.records.schema import Uuid

AT = TopicPartition("t", 0)
OLD, NEW = Uuid(b"o" * 16), Uuid(b"n" * 16)


def told(metadata: ClientMetadata, leader: int, epoch: int, id: Uuid = OLD) -> int:
    """The leader that the client knows after this answer."""
    one = PartitionMetadata(AT, None, leader, epoch, frozenset((1, 2, 3)))
    metadata.update(0, MetadataResponse([one], topic_ids={"t": id}))
    return metadata.leader(AT)


def new() -> ClientMetadata:
    metadata = ClientMetadata((1, 2, 3))
    metadata.use("t", 0)
    return metadata


def test_an_older_leader_epoch_is_refused_after_a_rebootstrap_as_well() -> None:
    """An idempotent producer that asked a deposed leader again wrote a record twice."""
    metadata = new()
    assert told(metadata, 1, 11) == 1
    assert told(metadata, 2, 8) == 1
    metadata.rebootstrap()
    assert metadata.leader(AT) == NOBODY
    assert told(metadata, 2, 8) == NOBODY
    assert metadata.wanted
    assert told(metadata, 3, 12) == 3


def test_the_leader_epochs_of_a_topic_that_was_made_anew_begin_again() -> None:
    metadata = new()
    assert told(metadata, 1, 11) == 1
    metadata.update(0, MetadataResponse([], {"t": "UNKNOWN_TOPIC_OR_PARTITION"}))
    assert told(metadata, 2, 1, NEW) == 2
