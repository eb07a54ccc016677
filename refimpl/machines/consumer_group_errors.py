"""Refusals of a consumer group of KIP-848, one for each guard."""

from attrs import Factory, field, frozen

from refimpl.errors import Refusal


@frozen
class UnknownMember(Refusal):
    """The group has no such member."""

    kafka_error = "UNKNOWN_MEMBER_ID"
    says = "Member {member} is not a member of group {group}."
    member: str
    group: str


@frozen
class UnknownInstance(Refusal):
    """No static member of the group has this instance id."""

    kafka_error = "UNKNOWN_MEMBER_ID"
    says = "Instance id {instance} is unknown."
    instance: str


def _which(refusal: "FencedMemberEpoch") -> str:
    return "greater" if refusal.asked > refusal.here else "smaller"


@frozen
class FencedMemberEpoch(Refusal):
    """The member's epoch is neither the current one nor, with all it owns, the one before."""

    kafka_error = "FENCED_MEMBER_EPOCH"
    says = (
        "The consumer group member has a {which} member epoch ({asked}) than the one known by the "
        "group coordinator ({here}). The member must abandon all its partitions and rejoin."
    )
    member: str
    asked: int
    here: int
    which: str = field(default=Factory(_which, takes_self=True), init=False)


@frozen
class UnknownState(Refusal):
    """A newer coordinator left the member in a state that this one does not know."""

    kafka_error = "FENCED_MEMBER_EPOCH"
    says = "Member {member} is in state {state}. It must abandon all its partitions and rejoin."
    member: str
    state: int


@frozen
class UnreleasedInstanceId(Refusal):
    """The process before has not left: two processes would own the same partitions (KIP-848)."""

    kafka_error = "UNRELEASED_INSTANCE_ID"
    says = (
        "Static member {member} with instance id {instance} cannot join the group because the "
        "instance id is owned by {owner} member."
    )
    member: str
    instance: str
    owner: str


@frozen
class FencedInstanceId(Refusal):
    """Another process has taken the instance id over."""

    kafka_error = "FENCED_INSTANCE_ID"
    says = "Static member {member} with instance id {instance} was fenced by member {owner}."
    member: str
    instance: str
    owner: str


@frozen
class GroupMaxSizeReached(Refusal):
    """The group takes no more members."""

    kafka_error = "GROUP_MAX_SIZE_REACHED"
    says = "The consumer group has reached its maximum capacity of {size} members."
    size: int


@frozen
class StaleMemberEpoch(Refusal):
    """A commit or a fetch of offsets in another epoch than the member's."""

    kafka_error = "STALE_MEMBER_EPOCH"
    says = "The received member epoch {asked} does not match the expected member epoch {here}."
    asked: int
    here: int


@frozen
class NotAssignedSince(Refusal):
    """A commit of a partition that the member does not have, or got after that epoch."""

    kafka_error = "STALE_MEMBER_EPOCH"
    says = "Received member epoch {asked}, and the partition's assignment epoch is {assigned}."
    asked: int
    assigned: int | None


@frozen
class NotInGeneration(StaleMemberEpoch):
    """As StaleMemberEpoch, for a member of the classic protocol: its epoch is its generation."""

    kafka_error = "ILLEGAL_GENERATION"


@frozen
class NotInGenerationSince(NotAssignedSince):
    """As NotAssignedSince, for a member of the classic protocol."""

    kafka_error = "ILLEGAL_GENERATION"


@frozen
class OtherProtocol(Refusal):
    """A request of the classic protocol from a member that uses the consumer protocol."""

    kafka_error = "UNKNOWN_MEMBER_ID"
    says = "Member {member} does not use the classic protocol."
    member: str


@frozen
class ProtocolsNotSupported(Refusal):
    """A member that joins by the classic protocol shares no assignor with the other classic
    members, or its metadata cannot be parsed.
    """

    kafka_error = "INCONSISTENT_GROUP_PROTOCOL"
    says = "Member {member}'s protocols are not supported."
    member: str


@frozen
class OtherAssignor(Refusal):
    """A member asks for its assignment by another assignor than the coordinator named."""

    kafka_error = "INCONSISTENT_GROUP_PROTOCOL"
    says = "{asked} is not {here}, which the answer to the join named."
    asked: str
    here: str


@frozen
class NotConvertible(Refusal):
    """A classic group cannot go on as a consumer group with the members that it has."""

    kafka_error = "GROUP_ID_NOT_FOUND"
    says = "Cannot upgrade classic group {group} to consumer group because {why}."
    group: str
    why: str


@frozen
class OlderClient(Refusal):
    """The client does not know member epochs: OffsetCommit before version 9."""

    kafka_error = "UNSUPPORTED_VERSION"
    says = (
        "OffsetCommit version 9 or above must be used by members using the consumer group "
        "protocol ({member})"
    )
    member: str


@frozen
class NonEmptyGroup(Refusal):
    """The group has members."""

    kafka_error = "NON_EMPTY_GROUP"
    says = "Group {group} has {members} members."
    group: str
    members: int
