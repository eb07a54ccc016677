"""Campaigns: many seeds, in this process or in several, with running totals."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from signal import SIG_IGN, SIGINT, signal
from time import process_time
from typing import Any

from attrs import define, field, frozen

from chaos.recording import write_events, write_history
from chaos.sim.settings import Settings
from chaos.simulator import Run, build

# What a campaign must have met, or its silence means nothing. Name in the counts: in words.
SOMETIMES: Mapping[str, str] = {
    "Elect": "an election",
    "preferred elections": "an election while the leader is well",
    "unclean elections": "an unclean election",
    "elections from the ELR": "an election from the ELR",
    "Fence": "a broker taken out of the ISR",
    "GoOffline": "a partition without a leader",
    "ShrinkIsr": "a follower that lags",
    "ExpandIsr": "a follower that is back in sync",
    "truncations": "a follower that cuts its log",
    "recoveries from files": "a log recovered from its files",
    "leaders that lead again": "a leader that missed the epoch of another one",
    "controlled shutdowns": "a controlled shutdown",
    "registrations": "a broker that starts",
    "news of the metadata late": "a broker that hears late of what was decided",
    "news of the metadata skipped": "a broker that never hears of some decision",
    "answers to an earlier process": "an answer that comes after a restart",
    "Fetch refused: FETCH_SESSION_ID_NOT_FOUND": "a fetch session that its leader has forgotten",
    "records lost from page caches": "a page cache that is lost",
    "last in-sync replicas that lost records": "the last in-sync replica losing records",
    "allowed losses": "a committed record lost where that is allowed",
    "sessions resumed": "a broker that was given up and comes back",
    "void answers": "an answer of an epoch that is over",
    "Fetch refused: INVALID_FETCH_SESSION_EPOCH": "a fetch that was overtaken",
    "Fetch refused: FENCED_LEADER_EPOCH": "a fetch of an older epoch",
    "Fetch refused: UNKNOWN_LEADER_EPOCH": "a fetch of a newer epoch",
    "Fetch refused: STALE_BROKER_EPOCH": "a fetch of an earlier incarnation",
    "decisions for an earlier incarnation": "a decision that comes after a restart",
    "AlterPartition refused: INELIGIBLE_REPLICA": "an earlier incarnation kept out of the ISR",
    "AlterPartition refused: FENCED_LEADER_EPOCH": "a deposed leader that wants to change the ISR",
    "Produce refused: NOT_ENOUGH_REPLICAS": "a write refused for too few replicas in sync",
    "late acknowledgements": "an acknowledgement nobody waits for",
    "duplicates recognised": "a retry of an idempotent producer",
    "sends of unknown outcome": "a producer that never learns",
    "Rebalance": "a rebalance",
    "commits of an old generation": "a zombie's commit",
    "commits overtaken": "a commit that was overtaken",
    "redeliveries": "a record processed again",
    "controllers elected": "a controller that a store elects",
    "controllers that do not know that they are deposed": "two that believe to be controller",
    "a deposed controller's write refused: BADVERSION": "a deposed controller's write",
    "a forwarded request refused: NOT_CONTROLLER": "an operator's request to who is not controller",
    "reassignments over": "replicas that are moved",
    "topics created": "a topic that is made",
    "topics deleted": "a topic that is deleted",
    "partitions added": "a topic with more partitions than before",
    "configurations altered": "a configuration that is changed",
    "quotas altered": "a quota that is changed",
    "restarts of the store": "a metadata store that crashes and recovers",
    "writes that a crash of the store kept": "a write that is there, and nobody was told",
    "messages that waited for a paused node": "a pause that somebody notices",
    "messages on slow links": "a message on a slow link",
    "messages overtaken by others": "a message that strays for long",
    "sends repeated": "a producer that sends again",
    "sessions expired": "a broker's session that ends",
    "configured: min.insync.replicas": "a min.insync.replicas that changes",
    "configured: consumer.session.timeout.ms": "a group's session that changes",
    "coordinators loaded beside live ones": "a coordinator compared with one that loads",
    "transactions told committed": "a transaction that is committed",
    "transactions told aborted": "a transaction that is aborted",
    "transactions that timed out": "a transaction that takes too long",
    "transactional ids expired": "a transactional id that expires",
    "producers forgotten": "a partition that forgets a silent producer",
    "forgotten producers that wrote again": "a forgotten producer that goes on",
    "transactions that ended before they began, by the clocks": "a coordinator's clock behind",
    "transactions that took more than a day, by the clocks": "a coordinator's clock ahead",
    "transactional instances fenced: PRODUCER_FENCED": "a zombie's transaction",
    "transactional offsets refused: ILLEGAL_GENERATION": "offsets of an old generation",
    "markers held": "a marker that comes late",
    "markers lost": "a marker that is lost",
    "markers doubled": "a marker that comes twice",
    "share partitions loaded": "a leader that loads the state of a share group",
    "ends of records answered": "a record that a member of a share group accepts",
    "records lent again": "a record that a share group is given again",
    "records lent for the last time": "a record that is given as often as may be",
    "logs of the share state pruned": "a log of the share state that is pruned",
}
WAVE = 64
ENOUGH = 300  # seeds after which each of them must have happened


@frozen
class SeedResult:
    """The result of one seed."""

    seed: int
    events: int
    simulated_ms: int
    cpu_s: float
    counts: Mapping[str, int]
    oracle: str | None = None
    what: str = ""


@frozen
class Orders:
    """The instructions for each seed: fixed settings, and the folders to write to."""

    fixed: Mapping[str, Any] = field(factory=dict[str, Any])
    histories: Path | None = None
    events: Path | None = None
    json_file: Path | None = None
    """The folder of the running totals."""

    def settings(self, seed: int) -> Settings:
        """The seed's configuration."""
        return Settings.draw(seed, **self.fixed)

    def run(self, seed: int) -> Run:
        """Run a seed and write the requested files."""
        wanted = self.events is not None, self.histories is not None
        run = build(self.settings(seed), events=wanted[0], history=wanted[1]).go()
        if self.events is not None:
            write_events(run, self.events)
        if self.histories is not None:
            write_history(run, self.histories)
        return run


