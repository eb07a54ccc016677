"""Every place where an oracle speaks is needed: without it, a bug that breaks its promise passes.

For each site there is a bug. It is reported; with exactly this site silent, nothing is.
"""

import ast
from traceback import walk_tb

import pytest
from attrs import evolve

from chaos.oracles import (
    availability,
    commit_delay,
    control_plane,
    coordinated_group,
    deletion,
    partition,
    progress,
    share_group,
    share_log,
    transaction_log,
    transactions,
)
from chaos.sim.settings import Settings
from chaos.simulator import build
from properties.mutants.catalogue import applied, catalogue
from properties.mutants.edits import compiled, edited, function_at, patched, tree_of
from refimpl.machines.log import Log, Record
from refimpl.machines.messages import FetchRequest
from refimpl.messages import observations as o
from tests.chaos import control_plane_cases as control
from tests.chaos import group_bugs
from tests.chaos import oracle_bugs as bugs
from tests.chaos import share_bugs as shares
from tests.chaos import transaction_bugs as transactional
from tests.chaos.group_bugs import G
from tests.chaos.oracle_bugs import A, D, E, P
from tests.chaos.oracle_cases import CASES, EVERYBODY, Case, Cluster
from tests.chaos.oracle_sites import ORACLES, Site, functions_of, modules, silent, sites


@pytest.mark.parametrize("name", sites())
def test_without_this_site_a_bug_passes(name: str) -> None:
    site = sites()[name]
    assert CASES.get(name), f"no bug is known that only {name} reports"
    for case in CASES[name]:
        found = case.violation()
        assert found is not None
        assert site.oracle in (None, found.oracle)
        assert all(words in found.what for words in site.said), found
        assert case.violation(silent(site)) is None


def test_each_case_belongs_to_a_site() -> None:
    assert group_bugs.CONSUMER
    assert transactional.WITH
    assert shares.WITH
    assert CASES.keys() <= sites().keys()


# Excuses


def comes_back_alone_without_records(c: Cluster) -> None:
    c.oracle.decision = evolve(c.oracle.decision, isr=frozenset((2,)))
    bugs.comes_back_in_sync_without_records(c)


def leads_without_isr(c: Cluster) -> None:
    c.state.isr = frozenset()
    c.finish()


def nobody_leads_and_nobody_may(c: Cluster) -> None:
    c.state.leader = None
    leads_without_isr(c)


def loses_an_acknowledged_record_in_a_later_era(c: Cluster) -> None:
    c.oracle.era = 1
    bugs.loses_an_acknowledged_record(c)


def commits_what_the_last_replica_lost(c: Cluster) -> None:
    """The leader was replaced by the follower, which crashed alone in sync, and is back."""
    isr = c.leader.isr = frozenset((1, 2))
    c.oracle.decision = evolve(c.oracle.decision, leader_epoch=2, isr=frozenset((2,)))
    c.oracle.alone = 2, 3
    c.leader.seen[2], c.follower.incarnation = 1, 2
    c.commits_alone(isr)


def commits_without_who_is_back(c: Cluster) -> None:
    c.oracle.alone = 2, 3
    c.leader.seen[2], c.follower.incarnation = 1, 2
    c.commits_alone(frozenset((1, 3)))


def commits_what_the_new_process_lacks(c: Cluster) -> None:
    c.oracle.alone = 2, 3
    c.leader.seen[2] = c.follower.incarnation = 2
    c.commits_alone(EVERYBODY)


def commits_what_a_third_replica_lacks(c: Cluster) -> None:
    c.oracle.alone = 2, 3
    c.leader.seen[2], c.follower.incarnation = 1, 2
    c.follower.log.extend((Record(1, "late"),))
    c.commits_alone(EVERYBODY)


def _starts_earlier_after_a_loss(c: Cluster) -> None:
    c.oracle.era = 1
    c.follower.log = Log([Record(1, None), *c.follower.log.records], c.follower.log.start - 1)


