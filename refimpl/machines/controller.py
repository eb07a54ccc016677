"""What the controller keeps of one partition, and how it decides.

Spec: `leaderAndIsr` in Truncation, DurableIsr.
"""

from collections.abc import Iterable

from attrs import define, field, frozen

from refimpl.errors import (
    EligibleLeadersNotAvailable,
    FencedLeaderEpoch,
    IneligibleReplica,
    InvalidRequest,
)


@frozen
class LeaderAndIsr:
    """A decision: who leads in this leader epoch, and who was in sync when it was made."""

    epoch: int
    leader: int | None
    isr: frozenset[int]


@define
class PartitionState:
    """One partition at the controller.

    Every change of the leader, and every broker taken out, is a new epoch.     `elr` holds,
    with KIP-966, who left the ISR while it was below min.insync.replicas: they have everything
    that     was acknowledged, unless they crashed. `alive` are the brokers with a session,
    `incarnations` their number of     restarts.
    """

    epoch: int
    leader: int | None
    isr: frozenset[int]
    alive: frozenset[int]
    elr: frozenset[int] = frozenset()
    incarnations: dict[int, int] = field(factory=dict[int, int])
    min_isr: int = 1
    elr_enabled: bool = False
    unclean_election: bool = False

    @classmethod
    def create(
        cls,
        assignment: Iterable[int],
        *,
        min_isr: int = 1,
        elr_enabled: bool = False,
        unclean_election: bool = False,
    ) -> "PartitionState":
        """A new partition: the first replica of the assignment leads, and all are in sync."""
        replicas = tuple(assignment)
        return cls(
            epoch=1,
            leader=replicas[0],
            isr=frozenset(replicas),
            alive=frozenset(replicas),
            min_isr=min_isr,
            elr_enabled=elr_enabled,
            unclean_election=unclean_election,
        )

    @property
    def decision(self) -> LeaderAndIsr:
        """What is in force, as brokers are told it."""
        return LeaderAndIsr(self.epoch, self.leader, self.isr)

    # Asked by the leader

    def shrink_isr(self, leader: int, epoch: int, follower: int) -> None:
        """Take a lagging follower out of the ISR, for the leader of the current epoch only."""
        self._must_be_current(leader, epoch)
        if follower == leader or follower not in self.isr:
            raise InvalidRequest
        self.isr, self.elr = self.isr - {follower}, self._elr_without(follower)

    def expand_isr(self, leader: int, epoch: int, follower: int, incarnation: int) -> None:
        """Let a follower that caught up back in, if it is alive and has not restarted since."""
        self._must_be_current(leader, epoch)
        if follower in self.isr:
            raise InvalidRequest
        if follower not in self.alive or incarnation != self.incarnations.get(follower, 0):
            raise IneligibleReplica
        self.isr = self.isr | {follower}
        self.elr = frozenset() if len(self.isr) >= self.min_isr else self.elr - {follower}

    # Decided here

    def elect(self, broker: int) -> None:
        """Let one of the ISR lead, or, if none of it is alive, one of the ELR (KIP-966)."""
        if broker not in self.alive:
            raise EligibleLeadersNotAvailable
        if broker not in self.isr and (self.isr & self.alive or broker not in self.elr):
            raise EligibleLeadersNotAvailable
        self._decide(broker, self.isr | {broker}, self.elr - {broker})

    def elect_unclean(self, broker: int) -> None:
        """Let a broker lead that may lack acknowledged records.

        Only where the topic allows it, and nobody who has them is there.
        """
        if not self.unclean_election or broker not in self.alive:
            raise EligibleLeadersNotAvailable
        if (self.isr | self.elr) & self.alive:
            raise EligibleLeadersNotAvailable
        self._decide(broker, frozenset({broker}), frozenset())

    def fence(self, broker: int, successor: int | None) -> bool:
        """A broker is gone: take it out of the ISR, and let `successor` lead.

        Whether that was a decision.         Before KIP-966 the last member of the ISR stays in
        it, whatever it may have lost. A leader that is not the         one who is gone goes on
        leading.
        """
        if broker not in self.alive:
            raise InvalidRequest
        keeps_leader = self.leader not in (broker, None)
        if keeps_leader and successor != self.leader:
            raise InvalidRequest
        if successor is not None and (
            successor not in self.isr - {broker} or successor not in self.alive
        ):
            raise EligibleLeadersNotAvailable
        self.alive = self.alive - {broker}
        if broker not in self.isr:
            return False
        isr, elr = self.isr - {broker}, self._elr_without(broker)
        if not isr and not self.elr_enabled:
            isr = self.isr
        if (successor, isr, elr) == (self.leader, self.isr, self.elr):
            return False
        self._decide(successor, isr, elr)
        return True

    def register(self, broker: int, *, crashed: bool, incarnation: int) -> None:
        """A broker is back.

        If it crashed it may have lost records, and is no longer eligible (KAFKA-18635).
        """
        if broker in self.alive:
            raise InvalidRequest
        self.alive = self.alive | {broker}
        self.incarnations[broker] = incarnation
        if crashed:
            self.elr = self.elr - {broker}

    def unfence(self, broker: int) -> None:
        """A broker whose session had ended is heard of again, in the same incarnation."""
        if broker in self.alive:
            raise InvalidRequest
        self.alive = self.alive | {broker}

    def _decide(self, leader: int | None, isr: frozenset[int], elr: frozenset[int]) -> None:
        self.epoch += 1
        self.leader, self.isr, self.elr = leader, isr, elr

    def _elr_without(self, broker: int) -> frozenset[int]:
        if self.elr_enabled and len(self.isr - {broker}) < self.min_isr:
            return self.elr | {broker}
        return frozenset()

    def _must_be_current(self, leader: int, epoch: int) -> None:
        if leader != self.leader or epoch != self.epoch:
            raise FencedLeaderEpoch


def first_live(
    assignment: Iterable[int], candidates: frozenset[int], alive: frozenset[int]
) -> int | None:
    """The first replica of the assignment that is a candidate and alive: the preferred leader
    if it can be had."""
    return next((r for r in assignment if r in candidates and r in alive), None)
