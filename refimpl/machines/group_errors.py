"""Refusals of a group coordinator and its members, one for each guard."""

from attrs import frozen

from refimpl.errors import InvalidRequest, Refusal


@frozen
class IllegalGeneration(Refusal):
    """The member's generation is over, or not newer; another member may own the partition."""

    kafka_error = "ILLEGAL_GENERATION"
    says = "this is of generation {asked}, and here it is {here}"
    asked: int
    here: int


@frozen
class NotTheOwner(Refusal):
    """The group does not know this member as the partition's owner."""

    kafka_error = "UNKNOWN_MEMBER_ID"
    says = "member {member} asks, and {owner} owns the partition"
    member: int
    owner: int | None


@frozen
class NotJoined(Refusal):
    """The member is in no generation."""

    kafka_error = "UNKNOWN_MEMBER_ID"
    says = "member {member} has not joined"
    member: int


@frozen
class ForeignAnswer(Refusal):
    """An answer for another member."""

    kafka_error = "UNKNOWN_MEMBER_ID"
    says = "member {member} gets an answer for member {addressee}"
    member: int
    addressee: int


@frozen
class OvertakenCommit(Refusal):
    """A later commit of the same member arrived first; this one's connection is gone."""

    kafka_error = "NETWORK_EXCEPTION"
    says = "member {member} committed {newest} already, and this says {offset}"
    member: int
    offset: int
    newest: int


@frozen
class NotProcessedYet(InvalidRequest):
    """One record at a time: the one before is not processed."""

    says = "position {position}, processed up to {done}"
    position: int
    done: int


@frozen
class EndOfLog(InvalidRequest):
    """There is no further record."""

    says = "position {position} of a log that ends at {end}"
    position: int
    end: int


@frozen
class NothingHandedOut(InvalidRequest):
    """Everything that was handed out is processed."""

    says = "position {position}, processed up to {done}"
    position: int
    done: int


@frozen
class CommitNotAnswered(InvalidRequest):
    """A member that commits before processing waits for the answer first."""

    says = "position {position}, and the last commit that was answered says {answered}"
    position: int
    answered: int


@frozen
class NothingNewToCommit(InvalidRequest):
    """The offset is 0, or was sent already."""

    says = "offset {offset}, and {sent} was sent last"
    offset: int
    sent: int
