"""The replicas of one broker, as the metadata has them: opened, led, followed, deleted.

It is the part of Kafka's ReplicaManager that follows the metadata.
"""

from collections.abc import Iterable, Mapping, Sequence

from attrs import define, field

from refimpl.broker.context import Context
from refimpl.broker.delete_records import Deletes
from refimpl.broker.fetch import Fetches
from refimpl.broker.fetcher import Fetchers
from refimpl.broker.group_coordinators import GroupCoordinators
from refimpl.broker.leader import Leader
from refimpl.broker.log_manager import LogManager
from refimpl.broker.metadata import Metadata
from refimpl.broker.partition import Partition
from refimpl.broker.produce import Produces
from refimpl.broker.share_coordinators import ShareCoordinators
from refimpl.broker.share_partitions import SharePartitions
from refimpl.broker.transaction_coordinators import TransactionCoordinators
from refimpl.configs import Configs
from refimpl.controller.configs import MIN_ISR, number
from refimpl.errors import Refusal, StorageOffline
from refimpl.machines.messages import LeaderAndIsr
from refimpl.messages.broker import TopicPartition
from refimpl.messages.cluster import (
    BROKER,
    TOPIC,
    BrokerRegistration,
    Change,
    ConfigResource,
    ConfigsAltered,
    PartitionRegistration,
    TopicDeleted,
)
from refimpl.messages.observations import BecameFollower, BecameLeader, Deleted, IsrAdopted
from refimpl.storage.config import LogConfig

PRODUCER_EXPIRATION = "producer.id.expiration.ms"

MANY = 8
"""The number of partitions from which on what waits for the disk is done together."""


