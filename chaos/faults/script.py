"""A fault script: the faults of a run, with their times and durations.

A seed expands to a script, and shrinking works on the script. A victim may be named by role
("leader of partition 0"), so that a shorter script keeps its meaning.
"""

from collections.abc import Iterator
from random import Random
from typing import Any

from attrs import asdict, evolve, frozen

from chaos.sim.addresses import (
    MOST_PARTITIONS,
    NAMED,
    OFFSETS_NUMBER,
    RECEIPTS,
    SHARE_STATE_NUMBER,
)
from chaos.sim.settings import (
    ADD_PARTITION,
    CLOCK,
    CONFIGURE,
    FAULTS,
    LASTING_FAULTS,
    SHARE_FAULTS,
    TRANSACTION_FAULTS,
    Settings,
)

# Which links of a broker are cut; "from" and "to" are seen from the broker.
NOISES = ("drop", "duplicate", "delay", "stray")
CUTS = ("all", "from", "to", "controller", "brokers", "to_brokers", "from_brokers", "one")
LAGS = ("late", "skipped")
CRASHES = ("at once", "writing")
MARKERS = ("held", "lost", "doubled")
ENDS = ("restarted", "abandoned")
TAKEOVERS = ("meanwhile", "paused")
CLOCKS = ("ahead", "behind")
CONFIGURATIONS = ("min_isr", "unclean", "session", "assignment")
HOWS = {
    **{"cut": CUTS, "slow": CUTS, "noise": NOISES, "lag": LAGS, "store": CRASHES},
    **{"markers": MARKERS, "client_crash": ENDS, "client_takeover": TAKEOVERS},
    **{CLOCK: CLOCKS, CONFIGURE: CONFIGURATIONS},
}
MOST_CLIENTS = 6


