"""The machines on Kafka's files are the specs as well, and restart with what recovery finds."""

from collections.abc import Callable
from random import Random

import pytest

from properties.conformance.discrepancy import Discrepancy
from properties.conformance.machines import Machines
from properties.conformance.scope import ConformanceScope
from properties.conformance.walks import SideBySide, stroll
from properties.modules.descriptor import module, modules
from refimpl.storage.log import recovery
from refimpl.storage.log.epoch_cache import EpochCache
from refimpl.storage.log.partition_log import PartitionLog

pytestmark = pytest.mark.java

STEPS = 4_000


def walk(name: str, cfg: str) -> tuple[Discrepancy | None, SideBySide]:
    binding = module(name).on_disk
    assert binding is not None
    run = SideBySide(Machines(ConformanceScope.of(binding, cfg), "walk"))
    found = next((one for one in stroll(run, Random(1), STEPS) if one), None)
    return found, run


ON_DISK = [(name, cfg) for name, one in modules().items() for cfg in one.table().scopes.disk]


def test_each_module_of_replication_has_two_scopes_on_disk() -> None:
    for name in ("Truncation", "DurableIsr", "AlterPartition"):
        assert sum(module == name for module, _ in ON_DISK) >= 2


@pytest.mark.parametrize(("name", "cfg"), ON_DISK)
def test_the_machines_on_disk_are_the_spec(name: str, cfg: str) -> None:
    found, run = walk(name, cfg)
    assert found is None, found and found.story()
    taken = {run.scope.graph.actions[label].name for _, label, _ in run.taken}
    assert {"Write", "Fetch"} <= taken
    bounds = run.scope.constants
    if bounds.get("MaxRestarts") or bounds.get("MaxCrashes"):
        assert taken & {"Restart", "Crash"}


def epochs_survive_a_cut(patch: pytest.MonkeyPatch) -> None:
    """The records go, their epochs stay."""

    def nothing(self: EpochCache, end: int) -> None:
        pass

    patch.setattr(EpochCache, "truncate_end", nothing)


def recovery_knows_no_high_watermark(patch: pytest.MonkeyPatch) -> None:
    """Ignore replication-offset-checkpoint."""
    known = recovery.open_log

    def open_log(*args: object, **kwargs: object) -> PartitionLog:
        return known(*args, **{**kwargs, "high_watermark": 0})  # pyright: ignore

    patch.setattr("refimpl.storage.log.log_dir.open_log", open_log)


def recovery_keeps_one_batch_less(patch: pytest.MonkeyPatch) -> None:
    """The last whole batch before a torn one is cut, too."""
    known = recovery.open_log

    def open_log(*args: object, **kwargs: object) -> PartitionLog:
        log = known(*args, **kwargs)  # pyright: ignore
        log.truncate_to(max(log.end_offset - 1, 0), 0)
        return log

    patch.setattr("refimpl.storage.log.log_dir.open_log", open_log)


def recovery_trusts_a_lost_disk(patch: pytest.MonkeyPatch) -> None:
    """Take flushed records to be on disk, although the disk is another one."""
    known = recovery.open_log

    def open_log(*args: object, **kwargs: object) -> PartitionLog:
        return known(*args, **{**kwargs, "recovery_point": 1 << 30})  # pyright: ignore

    patch.setattr("refimpl.storage.log.log_dir.open_log", open_log)


def recovery_sees_more_than_there_is(patch: pytest.MonkeyPatch) -> None:
    """The high watermark is behind the end of what was recovered."""
    known = recovery.open_log

    def open_log(*args: object, **kwargs: object) -> PartitionLog:
        log = known(*args, **kwargs)  # pyright: ignore
        log.high_watermark = log.end_offset + 1
        return log

    patch.setattr("refimpl.storage.log.log_dir.open_log", open_log)


def a_cut_leaves_a_batch(patch: pytest.MonkeyPatch) -> None:
    """One batch that does not agree with the leader's log stays."""
    known = PartitionLog.truncate_to

    def truncate_to(self: PartitionLog, offset: int, now_ms: int) -> None:
        known(self, min(offset + 1, self.end_offset), now_ms)

    patch.setattr(PartitionLog, "truncate_to", truncate_to)


RESTARTS, LOST_DISKS = "Truncation/ok_kip320_2_late_restart", "AlterPartition/ok_2_records"
BUGS = [
    (epochs_survive_a_cut, RESTARTS),
    (recovery_knows_no_high_watermark, RESTARTS),
    (recovery_keeps_one_batch_less, RESTARTS),
    (recovery_trusts_a_lost_disk, LOST_DISKS),
    (recovery_sees_more_than_there_is, LOST_DISKS),
    (a_cut_leaves_a_batch, LOST_DISKS),
]


@pytest.mark.parametrize(
    ("put_in", "scope"), BUGS, ids=lambda one: one if isinstance(one, str) else one.__name__
)
def test_a_bug_of_the_storage_differs_from_the_spec(
    put_in: Callable[[pytest.MonkeyPatch], None], scope: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_in(monkeypatch)
    name, _, cfg = scope.partition("/")
    found, _ = walk(name, cfg)
    assert found is not None
