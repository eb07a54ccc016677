"""The control records of a quorum of controllers: KIP-595, KIP-630, KIP-853."""

from typing import Annotated, Any

from attrs import frozen

from refimpl.records.schema import ID, NO_ID, UINT16, Id, Int16, Int32, Int64, Text, Uuid, since
from refimpl.storage.format.control import ControlType


@frozen(kw_only=True)
class QuorumVoter:
    """A voter, by the directory it votes from."""

    voter_id: Int32
    voter_directory_id: Annotated[Uuid, ID, since(1)] = NO_ID


@frozen
class LeaderChangeMessage:
    """The leader from here on, and its voters."""

    version: Int16
    leader_id: Int32
    voters: tuple[QuorumVoter, ...]
    granting_voters: tuple[QuorumVoter, ...]


@frozen
class SnapshotHeaderRecord:
    """The first record of a snapshot."""

    version: Int16
    last_contained_log_timestamp: Int64


@frozen
class SnapshotFooterRecord:
    """The last record of a snapshot."""

    version: Int16


@frozen
class KRaftVersionRecord:
    """The version of the quorum's protocol."""

    version: Int16
    k_raft_version: Int16


@frozen
class VoterEndpoint:
    """A listener of a voter."""

    name: Text
    host: Text
    port: Annotated[int, UINT16]


@frozen
class KRaftVersionFeature:
    """The versions of the quorum's protocol that a voter speaks."""

    min_supported_version: Int16
    max_supported_version: Int16


@frozen
class Voter:
    """A voter as the set of voters names it."""

    voter_id: Int32
    voter_directory_id: Id
    endpoints: tuple[VoterEndpoint, ...]
    k_raft_version_feature: KRaftVersionFeature


@frozen
class VotersRecord:
    """The set of voters."""

    version: Int16
    voters: tuple[Voter, ...]


#: How the tool announces each message, its schema, and the newest version that we know.
CONTROL_MESSAGES: dict[ControlType, tuple[str, type[Any], int]] = {
    ControlType.LEADER_CHANGE: ("LeaderChange:", LeaderChangeMessage, 1),
    ControlType.SNAPSHOT_HEADER: ("SnapshotHeader", SnapshotHeaderRecord, 0),
    ControlType.SNAPSHOT_FOOTER: ("SnapshotFooter", SnapshotFooterRecord, 0),
    ControlType.KRAFT_VERSION: ("KRaftVersion", KRaftVersionRecord, 0),
    ControlType.KRAFT_VOTERS: ("KRaftVoters", VotersRecord, 0),
}