@frozen
class Fault:
    """One fault.

    `who` is a broker 1..3, or 0 for whoever leads `partition`; a member 1.. for member faults.
    `part` is how much of the page cache survives a crash, or how slow links or news are, or how
    wrong a clock is, in seconds; `how` says which links, which noise, what becomes of the news of
    the metadata, or when the metadata store crashes.
    """

    at_ms: int
    what: str
    who: int = 0
    partition: int = 0
    for_ms: int = 0
    part: float = 0.0
    how: str = ""

    def __str__(self) -> str:
        """The fault in words, for people."""
        whom = f"broker {self.who}" if self.who else f"leader of {self._partition}"
        if self.what.startswith("member"):
            whom = f"member {self.who}"
        if self.what.startswith("share"):
            whom = f"share member {self.who}" if self.who else "all share members"
        if self.what.startswith("client"):
            whom = f"transactional client {self.who}"
        last = f" for {self.for_ms} ms" if self.for_ms else ""
        match self.what:
            case "crash":
                return f"crash {whom}{last}, {self.part:.0%} of its page cache survives"
            case "clock":
                return f"restart {whom}{last}, its clock is {self.part:g} s {self.how}"
            case "cut":
                return f"cut {whom} off ({self.how.replace('_', ' ')}){last}"
            case "slow":
                links = self.how.replace("_", " ")
                return f"slow {whom} down ({links}) by {self.part * 1000:.0f} ms{last}"
            case "noise":
                return f"{self.how} messages{last}"
            case "lag":
                by = f" by {self.part * 1000:.0f} ms" if self.how == "late" else ""
                return f"news of the metadata {self.how}{by} at {whom}{last}"
            case "reassign":
                return f"move orders:{self.partition} to broker {self.who or 1} and others{last}"
            case "expire":
                return f"end the session of {'the controller' if not self.who else whom}"
            case "store":
                when = "in the middle of a write" if self.how == "writing" else "now"
                return f"crash the store {when}{last}, {self.part:.0%} of the write survives"
            case "markers":
                return f"markers of transactions {self.how}{last}"
            case "share_moves":
                return f"another leader of the share state with each record{last}"
            case "client_crash":
                return f"crash {whom}{last}, its transaction is {self.how}"
            case "client_takeover":
                zombie = f", which is paused{last}" if self.how == "paused" else ""
                return f"another instance takes over from {whom}{zombie}"
            case "depose":
                return "delete /controller"
            case "configure":
                return self._configuration
            case "add_partition":
                return "give orders one partition more"
            case "disk":
                return f"the disk of {whom} fails, which starts again after {self.for_ms} ms"
            case "elect":
                again = f", and who led before after {self.for_ms} ms" if self.for_ms else ""
                return f"elect broker {self.who} for {self._partition}{again}"
            case _:
                return f"{self.what.rpartition('_')[2]} {whom}{last}"

    @property
    def _configuration(self) -> str:
        """A change of a configuration in words; `who` stands for the value."""
        match self.how:
            case "min_isr":
                return f"set min.insync.replicas of {self._partition} to {self.who}"
            case "unclean":
                return f"{'allow' if self.who > 1 else 'forbid'} unclean elections"
            case "session":
                return f"let sessions of the group last {self.who} times as long as at first"
            case _:
                return f"let {100 * (self.who - 1)} ms lie between the group's assignments"

    @property
    def _partition(self) -> str:
        if self.partition == OFFSETS_NUMBER:
            return "the offsets topic"
        named = NAMED.get(self.partition)
        return f"orders:{self.partition}" if named is None else f"{named.topic}:{named.partition}"

    def as_json(self) -> dict[str, Any]:
        """The fault as a script file holds it."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "Fault":
        """Read what `as_json` wrote; raises ValueError or TypeError."""
        fault = cls(**values)
        known = (*FAULTS, ADD_PARTITION, CLOCK, CONFIGURE)
        if fault.what not in known:
            raise ValueError(f"what: expected one of {', '.join(known)}, found {fault.what!r}")
        expected = HOWS.get(fault.what, ("",))
        if fault.how not in expected:
            raise ValueError(f"how: expected one of {', '.join(expected)}, found {fault.how!r}")
        numbers: tuple[Any, ...] = (fault.at_ms, fault.who, fault.partition, fault.for_ms)
        most = MOST_CLIENTS if fault.what.startswith("client") else 3
        if not all(isinstance(n, int) and n >= 0 for n in numbers) or fault.who > most:
            expected = f"expected whole numbers; who up to {most}"
            raise ValueError(f"at_ms, who, partition, for_ms: {expected}")
        return fault


Script = tuple[Fault, ...]
BROKER_FAULTS = "crash", "elect", "pause", "cut", "lag", "stop"
"""The faults that hit the leaders of partitions of transactions."""
YOUNG = "crash", "pause", "cut", "slow", "elect", "lag"
"""The faults that hit the leader of a newly added partition."""


def expand(settings: Settings) -> Script:
    """The script that belongs to a configuration."""
    rng = Random(settings.seed * 2 + 1)
    if settings.lasting:
        return tuple(_lasting(settings, rng))
    faults: list[Fault] = []
    at = float(settings.gap_ms)
    while settings.faults and at < settings.fault_ms:
        faults.append(_fault(settings, int(at), rng))
        at += rng.expovariate(1.0 / settings.gap_ms)
    if settings.adds_partitions:
        faults = sorted([*faults, *_additions(settings)], key=lambda one: one.at_ms)
    if settings.reconfigures:
        faults = sorted([*faults, *_changes(settings)], key=lambda one: one.at_ms)
    if settings.transactions:
        faults = sorted([*faults, *_of_transactions(settings)], key=lambda one: one.at_ms)
        if settings.clocks:
            faults = sorted([*faults, *_of_clocks(settings)], key=lambda one: one.at_ms)
    if settings.share_members:
        faults = sorted([*faults, *_of_shares(settings)], key=lambda one: one.at_ms)
    return tuple(faults)


def _of_transactions(settings: Settings) -> Iterator[Fault]:
    """Faults of transactional clients, of markers, and of the leaders of their partitions.

    The seed's other faults do not change.
    """
    rng = Random(settings.seed * 2 + 1013)
    kinds = tuple(one for one in TRANSACTION_FAULTS if rng.random() < 0.8)
    brokers = tuple(one for one in BROKER_FAULTS if rng.random() < 0.7) or ("crash", "elect")
    numbers = _numbers(settings)
    gap_ms = rng.choice((100, 200, 400))
    at = rng.expovariate(1.0 / gap_ms)
    while at < settings.fault_ms:
        what = rng.choice((*kinds, *brokers))
        if what in TRANSACTION_FAULTS:
            yield _of_clients(settings, int(at), what, rng)
        else:
            of_broker = _fault(evolve(settings, faults=(what,)), int(at), rng)
            yield evolve(of_broker, partition=rng.choice(numbers))
        at += rng.expovariate(1.0 / gap_ms)


def _numbers(settings: Settings) -> list[int]:
    """The numbers of the partitions that transactions depend on."""
    return [
        number
        for number, name in NAMED.items()
        if number != SHARE_STATE_NUMBER and (settings.lone or name.topic != RECEIPTS)
    ]


def _of_clocks(settings: Settings) -> Iterator[Fault]:
    """Clocks of the leaders of partitions of transactions. The seed's other faults do not change.

    One that is ahead may be so by more than a day, after which producers and ids expire. The end of
    a run waits for one that is behind.
    """
    rng = Random(settings.seed * 2 + 1021)
    at = rng.expovariate(1.0 / 800)
    while at < settings.fault_ms:
        how = rng.choice(CLOCKS)
        part = rng.choice((0.3, 2.0, 100_000.0) if how == "ahead" else (0.3, 2.0))
        for_ms = int(rng.expovariate(1.0 / 100)) + 1
        yield Fault(int(at), CLOCK, 0, rng.choice(_numbers(settings)), for_ms, part, how)
        at += rng.expovariate(1.0 / 800)


def _of_shares(settings: Settings) -> Iterator[Fault]:
    """Faults of share members, and of the leaders that they depend on: of the group's log, of its
    state, and of the records. A leader that is elected again has a new epoch.

    The seed's other faults do not change.
    """
    rng = Random(settings.seed * 2 + 1307)
    kinds = tuple(one for one in SHARE_FAULTS if rng.random() < 0.8)
    brokers = tuple(one for one in BROKER_FAULTS if rng.random() < 0.7) or ("crash", "elect")
    numbers = (SHARE_STATE_NUMBER, SHARE_STATE_NUMBER, OFFSETS_NUMBER, *range(settings.partitions))
    gap_ms = rng.choice((100, 200, 400))
    at = rng.expovariate(1.0 / gap_ms)
    while at < settings.fault_ms:
        what = rng.choice((*kinds, *brokers))
        if what in SHARE_FAULTS:
            for_ms = int(rng.expovariate(1.0 / rng.choice((50, 200, settings.share_lock_ms)))) + 5
            everybody = what == "share_moves" or (what != "share_pause" and rng.random() < 0.3)
            who = 0 if everybody else rng.randrange(1, settings.share_members + 1)
            yield Fault(int(at), what, who, for_ms=for_ms)
        else:
            of_broker = _fault(evolve(settings, faults=(what,)), int(at), rng)
            yield evolve(of_broker, partition=rng.choice(numbers))
        at += rng.expovariate(1.0 / gap_ms)


def _of_clients(settings: Settings, at_ms: int, what: str, rng: Random) -> Fault:
    for_ms = int(rng.expovariate(1.0 / rng.choice((50, 200, settings.transaction_timeout_ms)))) + 5
    if what == "client_pause" and rng.random() < 0.5:  # longer than a member's session
        for_ms = int(settings.member_session_ms * rng.uniform(1.2, 2.5))
    clients = 2 * settings.transactional_ids + settings.applications
    who = 0 if what == "markers" else rng.randrange(1, max(clients, 1) + 1)
    return Fault(at_ms, what, who, for_ms=for_ms, how=rng.choice(HOWS.get(what, ("",))))


def _lasting(settings: Settings, rng: Random) -> Iterator[Fault]:
    """One after the other, each for more than twice the time in which the cluster has to settle:
    once to settle, once to answer. Sometimes two brokers are hit at once."""
    for number in range(LASTING_FAULTS):
        at_ms = (3 * number + 1) * settings.settle_ms - settings.settle_ms // 2
        for _ in range(rng.choice((1, 1, 2))):
            yield evolve(_fault(settings, at_ms, rng), for_ms=int(2.4 * settings.settle_ms))


def _additions(settings: Settings) -> Iterator[Fault]:
    """The additions of partitions, and a fault near each. The seed's other faults do not change."""
    rng = Random(settings.seed * 2 + 1003)
    for number in range(settings.partitions, min(settings.partitions + 3, MOST_PARTITIONS)):
        at_ms = rng.randrange(settings.fault_ms)
        yield Fault(at_ms, ADD_PARTITION)
        if rng.random() < 0.5:
            soon = at_ms + int(rng.expovariate(1.0 / 50))
            what = rng.choice([one for one in YOUNG if one in settings.faults] or ["elect"])
            yield evolve(_fault(evolve(settings, faults=(what,)), soon, rng), partition=number)


