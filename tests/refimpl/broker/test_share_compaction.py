"""A compacted topic that a share group reads: the cleaner makes holes, also where records are held.

Members fetch, acknowledge and let locks end while the topic is written and cleaned and leader
epochs change. A hole is passed over; a record that is there is given to somebody, in the end.
"""

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from refimpl.broker.log_manager import CLEANER
from refimpl.broker.logs import BrokerLog
from refimpl.machines.share_partition import ACCEPT, REJECT, RELEASE
from refimpl.messages import broker as m
from refimpl.storage.config import LogConfig
from refimpl.storage.format.batch import Record, decode_records, encode_batch
from refimpl.storage.replica.memory_records import whole
from tests.refimpl.broker.node_cases import ORDERS
from tests.refimpl.broker.test_share_groups import ALONE, Node

COMPACTED = LogConfig(
    cleanup_policy=frozenset({"compact"}), segment_bytes=200, min_cleanable_dirty_ratio=0.0
)
LOCK_MS, LIMIT = 30_000, 5
FINAL = (ACCEPT, REJECT)


class CompactedQueue(RuleBasedStateMachine):
    """One leader, two members, and a log with holes."""

    def __init__(self) -> None:
        super().__init__()
        self.node = Node()
        self.log.configure(COMPACTED)
        self.node.join("a", "b")
        self.epoch = 1
        self.ended = set[int]()
        #: Records that were given as often as may be
        self.worn_out = set[int]()
        #: The member that has a record
        self.held = dict[int, str]()
        self.written()
        self.given("a")

    @property
    def log(self) -> BrokerLog:
        return self.node.cluster.partition.log

    def records(self) -> set[int]:
        """The offsets that hold records."""
        found, at = set[int](), self.log.start
        while at < self.log.end:  # a slice ends with its segment
            for header, batch in whole(self.log.slice(at, 1 << 20).data):
                found |= {one.offset for one in decode_records(batch)}
                at = header.last_offset + 1
        return found

    @rule(keys=st.lists(st.integers(0, 3), min_size=1, max_size=4))
    def write(self, keys: list[int]) -> None:
        self.written(keys)

    def written(self, keys: list[int] | None = None) -> None:
        now = self.node.cluster.now
        batch = [Record(at, now, b"%d" % key, b"v" * 9) for at, key in enumerate(keys or [0])]
        self.node.deliver(self.node.cluster.node.handle(now, m.Request(100, 1, 1, body(batch))))

    @rule()
    def clean(self) -> None:
        cluster = self.node.cluster
        cluster.node.handle(cluster.now, m.Timer(cluster.now, CLEANER))

    @rule(member=st.sampled_from("ab"), most=st.integers(1, 6))
    def fetch(self, member: str, most: int) -> None:
        self.given(member, most)

    def given(self, member: str, most: int = 100) -> list[int]:
        """Records that a member is given: each of them is one that is there, and is not ended."""
        (answer,) = self.node.fetch(member, most)
        given = list[int]()
        for first, last, count in (one for part in answer.partitions for one in part.acquired):
            given += range(first, last + 1)
            if count == LIMIT:
                self.worn_out.update(range(first, last + 1))
        assert not self.ended & set(given), "a record that was ended comes again"
        there = self.records()
        assert set(given) <= there, "a hole is given"
        self.held |= dict.fromkeys(given, member)
        return given

    @precondition(lambda self: self.held)
    @rule(data=st.data(), kind=st.sampled_from((ACCEPT, ACCEPT, RELEASE, REJECT)))
    def acknowledge(self, data: st.DataObject, kind: int) -> None:
        self.ends(data.draw(st.sampled_from(sorted(self.held))), kind)

    def ends(self, offset: int, kind: int) -> None:
        member = self.held.pop(offset)
        if not self.node.sessions.get(member):
            return
        error = self.node.acknowledge(member, offset, offset, kind)
        if error is None and kind in FINAL:
            self.ended.add(offset)

    @rule()
    def locks_end(self) -> None:
        """Members that were silent for so long open sessions anew."""
        self.node.later(LOCK_MS + 1)
        self.node.sessions.clear()
        self.held.clear()

    @rule()
    def leads_anew(self) -> None:
        """A new leader epoch: the state is loaded."""
        self.epoch += 1
        cluster = self.node.cluster
        self.node.deliver(
            cluster.decide(1, self.epoch, ALONE, partitions=(ORDERS,), replicas=ALONE, full=False)
        )
        self.held.clear()

    @invariant()
    def start_is_no_hole(self) -> None:
        """A record below the start is ended, or was given as often as may be."""
        for shared in self.node.cluster.node.share_partitions.shared.values():
            if shared.share.loaded:
                open_ones = {one for one in self.records() - self.ended if one < shared.share.start}
                assert open_ones <= self.worn_out, f"{open_ones} are lost"

    def teardown(self) -> None:
        """Locks end, and members take what is left: then the start is the log's end."""
        self.locks_end()
        silent = 0
        while silent < 2:  # a fetch gives a part of what is free; the first one has the state read
            taken = [self.takes(member) for member in "ab"]
            silent = 0 if any(taken) else silent + 1
        shares = list(self.node.cluster.node.share_partitions.shared.values())
        assert [one.share.start for one in shares] == [self.log.end], "the group stands still"

    def takes(self, member: str) -> bool:
        """True if the member was given records, which it accepts."""
        given = self.given(member)
        for offset in given:
            self.ends(offset, ACCEPT)
        return bool(given)


def body(batch: list[Record]) -> m.ProduceRequest:
    return m.ProduceRequest(1, 100, [(ORDERS, encode_batch(batch))])


TestCompactedQueue = CompactedQueue.TestCase
TestCompactedQueue.settings = settings(
    deadline=None,
    report_multiple_bugs=False,
    max_examples=max(30, settings().max_examples // 10),
    stateful_step_count=25,
    suppress_health_check=[HealthCheck.too_slow],
)
