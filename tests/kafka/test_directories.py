"""Whole log directories: Kafka takes ours for its own, and we take Kafka's for ours."""

import re
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from attrs import evolve

from chaos.real.kafka.judge import Judge, KafkaBroker
from refimpl.machines.replica_log import Origin
from refimpl.storage.cleaner.compaction import compact
from refimpl.storage.config import LogConfig
from refimpl.storage.disk.files import FileDisk
from refimpl.storage.format.batch import NO_PRODUCER, Record, batches, decode_records, encode_batch
from refimpl.storage.format.checkpoints import read_partition_metadata
from refimpl.storage.format.control import EndTxnMarker, encode_marker
from refimpl.storage.log.log_dir import LogDir
from refimpl.storage.log.partition_log import PartitionLog
from tests.kafka.clients import CODECS, Message, commit_offsets, create_topics, read_all, send
from tests.kafka.compare import assert_same
from tests.kafka.generator import NOW, Writer
from tests.refimpl.storage.verified import append_verified

DIRECTORIES = 150
SMALL = LogConfig(
    segment_bytes=40_000,
    index_interval_bytes=200,
    cleanup_policy=frozenset({"compact"}),
    message_timestamp_after_max_ms=2**62,
    delete_retention_ms=0,
    file_delete_delay_ms=0,
)

#: Compaction leaves gaps, and batches without records whose header keeps its timestamp; the tool
#: remarks on both, in Kafka's own files as well.
HARMLESS = re.compile("Non-consecutive offsets| is followed by |, log timestamp: -1$")


def fill(log: PartitionLog, seed: int, appends: int) -> None:
    """Append what producers of all kinds send, transactions and their markers among it."""
    dice = Random(seed)
    sequences: Counter[int] = Counter()
    open_transactions: set[int] = set()
    for number in range(appends):
        writer = Writer(dice, 0, now=NOW + number)
        made = writer.records(dice.choice((1, 3, 10)))
        # A compacted topic takes no record without a key (KIP-467).
        records = [evolve(one, key=b"") if one.key is None else one for one in made]
        producer = dice.choice((NO_PRODUCER, 1, 2, 100, 101))
        known = producer != NO_PRODUCER
        data = encode_batch(
            records,
            codec=writer.codec(),
            producer_id=producer,
            producer_epoch=0 if known else -1,
            base_sequence=sequences[producer] if known else -1,
            transactional=producer >= 100,
        )
        append_verified(log, data, 0, NOW + number)
        sequences[producer] += len(records)
        open_transactions |= {producer} if producer >= 100 else set()
        if open_transactions and dice.random() < 0.4:
            decide(log, open_transactions.pop(), dice.random() < 0.5, NOW + number)
    for producer in open_transactions:
        decide(log, producer, True, NOW + appends)
    log.advance_high_watermark(log.end_offset)


def decide(log: PartitionLog, producer: int, committed: bool, now_ms: int) -> None:
    marker = encode_marker(
        EndTxnMarker(committed, 0), producer_id=producer, producer_epoch=0, timestamp=now_ms
    )
    log.append_as_leader(marker, 0, now_ms, Origin.COORDINATOR)


def records_of(log: PartitionLog, *, committed: bool = False) -> list[Record]:
    """Every data record in the log, or those that were committed."""
    found: list[Record] = []
    aborted = sorted(log.aborted_transactions(log.log_start_offset, log.end_offset))
    for segment in log.local.segments:
        data = segment.disk.read(segment.path, 0, segment.size)
        for at, header in batches(data):
            was_aborted = header.is_transactional and any(
                txn.producer_id == header.producer_id
                and txn.first_offset <= header.base_offset <= txn.last_offset
                for txn in aborted
            )
            if not header.is_control and not (committed and was_aborted):
                found += decode_records(data, at)
    return found


def files_in(folder: Path) -> Iterator[Path]:
    kinds = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")
    yield from sorted(path for path in folder.iterdir() if path.suffix in kinds)


