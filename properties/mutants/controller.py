"""Bugs of the controller's record of a partition."""

from properties.mutants.shelf import breaks
from refimpl.errors import (
    EligibleLeadersNotAvailable,
    FencedLeaderEpoch,
    IneligibleReplica,
    InvalidRequest,
)
from refimpl.machines.controller import PartitionState

# Mutants reach into the machines: that is what they are for.
# pyright: reportPrivateUsage=false

REPLICATION = ("Truncation", "DurableIsr")
TRUNCATION = ("Truncation",)
DURABLE = ("DurableIsr",)

# ------------------------------------------------------------------------------ the ISR


@breaks(PartitionState, "shrink_isr", TRUNCATION, "KIP-497")
def stale_leader_shrinks_the_isr(
    self: PartitionState, leader: int, epoch: int, follower: int
) -> None:
    """A leader of an older epoch changes the ISR: the update is not conditional."""
    if follower == leader or follower not in self.isr:
        raise InvalidRequest
    self.isr, self.elr = self.isr - {follower}, self._elr_without(follower)


@breaks(PartitionState, "_must_be_current", TRUNCATION, "KIP-497")
def epoch_is_not_compared(self: PartitionState, leader: int, epoch: int) -> None:
    """The leader is asked who it is, and not in which epoch it leads."""
    if leader != self.leader:
        raise FencedLeaderEpoch


@breaks(PartitionState, "expand_isr", TRUNCATION, "KIP-903")
def incarnation_is_not_compared(
    self: PartitionState, leader: int, epoch: int, follower: int, incarnation: int
) -> None:
    """A follower joins the ISR on the word of an earlier incarnation, which had a longer log."""
    self._must_be_current(leader, epoch)
    if follower in self.isr:
        raise InvalidRequest
    if follower not in self.alive:
        raise IneligibleReplica
    self.isr = self.isr | {follower}
    self.elr = frozenset() if len(self.isr) >= self.min_isr else self.elr - {follower}


@breaks(PartitionState, "expand_isr", DURABLE, "KIP-841")
def the_dead_join_the_isr(
    self: PartitionState, leader: int, epoch: int, follower: int, incarnation: int
) -> None:
    """A broker that is fenced is let into the ISR."""
    self._must_be_current(leader, epoch)
    if follower in self.isr:
        raise InvalidRequest
    self.isr = self.isr | {follower}
    self.elr = frozenset() if len(self.isr) >= self.min_isr else self.elr - {follower}


@breaks(PartitionState, "expand_isr", DURABLE, "KIP-966")
def elr_outlives_a_full_isr(
    self: PartitionState, leader: int, epoch: int, follower: int, incarnation: int
) -> None:
    """Once the ISR has its minimum again, who is not in it may lack records, and stays eligible."""
    self._must_be_current(leader, epoch)
    if follower in self.isr:
        raise InvalidRequest
    if follower not in self.alive or incarnation != self.incarnations.get(follower, 0):
        raise IneligibleReplica
    self.isr, self.elr = self.isr | {follower}, self.elr - {follower}


@breaks(PartitionState, "_elr_without", DURABLE, "KIP-966")
def nobody_is_eligible(self: PartitionState, broker: int) -> frozenset[int]:
    """Who leaves the ISR is forgotten, as before KIP-966, but the last one leaves too."""
    return frozenset()


@breaks(PartitionState, "_elr_without", DURABLE, "KIP-966")
def everybody_is_eligible(self: PartitionState, broker: int) -> frozenset[int]:
    """Who leaves an ISR that is large enough stays eligible, though it falls behind."""
    return self.elr | {broker} if self.elr_enabled else frozenset()


@breaks(PartitionState, "_elr_without", DURABLE, "KIP-966")
def only_the_last_is_eligible(self: PartitionState, broker: int) -> frozenset[int]:
    """Who left the ISR before is forgotten when the next one leaves."""
    if self.elr_enabled and len(self.isr - {broker}) < self.min_isr:
        return frozenset({broker})
    return frozenset()


# ------------------------------------------------------------------------------ elections


@breaks(PartitionState, "elect", REPLICATION)
def elects_from_outside(self: PartitionState, broker: int) -> None:
    """Whoever is alive may lead: unclean election by default."""
    if broker not in self.alive:
        raise EligibleLeadersNotAvailable
    self._decide(broker, self.isr | {broker}, self.elr - {broker})


@breaks(PartitionState, "elect", DURABLE)
def elects_the_dead(self: PartitionState, broker: int) -> None:
    """Nobody looks whether the new leader is alive."""
    if broker not in self.isr and (self.isr & self.alive or broker not in self.elr):
        raise EligibleLeadersNotAvailable
    self._decide(broker, self.isr | {broker}, self.elr - {broker})


@breaks(PartitionState, "elect", DURABLE, "KIP-966")
def elects_from_the_elr_too_early(self: PartitionState, broker: int) -> None:
    """The ELR may lead although a member of the ISR is there, which has more."""
    if broker not in self.alive or broker not in self.isr | self.elr:
        raise EligibleLeadersNotAvailable
    self._decide(broker, self.isr | {broker}, self.elr - {broker})


@breaks(PartitionState, "elect", DURABLE, "KIP-966")
def never_elects_from_the_elr(self: PartitionState, broker: int) -> None:
    """The ELR is kept, and of no use. Safe, and wrong."""
    if broker not in self.alive or broker not in self.isr:
        raise EligibleLeadersNotAvailable
    self._decide(broker, self.isr, self.elr)


