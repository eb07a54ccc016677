"""The same log, compacted by Kafka and by us: batch by batch, the same is left."""

import shutil
import time
from pathlib import Path
from random import Random

from attrs import evolve

from chaos.real.kafka.judge import Judge, KafkaBroker
from refimpl.storage.cleaner.compaction import compact
from refimpl.storage.cleaner.log_cleaner import CLEANER_OFFSETS
from refimpl.storage.config import LogConfig
from refimpl.storage.disk.files import FileDisk
from refimpl.storage.format.batch import BatchHeader, Record, batches, decode_records
from refimpl.storage.format.checkpoints import read_offsets
from refimpl.storage.format.txn_index import AbortedTxn, TxnIndex
from refimpl.storage.log.log_dir import LogDir
from refimpl.storage.log.partition_log import PartitionLog
from refimpl.storage.log.segment import TXN_INDEX
from tests.kafka.clients import CODECS, Message, create_topics, send
from tests.kafka.test_directories import held_against_kafka

TOPIC, KEYED = "keyed", ("keyed", 0)
SEGMENT_BYTES = 1 << 20
SECONDS_TO_CLEAN = 60
#: What differs between two encoders and two clocks: sizes, checksums, and when a horizon is.
Batch = tuple[BatchHeader, bool, list[Record]]


def write(broker: KafkaBroker) -> None:
    """Several segments: values that are replaced, tombstones, all codecs, transactions."""
    now_ms = int(time.time() * 1_000)
    for number in range(10):
        dice = Random(number)
        some = [
            Message(
                b"key %d" % dice.randrange(300),
                None if dice.random() < 0.1 else dice.randbytes(900),
                timestamp=now_ms + number,
            )
            for _ in range(500)
        ]
        send(broker.address, TOPIC, some, codec=CODECS[number % 5])
        for commit in (True, False):
            transaction = f"txn-{number % 3}"
            few = some[:40] if commit else some[40:80]
            send(broker.address, TOPIC, few, transaction=transaction, commit=commit)


def batches_left(log: PartitionLog) -> list[Batch]:
    found: list[Batch] = []
    for segment in log.local.segments:
        data = segment.disk.read(segment.path, 0, segment.size)
        for at, header in batches(data):
            records = list(decode_records(data, at))
            dated = header.delete_horizon_ms is not None
            found.append((header._replace(length=0, crc=0, base_timestamp=0), dated, records))
    return found


def aborted_in(folder: Path) -> list[AbortedTxn]:
    """The entries of the transaction indexes as they are stored.

    A log that is opened checks them against its batches, and forgets transactions without records.
    """
    disk = FileDisk(folder)
    found: list[AbortedTxn] = []
    for file in sorted(folder.glob(f"*{TXN_INDEX}")):
        found += TxnIndex(disk, file.name, file.stat().st_size).entries()
    return [evolve(txn, last_stable_offset=0) for txn in found]


def opened(folder: Path) -> PartitionLog:
    config = LogConfig(segment_bytes=SEGMENT_BYTES, cleanup_policy=frozenset({"compact"}))
    log = LogDir.open(FileDisk(folder), int(time.time() * 1_000), config).logs[KEYED]
    log.advance_high_watermark(log.end_offset)
    return log


def wait_until_clean(broker: KafkaBroker) -> int:
    """The offset up to which Kafka has cleaned; polled, because it reports it nowhere."""
    until = time.monotonic() + SECONDS_TO_CLEAN
    while time.monotonic() < until:
        cleaned = read_offsets(FileDisk(broker.log_dir), CLEANER_OFFSETS).get(KEYED, 0)
        if cleaned:
            return cleaned
        time.sleep(0.2)
    raise AssertionError(f"nothing was cleaned: {broker.output.read_text()[-2000:]}")


def test_kafka_and_we_leave_the_same_of_a_log(judge: Judge, tmp_path: Path) -> None:
    broker = KafkaBroker(tmp_path)
    broker.format(judge)
    with broker.running():
        settings = {"segment.bytes": str(SEGMENT_BYTES), "min.cleanable.dirty.ratio": "0.0"}
        create_topics(broker.address, {TOPIC: settings})
        write(broker)
    shutil.copytree(broker.log_dir, tmp_path / "ours")
    with broker.running():
        tool = "kafka.admin.ConfigCommand"
        wanted = ("--entity-type", "topics", "--entity-name", TOPIC, "--alter")
        policy = ("--add-config", "cleanup.policy=compact")
        answer = judge.run(tool, "--bootstrap-server", broker.address, *wanted, *policy)
        assert answer.status == 0, answer
        cleaned = wait_until_clean(broker)
    kept = aborted_in(broker.log_dir / "keyed-0")
    ours, theirs = opened(tmp_path / "ours"), opened(broker.log_dir)
    before = batches_left(ours)
    done = compact(ours, 0, int(time.time() * 1_000))
    assert done.end_offset == cleaned
    left = batches_left(ours)
    assert left == batches_left(theirs)
    bases = [segment.base_offset for segment in ours.local.segments]
    assert bases == [segment.base_offset for segment in theirs.local.segments]
    ours.close()
    aborted = aborted_in(tmp_path / "ours" / "keyed-0")
    assert aborted == kept
    held_against_kafka(judge, tmp_path / "ours" / "keyed-0")
    counts = [sum(len(records) for _, _, records in some) for some in (before, left)]
    emptied, dated = (sum(map(test, left)) for test in (is_empty, has_horizon))
    print(f"\n{len(before)} batches, {counts[0]} records; left {len(left)}, {counts[1]}; ", end="")
    print(f"{emptied} without records, {dated} with a delete horizon, {len(aborted)} aborted")
    assert counts[1] < counts[0] / 2
    assert min(emptied, dated, len(aborted)) > 0


def is_empty(batch: Batch) -> bool:
    return not batch[2]


def has_horizon(batch: Batch) -> bool:
    return batch[1]