@define(eq=False)
class ReplicaManager:
    """Applies metadata changes; `min_isr` is the default min.insync.replicas of topics."""

    context: Context
    metadata: Metadata
    storage: LogManager
    min_isr: Mapping[str, int]
    leader: Leader
    fetchers: Fetchers
    produces: Produces
    fetches: Fetches
    deletes: Deletes
    groups: GroupCoordinators
    transactions: TransactionCoordinators
    share_coordinators: ShareCoordinators
    share_partitions: SharePartitions
    #: The file's settings, if topics and their logs are configured by Kafka's names
    configs: Configs | None = None
    #: The partitions of which fewer replicas must be in sync than before this update
    _lowered: list[Partition] = field(factory=list[Partition], init=False)

    def update(self, now: int, changes: Sequence[Change], *, is_full: bool) -> None:
        """Apply changes of the metadata.

        Epochs may have been skipped: only the newest decision about a partition counts.
        """
        if len(changes) >= MANY:
            self._prepare(changes)
        for change in changes:
            match change:
                case PartitionRegistration():
                    self._partition_changed(now, change)
                case TopicDeleted(name, topic_id):
                    for partition in self._partitions(name):
                        self._delete(now, partition)
                    self.groups.topic_deleted(now, name, topic_id)
                    self.share_coordinators.topics_deleted(now)
                case BrokerRegistration():
                    self._waited_for(self.context.partitions.values())
                case ConfigsAltered(resource) if resource.type == BROKER:
                    self._configure(self.context.partitions.values())
                case ConfigsAltered(resource) if resource.type == TOPIC:
                    self._configure(self._partitions(resource.name))
                case _:
                    pass
        if is_full and changes:
            self._delete_strays(now)
            self.storage.logs.told()
        self._commit_with_fewer(now)

    def _prepare(self, changes: Sequence[Change]) -> None:
        """Do together what waits for the disk: the folders of new partitions, and the epochs that
        begin.
        """
        told = [one for one in changes if isinstance(one, PartitionRegistration)]
        new = [one for one in told if self._is_new(one)]
        if len(new) >= MANY:
            self.storage.prepare([one.partition for one in new])
            if not any(isinstance(one, TopicDeleted) for one in changes):
                for one in new:
                    self._open(one.partition, one.topic_id)
        epochs = {one.partition: one.decision.leader_epoch for one in told if self._will_lead(one)}
        if len(epochs) >= MANY:
            self.storage.begin_epochs(epochs)

    def _will_lead(self, change: PartitionRegistration) -> bool:
        """True if this broker begins a leader epoch of a partition whose log is open."""
        partition, decision = self.context.partitions.get(change.partition), change.decision
        return (
            partition is not None
            and partition.topic_id in (b"", change.topic_id)
            and decision.leader == self.context.id
            and decision.leader_epoch > partition.replica.epoch
        )

    def _commit_with_fewer(self, now: int) -> None:
        """Commit records that waited for more replicas than are required now."""
        lowered, self._lowered = self._lowered, []
        for partition in lowered:
            if partition.replica.leads:
                self.leader.advance_high_watermark(now, partition)

    def _is_new(self, change: PartitionRegistration) -> bool:
        """True if a log has to be created for it."""
        context, known = self.context, self.metadata.partitions.get(change.partition)
        return (
            known is not None
            and context.id in known.replicas
            and change.partition not in context.partitions
            and change.partition not in context.offline
        )

    def _waited_for(self, partitions: Iterable[Partition]) -> None:
        """Check DeleteRecords requests again: they do not wait for a fenced broker."""
        for partition in partitions:
            self.deletes.check(partition)

    def _partitions(self, topic: str) -> list[Partition]:
        partitions = self.context.partitions
        return [one for one in partitions.values() if one.name.topic == topic]

    def _configure_for(self, partition: Partition, replicas: int) -> None:
        """Configure a partition that was opened, or has more or fewer replicas than before."""
        if partition.configured_for != replicas:
            partition.configured_for = replicas
            self._configure((partition,))

    def _configure(self, partitions: Iterable[Partition]) -> None:
        for partition in partitions:
            topic = partition.name.topic
            if self.configs is None:
                min_isr = number(self.metadata, topic, MIN_ISR, self.min_isr.get(topic, 1))
                self._require(partition, min_isr)
                continue
            configs = self.metadata.configs_of(self.context.id, self.configs)
            own = self.metadata.configs.get(ConfigResource(TOPIC, topic), {})
            values = configs.topic(own)
            self._require(partition, values[MIN_ISR])
            expiration_ms: int = configs[PRODUCER_EXPIRATION]
            partition.log.configure(LogConfig.of(values, expiration_ms))

    def _require(self, partition: Partition, min_isr: int) -> None:
        """Set the minimum ISR of a partition; at most its number of replicas.

        If it is lower than before, the leader tries again once the whole update is applied: it may
        lead no longer.
        """
        known = self.metadata.partitions.get(partition.name)
        most = len(known.replicas) if known is not None else min_isr
        replica, before = partition.replica, partition.replica.min_isr
        replica.min_isr = min(min_isr, most)
        if replica.leads and replica.min_isr < before:
            self._lowered.append(partition)

    def _partition_changed(self, now: int, change: PartitionRegistration) -> None:
        context, name = self.context, change.partition
        partition = context.partitions.get(name)
        if partition is not None and partition.topic_id not in (b"", change.topic_id):
            self._delete(now, partition)  # of an earlier topic of this name
            partition = None
        if context.id not in self.metadata.partitions[name].replicas:
            if partition is not None:
                self._delete(now, partition)
            return
        if partition is None and name not in context.offline:
            partition = self._open(name, change.topic_id)
        if partition is not None:
            partition.topic_id = change.topic_id
            self._configure_for(partition, len(self.metadata.partitions[name].replicas))
            self._decided(now, partition, change.decision)

    def _open(self, name: TopicPartition, topic_id: bytes) -> Partition | None:
        """Open the partition's log; a log that an earlier topic of this name left is deleted first
        (KIP-516).
        """
        opened = self.storage.open(name)
        if opened is None or opened.topic_id in (b"", topic_id):
            return opened
        del self.context.partitions[name]
        self.storage.delete(name)
        return self.storage.open(name)

    # Deletion

    def _delete_strays(self, now: int) -> None:
        """Delete partitions that the metadata does not know, or does not place here
        (KAFKA-14616).
        """
        for partition in list(self.context.partitions.values()):
            known = self.metadata.partitions.get(partition.name)
            if known is None or self.context.id not in known.replicas:
                self._delete(now, partition)

    def _delete(self, now: int, partition: Partition) -> None:
        """Delete a partition that this broker no longer hosts: refuse its waiting requests, delete
        its log.
        """
        del self.context.partitions[partition.name]
        partition.replica.up = False
        self.fetchers.leave(partition)
        self.produces.give_up(partition)
        self.deletes.give_up(partition)
        self._resigned(now, partition)
        self.fetches.check(now, partition)
        self.storage.delete(partition.name)
        self.context.outputs.append(Deleted(partition.name))

    # Leaders and followers

    def _decided(self, now: int, partition: Partition, decision: LeaderAndIsr) -> None:
        replica = partition.replica
        led, end, high_watermark = replica.leads, replica.log.end, replica.high_watermark
        epoch, isr = replica.epoch, replica.isr
        try:
            replica.told(decision)
        except StorageOffline as failure:
            self.context.refused("LeaderAndIsr", failure)
            return
        except Refusal:
            return
        if led and replica.epoch == epoch:
            self.context.outputs.append(IsrAdopted(partition.name))
            self.leader.settled(now, partition, isr)
        elif replica.leads:
            self._now_leads(now, partition, high_watermark, led=led)
        else:
            self._now_follows(now, partition, end)

    def _now_leads(self, now: int, partition: Partition, high_watermark: int, *, led: bool) -> None:
        self.fetchers.leave(partition)
        partition.lead_from(now)
        self.context.outputs.append(BecameLeader(partition.name, led, high_watermark))
        self.fetches.check(now, partition)
        if partition.replica.log.end > partition.replica.high_watermark:
            self.leader.advance_high_watermark(now, partition)
        self.groups.coordinators.elected(now, partition)
        self.transactions.coordinators.elected(now, partition)
        self.share_coordinators.coordinators.elected(now, partition)
        if led:
            self.share_partitions.resigned(now, partition)  # its memory is of the epoch before

    def _now_follows(self, now: int, partition: Partition, end: int) -> None:
        self.context.outputs.append(BecameFollower(partition.name, end))
        self.produces.give_up(partition)
        self.deletes.give_up(partition)
        self._resigned(now, partition)
        self.fetches.check(now, partition)
        self.fetchers.follow(now, partition)

    def _resigned(self, now: int, partition: Partition) -> None:
        """Close the coordinators and the share partitions of a partition."""
        self.groups.coordinators.resigned(now, partition)
        self.transactions.coordinators.resigned(now, partition)
        self.share_coordinators.coordinators.resigned(now, partition)
        self.share_partitions.resigned(now, partition)