def held_against_kafka(judge: Judge, folder: Path) -> Counter[str]:
    """Kafka's tool finds nothing wrong in any file, and ours says the same of each."""
    seen: Counter[str] = Counter()
    for path in files_in(folder):
        answer = assert_same(judge, path, options=("--deep-iteration",))
        assert answer.status == 0, answer
        for line in filter(None, answer.complaints.split("\n")):
            assert "timestamp mismatch" in line or HARMLESS.search(line), answer.complaints
        assert " isvalid: false" not in answer.out
        assert "invalid bytes" not in answer.out
        if path.suffix in (".index", ".timeindex"):
            sane = assert_same(judge, path, options=("--index-sanity-check",))
            assert "passed sanity check." in sane.out or "is empty." in sane.out, sane
        seen[path.suffix] += 1
        seen["lines"] += answer.out.count("\n")
    return seen


def test_kafka_finds_nothing_wrong_in_any_file_of_our_directories(
    judge: Judge, tmp_path: Path
) -> None:
    seen: Counter[str] = Counter()
    for seed in range(DIRECTORIES):
        disk = FileDisk(tmp_path / str(seed))
        disk.root.mkdir()
        directory = LogDir.open(disk, NOW, SMALL)
        log = directory.create(("orders", 0), bytes(16), NOW)
        fill(log, seed, appends=30)
        if seed % 3 == 0:
            log.roll(NOW + 100)
            compact(log, 0, NOW + 200)
        directory.close()
        seen += held_against_kafka(judge, disk.root / "orders-0")
        shutil.rmtree(disk.root)
    print(f"\n{DIRECTORIES} directories: {dict(seen)}")
    assert min(seen[kind] for kind in (".txnindex", ".snapshot")) > DIRECTORIES


@pytest.fixture
def broker(judge: Judge, tmp_path: Path) -> KafkaBroker:
    made = KafkaBroker(tmp_path, {"group.coordinator.rebalance.protocols": "classic,consumer"})
    made.format(judge)
    return made


@pytest.mark.parametrize("cleanly", [True, False], ids=["after a clean stop", "after a crash"])
def test_a_broker_serves_every_record_of_a_log_that_we_wrote(
    broker: KafkaBroker, tmp_path: Path, cleanly: bool
) -> None:
    with broker.running():
        create_topics(broker.address, {"orders": {}})
    theirs = broker.log_dir / "orders-0"
    topic_id = read_partition_metadata(FileDisk(broker.log_dir), "orders-0")
    ours = FileDisk(tmp_path / "ours")
    ours.root.mkdir()
    directory = LogDir.open(ours, NOW, evolve(SMALL, segment_bytes=50_000))
    log = directory.create(("orders", 0), topic_id, NOW)
    fill(log, seed=7, appends=600)
    directory.close()
    written, committed = records_of(log), records_of(log, committed=True)
    assert len(log.local.segments) > 5
    assert len(written) > len(committed) > 1_000

    shutil.rmtree(theirs)
    shutil.copytree(ours.root / "orders-0", theirs)
    if not cleanly:
        (broker.log_dir / ".kafka_cleanshutdown").unlink()
        (theirs / "leader-epoch-checkpoint").unlink()
        for index in [*theirs.glob("*.index"), *theirs.glob("*.snapshot")]:
            index.unlink()
    with broker.running():
        assert read_all(broker.address, "orders") == written
        assert read_all(broker.address, "orders", committed=True) == committed
        send(broker.address, "orders", [Message(b"k", b"the log goes on")])
    complaints = [line for line in broker.output.read_text().splitlines() if "orders-0" in line]
    if cleanly:
        assert not complaints
    print(
        f"\n{len(written)} records, {len(committed)} committed, {len(log.local.segments)} segments"
    )


