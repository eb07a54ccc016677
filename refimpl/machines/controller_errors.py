"""Refusals of the controller, one for each guard: partition changes, elections, brokers."""

from attrs import frozen

from refimpl.errors import EligibleLeadersNotAvailable, IneligibleReplica, InvalidRequest, Refusal


@frozen
class SupersededController(Refusal):
    """The leader has newer metadata, so this broker is not the controller any more
    (KAFKA-14154).
    """

    kafka_error = "NOT_CONTROLLER"
    says = "{leader} knows {what} {asked}, and here it is {here}"
    leader: int
    what: str
    asked: int
    here: int


@frozen
class NotTheLeader(InvalidRequest):
    """Only the current leader changes the ISR."""

    says = "{sender} asks, and {leader} leads"
    sender: int
    leader: int | None


@frozen
class InvalidUpdateVersion(Refusal):
    """The partition has changed since the leader asked: the update is conditional (KIP-497)."""

    kafka_error = "INVALID_UPDATE_VERSION"
    says = "asked at partition epoch {asked}, and here it is {here}"
    asked: int
    here: int


@frozen
class InvalidIsr(InvalidRequest):
    """An ISR holds the leader, and replicas of the partition only."""

    says = "the ISR {isr} must hold the leader {leader} and only replicas of {replicas}"
    isr: frozenset[int]
    leader: int
    replicas: frozenset[int]


@frozen
class InactiveReplica(IneligibleReplica):
    """A broker that is fenced or shutting down does not join the ISR (KIP-841)."""

    says = "broker {broker} is fenced or shutting down; active are {active}"
    broker: int
    active: frozenset[int]


@frozen
class RestartedReplica(IneligibleReplica):
    """The incarnation that caught up is over, and its log may be lost (KIP-903)."""

    says = "incarnation {asked} of broker {broker} caught up, and {here} is registered"
    broker: int
    asked: int
    here: int


@frozen
class NotAlive(EligibleLeadersNotAvailable):
    """A leader must be alive, and not shutting down."""

    says = "broker {broker} is fenced or shutting down; active are {active}"
    broker: int
    active: frozenset[int]


@frozen
class NotEligible(EligibleLeadersNotAvailable):
    """A leader must be in the ISR, or, while none of it is alive, in the ELR (KIP-966)."""

    says = "broker {broker} is not eligible: the ISR is {isr}, the ELR {elr}, active are {active}"
    broker: int
    isr: frozenset[int]
    elr: frozenset[int]
    active: frozenset[int]


@frozen
class UncleanElectionDisabled(EligibleLeadersNotAvailable):
    """unclean.leader.election.enable is false."""

    says = "broker {broker} may lack records, and unclean.leader.election.enable is false"
    broker: int


@frozen
class CleanElectionPossible(EligibleLeadersNotAvailable):
    """A replica that has all records is alive."""

    says = "broker {broker} may lack records, and {eligible} are alive"
    broker: int
    eligible: frozenset[int]


@frozen
class ElectionNotNeeded(Refusal):
    """The partition has a leader."""

    kafka_error = "ELECTION_NOT_NEEDED"
    says = "{leader} leads"
    leader: int


@frozen
class NoLeaderToReplace(EligibleLeadersNotAvailable):
    """There is no leader: this takes an election, not a move."""

    says = "nobody leads, so the leadership cannot be moved to {broker}"
    broker: int


@frozen
class LeaderStays(InvalidRequest):
    """Another broker is the leader, and goes on leading."""

    says = "{gone} is gone, and {leader} goes on leading, not {successor}"
    gone: int
    leader: int
    successor: int


@frozen
class SuccessorAvailable(InvalidRequest):
    """A partition goes offline only when no other member of its ISR is active."""

    says = "{gone} is gone, and {others} of the ISR are there"
    gone: int
    others: frozenset[int]


@frozen
class NoneInSync(EligibleLeadersNotAvailable):
    """A reassignment keeps at least one replica that is in sync."""

    says = "none of {replicas} is in the ISR {isr}"
    replicas: frozenset[int]
    isr: frozenset[int]


@frozen
class NotAReplica(EligibleLeadersNotAvailable):
    """Only a replica has a log of the partition, and may lead it."""

    says = "{broker} is none of the replicas {replicas}"
    broker: int
    replicas: frozenset[int]


@frozen
class AlreadyOffline(InvalidRequest):
    """A partition without a leader cannot lose it."""

    says = "{gone} is gone, and nobody led"
    gone: int


@frozen
class BrokerNotRegistered(Refusal):
    """The broker has not registered."""

    kafka_error = "BROKER_ID_NOT_REGISTERED"
    says = "broker {broker} has not registered"
    broker: int


@frozen
class DuplicateRegistration(Refusal):
    """Another process of this id is alive."""

    kafka_error = "DUPLICATE_BROKER_REGISTRATION"
    says = "broker {broker} registers as incarnation {asked}, and {here} of it is alive"
    broker: int
    asked: int
    here: int


@frozen
class AlreadyFenced(InvalidRequest):
    """A broker is fenced once."""

    says = "broker {broker} is fenced already"
    broker: int


@frozen
class AlreadyUnfenced(InvalidRequest):
    """A broker is unfenced once."""

    says = "broker {broker} is alive already"
    broker: int


@frozen
class ShuttingDown(InvalidRequest):
    """A controlled shutdown is final for the incarnation that asked for it."""

    says = "incarnation {incarnation} of broker {broker} is shutting down"
    broker: int
    incarnation: int
