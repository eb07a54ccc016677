"""`highwater dump-log`: its words are DumpLogSegments', its exit codes and refusals are ours.

The words are written out here, so that they hold without Kafka; `make test-kafka` holds both tools
against each other on thousands of files.
"""

import json
from pathlib import Path
from struct import pack
from typing import Any

import pytest
from click.testing import CliRunner, Result
from crc32c import crc32c

from refimpl.__main__ import highwater
from refimpl.records.coordinators import SHARE_RECORDS, CoordinatorRecord, write_record
from refimpl.records.schema import NO_ID
from refimpl.records.share_groups import ShareUpdateKey, ShareUpdateValue, StateBatch
from refimpl.storage.format.batch import Record, encode_batch
from refimpl.storage.format.compression import Codec
from refimpl.storage.format.control import EndTxnMarker, encode_marker

NAME = "00000000000000000000"
NOW = 1_790_000_000_000
ONE = encode_batch(
    [Record(0, NOW, b"k", b"v", (("h", b"1"), ("i", None))), Record(1, NOW + 5, None, None)],
    codec=Codec.GZIP,
    producer_id=7,
    producer_epoch=1,
    base_sequence=2**31 - 1,
    transactional=True,
)
TWO = encode_marker(
    EndTxnMarker(committed=True, coordinator_epoch=3),
    producer_id=7,
    producer_epoch=1,
    timestamp=NOW,
    offset=2,
)


def dump(*arguments: str | Path) -> Result:
    return CliRunner().invoke(highwater, ["dump-log", *map(str, arguments)])


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / f"{NAME}.log"
    path.write_bytes(ONE + TWO)
    return path


def test_batches_and_records_are_shown_as_kafka_shows_them(log: Path) -> None:
    result = dump(log, "--print-data-log")
    assert result.exit_code == 0
    crc, marker_crc = (int.from_bytes(batch[17:21]) for batch in (ONE, TWO))
    assert result.stdout.splitlines() == [
        f"Dumping {log}",
        "Log starting offset: 0",
        "baseOffset: 0 lastOffset: 1 count: 2 baseSequence: 2147483647 lastSequence: 0 producerId: "
        "7 producerEpoch: 1 partitionLeaderEpoch: -1 isTransactional: true isControl: false "
        f"deleteHorizonMs: OptionalLong.empty position: 0 CreateTime: 1790000000005 size: "
        f"{len(ONE)} magic: 2 compresscodec: gzip crc: {crc} isvalid: true",
        "| offset: 0 CreateTime: 1790000000000 keySize: 1 valueSize: 1 sequence: 2147483647 "
        "headerKeys: [h,i] key: k payload: v",
        "| offset: 1 CreateTime: 1790000000005 keySize: -1 valueSize: -1 sequence: 0 "
        "headerKeys: []",
        "baseOffset: 2 lastOffset: 2 count: 1 baseSequence: -1 lastSequence: -1 producerId: 7 "
        "producerEpoch: 1 partitionLeaderEpoch: -1 isTransactional: true isControl: true "
        f"deleteHorizonMs: OptionalLong.empty position: {len(ONE)} CreateTime: 1790000000000 size: "
        f"78 magic: 2 compresscodec: none crc: {marker_crc} isvalid: true",
        "| offset: 2 CreateTime: 1790000000000 keySize: 4 valueSize: 6 sequence: -1 headerKeys: [] "
        "endTxnMarker: COMMIT coordinatorEpoch: 3",
    ]


def test_what_a_crash_tore_off_is_counted_and_is_a_finding(log: Path) -> None:
    log.write_bytes(ONE + TWO[:-1])
    result = dump(log)
    assert f"Found 77 invalid bytes at the end of {NAME}.log" in result.stdout
    assert result.exit_code == 1


def test_a_flipped_bit_is_a_finding(log: Path) -> None:
    log.write_bytes(ONE[:-1] + bytes((ONE[-1] ^ 1,)) + TWO)
    result = dump(log)
    assert "isvalid: false" in result.stdout
    assert result.exit_code == 1


def test_a_foreign_file_is_refused_by_name_and_position_and_the_next_one_is_shown(
    log: Path, tmp_path: Path
) -> None:
    foreign = tmp_path / "00000000000000000009.log"
    foreign.write_bytes(b"PK\x03\x04" + bytes(100))
    result = dump(foreign, log)
    assert result.exit_code == 1
    assert f"Error: {foreign}: at byte 0: " in result.stderr
    assert "baseOffset: 2" in result.stdout


