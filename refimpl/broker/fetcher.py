"""The follower's side: one fetcher for each leader, with one request at a time (KIP-227).

Kafka calls it ReplicaFetcherThread.
"""

from attrs import define, field, frozen

from refimpl.broker.context import Context
from refimpl.broker.partition import Partition
from refimpl.broker.sessions import FetchSessionHandler
from refimpl.errors import Refusal
from refimpl.machines.messages import FetchRequest as ReplicaFetch
from refimpl.machines.messages import FetchResponse as ReplicaAnswer
from refimpl.messages.broker import (
    EARLIEST_LOCAL,
    LATEST,
    READ_UNCOMMITTED,
    FetchedPartition,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    Response,
    TopicPartition,
)
from refimpl.messages.observations import AnswerTaken, Ignored, LogRestarted, Refused
from refimpl.named import named


@frozen
class OutOfRange:
    """A fetch that the leader refused as out of range, and the ListOffsets request that followed.

    The first such request asks for the end of the leader's log; once `end` is known, the next asks
    for its start.
    """

    fetch: ReplicaFetch
    correlation_id: int
    end: int | None = None


NOTHING_DENIED = frozenset[str]()


@define(eq=False)
class ReplicaFetcher:
    """The partitions that one broker leads and this one follows.

    `in_flight` is the correlation id of the request that waits for its answer, and `asked` its
    fetch of each partition. `delayed` are partitions that are not fetched for a while. Among them
    are those that are `out_of_range`, until the leader has reported its offsets.
    """

    leader: int
    partitions: dict[TopicPartition, Partition] = field(factory=dict[TopicPartition, Partition])
    session: FetchSessionHandler = field(factory=FetchSessionHandler)
    in_flight: int = 0
    sent_at: int = 0
    asked: dict[TopicPartition, ReplicaFetch] = field(factory=dict[TopicPartition, ReplicaFetch])
    delayed: dict[TopicPartition, int] = field(factory=dict[TopicPartition, int])
    out_of_range: dict[TopicPartition, OutOfRange] = field(factory=dict[TopicPartition, OutOfRange])


