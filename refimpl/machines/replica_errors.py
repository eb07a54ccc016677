"""Refusals of a replica, one for each guard."""

from attrs import frozen

from refimpl.errors import InvalidRequest, OffsetOutOfRange, Refusal


@frozen
class NotLeader(Refusal):
    """The request is for a leader, and this replica does not believe to be one."""

    kafka_error = "NOT_LEADER_OR_FOLLOWER"
    says = "replica {replica} does not lead: in leader epoch {epoch} that is {leader}"
    replica: int
    epoch: int
    leader: int | None


@frozen
class NotFollower(Refusal):
    """The action is a follower's, and this replica follows no leader."""

    kafka_error = "NOT_LEADER_OR_FOLLOWER"
    says = "replica {replica} follows nobody: the leader of epoch {epoch} is {leader}"
    replica: int
    epoch: int
    leader: int | None


@frozen
class UnknownLeaderEpoch(Refusal):
    """The sender is in a newer leader epoch, whose metadata has not arrived here yet (KIP-320)."""

    kafka_error = "UNKNOWN_LEADER_EPOCH"
    says = "the request of {sender} is of leader epoch {asked}, and here it is still {here}"
    sender: int
    asked: int
    here: int


@frozen
class OldDecision(Refusal):
    """A decision of the controller that is not newer than the one in force here."""

    kafka_error = "STALE_CONTROLLER_EPOCH"
    says = (
        "replica {replica} was told of leader epoch {asked}, partition epoch {partition_epoch}, "
        "and knows of leader epoch {here}, partition epoch {known}"
    )
    replica: int
    asked: int
    partition_epoch: int
    here: int
    known: int


@frozen
class NotItsRole(Refusal):
    """The decision gives this role to another broker."""

    kafka_error = "NOT_LEADER_OR_FOLLOWER"
    says = "replica {replica} is told to {role} in leader epoch {epoch}, which {leader} leads"
    replica: int
    role: str
    epoch: int
    leader: int | None


@frozen
class NotEnoughReplicas(Refusal):
    """The ISR is smaller than min.insync.replicas, so acks=all cannot be promised."""

    kafka_error = "NOT_ENOUGH_REPLICAS"
    says = "{isr} are in sync, and min.insync.replicas is {min_isr}"
    isr: frozenset[int]
    min_isr: int


@frozen
class NothingToCommit(InvalidRequest):
    """A member of the maximal ISR has no record above the high watermark."""

    says = "the least log end in {isr} is {least}, and the high watermark is {high_watermark}"
    isr: frozenset[int]
    least: int
    high_watermark: int


@frozen
class UndefinedEpoch(OffsetOutOfRange):
    """A log knows no end of an epoch above its latest (KIP-320)."""

    says = "asked where epoch {epoch} ends, of a log whose latest epoch is {latest}"
    epoch: int
    latest: int


@frozen
class OvertakenFetch(Refusal):
    """This fetch, or a later one, was received before: it is out of date."""

    kafka_error = "INVALID_FETCH_SESSION_EPOCH"
    says = "fetch {number} of replica {replica} comes after its fetch {newest}"
    replica: int
    number: int
    newest: int


@frozen
class AnswerNotAwaited(InvalidRequest):
    """The answer to a request that was given up, answered before, or sent by an earlier
    incarnation.
    """

    says = (
        "replica {replica} waits in incarnation {incarnation} for the answer to fetch {awaited} "
        "(0: to none), and this one answers fetch {number} of incarnation {asked_in}"
    )
    replica: int
    incarnation: int
    awaited: int
    asked_in: int
    number: int


@frozen
class NothingToCompare(OffsetOutOfRange):
    """A follower outside the ISR whose log has no epochs may lack records before its end.

    It begins anew at the leader's log start offset.
    """

    says = "the log of replica {replica} ends at {end} without epochs, and ours starts at {start}"
    replica: int
    end: int
    start: int


@frozen
class InsideLeadersLog(InvalidRequest):
    """A log that ends inside of the leader's goes on from there."""

    says = "the log ends at {offset}, and the leader's goes from {start} to {end}"
    offset: int
    start: int
    end: int


@frozen
class ImpossibleRestart(InvalidRequest):
    """A disk keeps a prefix of the log, and its checkpoint holds an earlier high watermark."""

    says = (
        "a restart with checkpoint {checkpoint} and {kept} records kept, "
        "of a log that ends at {end} with high watermark {high_watermark}"
    )
    checkpoint: int
    kept: int
    end: int
    high_watermark: int


@frozen
class LeaderStaysInIsr(InvalidRequest):
    """A leader does not take itself out of the ISR."""

    says = "{leader} leads, and cannot leave the ISR"
    leader: int


@frozen
class NotInIsr(InvalidRequest):
    """Only a member of the ISR can leave it."""

    says = "replica {replica} is not in the ISR {isr}"
    replica: int
    isr: frozenset[int]


@frozen
class AlreadyInIsr(InvalidRequest):
    """A member of the ISR cannot join it."""

    says = "replica {replica} is in the ISR {isr} already"
    replica: int
    isr: frozenset[int]


@frozen
class NotCaughtUp(InvalidRequest):
    """A follower joins the ISR only once it has reached the high watermark and the start of the
    epoch (KAFKA-7128).
    """

    says = (
        "replica {replica} ends at {end}; the high watermark is {high_watermark}, "
        "and the leader's epoch starts at {epoch_start}"
    )
    replica: int
    end: int
    high_watermark: int
    epoch_start: int


@frozen
class ChangePending(InvalidRequest):
    """One change of the ISR at a time (KIP-497)."""

    says = "the ISR {isr} is put to the controller, and not answered yet"
    isr: frozenset[int]


@frozen
class NoChangePending(InvalidRequest):
    """The answer to a change of the ISR that is settled, or that was never asked for."""

    says = "an answer to partition epoch {answered}; what is pending is {pending}"
    answered: int
    pending: int | None


@frozen
class StaysPending(Refusal):
    """The refusal of the controller settles nothing: only newer metadata does."""

    says = "the controller says {error}; the ISR {isr} stays pending"
    error: str
    isr: frozenset[int]


@frozen
class NotCaughtUpWithCurrent(Refusal):
    """A future log takes the place of the current one only with all of its records (KIP-113)."""

    kafka_error = "UNKNOWN_SERVER_ERROR"
    says = "the future log ends at {end}, where the current one ends at {current}"
    end: int
    current: int