def moves_its_log_start_back_without_a_cut(c: Cluster) -> None:
    _starts_earlier_after_a_loss(c)
    c.observe(2, o.FetchHeard, FetchRequest(3, 0, 1, 1, 0, -1), True, 0)


def moves_its_log_start_back_with_new_records(c: Cluster) -> None:
    _starts_earlier_after_a_loss(c)
    c.observe(2, o.AnswerTaken, 1, False, c.follower.log.end, c.follower.high_watermark)


def moves_its_log_start_back_with_a_cut(c: Cluster) -> None:
    _starts_earlier_after_a_loss(c)
    c.observe(2, o.AnswerTaken, 1, True, c.follower.log.end, c.follower.high_watermark)


def has_deleted_records_again_after_a_loss(c: Cluster) -> None:
    c.oracle.era = 1
    bugs.has_not_deleted_what_it_said(c)


def deletes_what_is_not_committed_after_a_loss(c: Cluster) -> None:
    c.oracle.era = 1
    end = c.follower.log.end
    c.deletion.purger.asked[c.name] = c.follower.high_watermark = end + 1
    c.follower.log.restart_at(end + 1)
    c.observe(2, o.LogRestarted, end, end + 1)


def follower_shows_what_is_lost(c: Cluster) -> None:
    c.oracle.lost.append([Record(1, "lost")])
    c.observe(2, o.RecordsRead, 0, (Record(1, "lost"),))


def leader_shows_what_is_lost(c: Cluster) -> None:
    c.oracle.lost.append([Record(1, "lost")])
    c.observe(1, o.RecordsRead, 0, (Record(1, "lost"),))


def follower_shows_what_never_was(c: Cluster) -> None:
    c.oracle.lost.append([Record(1, "lost")])
    c.observe(2, o.RecordsRead, 0, (Record(1, "other"),))


def nobody_takes_over_who_is_told_late(c: Cluster) -> None:
    c.run.simulation.network.lag |= {2: 100, 3: 100}
    bugs.nobody_takes_over(c)


def nobody_answers_whom_the_leader_does_not_reach(c: Cluster) -> None:
    c.run.simulation.network.cut = {(1, c.producer.id)}
    bugs.leaves_a_producer_without_answer_for_long(c)


def nobody_answers_without_enough_replicas(c: Cluster) -> None:
    for broker in c.brokers[1:]:
        broker.paused_until = 1 << 30
    bugs.leaves_a_producer_without_answer_for_long(c)


def nobody_answers_in_noise(c: Cluster) -> None:
    c.run.simulation.network.drop = 0.3
    bugs.leaves_a_producer_without_answer_for_long(c)


def nobody_answers_after_a_loss(c: Cluster) -> None:
    c.oracle.era = 1
    bugs.leaves_a_producer_without_answer_for_long(c)


