"""The small files, byte by byte as Kafka writes them."""

import pytest

from refimpl.errors import CorruptFile, UnsupportedFormat
from refimpl.machines.producer import Producer, SeenBatch
from refimpl.machines.producer_state import ProducerState
from refimpl.storage.disk.interface import MemoryDisk
from refimpl.storage.format.checkpoints import (
    read_epochs,
    read_meta_properties,
    read_offsets,
    read_partition_metadata,
    take_clean_shutdown,
    write_clean_shutdown,
    write_epochs,
    write_meta_properties,
    write_offsets,
    write_partition_metadata,
)
from refimpl.storage.format.txn_index import AbortedTxn, TxnIndex
from refimpl.storage.log.producer_snapshot import read_snapshot, write_snapshot


def disk_with(**files: bytes) -> MemoryDisk:
    return MemoryDisk({name: bytearray(data) for name, data in files.items()}, {"orders-0"})


def test_offsets_are_a_version_a_count_and_a_line_each() -> None:
    disk = disk_with()
    write_offsets(disk, "c", {("orders", 10): 7, ("a.b_c-d", 0): 2**40})
    assert bytes(disk.files["c"]) == b"0\n2\na.b_c-d 0 1099511627776\norders 10 7\n"
    assert read_offsets(disk, "c") == {("orders", 10): 7, ("a.b_c-d", 0): 2**40}
    assert list(disk.files) == ["c"], "no temporary file stays"


def test_epochs_are_a_version_a_count_and_a_line_each() -> None:
    disk = disk_with()
    write_epochs(disk, "c", [(0, 0), (3, 17)])
    assert bytes(disk.files["c"]) == b"0\n2\n0 0\n3 17\n"
    assert read_epochs(disk, "c") == [(0, 0), (3, 17)]


def test_a_topic_id_is_22_letters() -> None:
    disk = disk_with()
    write_partition_metadata(disk, {"orders-0": bytes(range(16))})
    told = bytes(disk.files["orders-0/partition.metadata"])
    assert told == b"version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw"
    assert read_partition_metadata(disk, "orders-0") == bytes(range(16))


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b"version: 1\ntopic_id: AAECAwQFBgcICQoLDA0ODw", UnsupportedFormat),
        (b"topic_id: AAECAwQFBgcICQoLDA0ODw", CorruptFile),
        (b"version: 0\ntopic_id: A", CorruptFile),
    ],
)
def test_a_strange_topic_id_is_named(content: bytes, kind: type[Exception]) -> None:
    disk = disk_with(**{"orders-0/partition.metadata": content})
    with pytest.raises(kind, match=r"orders-0/partition\.metadata: at byte 0"):
        read_partition_metadata(disk, "orders-0")


def test_meta_properties_are_javas() -> None:
    disk = disk_with(
        **{"meta.properties": b"#\n#Sat Nov 21 20:00:00 UTC 2026\nnode.id=1\nversion=1\n"}
    )
    assert read_meta_properties(disk) == {"node.id": "1", "version": "1"}
    write_meta_properties(disk, {"version": "1", "cluster.id": "x", "node.id": "2"})
    assert bytes(disk.files["meta.properties"]) == b"#\ncluster.id=x\nnode.id=2\nversion=1\n"
    disk.files["meta.properties"][:] = b"version=2\n"
    with pytest.raises(UnsupportedFormat, match="version 2, neither 0 nor 1"):
        read_meta_properties(disk)


def test_a_clean_shutdown_counts_once() -> None:
    disk = disk_with()
    assert not take_clean_shutdown(disk)
    write_clean_shutdown(disk, 12)
    assert bytes(disk.files[".kafka_cleanshutdown"]) == b'{"version":0,"brokerEpoch":12}'
    assert take_clean_shutdown(disk)
    assert not take_clean_shutdown(disk)


def test_a_snapshot_brings_the_last_batch_of_each_producer() -> None:
    disk = disk_with()
    seen = [SeenBatch(0, 1, 10, 11, 5), SeenBatch(2, 4, 12, 14, 6)]
    state = ProducerState({7: Producer(1, 3, 12, timestamp_ms=6), 9: Producer()})
    state.producers[7].seen.extend(seen)
    write_snapshot(disk, "s", state)
    again = read_snapshot(disk, "s")
    assert again.opened == {12: 7}
    assert list(again.producers[7].seen) == seen[1:]
    assert (again.producers[7].epoch, again.producers[7].coordinator_epoch) == (1, 3)
    assert again.producers[9] == Producer()
    assert len(disk.files["s"]) == 10 + 2 * 46


@pytest.mark.parametrize(
    ("at", "kind"), [(1, UnsupportedFormat), (3, CorruptFile), (40, CorruptFile)]
)
def test_a_damaged_snapshot_is_named(at: int, kind: type[Exception]) -> None:
    disk = disk_with()
    write_snapshot(disk, "s", ProducerState({7: Producer()}))
    disk.files["s"][at] ^= 2
    with pytest.raises(kind, match="s: at byte"):
        read_snapshot(disk, "s")
    del disk.files["s"][5:]
    with pytest.raises(CorruptFile, match="s: at byte 5: the end"):
        read_snapshot(disk, "s")


def test_a_transaction_index_is_read_back_and_a_strange_one_named() -> None:
    disk = disk_with()
    index = TxnIndex(disk, "t")
    for number in range(3):
        index.append(AbortedTxn(number, number + 5, 9, number + 1))
    again = TxnIndex(disk, "t", disk.size("t"))
    assert again.entries() == index.entries()
    assert disk.size("t") == 3 * 34
    again.truncate(6)
    assert TxnIndex(disk, "t", disk.size("t")).entries() == index.entries()[:1]
    disk.files["t"][1] = 9
    with pytest.raises(UnsupportedFormat, match="an entry of version 9"):
        TxnIndex(disk, "t", 34).entries()
    disk.files["t"][:] = b"torn"
    with pytest.raises(CorruptFile, match="at byte 0: a part of an entry"):
        TxnIndex(disk, "t", 4).entries()
