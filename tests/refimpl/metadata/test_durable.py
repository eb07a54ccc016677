"""The store's files: damage is told from a crash, and a disk that failed is not trusted again."""

import errno

import pytest

from refimpl.errors import CorruptFile, StorageOffline
from refimpl.metadata.contract import Create, Data, Existence, Exists, GetData, SetData
from refimpl.metadata.durable import SNAPSHOT, DurableStore
from refimpl.storage.disk.crashing import CrashDisk
from tests.refimpl.metadata.hosting import TIMEOUT_MS, Host


def written(transactions_a_snapshot: int = 1000) -> CrashDisk:
    """A disk with some znodes on it, each in a batch of its own."""
    disk = CrashDisk()
    host = Host(DurableStore.open(disk, 0, transactions_a_snapshot=transactions_a_snapshot))
    one = host.connected()
    for number in range(5):
        host.ask(one, Create(f"/{number}", bytes(range(256)), ephemeral=number == 4))
    return disk


def the_log(disk: CrashDisk) -> str:
    [log] = [name for name in disk.files if name.startswith("log.")]
    return log


@pytest.mark.parametrize("transactions_a_snapshot", [1, 3, 1000])
def test_all_of_it_is_there_again(transactions_a_snapshot: int) -> None:
    disk = written(transactions_a_snapshot)
    assert (SNAPSHOT in disk.files) == (transactions_a_snapshot < 1000)
    host = Host(DurableStore.open(disk.crashed(), 0))
    one = host.connected()
    found = host.ask(one, GetData("/3"))
    assert isinstance(found, Data)
    assert found.data == bytes(range(256))


def test_a_session_outlives_a_restart_for_its_whole_time_out() -> None:
    host = Host(DurableStore.open(written().crashed(), 50_000), now=50_000)
    host.pass_time(TIMEOUT_MS - 1)
    one = host.connected()
    assert host.ask(one, Exists("/4")) != Existence(None)
    host.pass_time(1)
    assert host.ask(one, Exists("/4")) == Existence(None)


def test_damage_before_a_whole_batch_is_no_crash() -> None:
    disk = written()
    log = the_log(disk)
    disk.files[log][20] ^= 1
    with pytest.raises(
        CorruptFile, match=r"^log\.0+: at byte 0: a damaged batch, with a whole one"
    ):
        DurableStore.open(disk, 0)


def test_damage_in_a_snapshot_is_no_crash() -> None:
    disk = written(transactions_a_snapshot=3)
    disk.files[SNAPSHOT][-2] ^= 1
    with pytest.raises(CorruptFile, match=r"^snapshot: at byte 0"):
        DurableStore.open(disk, 0)


@pytest.mark.parametrize("failing", ["append", "flush"])
def test_after_a_failure_of_the_disk_nothing_is_answered(failing: str) -> None:
    """The state in memory may be ahead of what is safe, and whoever read it would be misled."""
    disk = CrashDisk()
    host = Host(DurableStore.open(disk, 0))
    one = host.connected()
    disk.fail = lambda operation, path: errno.EIO if operation == failing else None
    with pytest.raises(StorageOffline):
        host.ask(one, Create("/a"))
    disk.fail = None
    with pytest.raises(StorageOffline):
        host.ask(one, SetData("/", b""))
    with pytest.raises(StorageOffline):
        host.ask(one, GetData("/a"))
