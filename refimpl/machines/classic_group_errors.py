"""Refusals of a classic group, one for each guard."""

from attrs import frozen

from refimpl.errors import InvalidRequest, Refusal


@frozen
class UnknownMemberId(Refusal):
    """The group has no such member: it was removed, or never was one."""

    kafka_error = "UNKNOWN_MEMBER_ID"
    says = "{member!r} is none of the group's {members} members"
    member: str
    members: int


@frozen
class UnknownInstanceId(Refusal):
    """No static member of the group has this instance id (KIP-345)."""

    kafka_error = "UNKNOWN_MEMBER_ID"
    says = "no member has the instance id {instance!r}, which {member!r} names"
    member: str
    instance: str


@frozen
class InstanceIdTakenOver(Refusal):
    """Another process has taken the instance id over (KIP-345)."""

    kafka_error = "FENCED_INSTANCE_ID"
    says = "the instance id {instance!r} is of {owner!r} now, and this is from {member!r}"
    member: str
    instance: str
    owner: str


@frozen
class WrongGeneration(Refusal):
    """The request is of another generation than the group's."""

    kafka_error = "ILLEGAL_GENERATION"
    says = "this is of generation {asked}, and the group is in {here}"
    asked: int
    here: int


@frozen
class RebalanceInProgress(Refusal):
    """The members of the next generation, or its assignment, are not known yet."""

    kafka_error = "REBALANCE_IN_PROGRESS"
    says = "generation {generation} is {state}"
    generation: int
    state: str


@frozen
class InconsistentGroupProtocol(Refusal):
    """The member is of another type than the group, or shares no protocol with all its members."""

    kafka_error = "INCONSISTENT_GROUP_PROTOCOL"
    says = "{asked}, where the group has {here}"
    asked: str
    here: str


@frozen
class ClassicGroupFull(Refusal):
    """The group has as many members as it may have (KIP-389)."""

    kafka_error = "GROUP_MAX_SIZE_REACHED"
    says = "{members} members, of {maximum} at most"
    members: int
    maximum: int


@frozen
class ClassicGroupNotEmpty(Refusal):
    """The group has members."""

    kafka_error = "NON_EMPTY_GROUP"
    says = "the group is {state}"
    state: str


@frozen
class NotDueYet(InvalidRequest):
    """The timer is of something that is over or was answered since: nothing expires."""

    says = "nothing to expire for {what} in state {state}"
    what: str
    state: str


@frozen
class PendingMemberIsStatic(InvalidRequest):
    """A member id that was given to a dynamic member comes with an instance id."""

    says = (
        "{member!r} was asked to join as a dynamic member, and names the instance id {instance!r}"
    )
    member: str
    instance: str


# The consumer's side


@frozen
class StillOwned(InvalidRequest):
    """A leader gives a partition to one member while another still owns it (KIP-429)."""

    says = "{partition} is given to {member}, and {owner} still owns it"
    partition: object
    member: object
    owner: object


@frozen
class NotOwned(InvalidRequest):
    """A consumer commits only its own partitions, in a generation that it is in."""

    says = "{partition} is not among the {owned} partitions that it owns in generation {generation}"
    partition: object
    owned: int
    generation: int