def _changes(settings: Settings) -> Iterator[Fault]:
    """Changes of configurations, and often a fault of a leader near one.

    The seed's other faults do not change. With ELR min.insync.replicas only becomes one: where it
    is raised, records may be lost (docs/findings/kafka-raised-min-isr.md).
    """
    rng = Random(settings.seed * 2 + 1177)
    kinds = [one for one in CONFIGURATIONS if one != "unclean" or settings.unclean]
    named = {number for number, name in NAMED.items() if name.topic != RECEIPTS}
    named.discard(SHARE_STATE_NUMBER)
    numbers = [*range(settings.partitions), OFFSETS_NUMBER]
    numbers += sorted(named - {OFFSETS_NUMBER}) if settings.transactions else ()
    at = rng.expovariate(1.0 / 300)
    while at < settings.fault_ms:
        how = rng.choice((*kinds, "min_isr"))
        number = rng.choice(numbers)
        value = 1 if how == "min_isr" and settings.elr else rng.randrange(1, 4)
        yield Fault(int(at), CONFIGURE, value, number, how=how)
        if rng.random() < 0.4:
            what = rng.choice([one for one in YOUNG if one in settings.faults] or ["elect"])
            near = int(at + rng.expovariate(1.0 / 50))
            yield evolve(_fault(evolve(settings, faults=(what,)), near, rng), partition=number)
        at += rng.expovariate(1.0 / 300)