UNAVAILABLE = (
    nobody_takes_over_who_is_told_late,
    nobody_answers_whom_the_leader_does_not_reach,
    nobody_answers_without_enough_replicas,
    nobody_answers_in_noise,
    nobody_answers_after_a_loss,
)
TO, TL = transactional.T, transactional.L
NOT_STORED = Case(shares.answers_what_is_not_stored, shares.WITH)
LASTING = {"lasting": True}
DELETES = {"deletes": True}
AFTER_A_LOSS = (
    moves_its_log_start_back_with_a_cut,
    has_deleted_records_again_after_a_loss,
    deletes_what_is_not_committed_after_a_loss,
)
WAITS = Case(bugs.leaves_a_producer_without_answer_for_long, LASTING)
ELR = {"elr": True, "min_isr": 1}
L, LOSSY = f"{P}._commits_what_is_lost", {"lossy": True}
# In a function, what has to hold for an excuse, and a bug that only this keeps from being excused
EXCUSES: list[tuple[str, str, bool, Case]] = [
    (f"{P}.unavailable", "self.settings.elr", True, Case(nobody_leads_and_nobody_may)),
    (
        f"{P}.unavailable",
        "not self.settings.unclean or changes",
        True,
        Case(nobody_leads_and_nobody_may, {**ELR, "unclean": True}),
    ),
    (
        f"{P}.unavailable",
        "self.settings.overlap or self.settings.min_isr < 2 or changes",
        True,
        Case(nobody_leads_and_nobody_may, {**ELR, "min_isr": 2, "overlap": False}),
    ),
    (f"{P}.unavailable", "state.leader is None", True, Case(leads_without_isr, ELR)),
    (f"{P}.unavailable", "not state.isr | state.elr", True, Case(bugs.elects_nobody, ELR)),
    (
        f"{P}._judges",
        "epoch >= self.era and (not self.unsettled)",
        False,
        Case(bugs.acknowledges_what_is_not_there),
    ),
    (f"{P}._holds_committed", "known <= log.start", True, Case(bugs.takes_in_who_lacks_records)),
    (
        f"{P}._last_may_lose",
        "self.settings.lossy",
        True,
        Case(comes_back_alone_without_records),
    ),
    (
        f"{P}._last_may_lose",
        "not self.settings.elr",
        True,
        Case(comes_back_alone_without_records, {"lossy": True, "elr": True}),
    ),
    (
        f"{P}.registered",
        "isr == frozenset((replica.id,))",
        True,
        Case(bugs.comes_back_in_sync_without_records, {"lossy": True}),
    ),
    (
        L,
        "last in leader.isr",
        True,
        Case(commits_without_who_is_back, LOSSY),
    ),
    (
        L,
        "leader.seen.get(last, 0) < replica.incarnation",
        True,
        Case(commits_what_the_new_process_lacks, LOSSY),
    ),
    (
        L,
        "_records(replica, new - 1, new) != _records(leader, new - 1, new)",
        True,
        Case(commits_what_a_third_replica_lacks, LOSSY),
    ),
    (f"{P}._shows_what_is_lost", "not replica.leads", True, Case(leader_shows_what_is_lost)),
    (
        f"{P}._shows_what_is_lost",
        "one[offset:end] == list(records)",
        True,
        Case(follower_shows_what_never_was),
    ),
    (
        f"{E}._find",
        "not oracle.log.loss_allowed",
        False,
        Case(loses_an_acknowledged_record_in_a_later_era),
    ),
    (
        f"{E}._find",
        "not oracle.era",
        False,
        Case(bugs.loses_an_acknowledged_record, {"unclean": True}),
    ),
    (
        "CommitDelay.is_slow",
        "now <= self.slow_until",
        True,
        Case(group_bugs.rebalances_for_ever),
    ),
    (
        "CommitDelay.is_slow",
        "self.uncommitted and now - self.uncommitted[0][1] > self.session_ms // 2",
        True,
        Case(group_bugs.rebalances_for_ever),
    ),
    (f"{D}._look", "oracle.era > 0", True, Case(bugs.moves_its_log_start_back, DELETES)),
    (f"{D}._look", "_cuts(seen)", True, Case(moves_its_log_start_back_without_a_cut, DELETES)),
    ("_cuts", "seen.truncated", True, Case(moves_its_log_start_back_with_new_records, DELETES)),
    (f"{D}.finish", "oracle.era", True, Case(bugs.has_not_deleted_what_it_said, DELETES)),
    (f"{A}.look", "now <= settled_at", True, WAITS),
    (f"{A}.look", "noise != (0.0, 0.0, jitter_ms, frozenset())", True, WAITS),
    (f"{A}.look", "not oracle.era", False, WAITS),
    (
        f"{A}._must_be_led",
        "state.leader in self._heard()",
        True,
        Case(bugs.nobody_takes_over, LASTING),
    ),
    (f"{A}._must_answer", "leader not in well", True, WAITS),
    (f"{A}._must_answer", "len(in_touch) < settings.min_isr", True, WAITS),
    (f"{A}._must_answer", "not all((reaches(leader, c) for c in self.clients))", True, WAITS),
    (
        "_is_decision",
        "any(change.path.startswith(f'{root}/') for root in DECIDED)",
        False,
        Case(control.writes_without_being_controller, {"store": True}),
    ),
    (
        f"{TO}.excused",
        "any((one.era or one.unsettled for one in self.partitions.values()))",
        True,
        Case(transactional.loses_a_transaction, transactional.WITH),
    ),
    (
        f"{TO}.unavailable",
        "any((one.unavailable() for one in self.partitions.values()))",
        True,
        Case(transactional.loses_a_transaction, transactional.WITH),
    ),
    (
        f"{TL}._keeps_partitions",
        "old.state is not TransactionState.ONGOING",
        True,
        Case(transactional.forgets_a_partition, transactional.WITH),
    ),
    (
        f"{TL}._keeps_epoch",
        "new.at.id != old.at.id or new.at.epoch > old.at.epoch",
        True,
        Case(transactional.gives_an_epoch_again, transactional.WITH),
    ),
    (
        f"{shares.G}.excused",
        "any((one.era or one.unsettled for one in self.partitions.values()))",
        True,
        NOT_STORED,
    ),
    (
        f"{shares.G}.unavailable",
        "any((self.partitions[name].unavailable() for name in (OFFSETS, SHARE_STATE)))",
        True,
        Case(shares.tells_a_lag_where_there_is_none, shares.WITH),
    ),
    ("Kept.is_final", "state in TERMINAL", True, NOT_STORED),
    (
        "_is_ours",
        "(key.group if hasattr(key, 'group') else key.group_id) == GROUP",
        False,
        Case(group_bugs.goes_back),
    ),
    (
        f"{E}._may_forget",
        "self.partitions[partition].log.loss_allowed",
        True,
        Case(bugs.appends_a_later_batch_first, {"idempotence": True, "reference_clients": True}),
    ),
    (
        f"{E}._may_forget",
        "settings.files",
        True,
        Case(
            bugs.appends_a_later_batch_first,
            {"idempotence": True, "reference_clients": True, "clocks": True},
        ),
    ),
    (
        f"{E}._may_forget",
        "settings.clocks",
        True,
        Case(
            bugs.appends_a_later_batch_first,
            {"idempotence": True, "reference_clients": True, "files": True},
        ),
    ),
    (
        f"{E}._may_forget",
        "settings.reference_clients and forgets",
        True,
        Case(bugs.appends_a_retry_again, {"idempotence": True}),
    ),
    (
        "CoordinatedGroup._went_back",
        "ours and self.partitions[commit.partition].partition.era > 0",
        True,
        Case(group_bugs.goes_back),
    ),
    (
        "CoordinatedGroup._went_back",
        "self.partitions[commit.partition].partition.era > 0",
        True,
        Case(group_bugs.goes_back, {"reference_clients": True}),
    ),
]
OTHER_MODULES = {
    TO: transactions,
    TL: transaction_log,
    shares.G: share_group,
    "Kept": share_log,
    "_is_ours": coordinated_group,
    A: availability,
    P: partition,
    D: deletion,
    "_cuts": deletion,
    "CommitDelay": commit_delay,
    "_is_decision": control_plane,
}