@define
class Tally:
    """The running totals of a campaign."""

    seeds: int = 0
    events: int = 0
    simulated_ms: int = 0
    cpu_s: float = 0.0
    counts: Counter[str] = field(factory=Counter[str])
    failed: list[SeedResult] = field(factory=list[SeedResult])

    def add(self, result: SeedResult) -> None:
        """Count one seed."""
        self.seeds += 1
        self.events += result.events
        self.simulated_ms += result.simulated_ms
        self.cpu_s += result.cpu_s
        self.counts.update(result.counts)
        if result.oracle is not None:
            self.failed.append(result)

    def never(self) -> list[str]:
        """The events that so many seeds should have met, and did not."""
        return [words for name, words in SOMETIMES.items() if not self.counts[name]]


def results(seeds: Iterable[int], orders: Orders, jobs: int = 1) -> Iterator[SeedResult]:
    """The seeds' results, in order."""
    work = ((orders, seed) for seed in seeds)
    if jobs == 1:
        yield from map(_result, work)
        return
    with get_context("spawn").Pool(jobs, _leave_interrupts_to_the_parent) as pool:
        # In waves, for the pool would draw all seeds at once, and there may be no end of them.
        while wave := list(islice(work, WAVE * jobs)):
            yield from pool.imap(_result, wave, chunksize=8)


def _leave_interrupts_to_the_parent() -> None:
    signal(SIGINT, SIG_IGN)


def _result(work: tuple[Orders, int]) -> SeedResult:
    orders, seed = work
    start = process_time()
    run = orders.run(seed)
    return result_of(run, process_time() - start)


def result_of(run: Run, cpu_s: float) -> SeedResult:
    """The result of a finished run."""
    oracle, what = (run.violation.oracle, run.violation.what) if run.violation else (None, "")
    counts = dict(run.simulation.counts)
    return SeedResult(run.settings.seed, run.events, run.now_ms, cpu_s, counts, oracle, what)


def first_failing_seed(
    seeds: Iterable[int], *, budget: int = 150_000, **fixed: Any
) -> SeedResult | None:
    """The first seed that breaks something, in this process, with the machines as they are now.

    For mutants: a run that spends the event budget counts, as a machine that breaks does. Kinds of
    runs that some seeds draw take part only if `fixed` names them.
    """
    plain = {"transactions": False, "static_members": False, "reconfigures": False}
    plain = {**plain, "share_members": 0}
    orders = Orders({"events": budget, **plain, **fixed})
    found = (_result((orders, seed)) for seed in seeds)
    return next((result for result in found if result.oracle is not None), None)
