"""Protocol bugs of transactions, each an edit of the broker, its machines or a coordinator's shard.

`python -m tests.chaos.transaction_mutants SEEDS FIRST [NAME]` puts one in after the other, and
prints which oracles find each, in how many seeds. Bugs of the machines alone are in
`properties/mutants/machines`; most of these are of what the broker does with a machine.
"""

import sys
from collections import Counter
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from time import process_time
from typing import Any

from attrs import field, frozen

from chaos.campaign import SeedResult, result_of
from chaos.faults.script import Fault, Script
from chaos.sim.addresses import NAMED, STATE
from chaos.sim.settings import DAY_MS, Settings
from chaos.simulator import build
from properties.mutants.edits import compiled, edited, function_at, patched, tree_of

COORDINATOR = "refimpl.machines.transaction_coordinator:TransactionMetadata"
SHARD = "refimpl.transactions.shard:TransactionShard"
MARKERS = "refimpl.broker.txn_markers:MarkerSender"
PRODUCERS = "refimpl.machines.producer_state:ProducerState"
OFFSETS = "refimpl.groups.offsets:Offsets"


@frozen
class TransactionBug:
    """A bug, the oracle that finds it, and a seed in which it does.

    `settings` hold fixed what the rule is about: a version, or a kind of client.
    """

    name: str
    why: str
    function: str
    old: str
    new: str
    oracle: str
    seed: int
    settings: dict[str, Any] = field(factory=dict[str, Any])
    #: The faults, if not those that a seed draws
    script: Script | None = None
    #: A second guard that stands behind the first
    more: tuple[str, str, str] | None = None

    @contextmanager
    def there(self) -> Generator[None]:
        """The bug, for as long as the block lasts."""
        edits = (self.function, self.old, self.new), *((self.more,) if self.more else ())
        functions = [(function_at(at), old, new) for at, old, new in edits]
        changed = {at: compiled(at, edited(tree_of(at), old, new)) for at, old, new in functions}
        with patched(changed):
            yield

    def play(self, seed: int) -> SeedResult:
        """One seed with the bug."""
        fixed = {**SHORT, **self.settings}
        began = process_time()
        run = build(Settings.draw(seed, **fixed), self.script).go()
        return result_of(run, process_time() - began)