@pytest.mark.parametrize(("where", "old", "new", "case"), EXCUSES)
def test_a_wider_excuse_lets_a_bug_pass(where: str, old: str, new: bool, case: Case) -> None:
    module = OTHER_MODULES.get(where.partition(".")[0], progress)
    function = function_at(f"{module.__name__}:{where}")
    wider = compiled(function, edited(tree_of(function), old, str(new)))
    assert case.violation() is not None
    assert case.violation({function: wider}) is None


def test_what_is_excused_passes() -> None:
    assert Case(nobody_leads_and_nobody_may, ELR).violation() is None
    assert Case(commits_what_the_last_replica_lost, LOSSY).violation() is None
    assert Case(follower_shows_what_is_lost).violation() is None
    for bug in UNAVAILABLE:
        assert Case(bug, LASTING).violation() is None
    for bug in AFTER_A_LOSS:
        assert Case(bug, DELETES).violation() is None


def test_every_condition_of_an_excuse_is_there() -> None:
    oracles = [module for module in modules() if module.__name__.startswith(ORACLES)]
    functions = {f"{owner}{f.name}": f for one in oracles for owner, f in functions_of(one)}
    known = {where for where, *_ in EXCUSES}
    assert {
        n for n, f in functions.items() if f.returns and ast.unparse(f.returns) == "bool"
    } <= known
    (returned,) = [f for f in functions[f"{P}.unavailable"].body if isinstance(f, ast.Return)]
    assert isinstance(returned.value, ast.BoolOp)
    conditions = {ast.unparse(one) for one in returned.value.values}
    assert conditions == {old for where, old, *_ in EXCUSES if where == f"{P}.unavailable"}


