"""Transactions in the simulator: clean runs, bugs that are found, and other seeds as they were."""

from collections import Counter

import pytest
from attrs import evolve

from chaos import story
from chaos.faults.script import Fault, expand
from chaos.sim.expiry import Expiry
from chaos.sim.settings import TRANSACTION_FAULTS, Settings
from chaos.simulator import Run, build, trace_hash
from refimpl.machines.producer import Producer
from refimpl.machines.producer_state import ProducerState
from refimpl.messages.broker import TopicPartition
from tests.chaos.transaction_mutants import BUGS, FUTURE, SHORT, TransactionBug

EFFECTS = (
    *("fault: clock", "producers forgotten", "forgotten producers that wrote again"),
    "transactions that ended before they began, by the clocks",
    "transactions that took more than a day, by the clocks",
)


def played(seed: int, **fixed: object) -> Run:
    return build(Settings.draw(seed, **{**SHORT, **fixed})).go()


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_known_bug_of_transactions_is_found(bug: TransactionBug) -> None:
    with bug.there():
        found = bug.play(bug.seed)
    assert found.oracle == bug.oracle, found.what
    assert bug.play(bug.seed).oracle is None


def test_runs_of_every_version_are_clean_and_meet_what_they_are_about() -> None:
    counts = Counter[str]()
    for seed, version, clients in (
        *((seed, 2, ("2",)) for seed in range(3)),
        *((seed, 2, ("1", "2")) for seed in range(3, 6)),
        *((seed, 1, ("1",)) for seed in range(6, 8)),
        (8, 0, ("1",)),
    ):
        run = played(seed, transaction_version=version, transactional_clients=clients)
        assert run.violation is None, (seed, run.violation)
        counts += run.simulation.counts
    for what in (
        "transactions told committed",
        "transactions told aborted",
        "transactions that timed out",
        "transactional ids expired",
        "transactional instances fenced: PRODUCER_FENCED",
        "markers held",
        "markers overtaken",
        "requests of a transaction overtaken",
        *(f"fault: {what}" for what in TRANSACTION_FAULTS),
    ):
        assert counts[what], what


def test_clocks_that_jump_and_producers_that_are_forgotten_have_effects() -> None:
    counts = Counter[str]()
    long = {"clocks": True, "producer_expiration_ms": 8000, "id_expiration_ms": 600_000}
    ahead = next(bug for bug in BUGS if bug.script is FUTURE).settings
    for run in (
        *(played(seed, **long) for seed in (0, 4)),
        build(Settings.draw(0, **{**SHORT, **ahead}), FUTURE).go(),
    ):
        assert run.violation is None, (run.settings.seed, run.violation)
        counts += run.simulation.counts
    for what in EFFECTS:
        assert counts[what], what


def test_a_forgotten_producer_is_counted_again_when_it_writes() -> None:
    name, state, counts = TopicPartition("t", 0), ProducerState(), Counter[str]()
    expiry = Expiry(counts)
    state.producers[7] = Producer()
    for _ in range(2):
        expiry.expire({name: state}, state.producers.clear)
    assert counts["producers forgotten"] == 1
    assert counts["forgotten producers that wrote again"] == 0
    state.producers[7] = Producer()
    expiry.expire({name: state}, lambda: None)
    assert counts["forgotten producers that wrote again"] == 1


def test_transactions_on_files_and_with_controllers_on_a_store_are_clean() -> None:
    assert played(1, files=True, fault_ms=1000).violation is None
    assert played(2, store=True).violation is None


def test_a_fifth_of_the_seeds_draw_transactions_and_the_others_do_not_depend_on_them() -> None:
    drawn = [Settings.draw(seed) for seed in range(500)]
    assert 75 < sum(one.transactions for one in drawn) < 125
    one = next(one for one in drawn if not one.transactions)
    other = evolve(one, transaction_ms=1, applications=0, id_expiration_ms=1, lone=True)
    assert expand(one) == expand(other)
    short = {"files": False, "fault_ms": 500}
    assert trace_hash(evolve(one, **short)) == trace_hash(evolve(other, **short))


def test_what_is_asked_for_goes_before_what_a_seed_draws() -> None:
    seed = next(seed for seed in range(99) if Settings.draw(seed).transactions)
    assert not Settings.draw(seed, lasting=True).transactions
    assert not Settings.draw(seed, deletes=True).transactions
    assert not Settings.draw(seed, transactions=True).unclean
    assert Settings.draw(seed, transactions=True, unclean=True).unclean
    with pytest.raises(ValueError, match="transactions: expected without lasting and deletes"):
        Settings.draw(seed, transactions=True, deletes=True).check()


def test_faults_of_transactions_are_kept_in_scripts_and_told_in_words() -> None:
    long = {"transactions": True, "lone": True, "fault_ms": 60_000}
    script = tuple(fault for seed in range(4) for fault in expand(Settings.draw(seed, **long)))
    assert {one.what for one in script} >= {*TRANSACTION_FAULTS, "crash"}
    assert tuple(Fault.from_json(one.as_json()) for one in script) == script
    told = " ".join(str(one) for one in script)
    for words in ("transactional client", "markers of transactions", "takes over", "payments:0"):
        assert words in told
    with pytest.raises(ValueError, match="who up to 6"):
        Fault.from_json({"at_ms": 0, "what": "client_pause", "who": 7})


def test_the_story_of_a_broken_run_tells_what_the_clients_did() -> None:
    bug = next(one for one in BUGS if one.name == "the_lso_ignores_a_transaction")
    with bug.there():
        run = build(Settings.draw(bug.seed, **{**SHORT, **bug.settings})).go()
        lines = [line.text for line in story.tell(run)]
    assert run.violation is not None
    transactional_id = run.violation.what.split(" of ")[1].split(":")[0]
    assert any(f"transactional_id={transactional_id}" in line for line in lines)


@pytest.mark.parametrize("what", ["client_crash", "client_pause", "client_takeover"])
def test_a_fault_of_a_client_that_is_not_there_does_nothing(what: str) -> None:
    """A script may name six clients, and a run has as many as its settings say."""
    script = tuple(Fault(100, what, who, for_ms=50) for who in (5, 6))
    settings = Settings.draw(1, **{**SHORT, "transactional_ids": 1, "applications": 1})
    run = build(settings, script).go()
    assert run.violation is None
    assert run.simulation.counts[f"fault: {what}"] == 2
