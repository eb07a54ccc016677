"""Committed offsets: OffsetCommit, OffsetFetch, OffsetDelete, and expiry.

Kafka calls it OffsetMetadataManager. The group's own rules decide who may commit. Offsets are
compared neither with the log nor with one another: a group may go back.

Spec: GroupOffsets. KIP-211 (expiry), KIP-447 (stable offsets), KIP-496 (deletion), KIP-848.
"""

from collections.abc import Mapping

from attrs import define

from refimpl.coordinator.operation import (
    Answer,
    Handler,
    Outcome,
    TimerKey,
    Token,
    TransactionalWrite,
)
from refimpl.errors import Refusal
from refimpl.groups.config import GroupConfig
from refimpl.groups.errors import (
    GroupIdNotFound,
    NobodyIsMember,
    StaleGeneration,
    UnknownGeneration,
)
from refimpl.groups.logic import CommitBy
from refimpl.groups.store import GroupStore
from refimpl.messages import group as m
from refimpl.messages.broker import TopicPartition
from refimpl.records.coordinators import (
    GROUP_RECORDS,
    CoordinatorRecord,
    OffsetCommitKey,
    OffsetCommitValue,
)
from refimpl.records.schema import NO_ID
from refimpl.records.transactional import InTransaction, TransactionEnd
from refimpl.storage.format.control import EndTxnMarker
from refimpl.storage.replica.transactional import Writer

OFFSET_COMMIT = GROUP_RECORDS[1]
WITH_TOPIC_ID, WITH_EXPIRY = 4, 1
"""Versions of an OffsetCommit value: the newest, and the last with an expiry time."""

NEVER, UNSTABLE = -1, "UNSTABLE_OFFSET_COMMIT"