# Bugs of the machines, in whole runs: where each is seen, and from which seed on

SEEN = [
    ("leads_in_an_older_epoch", 0, f"{P}._wrote_one: EpochsAscend"),
    ("writes_in_the_last_records_epoch", 0, f"{P}._wrote_one: OneLeaderPerEpoch"),
    ("writes_in_the_last_records_epoch", 36, f"{P}._wrote_one: LogMatching"),
    ("follower_adopts_the_leaders_list", 0, f"{P}.copied: LogMatching"),
    ("high_watermark_above_the_log", 0, f"{P}.moved: HighWatermarkInLog"),
    ("promotion_resets_the_high_watermark", 0, f"{P}.moved: HighWatermarkMonotone"),
    ("epochs_are_enough", 18, f"{P}.moved: AppendOnly"),
    ("serves_older_epochs", 0, f"{P}.heard: EndsAreTrue"),
    ("one_table_for_two", 0, f"{P}.heard: EndsAreTrue again"),
    ("cut_keeps_the_high_watermark", 54, f"{P}.cut: HighWatermarkInLog"),
    ("cuts_when_it_becomes_a_follower", 0, f"{P}.cut: CommittedInIsr"),
    ("elects_from_outside", 19, f"{P}.decided: LeaderInIsr"),
    ("leader_stays_in_the_elr", 0, f"{P}.decided: ElrOutsideIsr"),
    ("commits_by_majority", 0, f"{P}._isr_holds_committed: CommittedInIsr"),
    ("processes_before_the_answer", 10, f"{G}.did: AtMostOnce"),
    ("commits_before_processing", 0, f"{G}.must_be_done: AtLeastOnce"),
    ("never_elects_from_the_elr", 7, f"{E}.handle: Progress"),
]


def _seen_at(site: Site, seed: int) -> bool:
    """True if this seed's run ends at the site."""
    violation = (
        build(Settings.draw(seed, events=60_000, files=False, transactions=False, share_members=0))
        .go()
        .violation
    )
    frames = [*walk_tb(violation.__traceback__)] if violation else []
    at = [(frame.f_code.co_qualname, line) for frame, line in frames]
    return at[-1:] == [(site.function.partition(":")[2], site.line)]


@pytest.mark.parametrize(("bug", "first", "name"), SEEN)
def test_a_bug_of_the_machines_is_seen_at_this_site(bug: str, first: int, name: str) -> None:
    site = sites()[name]
    with applied(catalogue()[bug]):
        seed = next((seed for seed in range(first, first + 60) if _seen_at(site, seed)), None)
        assert seed is not None
        with patched(silent(site)):
            assert not _seen_at(site, seed)