def test_a_log_of_a_newer_format_is_refused(log: Path) -> None:
    log.write_bytes(ONE + TWO[:16] + b"\x03" + TWO[17:])
    result = dump(log)
    assert f"Error: {log}: at byte {len(ONE)}: message format 3 is not known" in result.stderr
    assert result.exit_code == 1


def test_a_missing_file_is_bad_input(tmp_path: Path) -> None:
    result = dump(tmp_path / "no.log")
    assert result.exit_code == 2
    assert "does not exist" in result.stderr


def test_an_index_without_its_log_is_bad_input(tmp_path: Path) -> None:
    index = tmp_path / f"{NAME}.index"
    index.write_bytes(pack(">ii", 1, 0))
    result = dump(index)
    assert result.exit_code == 2
    assert f"{NAME}.log: No such file" in result.stderr


def test_offset_and_time_indexes_are_held_against_the_log(log: Path) -> None:
    index, times = log.with_suffix(".index"), log.with_suffix(".timeindex")
    index.write_bytes(pack(">iiii", 1, 0, 2, len(ONE)))
    times.write_bytes(pack(">qi", NOW + 5, 1))
    result = dump(index, times)
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        f"Dumping {index}",
        "offset: 1 position: 0",
        f"offset: 2 position: {len(ONE)}",
        f"Dumping {times}",
        "timestamp: 1790000000005 offset: 1",
    ]


def test_an_index_that_does_not_fit_the_log_is_a_finding(log: Path) -> None:
    index, times = log.with_suffix(".index"), log.with_suffix(".timeindex")
    index.write_bytes(pack(">iiii", 1, 0, 3, len(ONE)))
    times.write_bytes(pack(">qiqi", NOW + 6, 1, NOW, 2))
    result = dump(index, times)
    assert result.exit_code == 1
    assert result.stderr.splitlines() == [
        f"Mismatches in :{index}",
        "  Index offset: 3, log offset: 2",
        f"Found timestamp mismatch in :{times}",
        f"  Index timestamp: {NOW + 6}, log timestamp: {NOW + 5}",
        f"Found out of order timestamp in :{times}",
        f"  Index timestamp: {NOW}, Previously indexed timestamp: {NOW + 6}",
    ]


def test_what_does_not_fit_is_there_for_programs_too(log: Path, tmp_path: Path) -> None:
    index, out = log.with_suffix(".index"), tmp_path / "out.json"
    index.write_bytes(pack(">iiii", 1, 0, 3, len(ONE)))
    nothing: dict[str, Any] = {f"{name}_offsets": {} for name in ("wrong", "lost")}
    nothing |= {"wrong_timestamps": {}, "late_timestamps": {}, "gaps": {}}
    assert dump(log, "--json", out).exit_code == 0
    assert json.loads(out.read_text()) == {"broken": False, "damaged": False, **nothing}
    assert dump(index, "--json", out).exit_code == 1
    found = {"broken": True, "damaged": False, **nothing, "wrong_offsets": {str(index): [[3, 2]]}}
    assert json.loads(out.read_text()) == found


def test_the_sanity_check_says_passed_or_why_not(log: Path) -> None:
    index = log.with_suffix(".index")
    index.write_bytes(pack(">ii", 1, 0))
    assert f"{index} passed sanity check." in dump(index, "--index-sanity-check").stdout
    index.write_bytes(pack(">ii", 1, 0) + b"\0")
    result = dump(index, "--index-sanity-check")
    assert result.exit_code == 1
    assert "entries have 8 bytes" in result.stderr


def test_the_transaction_index_is_shown_entry_by_entry(tmp_path: Path) -> None:
    path = tmp_path / f"{NAME}.txnindex"
    path.write_bytes(pack(">hqqqq", 0, 7, 1, 5, 6))
    result = dump(path)
    assert result.stdout.splitlines()[1:] == [
        "version: 0 producerId: 7 firstOffset: 1 lastOffset: 5 lastStableOffset: 6"
    ]
    assert result.exit_code == 0


def snapshot(*producers: bytes) -> bytes:
    body = pack(">i", len(producers)) + b"".join(producers)
    return pack(">hI", 1, crc32c(body)) + body


