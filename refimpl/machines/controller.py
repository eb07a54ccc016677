"""The controller's state of one partition, and its decisions.

Specs: `leaderAndIsr` in Truncation, `isr`, `elr` and `leader` in DurableIsr, AlterPartition.
"""

from collections.abc import Iterable

from attrs import define, field

from refimpl.errors import FencedLeaderEpoch, IneligibleReplica, Refusal
from refimpl.machines import controller_errors as errors
from refimpl.machines.brokers import BrokerRegistry
from refimpl.machines.messages import (
    UNKNOWN_EPOCH,
    AlterPartitionRequest,
    AlterPartitionResponse,
    LeaderAndIsr,
)


@define
class PartitionState:
    """One partition at the controller.

    Every change raises the partition epoch. A change of the leader raises the leader epoch as well,
    and so does a reassignment that takes replicas away. A follower that leaves the ISR does not,
    since Kafka 3.6 (KAFKA-15021).

    With KIP-966 `elr` holds replicas that left the ISR while it was below min.insync.replicas: they
    have everything that was acknowledged, unless they crashed. All partitions share one registry of
    live brokers. `offline` are the replicas whose log has failed while their broker lives
    (KIP-112). `last_known` is the last leader, while there is none and `last_known_leader` allows
    its election (Kafka 4.x).
    """

    leader_epoch: int
    leader: int | None
    isr: frozenset[int]
    replicas: frozenset[int]
    brokers: BrokerRegistry = field(factory=BrokerRegistry)
    partition_epoch: int = 0
    elr: frozenset[int] = frozenset()
    min_isr: int = 1
    elr_enabled: bool = False
    unclean_election: bool = False
    last_known_leader: bool = False
    last_known: int | None = None
    offline: frozenset[int] = frozenset()

    @classmethod
    def create(
        cls,
        assignment: Iterable[int],
        brokers: BrokerRegistry | None = None,
        *,
        min_isr: int = 1,
        elr_enabled: bool = False,
        unclean_election: bool = False,
        last_known_leader: bool = False,
    ) -> "PartitionState":
        """A new partition: the first replica of the assignment leads, and all are in sync.

        Without a registry, the replicas are the only brokers, in their first incarnation.
        """
        replicas = tuple(assignment)
        members = frozenset(replicas)
        return cls(
            leader_epoch=1,
            leader=replicas[0],
            isr=members,
            replicas=members,
            brokers=brokers or BrokerRegistry(dict.fromkeys(replicas, 0), members),
            partition_epoch=1,
            min_isr=min_isr,
            elr_enabled=elr_enabled,
            unclean_election=unclean_election,
            last_known_leader=last_known_leader,
        )

    @property
    def decision(self) -> LeaderAndIsr:
        """The current leader and ISR, as sent to brokers."""
        return LeaderAndIsr(self.leader_epoch, self.leader, self.isr, self.partition_epoch)

    @property
    def active(self) -> frozenset[int]:
        """The brokers that may join the ISR or be elected: active, and without a failed log."""
        active = self.brokers.active
        return active - self.offline if self.offline else active

    # Asked by the leader

    def alter_partition(self, request: AlterPartitionRequest) -> AlterPartitionResponse:
        """Change the ISR as the leader asks, or answer the reason of the refusal (KIP-497).

        A repeated request for the ISR in force is confirmed (KAFKA-14144). Refusing an ineligible
        replica raises the partition epoch: the leader goes back to its old ISR, and no late copy of
        its request may be accepted after that.
        """
        try:
            self.check(request)
        except Refusal as refusal:
            if isinstance(refusal, IneligibleReplica):
                self.partition_epoch += 1
            return self._response(refusal.kafka_error)
        if request.isr != self.isr:
            self._alter(request.isr)
        return self._response(None)

    def check(self, request: AlterPartitionRequest) -> None:
        """Refuse a change of the ISR that is out of date, or not for this leader to ask.

        A broker that is fenced or shutting down may not join (KIP-841), nor one whose log caught up
        in an earlier incarnation (KIP-903).
        """
        leader = request.broker_id
        self.brokers.check(leader, request.broker_epoch)
        if request.leader_epoch > self.leader_epoch:
            raise errors.SupersededController(
                leader, "leader epoch", request.leader_epoch, self.leader_epoch
            )
        if request.partition_epoch > self.partition_epoch:
            raise errors.SupersededController(
                leader, "partition epoch", request.partition_epoch, self.partition_epoch
            )
        if request.leader_epoch < self.leader_epoch:
            raise FencedLeaderEpoch(leader, request.leader_epoch, self.leader_epoch)
        if leader != self.leader:
            raise errors.NotTheLeader(leader, self.leader)
        if request.isr == self.isr:
            return
        if request.partition_epoch < self.partition_epoch:
            raise errors.InvalidUpdateVersion(request.partition_epoch, self.partition_epoch)
        if leader not in request.isr or not request.isr <= self.replicas:
            raise errors.InvalidIsr(request.isr, leader, self.replicas)
        self._must_be_eligible(request.new_isr)

    def _must_be_eligible(self, members: Iterable[tuple[int, int]]) -> None:
        for broker, epoch in members:
            if broker not in self.active:
                raise errors.InactiveReplica(broker, self.active)
            here = self.brokers.epochs[broker]
            if epoch not in (here, UNKNOWN_EPOCH):
                raise errors.RestartedReplica(broker, epoch, here)

    # Decisions of the controller itself

    def elect(self, broker: int) -> None:
        """Elect a leader if there is none: one of the ISR, or, if none of it is alive, one of the
        ELR (KIP-966).
        """
        if self.leader is not None:
            raise errors.ElectionNotNeeded(self.leader)
        self._must_be_active(broker)
        if broker not in self.isr and (self.isr & self.active or broker not in self.elr):
            raise errors.NotEligible(broker, self.isr, self.elr, self.active)
        self._decide(broker, self.isr | {broker}, self.elr - {broker})

    def move_leader(self, broker: int) -> None:
        """Let another member of the ISR lead, as in a preferred election.

        The broker may also be the current leader, which has restarted: it then leads in a new
        epoch.
        """
        if self.leader is None:
            raise errors.NoLeaderToReplace(broker)
        self._must_be_active(broker)
        if broker not in self.isr:
            raise errors.NotEligible(broker, self.isr, self.elr, self.active)
        self._decide(broker, self.isr, self.elr)

    def elect_last_known(self, broker: int) -> None:
        """Let the last leader lead again if no replica is in sync or eligible any more.

        All of them have crashed, so it may lack acknowledged records. Kafka 4.x does this even
        where unclean election is off (PartitionChangeBuilder.canElectLastKnownLeader).
        """
        self._must_be_active(broker)
        if broker != self.last_known or self.isr | self.elr:
            raise errors.NotEligible(broker, self.isr, self.elr, self.active)
        self._decide(broker, frozenset({broker}), frozenset())

    def elect_unclean(self, broker: int) -> None:
        """Let a broker lead that may lack acknowledged records.

        The topic must allow it, and no broker that has all records may be active.
        """
        if not self.unclean_election:
            raise errors.UncleanElectionDisabled(broker)
        if broker not in self.replicas:
            raise errors.NotAReplica(broker, self.replicas)
        self._must_be_active(broker)
        eligible = (self.isr | self.elr) & self.active
        if eligible:
            raise errors.CleanElectionPossible(broker, eligible)
        self._decide(broker, frozenset({broker}), frozenset())

    def fence(self, broker: int, successor: int) -> bool:
        """Take a broker that is gone out of the ISR, and let `successor` lead; True if that was a
        decision.

        If another broker is the leader, it goes on leading in its leader epoch. It learns of the
        ISR by the partition epoch (KAFKA-15021).
        """
        if self.leader is None:
            raise errors.NoLeaderToReplace(successor)
        if self.leader not in (broker, successor):
            raise errors.LeaderStays(broker, self.leader, successor)
        others = self.active - {broker}
        if successor not in self.isr & others:
            raise errors.NotEligible(successor, self.isr - {broker}, frozenset(), others)
        if broker not in self.isr:
            return False
        self._let_lead(successor, *self._without(broker))
        return True

    def go_offline(self, broker: int) -> None:
        """Take the leadership away from a leader that is gone, if no other member of the ISR is
        active.
        """
        if self.leader is None:
            raise errors.AlreadyOffline(broker)
        if self.leader != broker:
            raise errors.LeaderStays(broker, self.leader, broker)
        others = (self.isr - {broker}) & self.active
        if others:
            raise errors.SuccessorAvailable(broker, others)
        self._decide(None, *self._without(broker))

    def remove(self, broker: int) -> bool:
        """Take a broker that is gone out of the ISR, without a successor; True if that was a
        decision.

        If it led, there is no leader until `elect`. Kafka's controller on ZooKeeper went this way,
        by an offline partition.
        """
        if broker not in self.isr:
            return False
        isr, elr = self._without(broker)
        leader = None if self.leader == broker else self.leader
        if (leader, isr, elr) == (self.leader, self.isr, self.elr):
            return False
        self._let_lead(leader, isr, elr)
        return True

    def reassign(self, replicas: frozenset[int], successor: int | None) -> None:
        """Set the replicas; a broker that is none any more leaves the ISR and the ELR (KIP-455).

        It deletes its log, so it may not be eligible when it is added again. Replicas are taken
        away only if one that stays is in sync: those of an ELR may be all that has the records. If
        the leader goes, `successor` leads, or nobody. Taking replicas away raises the leader epoch,
        so that no earlier request can bring them back (KAFKA-1097).
        """
        isr, elr = self.isr & replicas, self.elr & replicas
        taken_away = self.replicas - replicas
        if taken_away and not isr:
            raise errors.NoneInSync(replicas, self.isr)
        stays = self.leader in replicas
        leader = self.leader if stays else successor
        if not stays and leader is not None:
            self._must_be_active(leader)
            if leader not in isr:
                raise errors.NotEligible(leader, isr, elr, self.active)
        self.replicas = replicas
        if self.last_known not in replicas:
            self.last_known = None
        if taken_away or leader != self.leader:
            self._decide(leader, isr, elr)
        else:
            self.partition_epoch += 1

    def fail_replica(self, broker: int) -> bool:
        """Record that the log of a live broker has failed; True if that is new.

        Until the broker's next process starts, this partition treats it as fenced.
        """
        if broker not in self.replicas or broker in self.offline:
            return False
        self.offline = self.offline | {broker}
        return True

    def register(self, broker: int, *, crashed: bool) -> None:
        """Record that a broker is back.

        If it crashed, or its log had failed, it may have lost records, and is no longer eligible
        (KAFKA-18635).
        """
        failed = broker in self.offline
        self.offline = self.offline - {broker}
        if (failed or crashed) and broker in self.elr:
            self.elr = self.elr - {broker}
            self.partition_epoch += 1

    def clear_elr(self) -> bool:
        """Forget who is eligible besides the ISR; True if there was somebody.

        Another min.insync.replicas does so, for the ELR's promise was for the old one (KIP-966).
        """
        if not self.elr:
            return False
        self.elr = frozenset()
        self.partition_epoch += 1
        return True

    def _alter(self, isr: frozenset[int]) -> None:
        self.isr, self.elr = isr, self._elr_with(isr)
        self.partition_epoch += 1

    def _let_lead(self, leader: int | None, isr: frozenset[int], elr: frozenset[int]) -> None:
        """Set leader, ISR and ELR. Only another leader raises the leader epoch."""
        if leader != self.leader:
            self._decide(leader, isr, elr)
        else:
            self.isr, self.elr = isr, elr
            self.partition_epoch += 1

    def _decide(self, leader: int | None, isr: frozenset[int], elr: frozenset[int]) -> None:
        self.leader_epoch += 1
        self.partition_epoch += 1
        if leader is not None:
            self.last_known = None
        elif self.leader is not None and self.last_known_leader:
            self.last_known = self.leader
        self.leader, self.isr, self.elr = leader, isr, elr

    def _without(self, broker: int) -> tuple[frozenset[int], frozenset[int]]:
        """The ISR and the ELR after a broker is gone.

        Without KIP-966 the last member of the ISR stays in it, even if it may have lost records.
        """
        isr = self.isr - {broker}
        if not isr and not self.elr_enabled:
            isr = self.isr
        return isr, self._elr_with(isr)

    def _elr_with(self, isr: frozenset[int]) -> frozenset[int]:
        """The ELR beside this ISR.

        While the ISR is below its minimum nothing is acknowledged, so replicas that leave it hold
        everything that was (KIP-966).
        """
        if not self.elr_enabled or len(isr) >= self.min_isr:
            return frozenset()
        return (self.elr | self.isr) - isr

    def _must_be_active(self, broker: int) -> None:
        if broker not in self.active:
            raise errors.NotAlive(broker, self.active)

    def _response(self, error: str | None) -> AlterPartitionResponse:
        return AlterPartitionResponse(
            error, self.leader, self.leader_epoch, self.isr, self.partition_epoch
        )


def first_live(
    assignment: Iterable[int], candidates: frozenset[int], alive: frozenset[int]
) -> int | None:
    """The first replica of the assignment that is a candidate and alive; None if there is none."""
    return next((r for r in assignment if r in candidates and r in alive), None)
