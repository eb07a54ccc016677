"""Thousands of generated logs: Kafka's tool accepts each, and ours says of it what Kafka's says."""

import re
from collections import Counter
from pathlib import Path
from random import Random

import pytest
from attrs import evolve

from chaos.real.kafka.judge import Judge
from refimpl.dump.metadata_records import METADATA_RECORDS
from refimpl.records.coordinators import (
    GROUP_RECORDS,
    SHARE_RECORDS,
    TRANSACTION_RECORDS,
    RecordType,
)
from refimpl.storage.format.batch import Record, decode_records, encode_batch
from tests.kafka.compare import assert_same, ours
from tests.kafka.generator import coordinator_log, generate, metadata_log

FIRST = "00000000000000000000.log"
LOGS, COORDINATOR_LOGS = 3_000, 500


def test_kafka_accepts_every_log_and_reads_the_same_from_it(judge: Judge, tmp_path: Path) -> None:
    seen: Counter[str] = Counter()
    for seed in range(LOGS):
        name, content = generate(seed)
        file = tmp_path / str(seed) / name
        file.parent.mkdir()
        file.write_bytes(content)
        answer = assert_same(judge, file, options=("--print-data-log",))
        assert answer.status == 0, seed
        assert " isvalid: false" not in answer.out, seed
        assert "invalid bytes" not in answer.out, seed
        words = (
            *("codec: none", "codec: gzip", "codec: snappy", "codec: lz4", "codec: zstd"),
            *("LogAppendTime", "isTransactional: true", "endTxnMarker: COMMIT", "LeaderChange"),
            *("endTxnMarker: ABORT", "count: 0 ", "OptionalLong[", "keySize: -1", "headerKeys: [k"),
        )
        seen.update(word for word in words if word in answer.out)
        seen["records"] += answer.out.count("\n| offset: ")
    print(f"\n{LOGS} logs, of them with {dict(seen)}")
    assert len(seen) == 15, seen
    assert min(seen.values()) > LOGS / 20, seen


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--deep-iteration",),
        ("--print-data-log", "--skip-record-metadata"),
        ("--max-bytes", "300"),
        ("--offsets-decoder",),
        ("--transaction-log-decoder",),
    ],
    ids=" ".join,
)
def test_every_option_means_what_it_means_to_kafka(
    judge: Judge, tmp_path: Path, options: tuple[str, ...]
) -> None:
    decoded = {"--offsets-decoder": GROUP_RECORDS, "--transaction-log-decoder": TRANSACTION_RECORDS}
    kinds = decoded.get(options[0]) if options else None
    for seed in range(100):
        name, content = (FIRST, coordinator_log(seed, kinds)) if kinds else generate(seed)
        file = tmp_path / str(seed) / name
        file.parent.mkdir()
        file.write_bytes(content)
        assert_same(judge, file, options=options)


@pytest.mark.parametrize(
    ("option", "kinds"),
    [
        ("--offsets-decoder", GROUP_RECORDS),
        ("--transaction-log-decoder", TRANSACTION_RECORDS),
        ("--share-group-state-decoder", SHARE_RECORDS),
    ],
    ids=["groups", "transactions", "share groups"],
)
def test_kafka_reads_our_coordinators_records_as_we_do(
    judge: Judge, tmp_path: Path, option: str, kinds: dict[int, RecordType]
) -> None:
    kinds_seen: Counter[str] = Counter()
    for seed in range(COORDINATOR_LOGS):
        file = tmp_path / FIRST
        file.write_bytes(coordinator_log(seed, kinds))
        answer = assert_same(judge, file, options=(option,))
        kinds_seen.update(line.partition('"type":"')[2][:2] for line in answer.out.split("\n"))
        assert "Error at offset" not in answer.out, seed
    print(f"\n{COORDINATOR_LOGS} logs of 40 records: {dict(kinds_seen)}")
    assert {f'{number}"'[:2] for number in kinds} <= set(kinds_seen)


def test_kafka_reads_the_controllers_records_as_we_do(judge: Judge, tmp_path: Path) -> None:
    file, seen = tmp_path / FIRST, Counter[str]()
    for seed in range(COORDINATOR_LOGS):
        file.write_bytes(metadata_log(seed))
        answer = assert_same(judge, file, options=("--cluster-metadata-decoder",))
        seen.update(re.findall(r'payload: {"type":"(\w+)"', answer.out))
        seen.update(re.findall(r"Error at \d+, skipping. (\w+)", answer.out))
    print(f"\n{COORDINATOR_LOGS} logs of 40 records: {dict(seen)}")
    assert len(seen) >= len(METADATA_RECORDS) + 3, seen


@pytest.mark.parametrize(
    ("option", "kinds"),
    [("--offsets-decoder", GROUP_RECORDS), ("--transaction-log-decoder", TRANSACTION_RECORDS)],
    ids=["groups", "transactions"],
)
def test_both_say_the_same_of_a_coordinators_record_that_ends_too_early(
    judge: Judge, tmp_path: Path, option: str, kinds: dict[int, RecordType]
) -> None:
    file, words = tmp_path / FIRST, Counter[str]()
    for seed in range(100):
        dice = Random(seed)
        records = list(decode_records(coordinator_log(seed, kinds)))
        torn = [evolve(one, **torn_half(dice, one)) for one in records]
        file.write_bytes(encode_batch(torn))
        answer = assert_same(judge, file, options=(option,))
        words.update(re.findall(r"skipping\. (Could not \w+ \w+|\w+)", answer.out))
    print(f"\n{dict(words)}")
    assert sum(words.values()) > 1_000


def torn_half(dice: Random, record: Record) -> dict[str, bytes]:
    """A key or a value without its end."""
    name = "value" if record.value and dice.random() < 0.7 else "key"
    whole: bytes = getattr(record, name)
    return {name: whole[: dice.randrange(len(whole))]}


def test_a_flipped_bit_makes_both_say_that_the_batch_is_invalid(
    judge: Judge, tmp_path: Path
) -> None:
    file = tmp_path / FIRST
    for seed in range(200):
        content = bytearray(generate(seed)[1])
        behind_the_crc = Random(seed).randrange(21, min(len(content), 60))
        content[behind_the_crc] ^= 1 << seed % 8
        file.write_bytes(content)
        answer = judge.dump(file)
        if answer.status == 0:
            assert " isvalid: false" in answer.out
            assert assert_same(judge, file).status == 0
        assert ours(file).status == 1


def test_a_torn_batch_makes_both_count_the_bytes_left_over(judge: Judge, tmp_path: Path) -> None:
    file = tmp_path / FIRST
    for seed in range(200):
        content = generate(seed)[1]
        file.write_bytes(content[: -Random(seed).randrange(1, 40)])
        answer = assert_same(judge, file)
        assert "invalid bytes at the end of" in answer.out
        assert ours(file).status == 1