def join_as_a_new_consumer(judge: Judge, broker: KafkaBroker) -> None:
    """A group of the protocol of KIP-848, which no Python client speaks yet."""
    tool = "org.apache.kafka.tools.consumer.ConsoleConsumer"
    who = ("--group", "new", "--command-property", "group.protocol=consumer")
    what = ("--topic", "orders", "--from-beginning", "--max-messages", "5")
    answer = judge.run(tool, "--bootstrap-server", broker.address, *who, *what)
    assert answer.status == 0, answer
    assert "Processed a total of 5 messages" in answer.complaints


def busy(broker: KafkaBroker) -> None:
    """Everything that a broker writes: codecs, transactions, offsets, groups, compaction."""
    small = {"segment.bytes": "1048576"}
    create_topics(
        broker.address, {"orders": small, "keyed": {**small, "cleanup.policy": "compact"}}
    )
    for number, codec in enumerate(CODECS):
        dice = Random(number)
        many = [
            Message(b"%d" % n, dice.randbytes(1_000), (("h", b"%d" % number),)) for n in range(500)
        ]
        send(broker.address, "orders", many, codec=codec)
        few = [Message(b"%d" % (n % 3), b"v%d" % n) for n in range(20)]
        for commit in (True, False):
            name = f"txn-{number}"
            group = "paid" if commit else None
            send(
                broker.address,
                "orders",
                few,
                codec=codec,
                transaction=name,
                commit=commit,
                group=group,
            )
        send(broker.address, "keyed", [*few, Message(b"1", None)], codec=codec)
    commit_offsets(broker.address, "readers", "orders", 17)


def all_logs(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.iterdir()) if path.is_dir()]


@pytest.mark.parametrize("cleanly", [True, False], ids=["stopped cleanly", "killed"])
def test_we_read_every_record_in_a_directory_that_a_broker_left(
    judge: Judge, broker: KafkaBroker, tmp_path: Path, cleanly: bool
) -> None:
    with broker.running() as process:
        busy(broker)
        expected = {t: read_all(broker.address, t) for t in ("orders", "keyed")}
        committed = read_all(broker.address, "orders", committed=True)
        if not cleanly:
            process.kill()
    copy = tmp_path / "copy"
    shutil.copytree(broker.log_dir, copy)
    directory = LogDir.open(FileDisk(copy), NOW)
    assert not directory.damaged
    for topic, records in expected.items():
        assert records_of(directory.logs[topic, 0]) == records
    assert records_of(directory.logs["orders", 0], committed=True) == committed
    assert len(committed) < len(expected["orders"])
    orders = directory.logs["orders", 0]
    orders.advance_high_watermark(orders.end_offset)
    assert orders.last_stable_offset == orders.end_offset
    directory.close()
    print(f"\n{len(expected['orders'])} records, {len(directory.logs)} partitions")


def test_our_tool_says_of_a_brokers_directory_what_kafkas_says(
    judge: Judge, broker: KafkaBroker
) -> None:
    with broker.running():
        busy(broker)
        join_as_a_new_consumer(judge, broker)
    seen: Counter[str] = Counter()
    for folder in all_logs(broker.log_dir):
        decoders = {"__consumer_offsets": "--offsets-decoder"}
        decoders |= {"__transaction_state": "--transaction-log-decoder"}
        decoder = decoders.get(folder.name.rpartition("-")[0], "--print-data-log")
        for path in files_in(folder):
            answer = assert_same(judge, path, options=(decoder,))
            assert_same(judge, path)
            seen[path.suffix] += 1
            seen["lines"] += answer.out.count("\n")
            seen[decoder] += answer.out.count("key: {")
            for kind in (3, 5, 6, 7, 8):  # the facts of such a group
                in_groups = decoder == "--offsets-decoder"
                seen[f"type {kind}"] += in_groups and f'"type":"{kind}"' in answer.out
    print(f"\n{dict(seen)}")
    assert seen["--offsets-decoder"] > 5
    assert min(seen[f"type {kind}"] for kind in (3, 5, 6, 7, 8)) > 0
    assert seen["--transaction-log-decoder"] > 20