@define(eq=False)
class Fetchers:
    """All fetchers of one broker."""

    context: Context
    fetchers: dict[int, ReplicaFetcher] = field(factory=dict[int, ReplicaFetcher])
    #: True if a high watermark has moved back with a truncated log
    went_back: bool = False
    #: Partitions whose high watermark has moved while consumers wait here
    readable: list[Partition] = field(factory=list[Partition])

    def follow(self, now: int, partition: Partition) -> None:
        """Begin to fetch a partition from its leader."""
        self.leave(partition)
        leader = partition.replica.leader
        assert leader is not None, "a follower has one"
        fetcher = self.fetchers.get(leader)
        if fetcher is None:
            fetcher = self.fetchers[leader] = ReplicaFetcher(leader)
        fetcher.partitions[partition.name] = partition
        if not fetcher.in_flight:
            self._send(now, fetcher)

    def leave(self, partition: Partition) -> None:
        """Stop fetching a partition from its leader of before."""
        for fetcher in self.fetchers.values():
            fetcher.partitions.pop(partition.name, None)
            fetcher.asked.pop(partition.name, None)
            fetcher.delayed.pop(partition.name, None)
            fetcher.out_of_range.pop(partition.name, None)

    def disconnected(self, leader: int) -> None:
        """Give up the answers of a lost connection; the next request begins a new session."""
        fetcher = self.fetchers.get(leader)
        if fetcher is None:
            return
        for name in fetcher.out_of_range:
            del fetcher.delayed[name]
        fetcher.out_of_range.clear()
        if fetcher.in_flight:
            fetcher.in_flight = 0
            fetcher.session.reset()

    def retry(self, now: int) -> None:
        """Fetch again after a missing answer or a refusal, once its time is over."""
        since = now - self.context.config.replica_socket_timeout_ms
        for fetcher in self.fetchers.values():
            if fetcher.in_flight:
                if fetcher.sent_at >= since:
                    continue
                fetcher.in_flight = 0
                fetcher.session.reset()
            self._send(now, fetcher)

    def _send(self, now: int, fetcher: ReplicaFetcher) -> None:
        wanted: dict[TopicPartition, FetchPartition] = {}
        asked: dict[TopicPartition, ReplicaFetch] = {}
        config, context, session = self.context.config, self.context, fetcher.session
        delayed, limit, sent = fetcher.delayed, config.replica_fetch_max_bytes, session.sent
        for name, partition in fetcher.partitions.items():
            if delayed:
                if delayed.get(name, 0) > now:
                    continue
                fetcher.out_of_range.pop(name, None)
            replica = partition.replica
            one = asked[name] = replica.fetch_request()
            known, start = sent.get(name), replica.log.start
            _, _, number, epoch, end, last_epoch = one
            if known is None or known[1:4] != (end, epoch, last_epoch) or known[6] != start:
                position = name, end, epoch, last_epoch, number, limit, start
                known = named(FetchPartition, position)
            wanted[name] = known
        if not wanted:
            return
        changed, forgotten = session.build(wanted)
        fetcher.asked, fetcher.sent_at = asked, now
        request = (
            changed,
            config.replica_fetch_wait_max_ms,
            config.replica_fetch_min_bytes,
            config.replica_fetch_response_max_bytes,
            READ_UNCOMMITTED,
            context.id,
            context.broker_epoch,
            session.session_id,
            session.epoch,
            forgotten,
            None,
            NOTHING_DENIED,
        )
        fetcher.in_flight = context.request(fetcher.leader, named(FetchRequest, request))

    def fetched(self, now: int, response: Response) -> None:
        """Take a leader's answer, and fetch on."""
        fetcher = self.fetchers.get(response.source)
        number = response.correlation_id
        if fetcher is None or fetcher.in_flight != number:
            self.context.outputs.append(Ignored("answers nobody waits for"))
            return
        body: FetchResponse = response.body
        fetcher.in_flight = 0
        fetcher.session.answered(body)
        if body.error is not None:
            self.context.outputs.append(Ignored(f"fetch sessions ended: {body.error}"))
        for fetched in body.partitions:
            asked = fetcher.asked.get(fetched.partition)
            if asked is None:
                self.context.outputs.append(Ignored("void answers"))
            elif fetched.error is not None:
                self.context.outputs.append(Refused("fetching", fetched.error))
                self._delay(now, fetcher, fetched.partition)
                if fetched.error == "OFFSET_OUT_OF_RANGE":
                    self._list(now, fetcher, fetched.partition, asked)
            else:
                self._take(now, fetcher, asked, fetched)
        self._send(now, fetcher)

    def _delay(self, now: int, fetcher: ReplicaFetcher, name: TopicPartition) -> None:
        """Do not fetch a partition for a while."""
        fetcher.delayed[name] = now + self.context.config.replica_fetch_backoff_ms

    # A log that ends outside of the leader's

    def _list(
        self,
        now: int,
        fetcher: ReplicaFetcher,
        name: TopicPartition,
        fetch: ReplicaFetch,
        end: int | None = None,
    ) -> None:
        """Ask the leader for its log end offset, or, once that is known, its log start offset.

        Nothing is fetched meanwhile.
        """
        wanted = ListOffsetsPartition(name, LATEST if end is None else EARLIEST_LOCAL, fetch.epoch)
        body = ListOffsetsRequest((wanted,), replica_id=self.context.id)
        number = self.context.request(fetcher.leader, body)
        fetcher.out_of_range[name] = OutOfRange(fetch, number, end)
        fetcher.delayed[name] = now + self.context.config.replica_socket_timeout_ms

    def listed(self, now: int, response: Response) -> None:
        """Take the leader's log end or log start offset: our log may have to begin anew."""
        body: ListOffsetsResponse = response.body
        fetcher = self.fetchers.get(response.source, ReplicaFetcher(response.source))
        for name, error, offset, _, _ in body.partitions:
            asked = fetcher.out_of_range.get(name)
            if asked is None or asked.correlation_id != response.correlation_id:
                self.context.outputs.append(Ignored("answers nobody waits for"))
            elif error is not None:
                self.context.outputs.append(Refused("listing offsets", error))
                self._delay(now, fetcher, name)
            elif asked.end is None:
                self._list(now, fetcher, name, asked.fetch, offset)
            else:
                del fetcher.out_of_range[name]
                self._restart_log(now, fetcher, name, asked.fetch, offset, asked.end)

    def _restart_log(
        self,
        now: int,
        fetcher: ReplicaFetcher,
        name: TopicPartition,
        fetch: ReplicaFetch,
        start: int,
        end: int,
    ) -> None:
        replica = fetcher.partitions[name].replica
        before, high_watermark = replica.log.end, replica.high_watermark
        try:
            replica.restart_log(fetch, start, end)
        except Refusal as refusal:
            self.context.refused("restarting a log", refusal)
            self._delay(now, fetcher, name)
            return
        self.went_back |= replica.high_watermark < high_watermark
        self.context.outputs.append(LogRestarted(name, before, start))
        del fetcher.delayed[name]
        if not fetcher.in_flight:
            self._send(now, fetcher)

    def _take(
        self, now: int, fetcher: ReplicaFetcher, asked: ReplicaFetch, fetched: FetchedPartition
    ) -> None:
        name = fetched.partition
        partition = fetcher.partitions[name]
        replica = partition.replica
        end, high_watermark = replica.log.end, replica.high_watermark
        _, incarnation, number, epoch, start, _ = asked
        came = fetched.records, fetched.high_watermark, fetched.diverging
        answer = named(ReplicaAnswer, (incarnation, number, epoch, start, *came))
        try:
            replica.take_answer(answer)
            if fetched.log_start_offset > replica.log.start:
                replica.log.advance_start(min(fetched.log_start_offset, replica.high_watermark))
        except Refusal as refusal:
            self.context.refused("replication", refusal)
            self._delay(now, fetcher, name)
            return
        truncated = fetched.diverging is not None
        self.went_back |= replica.high_watermark < high_watermark
        if partition.waiting_fetches and replica.high_watermark > high_watermark:
            self.readable.append(partition)
        seen = named(AnswerTaken, (name, number, truncated, end, high_watermark))
        self.context.outputs.append(seen)
