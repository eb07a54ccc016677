"""Brokers that are only their log directories: a leader that appends, followers that copy."""

from collections.abc import Iterable
from pathlib import Path

from attrs import define, field

from refimpl.machines.replica_log import Origin
from refimpl.storage.config import LogConfig
from refimpl.storage.disk.files import FileDisk
from refimpl.storage.format.batch import Record, encode_batch, read_header
from refimpl.storage.format.checkpoints import write_meta_properties
from refimpl.storage.format.compression import Codec
from refimpl.storage.format.control import EndTxnMarker, encode_marker
from refimpl.storage.log.log_dir import LogDir
from refimpl.storage.log.partition_log import PartitionLog
from tests.refimpl.storage.verified import append_verified

NOW_MS, ORDERS = 1_790_000_000_000, ("orders", 0)
TOPIC_ID = bytes(range(16))
CONFIG = LogConfig(segment_bytes=600, index_interval_bytes=100, file_delete_delay_ms=0)
SAFE = ("cleanup_policy=delete", "unclean_leader_election=false", "min_insync_replicas=2")


@define
class Brokers:
    """Replicas of `orders-0`, each in a log directory of its own below one folder."""

    folder: Path
    config: LogConfig = CONFIG
    nodes: tuple[int, ...] = (1, 2, 3)
    epoch: int = 0
    leader: int = 1
    sent: int = 0
    sequences: dict[int, int] = field(factory=dict[int, int])
    directories: dict[int, LogDir] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.directories = {}
        for node in self.nodes:
            self.root(node).mkdir(parents=True)
            disk = FileDisk(self.root(node))
            write_meta_properties(disk, {"version": "1", "node.id": str(node), "cluster.id": "c"})
            self.directories[node] = LogDir.open(disk, NOW_MS, self.config)
            self.directories[node].create(ORDERS, TOPIC_ID, NOW_MS)

    def root(self, node: int) -> Path:
        return self.folder / f"node-{node}"

    @property
    def roots(self) -> list[Path]:
        return [self.root(node) for node in self.nodes]

    def segments(self, node: int) -> list[Path]:
        return sorted((self.root(node) / "orders-0").glob("*.log"))

    def log(self, node: int) -> PartitionLog:
        return self.directories[node].log(ORDERS)

    def elect(self, node: int) -> None:
        self.leader, self.epoch = node, self.epoch + 1

    def append(
        self,
        count: int = 1,
        *,
        producer: int = -1,
        transactional: bool = False,
        codec: Codec = Codec.NONE,
        key: bytes | None = None,
        value: bytes | None = b"",
    ) -> int:
        """A batch at the leader; its first offset."""
        records = [self._record(number, key, value) for number in range(count)]
        sequence = self.sequences.get(producer, 0) if producer >= 0 else -1
        self.sequences[producer] = sequence + count
        batch = encode_batch(
            records,
            codec=codec,
            producer_id=producer,
            producer_epoch=0 if producer >= 0 else -1,
            base_sequence=sequence,
            transactional=transactional,
        )
        return self._append(batch, Origin.CLIENT)

    def _record(self, number: int, key: bytes | None, value: bytes | None) -> Record:
        self.sent += 1
        key = b"k%d" % self.sent if key is None else key
        value = b'{"n": %d}' % self.sent if value == b"" else value
        return Record(number, NOW_MS + self.sent, key, value, (("h", b"%d" % self.sent),))

    def end_transaction(self, producer: int, *, committed: bool) -> None:
        marker = EndTxnMarker(committed, 0)
        batch = encode_marker(
            marker, producer_id=producer, producer_epoch=0, timestamp=NOW_MS + self.sent
        )
        self._append(batch, Origin.COORDINATOR)

    def _append(self, batch: bytes, origin: Origin) -> int:
        log = self.log(self.leader)
        return append_verified(log, batch, self.epoch, NOW_MS, origin).first_offset

    def replicate(self, *followers: int) -> None:
        """These followers, or all, fetch up to the leader's end; what all have is committed."""
        leader = self.log(self.leader)
        for node in followers or [n for n in self.nodes if n != self.leader]:
            self.copy(node)
        end = min(self.log(node).end_offset for node in (*(followers or self.nodes), self.leader))
        leader.advance_high_watermark(end)
        for node in followers or self.nodes:
            self.log(node).advance_high_watermark(end)

    def copy(self, node: int) -> None:
        log, leader = self.log(node), self.log(self.leader)
        while log.end_offset < leader.end_offset:
            log.append_as_follower(leader.read(log.end_offset, 1), self.epoch, NOW_MS)

    def close(self, nodes: Iterable[int] | None = None) -> None:
        """A clean shutdown."""
        for node in nodes or self.nodes:
            self.directories[node].close()

    def crash(self, node: int) -> None:
        """A shutdown after the last checkpoint, but not a clean one."""
        for log in self.directories[node].logs.values():
            log.flush()
        self.directories[node].checkpoint()


def flip(path: Path, position: int) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= 1
    path.write_bytes(content)


def positions(path: Path) -> list[int]:
    """The byte positions of the batches in a file."""
    content, found = path.read_bytes(), [0]
    while found[-1] < len(content):
        found.append(found[-1] + read_header(content, found[-1]).size)
    return found[:-1]
