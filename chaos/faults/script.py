"""A fault script: the faults of a run, with their times and durations.

A seed expands to a script, and shrinking works on the script. A victim may be named by role
("leader of partition 0"), so that a shorter script keeps its meaning.
"""

from collections.abc import Iterator
from random import Random
from typing import Any

from attrs import asdict, evolve, frozen

from chaos.sim.addresses import MOST_PARTITIONS, OFFSETS_NUMBER
from chaos.sim.settings import ADD_PARTITION, FAULTS, LASTING_FAULTS, Settings

# Which links of a broker are cut; "from" and "to" are seen from the broker.
NOISES = ("drop", "duplicate", "delay", "stray")
CUTS = ("all", "from", "to", "controller", "brokers", "to_brokers", "from_brokers", "one")
LAGS = ("late", "skipped")
CRASHES = ("at once", "writing")
HOWS = {"cut": CUTS, "slow": CUTS, "noise": NOISES, "lag": LAGS, "store": CRASHES}


@frozen
class Fault:
    """One fault.

    `who` is a broker 1..3, or 0 for whoever leads `partition`; a member 1.. for member faults.
    `part` is how much of the page cache survives a crash, or how slow links or news are, in
    seconds; `how` says which links, which noise, what becomes of the news of the metadata, or when
    the metadata store crashes.
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
        last = f" for {self.for_ms} ms" if self.for_ms else ""
        match self.what:
            case "crash":
                return f"crash {whom}{last}, {self.part:.0%} of its page cache survives"
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
            case "depose":
                return "delete /controller"
            case "add_partition":
                return "give orders one partition more"
            case "disk":
                return f"the disk of {whom} fails, which starts again after {self.for_ms} ms"
            case "elect":
                again = f", and who led before after {self.for_ms} ms" if self.for_ms else ""
                return f"elect broker {self.who} for {self._partition}{again}"
            case _:
                return f"{self.what.removeprefix('member_')} {whom}{last}"

    @property
    def _partition(self) -> str:
        offsets = self.partition == OFFSETS_NUMBER
        return "the offsets topic" if offsets else f"orders:{self.partition}"

    def as_json(self) -> dict[str, Any]:
        """The fault as a script file holds it."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "Fault":
        """Read what `as_json` wrote; raises ValueError or TypeError."""
        fault = cls(**values)
        known = (*FAULTS, ADD_PARTITION)
        if fault.what not in known:
            raise ValueError(f"what: expected one of {', '.join(known)}, found {fault.what!r}")
        expected = HOWS.get(fault.what, ("",))
        if fault.how not in expected:
            raise ValueError(f"how: expected one of {', '.join(expected)}, found {fault.how!r}")
        numbers: tuple[Any, ...] = (fault.at_ms, fault.who, fault.partition, fault.for_ms)
        if not all(isinstance(n, int) and n >= 0 for n in numbers) or fault.who > 3:
            raise ValueError("at_ms, who, partition, for_ms: expected whole numbers; who up to 3")
        return fault


Script = tuple[Fault, ...]
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
    return tuple(faults)


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