def test_a_snapshot_is_shown_producer_by_producer(tmp_path: Path) -> None:
    path = tmp_path / f"{NAME}.snapshot"
    busy = pack(">qhiqiqiq", 7, 1, 9, 20, 4, NOW, 3, 16)
    idle = pack(">qhiqiqiq", 8, 0, -1, -1, 0, NOW, -1, -1)
    path.write_bytes(snapshot(busy, idle))
    result = dump(path)
    assert result.stdout.splitlines()[1:] == [
        "producerId: 7 producerEpoch: 1 coordinatorEpoch: 3 currentTxnFirstOffset: OptionalLong[16]"
        f" lastTimestamp: {NOW} firstSequence: 5 lastSequence: 9 lastOffset: 20 offsetDelta: 4 "
        f"timestamp: {NOW}",
        "producerId: 8 producerEpoch: 0 coordinatorEpoch: -1 currentTxnFirstOffset: "
        f"OptionalLong.empty lastTimestamp: {NOW}",
    ]


def test_a_damaged_snapshot_is_a_finding(tmp_path: Path) -> None:
    path = tmp_path / f"{NAME}.snapshot"
    path.write_bytes(snapshot()[:-1] + b"\1")
    result = dump(path)
    assert result.exit_code == 1
    assert "the snapshot's CRC does not match" in result.stderr


@pytest.mark.parametrize("position", [-8, 1 << 20])
def test_an_index_that_points_out_of_the_log_is_a_finding(log: Path, position: int) -> None:
    index, times = log.with_suffix(".index"), log.with_suffix(".timeindex")
    index.write_bytes(pack(">ii", 1, position))
    times.write_bytes(pack(">qi", NOW + 5, 1))
    for path in (index, times):
        result = dump(path)
        assert result.exit_code == 1
        assert f"Error: {index}: at byte 0: position {position}, and the log has" in result.stderr


def test_a_torn_time_index_is_not_sane(log: Path) -> None:
    times = log.with_suffix(".timeindex")
    times.write_bytes(bytes(7))
    result = dump(times, "--index-sanity-check")
    assert result.exit_code == 1
    assert "entries have 12 bytes, and some are left" in result.stderr


def test_a_batch_may_be_larger_than_what_kafkas_tool_reads_at_once(tmp_path: Path) -> None:
    log = tmp_path / f"{NAME}.log"
    log.write_bytes(encode_batch([Record(0, NOW, None, bytes(6 << 20))]))
    index = log.with_suffix(".index")
    index.write_bytes(pack(">ii", 0, 0))
    result = dump(index)
    assert (result.exit_code, result.stderr) == (0, "")
    assert "offset: 0 position: 0" in result.stdout


def test_a_record_of_the_controllers_is_shown(log: Path) -> None:
    topic = b"\x01\x02\x00" + b"\x02t" + bytes(16) + b"\x00"
    broken = b"\x01\x63\x00"
    log.write_bytes(encode_batch([Record(0, NOW, None, topic), Record(1, NOW, None, broken)]))
    lines = dump(log, "--cluster-metadata-decoder").stdout.splitlines()
    shown = '{"type":"TOPIC_RECORD","version":0,"data":{"name":"t","topicId":"'
    assert f" payload: {shown}AAAAAAAAAAAAAAAAAAAAAA" in lines[-2]
    assert "payload: Error at 1, skipping. " in lines[-1]
    assert "Unknown metadata id 99" in lines[-1]


def test_a_record_of_a_share_group_is_shown(log: Path) -> None:
    key = ShareUpdateKey("g", NO_ID, 3)
    content = ShareUpdateValue(
        snapshot_epoch=1,
        leader_epoch=2,
        start_offset=5,
        state_batches=(StateBatch(5, 9, 2, 1),),
    )
    record = write_record(CoordinatorRecord(SHARE_RECORDS[1], key, content))
    log.write_bytes(encode_batch([Record(0, NOW, *record)]))
    line = dump(log, "--share-group-state-decoder").stdout.splitlines()[-1]
    assert 'key: {"type":"1","data":{"groupId":"g","topicId":"AAAAAAAAAAAAAAAAAAAAAA"' in line
    assert '"startOffset":5,"stateBatches":[{"firstOffset":5,"lastOffset":9' in line
