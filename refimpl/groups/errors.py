"""Refusals of group coordinators; those of one group's rules are in the machines."""

from attrs import frozen

from refimpl.errors import Refusal


@frozen
class GroupIdNotFound(Refusal):
    """There is no such group."""

    kafka_error = "GROUP_ID_NOT_FOUND"
    says = "Group {group} not found."
    group: str


@frozen
class StaleGeneration(Refusal):
    """A producer names a member epoch in which the member does not own these partitions."""

    kafka_error = "ILLEGAL_GENERATION"
    says = "generation {generation} of member {member} in group {group}: {why}"
    group: str
    member: str
    generation: int
    why: str


@frozen
class UnknownGeneration(Refusal):
    """A commit names a generation, and the group does not exist here."""

    kafka_error = "ILLEGAL_GENERATION"
    says = "generation {generation} of group {group}, which is not here"
    group: str
    generation: int


@frozen
class NobodyIsMember(Refusal):
    """A member commits for a group that never had members."""

    kafka_error = "UNKNOWN_MEMBER_ID"
    says = "group {group} has no members, and {member} commits"
    group: str
    member: str


@frozen
class UnknownGroupMember(Refusal):
    """The group of this member does not exist here, or is of another type."""

    kafka_error = "UNKNOWN_MEMBER_ID"
    says = "there is no classic group {group}, of which {member!r} would be a member"
    group: str
    member: str


@frozen
class OtherGroupType(Refusal):
    """A group of another type has members."""

    kafka_error = "INCONSISTENT_GROUP_PROTOCOL"
    says = "group {group} is of type {type}, and has members"
    group: str
    type: str


@frozen
class InvalidSessionTimeout(Refusal):
    """The session timeout is outside the broker's limits."""

    kafka_error = "INVALID_SESSION_TIMEOUT"
    says = "a session of {asked} ms, where {least} to {most} are allowed"
    asked: int
    least: int
    most: int