@define(eq=False)
class Offsets:
    """The offsets of one coordinator's groups."""

    store: GroupStore
    config: GroupConfig

    @property
    def handlers(self) -> Mapping[type, Handler]:
        """The handler of each type of request."""
        return {
            m.OffsetCommitRequest: self.commit,
            m.TxnOffsetCommitRequest: self.commit_in_transaction,
            m.EndOffsetsRequest: self.end_transaction,
            m.OffsetFetchRequest: self.fetch,
            m.OffsetDeleteRequest: self.delete,
        }

    # Commit

    def commit(self, now: int, token: Token, request: m.OffsetCommitRequest) -> Outcome:
        """Write the group's next offsets; if the group has members, only a member may commit.

        A client that may not commit is refused for all partitions. Metadata that is too long is
        refused for its partition alone.
        """
        by = CommitBy(
            *(request.member_id, request.generation_id, request.group_instance_id),
            request.knows_member_epochs,
        )
        timers = self._check_commit(now, request, by)
        records, results = self._records(now, request, request.retention_ms)
        answer = Answer(token, m.OffsetCommitResponse(results))
        return Outcome(records, (answer,), timers)

    def _records(
        self, now: int, request: m.OffsetCommitRequest | m.TxnOffsetCommitRequest, retention_ms: int
    ) -> tuple[list[CoordinatorRecord], list[tuple[TopicPartition, str | None]]]:
        """The records of a commit, and the result for each partition."""
        records: list[CoordinatorRecord] = []
        results: list[tuple[TopicPartition, str | None]] = []
        for one in request.partitions:
            if len(one.metadata or "") > self.config.offset_metadata_max_bytes:
                results.append((one.partition, "OFFSET_METADATA_TOO_LARGE"))
            else:
                records.append(_record(now, request.group_id, one, retention_ms))
                results.append((one.partition, None))
        return records, results

    # Transactions

    def commit_in_transaction(
        self, now: int, token: Token, request: m.TxnOffsetCommitRequest
    ) -> Outcome:
        """Write the group's next offsets within a producer's transaction; they count with its end.

        The claims of the consumer are checked if it makes any (KIP-447). This is no heartbeat.
        """
        member, generation = request.member_id, request.generation_id
        by = CommitBy(member, generation, request.group_instance_id, False, transactional=True)
        try:
            self._check_commit(now, request, by)
        except Refusal as refusal:
            if refusal.kafka_error != "STALE_MEMBER_EPOCH":
                raise
            group_id, why = request.group_id, str(refusal)
            raise StaleGeneration(group_id, member, generation, why) from None
        records, results = self._records(now, request, NEVER)
        producer = Writer(request.producer_id, request.producer_epoch)
        inside = [InTransaction(one, request.producer_id) for one in records]
        answer = Answer(token, m.TxnOffsetCommitResponse(results))
        return Outcome(inside, (answer,), transaction=TransactionalWrite(producer, request.guard))

    def end_transaction(self, now: int, token: Token, request: m.EndOffsetsRequest) -> Outcome:
        """Write a transaction's marker: its pending offsets count from now on, or are gone."""
        producer_id, epoch, committed, _, coordinator_epoch, version = request.marker
        write = TransactionalWrite(
            Writer(producer_id, epoch),
            marker=EndTxnMarker(committed, coordinator_epoch),
            transaction_version=version,
        )
        answer = Answer(token, m.EndOffsetsResponse(None))
        return Outcome((TransactionEnd(producer_id, committed),), (answer,), transaction=write)

    def _check_commit(
        self,
        now: int,
        request: m.OffsetCommitRequest | m.TxnOffsetCommitRequest,
        by: CommitBy,
    ) -> Mapping[TimerKey, int | None]:
        """Refuse a client that must not commit.

        A commit without a generation for an unknown group creates a simple group.
        """
        group_id, generation = request.group_id, request.generation_id
        group = self.store.groups.get(group_id)
        if group is not None:
            return self.store.logic_of(group).check_commit(now, group, by, request)
        if generation < 0:
            return {}
        if self.store.is_simple(group_id):
            raise NobodyIsMember(group_id, request.member_id)
        if by.knows_member_epochs:
            raise GroupIdNotFound(group_id)
        raise UnknownGeneration(group_id, generation)

    # Fetch

    def fetch(self, now: int, token: Token, request: m.OffsetFetchRequest) -> Outcome:
        """The committed offsets; an unknown group has none.

        A client that requires stable offsets sees all written ones, and is answered once they are
        committed. It asks again for those that an open transaction may replace (KIP-447).
        """
        committed, group_id = not request.require_stable, request.group_id
        groups = self.store.groups
        group = groups.committed(group_id) if committed else groups.get(group_id)
        if group is not None:
            by = CommitBy(request.member_id or "", request.member_epoch)
            self.store.logic_of(group).check_fetch(group, by)
        unstable = frozenset(() if committed else self.store.unstable_of(group_id))
        if request.partitions is None:
            found = [
                _fetched(name, value)
                for name, value in self.store.offsets_of(group_id, committed=committed)
                if name not in unstable
            ]
            found += [m.FetchedOffset(name, UNSTABLE) for name in sorted(unstable)]
        else:
            view = self.store.offsets.committed if committed else self.store.offsets.get
            found: list[m.FetchedOffset] = []
            for name, topic_id in request.partitions:
                if name in unstable:
                    found.append(m.FetchedOffset(name, UNSTABLE, topic_id=topic_id))
                    continue
                value = view((group_id, name))
                # An offset of an earlier topic of this name is not one of this topic (KAFKA-19154).
                other = value is not None and NO_ID not in (topic_id, value.topic_id)
                if value is None or (other and value.topic_id != topic_id):
                    found.append(m.FetchedOffset(name, topic_id=topic_id))
                else:
                    found.append(_fetched(name, value))
        response = m.OffsetFetchResponse(group_id, None, found)
        return Outcome(answers=(Answer(token, response),), waits=request.require_stable)

    # Delete

    def delete(self, now: int, token: Token, request: m.OffsetDeleteRequest) -> Outcome:
        """Delete offsets of topics that no member subscribes to."""
        group_id, records = request.group_id, list[CoordinatorRecord]()
        subscribed: frozenset[str] | None = frozenset()
        group = self.store.groups.get(group_id)
        if group is not None:
            logic = self.store.logic_of(group)
            logic.check_delete_offsets(group)
            subscribed = logic.subscribed_topics(group)
        elif not self.store.is_simple(group_id):
            raise GroupIdNotFound(group_id)
        results: list[tuple[TopicPartition, str | None]] = []
        for name in request.partitions:
            in_use = subscribed is not None and name.topic in subscribed
            results.append((name, "GROUP_SUBSCRIBED_TO_TOPIC" if in_use else None))
            place = group_id, name
            known = self.store.offsets.get(place) is not None or self.store.is_unstable(place)
            if known and not in_use:
                records.append(tombstone(group_id, name))
        if group is None:
            self.store.emptied[group_id] = None
        answer = Answer(token, m.OffsetDeleteResponse(None, results))
        return Outcome(records, (answer,))

    def deletion(self, group_id: str) -> list[CoordinatorRecord]:
        """The tombstones of all offsets of a group, pending ones too."""
        return tombstones(self.store, group_id)

    def topic_deleted(self, topic: str, topic_id: bytes) -> Outcome:
        """The tombstones of all offsets of a deleted topic, pending ones too (KAFKA-19163)."""
        found: list[CoordinatorRecord] = []
        for group_id in list(self.store.partitions):
            names = [
                name
                for name, value in self.store.offsets_of(group_id)
                if name.topic == topic and value.topic_id in (NO_ID, topic_id)
            ]
            pending = self.store.unstable_of(group_id)
            names += [name for name in pending if name.topic == topic and name not in names]
            found += [tombstone(group_id, name) for name in names]
        return Outcome(found)

    # Expiry

    def expire(self, now: int) -> Outcome:
        """Remove offsets that were unused for offsets.retention.minutes; then groups with nothing
        left.

        While a group is in use its offsets stay, however old (KIP-211, KAFKA-4682, KAFKA-13636).
        So do those that an open transaction may replace, and their group (KAFKA-19163).
        """
        records: list[CoordinatorRecord] = []
        self.store.emptied.clear()
        for group_id in self.store.group_ids():
            offsets = list(self.store.offsets_of(group_id))
            pending = self.store.unstable_of(group_id)
            expired = [
                name
                for name, value in offsets
                if name not in pending and self._expired(now, group_id, name, value)
            ]
            records += [tombstone(group_id, name) for name in expired]
            group = self.store.groups.get(group_id)
            if group is not None and len(expired) == len(offsets) and not pending:
                logic = self.store.logic_of(group)
                if logic.is_empty(group):
                    records += logic.deletion(group_id, group)
        return Outcome(records)

    def _expired(
        self, now: int, group_id: str, name: TopicPartition, value: OffsetCommitValue
    ) -> bool:
        group = self.store.groups.get(group_id)
        since: int | None = value.commit_timestamp
        if group is not None:
            logic = self.store.logic_of(group)
            since = logic.offsets_expire_from(group, name.topic, value.commit_timestamp)
        if since is None:
            return False
        if value.expire_timestamp != NEVER:
            return now >= value.expire_timestamp
        return now - since >= self.config.offsets_retention_minutes * 60_000