@breaks(PartitionState, "elect", DURABLE, "KIP-966")
def leader_stays_in_the_elr(self: PartitionState, broker: int) -> None:
    """A broker is in the ISR and in the ELR at once."""
    if broker not in self.alive:
        raise EligibleLeadersNotAvailable
    if broker not in self.isr and (self.isr & self.alive or broker not in self.elr):
        raise EligibleLeadersNotAvailable
    self._decide(broker, self.isr | {broker}, self.elr)


@breaks(PartitionState, "elect_unclean", DURABLE, "KIP-106")
def unclean_without_leave(self: PartitionState, broker: int) -> None:
    """Whoever is there leads when nobody else can, though the topic forbids it."""
    if broker not in self.alive or (self.isr | self.elr) & self.alive:
        raise EligibleLeadersNotAvailable
    self._decide(broker, frozenset({broker}), frozenset())


@breaks(PartitionState, "elect_unclean", DURABLE, "KIP-966")
def unclean_before_the_elr(self: PartitionState, broker: int) -> None:
    """Somebody who may lack records leads although one who has them all is there."""
    if not self.unclean_election or broker not in self.alive or self.isr & self.alive:
        raise EligibleLeadersNotAvailable
    self._decide(broker, frozenset({broker}), frozenset())


@breaks(PartitionState, "elect_unclean", DURABLE)
def unclean_leader_keeps_the_isr(self: PartitionState, broker: int) -> None:
    """The old ISR stays beside the unclean leader, with records that it does not have."""
    if not self.unclean_election or broker not in self.alive:
        raise EligibleLeadersNotAvailable
    if (self.isr | self.elr) & self.alive:
        raise EligibleLeadersNotAvailable
    self._decide(broker, self.isr | {broker}, frozenset())


@breaks(PartitionState, "_decide", REPLICATION)
def leader_changes_in_the_same_epoch(
    self: PartitionState, leader: int | None, isr: frozenset[int], elr: frozenset[int]
) -> None:
    """A decision does not begin a new epoch, so nobody can tell it from the last."""
    self.leader, self.isr, self.elr = leader, isr, elr


# ------------------------------------------------------------------------------ brokers


@breaks(PartitionState, "fence", REPLICATION)
def the_fenced_stay_in_the_isr(self: PartitionState, broker: int, successor: int | None) -> bool:
    """A broker that is gone still counts as in sync."""
    if broker not in self.alive:
        raise InvalidRequest
    if self.leader not in (broker, None) and successor != self.leader:
        raise InvalidRequest
    if successor is not None and successor not in (self.isr - {broker}) & self.alive:
        raise EligibleLeadersNotAvailable
    self.alive = self.alive - {broker}
    if broker not in self.isr or successor == self.leader:
        return False
    self._decide(successor, self.isr, self.elr)
    return True


@breaks(PartitionState, "fence", REPLICATION, "KIP-966")
def the_last_leaves_the_isr(self: PartitionState, broker: int, successor: int | None) -> bool:
    """Without an ELR the last member leaves the ISR too, and nobody may ever lead again."""
    if broker not in self.alive:
        raise InvalidRequest
    if self.leader not in (broker, None) and successor != self.leader:
        raise InvalidRequest
    if successor is not None and successor not in (self.isr - {broker}) & self.alive:
        raise EligibleLeadersNotAvailable
    self.alive = self.alive - {broker}
    if broker not in self.isr:
        return False
    self._decide(successor, self.isr - {broker}, self._elr_without(broker))
    return True


@breaks(PartitionState, "fence", TRUNCATION)
def follower_loss_moves_the_leader(
    self: PartitionState, broker: int, successor: int | None
) -> bool:
    """A follower is gone, and somebody else than the leader leads."""
    if broker not in self.alive:
        raise InvalidRequest
    if successor is not None and successor not in (self.isr - {broker}) & self.alive:
        raise EligibleLeadersNotAvailable
    self.alive = self.alive - {broker}
    if broker not in self.isr:
        return False
    isr, elr = self.isr - {broker}, self._elr_without(broker)
    self._decide(successor, isr or self.isr, elr)
    return True


@breaks(PartitionState, "register", DURABLE, "KAFKA-18635")
def crash_goes_undetected(
    self: PartitionState, broker: int, *, crashed: bool, incarnation: int
) -> None:
    """A broker that lost what it had not flushed stays eligible."""
    if broker in self.alive:
        raise InvalidRequest
    self.alive = self.alive | {broker}
    self.incarnations[broker] = incarnation


@breaks(PartitionState, "register", DURABLE, "KIP-966")
def every_restart_is_a_crash(
    self: PartitionState, broker: int, *, crashed: bool, incarnation: int
) -> None:
    """Who was stopped in good order is not eligible any more. Safe, and wrong."""
    if broker in self.alive:
        raise InvalidRequest
    self.alive = self.alive | {broker}
    self.incarnations[broker] = incarnation
    self.elr = self.elr - {broker}


@breaks(PartitionState, "register", TRUNCATION, "KIP-903")
def incarnation_is_not_recorded(
    self: PartitionState, broker: int, *, crashed: bool, incarnation: int
) -> None:
    """The controller does not notice that a broker has restarted."""
    if broker in self.alive:
        raise InvalidRequest
    self.alive = self.alive | {broker}
    if crashed:
        self.elr = self.elr - {broker}