SHORT: dict[str, Any] = {
    **{"transactions": True, "files": False, "store": False, "follower_reads": False},
    **{"static_members": False, "reconfigures": False, "share_members": 0},
    **{"clocks": False, "producer_expiration_ms": DAY_MS},
    **{"fault_ms": 3000, "calm_ms": 15_000, "events": 120_000},
}
V1: dict[str, Any] = {"transactional_clients": ("1",)}
V2: dict[str, Any] = {"transactional_clients": ("2",), "transaction_version": 2}
LATE: dict[str, Any] = {
    **{"request_timeout_ms": 150, "delivery_timeout_ms": 250, "transaction_timeout_ms": 1500},
    **{"drop": 0.0, "stray": 0.0, "jitter_ms": 3, "delay_ms": 1, "lag_ms": 600, "session_ms": 600},
    **{"fetch_limit": 50, "fetch_wait_ms": 20, "transaction_ms": 20, "transactional_ids": 1},
}
STATE_NUMBERS = [number for number, name in NAMED.items() if name in STATE]
CLOCKS: dict[str, Any] = {"clocks": True, "events": 200_000}
FUTURE = (
    Fault(100, "clock", 1, for_ms=10, part=100_000.0, how="ahead"),
    *(Fault(400, "elect", 1, number) for number in STATE_NUMBERS),
    *(Fault(1500, "client_crash", who, for_ms=9000, how="abandoned") for who in (1, 2, 3, 4)),
    *(Fault(1510, "elect", 2, number) for number in STATE_NUMBERS),
)
"""The clock of the coordinators of all ids is ahead; their producers end, and others coordinate."""
SLOW = tuple(
    Fault(at, "slow", 0, 12 + at // 400 % 2, for_ms=270, part=1.0, how="to")
    for at in range(300, 3000, 400)
)
"""Writes that are sent at some moments come a second later, when their sender has aborted."""
JOINS = (
    f"{PRODUCERS}._check_batch",
    "producer.epoch != batch.epoch or not batch.transactional",
    "not batch.transactional",
)
"""As in Kafka, a write of a later epoch joins an open transaction. Ours refuses it, so a late write
alone is ended by the next abort."""
BUGS = (
    TransactionBug(
        "a_partition_without_leader_is_taken_for_deleted",
        "Kafka 4.3.0 drops the marker of a partition that has no leader (KAFKA-20734).",
        f"{MARKERS}._is_deleted",
        "name not in self.metadata.partitions and self.metadata.is_current",
        "self.metadata.partitions[name].decision.leader is None",
        "Atomic",
        36,
        {"lone": True, "elr": False},
    ),
    TransactionBug(
        "answers_before_the_high_watermark",
        "A coordinator answers when its record is written: the next one may not have it.",
        "refimpl.coordinator.runtime:Coordinator._answer",
        "not waits or self.log.high_watermark >= self.written",
        "True",
        "ToldIsDecided",
        1,
    ),
    TransactionBug(
        "acts_on_what_is_not_committed_yet",
        "Kafka acts on all that it has loaded, which the next election may take back.",
        "refimpl.coordinator.runtime:Coordinator._may_act",
        "not self.waits_for_commit or high_watermark >= self.written",
        "True",
        "ConcurrentTransactions",
        112,
    ),
    TransactionBug(
        "markers_go_out_before_the_decision_is_committed",
        "Half of a transaction is committed, and the next coordinator aborts the other half.",
        "refimpl.transactions.store:TransactionStore.decided",
        "offset < high_watermark",
        "True",
        "ConcurrentTransactions",
        62,
    ),
    TransactionBug(
        "a_new_instance_has_the_epoch_of_the_last",
        "InitProducerId does not raise the epoch: the instance before goes on.",
        f"{COORDINATOR}._after",
        "self.at.above()",
        "self.at.above() if self.at.epoch < 0 else self.at",
        "ProducerEpochsGrow",
        0,
    ),
    TransactionBug(
        "a_time_out_aborts_what_is_decided",
        "The time-out does not look at the state: a decided transaction is decided again.",
        f"{SHARD}._time_out",
        "metadata.state is not TransactionState.ONGOING",
        "not metadata.partitions",
        "DecidedOnce",
        1,
        more=(f"{COORDINATOR}.time_out", "self.state is not TransactionState.ONGOING", "False"),
    ),
    TransactionBug(
        "pending_offsets_are_read",
        "A member begins where an open transaction has committed to (KAFKA-9346).",
        f"{OFFSETS}.fetch",
        "() if committed else self.store.unstable_of(group_id)",
        "()",
        "ProcessedOnce",
        0,
        {"applications": 2},
    ),
    TransactionBug(
        "a_position_is_taken_within_a_transaction",
        "A member that joined again keeps its epoch: its late commit counts behind the answer.",
        "chaos.clients.application:Application._fetch_offsets",
        "self.manager.transaction is not None",
        "False",
        "ProcessedOnce",
        30040,
        {**V1, "applications": 2, "gap_ms": 120, "fault_ms": 6000, "calm_ms": 40_000},
    ),
    TransactionBug(
        "the_lso_ignores_a_transaction",
        "Readers of committed records are handed what is not decided.",
        f"{PRODUCERS}.last_stable",
        "not self.opened and not self.unreplicated",
        "True",
        "AbortedIsNotRead",
        0,
    ),
    TransactionBug(
        "offsets_of_an_old_generation_are_taken",
        "TxnOffsetCommit does not look at the generation: a zombie's input is processed twice.",
        f"{OFFSETS}.commit_in_transaction",
        "self._check_commit(now, request, by)",
        "None",
        "ProcessedOnce",
        28,
        {"applications": 2},
    ),
    TransactionBug(
        "a_marker_of_an_old_coordinator_is_taken",
        "The coordinator's epoch is not compared: a deposed one ends the next transaction.",
        f"{PRODUCERS}._check_marker",
        "marker.coordinator_epoch < producer.coordinator_epoch",
        "False",
        "AbortedIsNotRead",
        9,
        V1,
    ),
    TransactionBug(
        "a_late_write_is_not_verified",
        "A write that comes after its transaction's end opens one that nobody ends (KAFKA-14402).",
        "refimpl.broker.verification:Verifications.verify",
        "not guards",
        "True",
        "AbortedIsNotRead",
        25,
        {**V1, **LATE},
        script=SLOW,
        more=JOINS,
    ),
    TransactionBug(
        "producers_expire_by_the_timestamps_of_their_records",
        "As in Kafka: a leader whose clock is ahead forgets a producer that repeats its batch.",
        f"{PRODUCERS}.expire",
        "now_ms - producer.heard_ms < after_ms",
        "now_ms - producer.timestamp_ms < after_ms",
        "NoDuplicates",
        16,
        {**CLOCKS, "idempotence": True},
    ),
    TransactionBug(
        "an_id_expires_within_its_transaction",
        "The coordinator forgets an id that has a transaction open, which then nobody ends.",
        f"{SHARD}._expire",
        "metadata.state not in IDLE",
        "metadata.prepared",
        "Progress",
        0,
        CLOCKS,
    ),
    TransactionBug(
        "a_transaction_of_the_future_stays_open",
        "A coordinator's clock was ahead; by that of the next one nothing times out for a day.",
        f"{SHARD}._started_ms",
        "started_ms <= now",
        "True",
        "Progress",
        0,
        {**CLOCKS, "transaction_timeout_ms": 1500, "transaction_ms": 20, "transactional_ids": 2},
        script=FUTURE,
    ),
    TransactionBug(
        "an_assignment_of_the_future_holds_up_the_next",
        "A coordinator's clock was ahead; the next one waits until its assignment is old enough.",
        "refimpl.machines.consumer_heartbeat:may_compute",
        "computed <= rules.now < computed + interval",
        "rules.now < computed + interval",
        "Progress",
        171,
        {**CLOCKS, "lossy": False},
    ),
)


def report(bugs: Sequence[TransactionBug], seeds: int = 20, first: int = 0, only: str = "") -> None:
    """Play every bug, and print a row of which oracles found it, how often and where first."""
    for bug in bugs:
        if only not in bug.name:
            continue
        found, where, cpu_s = Counter[str](), dict[str, int](), 0.0
        with bug.there():
            for seed in range(first, first + seeds):
                result = bug.play(seed)
                cpu_s += result.cpu_s
                if result.oracle is not None:
                    found[result.oracle] += 1
                    where.setdefault(result.oracle, seed)
        told = ", ".join(f"{name} {n} (first {where[name]})" for name, n in found.most_common())
        words = bug.name.replace("_", " ")
        print(f"| {words} | {told or 'not found'} | {cpu_s:.0f} |", flush=True)


if __name__ == "__main__":
    numbers = [int(one) for one in sys.argv[1:3]]
    report(BUGS, *numbers, only="".join(sys.argv[3:4]))
