"""Known bugs of controllers on a metadata store are put back, and found by the simulator.

Numbers are those of Kafka's issues. `FOUND` says by which oracle; a bug that no oracle could see
would make the control plane's promises empty.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pytest

from chaos.sim.settings import Settings
from chaos.simulator import build
from properties.mutants.catalogue import Edit, Mutant, applied

STORED = "refimpl.controller.stored_controller:StoredController"
LOOK = "store.GetData(znodes.CONTROLLER_EPOCH), store.Exists(znodes.CONTROLLER, watch=True)"
SEEDS = 60
PLAIN = {
    "store": True,
    "transactions": False,
    "share_members": 0,
    "reconfigures": False,
    "static_members": False,
}
STORE_CRASHES = {"faults": ("store", "depose"), "gap_ms": 60, "operate_ms": 40}
DEPOSED = {"faults": ("depose",), "operate_ms": 40}
CRASHES, LOST_ANSWERS = ("crash", "crash", "pause", "expire"), ("cut", "elect", "noise")


class Bug(NamedTuple):
    """An edit, why it is a bug, and the oracles that may see it."""

    name: str
    why: str
    function: str
    old: str
    new: str
    oracles: Sequence[str]
    fixed: Mapping[str, Any] = {}
    first: int = 0
    """The seed to begin with."""


BUGS = [
    Bug(
        "writes_without_a_fence",
        "KAFKA-6082: a deposed controller's writes take effect.",
        "refimpl.controller.store_writes:StoreWrites.multis",
        "Multi((self.fence, *some))",
        "Multi((Check(znodes.CONTROLLER_EPOCH), *some))",
        ("DeposedWritesNothing",),
    ),
    Bug(
        "own_claim_is_a_defeat",
        "KAFKA-13407: the answer to a claim was lost, and the znode names who does not act.",
        "refimpl.machines.election:ControllerElection.look",
        "owner != self.session",
        "owner is not None",
        ("Progress",),
    ),
    Bug(
        "epoch_stays",
        "A controller is elected, and the controller epoch is what it was.",
        f"{STORED}._claim",
        "str(claim.controller_epoch).encode()",
        "str(claim.controller_epoch - 1).encode()",
        ("ControllerEpochAscends",),
    ),
    Bug(
        "watch_on_brokers_is_lost",
        "KAFKA-928, KAFKA-13461: after a reconnect nothing is watched.",
        f"{STORED}._elect",
        "self.brokers_changed = True",
        "pass",
        ("Progress", "LeaderInIsr", "CommittedInIsr"),
        first=8,
    ),
    Bug(
        "watch_fires_unheard",
        "The watch on /controller fires before the look that armed it is over: who looked then "
        "never looks again, and a broker that started then was never registered.",
        f"{STORED}._elect",
        f"yield [{LOOK}]",
        f"(yield [{LOOK}, store.GetData(znodes.CONTROLLER)])[:2]",
        ("Progress",),
        {"faults": ("depose",), "gap_ms": 60},
        first=2,
    ),
    Bug(
        "brokers_are_not_watched",
        "Brokers are read, and no watch is armed with that.",
        f"{STORED}._brokers",
        "store.GetChildren(znodes.BROKER_IDS, watch=True)",
        "store.GetChildren(znodes.BROKER_IDS)",
        ("Progress",),
        first=3,
    ),
    Bug(
        "bounce_goes_unseen",
        "A broker that went and came again between two looks is taken for one that stayed.",
        f"{STORED}._brokers_are",
        "registry.epochs.get(broker) == epoch",
        "broker in registry.alive",
        ("Progress", "CommittedInIsr"),
    ),
    Bug(
        "takes_over_blindly",
        "KAFKA-849: what the last controller knew of brokers is not taken over.",
        f"{STORED}._take_over",
        "self._believe(brokers)",
        "pass",
        ("NotEligible", "LeaderInIsr", "CommittedInIsr", "LogMatching", "Progress"),
        first=4,
    ),
    Bug(
        "takes_over_all_in_sync",
        "KAFKA-849: a new controller does not read who is in sync.",
        "refimpl.controller.store_reads:Loaded._partition",
        "(decision.leader_epoch, decision.leader, decision.isr)",
        "(decision.leader_epoch, decision.leader, frozenset(where.replicas))",
        ("LeaderInIsr", "CommittedInIsr"),
    ),
    Bug(
        "takes_over_an_older_epoch",
        "A new controller counts partition epochs from the start.",
        "refimpl.controller.store_reads:Loaded._partition",
        "(here.registry, decision.partition_epoch, found.elr)",
        "(here.registry, 1, found.elr)",
        ("NeverBack",),
    ),
    Bug(
        "lost_answer_means_applied",
        "A write whose answer was lost is taken for applied, and told.",
        f"{STORED}._settle",
        "was_applied(multi, answer)",
        "True",
        ("NeverBack", "OneLeaderPerEpoch", "CommittedInIsr", "AcknowledgedIsStored", "Progress"),
        {"session_ms": 600, "gap_ms": 60, "lag_ms": 60, "faults": LOST_ANSWERS},
    ),
    Bug(
        "refused_write_is_told",
        "A write that was refused is told all the same.",
        f"{STORED}._written",
        "isinstance(answer, store.MultiDone)",
        "isinstance(answer, store.MultiDone | MultiFailed)",
        ("OneLeaderPerEpoch", "CommittedInIsr", "NeverBack", "AcknowledgedIsStored"),
        first=67,
    ),
    Bug(
        "an_old_registration_is_ours",
        "KAFKA-1387, KAFKA-7165: the znode of the last session is taken for this one's.",
        f"{STORED}._register",
        "stat.ephemeral_owner == self.election.session",
        "True",
        ("Progress", "EndsAreTrue"),
        {"faults": ("crash", "crash", "store"), "session_ms": 600},
    ),
    Bug(
        "crash_goes_undetected_by_the_controller",
        "KAFKA-18635: whoever was eligible still is after its disk has lost records.",
        f"{STORED}._brokers_are",
        "found.previous_broker_epoch != last.broker_epoch",
        "False",
        ("CommittedInIsr",),
        {"elr": True, "lossy": True, "flush_ms": 5000, "min_isr": 2, "faults": CRASHES},
    ),
    Bug(
        "tells_before_it_writes",
        "What is decided is told, and then written, or not.",
        f"{STORED}._commit",
        "yield from self._write()",
        "self.outputs.extend(controller.tell(self.changes))\nyield from self._write()",
        ("OneLeaderPerEpoch", "CommittedInIsr", "LogMatching", "AcknowledgedIsStored"),
    ),
    Bug(
        "answered_before_it_is_safe",
        "The store answers before it has flushed, and crashes.",
        "refimpl.metadata.durable:DurableStore._safely",
        "self.disk.flush(self.log)",
        "",
        (
            *("AcknowledgedIsStored", "NeverBack", "DeletedStaysDeleted"),
            *("ControllerEpochAscends", "DeposedWritesNothing"),
        ),
        STORE_CRASHES,
    ),
    Bug(
        "configurations_are_not_read",
        "KAFKA-849: what was configured is unknown to a new controller, and the next change of "
        "another key takes it away.",
        "refimpl.controller.store_reads:Loaded._configs",
        "isinstance(entity, ConfigResource)",
        "False",
        ("Progress", "ValueError"),
        DEPOSED,
    ),
    Bug(
        "quotas_are_not_read",
        "KAFKA-849: quotas are unknown to a new controller, and the next change of another one "
        "of the same client takes them away.",
        "refimpl.controller.store_reads:Loaded._user",
        "self.state.metadata.apply(QuotasAltered(entity, quotas))",
        "pass",
        ("Progress",),
        DEPOSED,
        first=2,
    ),
    Bug(
        "deleted_but_for_its_znode",
        "KAFKA-6612: a topic is deleted, and its znode stays for the next controller to read.",
        "refimpl.controller.store_writes:StoreWrites._deletion",
        "for one in sorted(map(str, under), key=lambda one: (-one.count('/'), one)):\n"
        "    yield Delete(one)",
        "pass",
        ("AcknowledgedIsStored", "NeverBack"),
    ),
    Bug(
        "created_before_it_is_written",
        "A controller answers that a topic is made, and is deposed before it has written that.",
        f"{STORED}._commit",
        "yield from self._write()",
        "self.outputs.extend(controller.tell(self.changes))\nself.changes = ()\n"
        "yield from self._write()",
        ("AcknowledgedIsStored", "OneLeaderPerEpoch", "NeverBack", "CommittedInIsr"),
        {"faults": ("depose", "expire"), "operate_ms": 40},
    ),
    Bug(
        "partitions_are_not_written",
        "KAFKA-9539: partitions are added to the states, and not to the topic's znode.",
        "refimpl.controller.store_writes:StoreWrites._topics",
        "self.assigned.get(path) != data",
        "path not in self.assigned",
        ("AcknowledgedIsStored", "Progress", "IsrOfReplicas"),
    ),
    Bug(
        "strays_stay",
        "KAFKA-14616: a broker that was away keeps the replicas of topics that were deleted.",
        "refimpl.broker.replica_manager:ReplicaManager.update",
        "self._delete_strays(now)",
        "pass",
        ("Progress", "EventBudget"),  # not well in time, or not after so many events
        {"operate_ms": 40},
        first=18,
    ),
]


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_known_bug_of_the_control_plane_is_found(bug: Bug) -> None:
    mutant = Mutant(bug.name, bug.why, (Edit(bug.function, bug.old, bug.new),), ())
    with applied(mutant):
        for seed in range(bug.first, bug.first + SEEDS):
            violation = build(Settings.draw(seed, **PLAIN, **bug.fixed)).go().violation
            if violation is not None:
                break
        else:
            pytest.fail(f"{SEEDS} seeds, and nothing is seen")
    assert violation.oracle in bug.oracles, f"seed {seed}: {violation}"
