"""The controller's decisions about partitions, when brokers come and go or a request arrives."""

from collections.abc import Collection, Iterable, Sequence

from attrs import define

from refimpl.controller import elections
from refimpl.controller.configs import MIN_ISR, UNCLEAN_ELECTION, flag, number
from refimpl.controller.state import Controlled, ControllerState
from refimpl.errors import Refusal
from refimpl.machines.assignment import Assignment
from refimpl.machines.controller import PartitionState, first_live
from refimpl.machines.messages import AlterPartitionRequest, AlterPartitionResponse
from refimpl.messages.broker import TopicPartition
from refimpl.messages.cluster import TopicCreated
from refimpl.messages.observations import Decided, IsrAnswered, Refused

NOBODY = 0


@define(eq=False)
class Decisions:
    """Composes the machine of each partition with the choice of a leader and with reassignment."""

    state: ControllerState

    # New partitions

    def create_topic(self, name: str, topic_id: bytes) -> None:
        """Create a topic without partitions."""
        self.state.change(TopicCreated(name, topic_id))

    def create_partition(self, name: TopicPartition, replicas: Sequence[int]) -> None:
        """Create a partition: all active replicas are in sync, and the first of them leads."""
        here = self.state
        active = [one for one in replicas if one in here.registry.active]
        state = PartitionState(
            1, active[0], frozenset(active), frozenset(replicas), here.registry, 1
        )
        topic_id = here.metadata.topics[name.topic].topic_id
        one = here.partitions[name] = Controlled(topic_id, Assignment(tuple(replicas)), state)
        self._configure(name, one)
        self._publish(name, one)

    def create_missing(
        self, missing: Sequence[tuple[TopicPartition, tuple[int, ...]]]
    ) -> list[tuple[TopicPartition, tuple[int, ...]]]:
        """Finish a creation of partitions that was begun; return those that have to wait, because
        none of their replicas is active.
        """
        waiting: list[tuple[TopicPartition, tuple[int, ...]]] = []
        for name, replicas in missing:
            if any(one in self.state.registry.active for one in replicas):
                self.create_partition(name, replicas)
            else:
                waiting.append((name, replicas))
        return waiting

    def resume(self) -> None:
        """Go on with reassignments; one whose end was half written ends now.

        Else somebody would stay eligible who deletes its log.
        """
        for name, one in self.state.partitions.items():
            if not one.state.isr | one.state.elr <= frozenset(one.assignment.replicas):
                self._reassign(name, one, one.assignment)
            self._complete(name, one)

    def members(self) -> frozenset[int]:
        """All brokers that are in some ISR."""
        return frozenset(
            member for one in self.state.partitions.values() for member in one.state.isr
        )

    def configured(self, topic: str | None = None, *, clear_elr: bool = False) -> None:
        """Apply a changed configuration of one topic, or of all.

        Another min.insync.replicas clears the ELR, whose promise was for the old one (KIP-966).
        """
        for name, one in self.state.partitions.items():
            if topic not in (None, name.topic):
                continue
            self._configure(name, one)
            if clear_elr and one.state.clear_elr():
                self._decided(name, one, "ClearElr", NOBODY)
            self.find_leader(name, one)

    def _configure(self, name: TopicPartition, one: Controlled) -> None:
        config, metadata, state = self.state.config, self.state.metadata, one.state
        state.elr_enabled = config.eligible_leader_replicas
        state.last_known_leader = config.last_known_leader
        unclean = config.unclean_leader_election_enable
        state.unclean_election = flag(metadata, name.topic, UNCLEAN_ELECTION, unclean)
        min_isr = number(metadata, name.topic, MIN_ISR, config.min_insync_replicas)
        state.min_isr = min(min_isr, len(one.assignment.replicas))

    # Brokers come and go

    def broker_fenced(self, broker: int) -> None:
        """Elect other leaders for the partitions of a broker that is gone, or starts again."""
        for name, one in self.state.partitions.items():
            if broker in one.state.replicas:
                self._fence(name, one, broker)
            self.find_leader(name, one)

    def broker_registered(self, broker: int, *, crashed: bool) -> None:
        """Take in a broker's new process; after a crash it may lack records."""
        for name, one in self.state.partitions.items():
            before = one.state.partition_epoch
            one.state.register(broker, crashed=crashed)
            if one.state.partition_epoch != before:
                self._decided(name, one, "Register", broker)
            self.find_leader(name, one)

    def replicas_failed(self, broker: int, names: Iterable[TopicPartition]) -> None:
        """Elect other leaders where a live broker's logs have failed (KIP-112, KIP-858)."""
        for name in names:
            one = self.state.partitions.get(name)
            if one is not None and one.state.fail_replica(broker):
                self._fence(name, one, broker)
                self.find_leader(name, one)

    def find_leaders(self) -> None:
        """Elect a leader of each partition without one, if a replica may lead now."""
        for name, one in self.state.partitions.items():
            self.find_leader(name, one)

    def balance(self) -> None:
        """Let preferred leaders lead (auto.leader.rebalance.enable)."""
        for name, one in self.state.partitions.items():
            if elections.imbalanced(one.assignment.replicas, one.state):
                self.elect(name, one, elections.Choice(one.assignment.replicas[0]))

    def _fence(self, name: TopicPartition, one: Controlled, broker: int) -> None:
        state = one.state
        successor = state.leader
        if successor == broker:
            successor = first_live(one.assignment.replicas, state.isr, state.active)
        if state.leader is None:
            if state.remove(broker):
                self._decided(name, one, "Remove", broker)
        elif successor is None:
            state.go_offline(broker)
            self._decided(name, one, "GoOffline", broker)
        elif state.fence(broker, successor):
            self._decided(name, one, "Fence", broker, successor)

    # Elections

    def find_leader(self, name: TopicPartition, one: Controlled) -> None:
        """Elect a leader if there is none and a replica may lead."""
        state = one.state
        if state.leader is not None:
            return
        unclean = state.unclean_election
        choice = elections.online(one.assignment.replicas, state, unclean=unclean)
        if choice is not None:
            try:
                self.elect(name, one, choice)
            except Refusal as refusal:
                self.state.outputs.append(Refused("election", refusal.kafka_error))

    def elect(self, name: TopicPartition, one: Controlled, choice: elections.Choice) -> None:
        """Let the chosen broker lead; raises a refusal if it may not."""
        state, broker = one.state, choice.broker
        in_isr = broker in state.isr
        if choice.how == "unclean":
            state.elect_unclean(broker)
        elif choice.how == "last known":
            state.elect_last_known(broker)
        elif state.leader is None:
            state.elect(broker)
        else:
            state.move_leader(broker)
        actions = {"unclean": "ElectUnclean", "last known": "ElectLastKnown"}
        action = actions.get(choice.how, "Elect" if in_isr else "ElectEligible")
        self._decided(name, one, action, broker)

    def elect_unclean_once(self, name: TopicPartition, one: Controlled, broker: int) -> None:
        """Elect a leader uncleanly, this once: an operator accepts that records are lost
        (KIP-460).
        """
        allowed, one.state.unclean_election = one.state.unclean_election, True
        try:
            self.elect(name, one, elections.Choice(broker, "unclean"))
        finally:
            one.state.unclean_election = allowed

    # The ISR, and reassignment

    def alter_partition(
        self, name: TopicPartition, request: AlterPartitionRequest
    ) -> AlterPartitionResponse:
        """Take a leader's request for another ISR: a conditional update (KIP-497).

        An added replica may complete a reassignment. Then another broker may lead, and the
        requester must learn that from the metadata.
        """
        one = self.state.partitions[name]
        state = one.state
        isr, epoch = state.isr, state.partition_epoch
        outcome = state.alter_partition(request)
        self.state.outputs.append(IsrAnswered(name, request, outcome, frozenset(state.active)))
        for follower in sorted(isr ^ state.isr):
            action = "ExpandIsr" if follower in state.isr else "ShrinkIsr"
            self._observe(name, one, action, request.broker_id, follower)
        if state.partition_epoch != epoch:
            self._publish(name, one)
        if outcome.error is not None:
            return outcome
        self._complete(name, one)
        error = None if state.leader == request.broker_id else "NEW_LEADER_ELECTED"
        return AlterPartitionResponse(
            *(error, state.leader, state.leader_epoch, state.isr, state.partition_epoch)
        )

    def move(self, name: TopicPartition, assignment: Assignment) -> None:
        """Begin, cancel or complete a reassignment; raises a refusal if no replica could lead."""
        one = self.state.partitions[name]
        over = assignment.completed(one.state.isr)
        self._reassign(name, one, over or assignment)

    def _complete(self, name: TopicPartition, one: Controlled) -> None:
        """Complete a reassignment if its replicas are in sync."""
        over = one.assignment.completed(one.state.isr)
        if over is not None:
            self._reassign(name, one, over)

    def _reassign(self, name: TopicPartition, one: Controlled, assignment: Assignment) -> None:
        state, replicas = one.state, frozenset(assignment.replicas)
        left = sorted(state.isr - replicas)
        live = first_live(assignment.replicas, state.isr, state.active)
        state.reassign(replicas, live)
        one.assignment = assignment
        self._configure(name, one)
        self._decided(name, one, "Reassign", left[0] if left else NOBODY, state.leader or NOBODY)

    # Queries

    def _decided(
        self,
        name: TopicPartition,
        one: Controlled,
        action: str,
        broker: int,
        successor: int = NOBODY,
    ) -> None:
        self._observe(name, one, action, broker, successor)
        self._publish(name, one)

    def _observe(
        self, name: TopicPartition, one: Controlled, action: str, broker: int, successor: int
    ) -> None:
        state = one.state
        alive = self.state.registry.alive - state.offline
        self.state.outputs.append(
            Decided(name, action, broker, successor, state.decision, state.elr, alive)
        )

    def _publish(self, name: TopicPartition, one: Controlled) -> None:
        self.state.change(one.registration(name))

    def hosts(self, broker: int) -> Collection[TopicPartition]:
        """The partitions that a broker has a replica of."""
        return [name for name, one in self.state.partitions.items() if broker in one.state.replicas]
