"""Records whose keys decide where they go, and one that is refused and sent again by another."""

from functools import cache

import numpy as np
from attrs import define

from traces.generate.anomalies.registry import in_rows
from traces.generate.plan import key_name
from traces.generate.scenarios.scenario import SCENARIO_PARTITIONS, Scenario
from traces.generate.scenarios.slot import ScenarioSlot
from traces.model.context import Ints
from traces.model.partitioners import key_hash
from traces.model.schema import NONE, Flag, Op, Outcome

PARTITIONER = "murmur2_random"
KEYS = 64  # of each partition


def hash_of(key: int) -> int:
    return key_hash(PARTITIONER, key_name(key))


@cache
def keys_by_partition() -> tuple[Ints, Ints]:
    """Keys by partition, and their hashes."""
    mine: list[list[int]] = [[] for _ in range(SCENARIO_PARTITIONS)]
    key = 0
    while min(map(len, mine)) < KEYS:
        mine[(hash_of(key) & 0x7FFFFFFF) % SCENARIO_PARTITIONS].append(key)
        key += 1
    keys = np.array([several[:KEYS] for several in mine])
    return keys, np.array([[hash_of(int(key)) for key in several] for several in keys])


@define(slots=False)
class Keyed(Scenario):
    """Each record is in the partition of its key."""

    topic, holes = "keyed", 1

    def make(self) -> None:
        """The last record of each partition was refused before, when another process sent it."""
        keys, hashes = (table[self.partition, self.nth % KEYS] for table in keys_by_partition())
        hasher = self.producer("hasher", partitioner=PARTITIONER)
        self.send(hasher, key=keys, detail=hashes, flags=int(Flag.LEFT))
        again = self.records(self.nth == self.each - 1)
        me = {"process": self.producer("refused")}
        refused = again | {"offset": NONE, "outcome": int(Outcome.FAIL)}
        when = self.at(0, self.partitions)
        self.call("refused", Op.SEND, 0, me, inv=when, timestamp=when // 1_000_000, **refused)
        self.scan()


@in_rows("P6", scenario="Keyed")
def elsewhere_by_key(s: ScenarioSlot) -> bool:
    """A record is sent to another partition than that of its key."""
    key = 1_000_000 * (s.number + 1)
    while (hash_of(key) & 0x7FFFFFFF) % SCENARIO_PARTITIONS == s.partition:
        key += 1
    return s.put("sends", s.one("sends"), key=key, detail=hash_of(key))


@in_rows("P5 L2", scenario="Keyed")
def stored_by_two(s: ScenarioSlot) -> bool:
    """A record without an answer was stored, and stored again when another process sent it."""
    row = s.one("refused")
    s.put("refused", row, outcome=int(Outcome.INFO), ret=NONE)
    last = int(s.rows("scans")[-1])
    return s.copy("scans", last, offset=s.get("scans", last, "offset") + 1)