def _fault(settings: Settings, at_ms: int, rng: Random) -> Fault:
    what = rng.choice(settings.faults)
    partition = rng.randrange(settings.partitions)
    if rng.random() < 0.4:
        partition = OFFSETS_NUMBER
    who = 0 if rng.random() < 0.4 else rng.randrange(1, 4)
    for_ms = int(rng.expovariate(1.0 / rng.choice((10, 50, 200, 500)))) + 1
    part = rng.choice((0.0, 0.0, 0.5, 1.0))
    how = ""
    if what == "cut":
        how = rng.choice(CUTS)
    elif what == "slow":
        how, part = rng.choice(CUTS), rng.choice((0.1, 0.3, 1.0))
    elif what == "noise":
        how = rng.choice(NOISES)
    elif what == "lag":
        how, part = rng.choice(LAGS), rng.choice((0.02, 0.1, 0.4))
        for_ms = for_ms * 2 + 20
    elif what == "store":
        how = rng.choice(CRASHES)
    elif what == "elect":
        who, for_ms = rng.randrange(1, 4), rng.choice((0, 10, 30, 100))
    elif what.startswith("member"):
        who = rng.randrange(1, settings.consumers + 1)
        for_ms = int(rng.expovariate(1.0 / settings.member_session_ms)) + 20
    return Fault(at_ms, what, who, partition, for_ms, part, how)