def tombstones(store: GroupStore, group_id: str) -> list[CoordinatorRecord]:
    """The tombstones of all offsets of a group, pending ones too."""
    names = dict.fromkeys(name for name, _ in store.offsets_of(group_id))
    names |= dict.fromkeys(store.unstable_of(group_id))
    return [tombstone(group_id, name) for name in names]


def tombstone(group_id: str, name: TopicPartition) -> CoordinatorRecord:
    """The tombstone of a committed offset."""
    return CoordinatorRecord(OFFSET_COMMIT, OffsetCommitKey(group_id, *name))


def _record(
    now: int, group_id: str, one: m.CommittedPartition, retention_ms: int
) -> CoordinatorRecord:
    expires = retention_ms != NEVER
    value = OffsetCommitValue(
        offset=one.offset,
        leader_epoch=NEVER if expires else one.leader_epoch,
        metadata=one.metadata or "",
        commit_timestamp=now,
        expire_timestamp=now + retention_ms if expires else NEVER,
        topic_id=NO_ID if expires else one.topic_id,
    )
    key = OffsetCommitKey(group_id, *one.partition)
    return CoordinatorRecord(OFFSET_COMMIT, key, value, WITH_EXPIRY if expires else WITH_TOPIC_ID)


def _fetched(name: TopicPartition, value: OffsetCommitValue) -> m.FetchedOffset:
    return m.FetchedOffset(
        name, None, value.offset, value.leader_epoch, value.metadata, value.topic_id
    )
