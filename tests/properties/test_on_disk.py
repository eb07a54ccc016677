"""The machines on Kafka's files are the specs as well, and restart with what recovery finds."""

from collections.abc import Callable
from random import Random

import pytest

from properties.conformance.discrepancy import Discrepancy
from properties.conformance.machines import Machines
from properties.conformance.scope import Scope
from properties.conformance.walks import Run, stroll
from properties.modules.descriptor import module, modules
from refimpl.storage import recovery
from refimpl.storage.epoch_cache import EpochCache
from refimpl.storage.partition_log import PartitionLog

pytestmark = pytest.mark.java

STEPS = 4_000


def walk(name: str, cfg: str) -> tuple[Discrepancy | None, Run]:
    binding = module(name).on_disk
    assert binding is not None
    run = Run(Machines(Scope.of(binding, cfg), "walk"))
    found = next((one for one in stroll(run, Random(1), STEPS) if one), None)
    return found, run


ON_DISK = [(name, cfg) for name, one in modules().items() for cfg in one.table().scopes.disk]


def test_each_module_of_replication_has_two_scopes_on_disk() -> None:
    for name in ("Truncation", "DurableIsr"):
        assert sum(module == name for module, _ in ON_DISK) >= 2


@pytest.mark.parametrize(("name", "cfg"), ON_DISK)
def test_the_machines_on_disk_are_the_spec(name: str, cfg: str) -> None:
    found, run = walk(name, cfg)
    assert found is None, found and found.story()
    taken = {run.scope.graph.actions[label].name for _, label, _ in run.taken}
    assert {"Write", "Fetch"} <= taken
    if "restart" in cfg or "crash" in cfg:
        assert taken & {"Restart", "Crash"}


def epochs_survive_a_cut(patch: pytest.MonkeyPatch) -> None:
    """The records go, their epochs stay."""

    def nothing(self: EpochCache, end: int) -> None:
        pass

    patch.setattr(EpochCache, "truncate_end", nothing)


def recovery_knows_no_high_watermark(patch: pytest.MonkeyPatch) -> None:
    """What replication-offset-checkpoint says is not read."""
    known = recovery.open_log

    def open_log(*args: object, **kwargs: object) -> PartitionLog:
        return known(*args, **{**kwargs, "high_watermark": 0})  # pyright: ignore

    patch.setattr("refimpl.storage.log_dir.open_log", open_log)


def recovery_keeps_one_batch_less(patch: pytest.MonkeyPatch) -> None:
    """The last whole batch before a torn one is cut, too."""
    known = recovery.open_log

    def open_log(*args: object, **kwargs: object) -> PartitionLog:
        log = known(*args, **kwargs)  # pyright: ignore
        log.truncate_to(max(log.end_offset - 1, 0), 0)
        return log

    patch.setattr("refimpl.storage.log_dir.open_log", open_log)


@pytest.mark.parametrize(
    "put_in",
    [epochs_survive_a_cut, recovery_knows_no_high_watermark, recovery_keeps_one_batch_less],
    ids=lambda bug: bug.__name__,
)
def test_a_bug_of_the_storage_differs_from_the_spec(
    put_in: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    put_in(monkeypatch)
    found, _ = walk("Truncation", "ok_kip320_2_late_restart")
    assert found is not None
