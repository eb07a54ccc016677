"""A topic of its own, on which a few clients do what those of the other topics never do.

A scenario is made generation by generation, as blocks of rows by name; an anomaly of it changes
these rows as they are. Offsets and ids follow from the generation, so nothing is handed on.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from attrs import define, field

from traces.generate.plan import LEADER, START, TICK, Clients, Plan, payload
from traces.model.columns import Bools
from traces.model.context import Ints
from traces.model.schema import NONE, Flag, Isolation, Op, Outcome, Txn

SCENARIO_PARTITIONS = 4  # partitions of each scenario's topic
PHASES = 16  # of a generation: what is done in one is over before the next
SECOND = 1_000_000_000
MS = 1_000_000
ALL = slice(None)
NOWHERE = np.array([NONE])
COMMITTED, EVERYTHING = int(Isolation.READ_COMMITTED), int(Isolation.READ_UNCOMMITTED)
ScenarioBlock = dict[str, Any]


@define(slots=False)
class Scenario:
    """The calls about one topic in one generation."""

    plan: Plan
    clients: Clients
    number: int  # of the generation
    blocks: dict[str, ScenarioBlock] = field(factory=dict[str, ScenarioBlock])

    topic: ClassVar[str]
    settings: ClassVar[Mapping[str, Any]] = {}  # of the topic
    holes: ClassVar[int] = 0  # offsets after the records of a generation that hold none

    @property
    def each(self) -> int:
        """Records of a partition in a generation."""
        return max(8, self.plan.size // 4_000)

    @property
    def width(self) -> int:
        """Offsets of a partition in a generation."""
        return self.each + self.holes

    @property
    def first(self) -> bool:
        """True in the first generation of the topic's life."""
        return self.number == 0

    @property
    def last(self) -> bool:
        """True in the last generation."""
        return self.number == self.plan.chunks - 1

    @property
    def end(self) -> Any:
        """The end of the log of each partition, or of all, when all is over."""
        return self.plan.chunks * self.width

    def at(self, phase: Any, step: Any = 0) -> Any:
        """A time in a phase of this generation."""
        plan = self.plan
        return START + self.number * plan.span + phase * (plan.span // PHASES) + step * TICK

    def afterwards(self, step: Any = 0, seconds: int = 0) -> Any:
        """A time after the end of everything, apart from those of other generations."""
        return self.plan.end + seconds * SECOND + (self.number * 16 + step) * TICK

    def make(self) -> None:
        """Make the rows."""
        raise NotImplementedError

    @classmethod
    def of(cls, plan: Plan, clients: Clients, number: int) -> "Scenario":
        """This scenario in a generation, with its rows."""
        clients.topic(cls.topic, SCENARIO_PARTITIONS, **cls.settings)
        scenario = cls(plan, clients, number)
        scenario.make()
        return scenario

    def add(self, name: str, op: Op, process: Any, inv: Any, partition: Any, **more: Any) -> None:
        """A block of rows, one for each of these partitions."""
        partition = np.asarray(partition, np.int64)
        columns: ScenarioBlock = {
            "ret": np.asarray(inv) + 500,
            "outcome": int(Outcome.OK),
            "flags": 0,
        }
        topic = np.where(partition == NONE, NONE, self.number_of_topic)
        columns |= {"process": process, "inv": inv, "op": int(op), "topic": topic}
        columns |= {"partition": partition, "order": np.arange(len(partition))} | more
        self.blocks[name] = {
            key: np.broadcast_to(np.asarray(value, np.int64), len(partition)).copy()
            for key, value in columns.items()
        }

    def call(self, name: str, op: Op, phase: int, who: Mapping[str, Any], **more: Any) -> None:
        """As `add`, in a phase of this generation; `who` is what the caller says of itself."""
        fields = {"inv": self.at(phase)} | dict(who) | more
        self.add(name, op, **fields)

    def poll(
        self,
        name: str,
        phase: int,
        who: Mapping[str, Any],
        records: ScenarioBlock,
        log: tuple[int, int],
    ) -> None:
        """Somebody is given records, and fields where the log begins and ends."""
        fields = {"node": LEADER} | dict(who) | {"isolation": COMMITTED, "epoch": 1}
        self.call(name, Op.POLL, phase, fields | records)
        fields |= {"partition": self.partitions, "order": 1 << 40}
        for what, op, offset in zip(("start", "end"), (Op.LOG_START, Op.MARK), log, strict=True):
            self.call(f"{name}-{what}", op, phase, fields | {"offset": offset})

    @property
    def size(self) -> int:
        """The number of partitions."""
        return SCENARIO_PARTITIONS

    @property
    def number_of_topic(self) -> int:
        """The number of this topic."""
        return self.clients.names.topics.number(self.topic)

    @property
    def partitions(self) -> Ints:
        """All partitions."""
        return np.arange(SCENARIO_PARTITIONS)

    @property
    def written(self) -> Ints:
        """Those that are there in this generation."""
        return self.partitions

    @property
    def partition(self) -> Ints:
        """The partition of each record."""
        return np.repeat(self.written, self.each)

    @property
    def nth(self) -> Ints:
        """The index of each record among its partition's records of this generation."""
        return np.tile(np.arange(self.each), len(self.written))

    @property
    def begin(self) -> int:
        """The first offset of this generation."""
        return self.number * self.width

    @property
    def offset(self) -> Ints:
        """The offset of each record."""
        return self.begin + self.nth

    def ids(self, partition: Any, offset: Any) -> Any:
        """The ids of records: those of a partition are contiguous."""
        return ((self.number_of_topic << 8 | np.asarray(partition)) << 32) + offset

    def records(self, chosen: Bools | slice = ALL) -> ScenarioBlock:
        """The fields of rows about these records, or about all."""
        partition, offset = self.partition[chosen], self.offset[chosen]
        return {"partition": partition, "offset": offset} | self.known(partition, offset)

    def known(self, partition: Any, offset: Any) -> ScenarioBlock:
        """The id and the hash of the records at these offsets."""
        id = self.ids(partition, offset)
        return {"id": id, "hash": payload(id)}

    def process(self, name: str) -> int:
        """A client by its name."""
        return self.clients.reader(f"{name}#0")

    def producer(self, name: str, **settings: Any) -> int:
        """A client that sends, with these settings."""
        number = self.clients.producer(f"{name}#0")
        self.clients.producers[name] |= settings
        return number

    def member(self, name: str, group: str, **settings: Any) -> dict[str, int]:
        """A member of a group: what its rows say of it."""
        number = self.clients.consumer(f"{name}#0", group)
        self.clients.consumers[name] |= settings
        names = self.clients.names
        fields = {"group": names.groups.number(group), "member": names.members.number(f"{name}#0")}
        return {"process": number} | fields

    @property
    def sent(self) -> Ints:
        """When each record is sent: one after the other, in the second phase."""
        return self.at(1, self.nth * SCENARIO_PARTITIONS + self.partition)

    def send(self, process: Any, **more: Any) -> None:
        """All records are sent and acknowledged."""
        fields = {"timestamp": self.sent // MS} | self.records() | more
        self.add("sends", Op.SEND, process, self.sent, **fields)

    def scan(self, kept: Bools | slice = ALL, start: int = 0, late: int = 0) -> None:
        """The final scan's piece of this generation, by one who begins at `start`."""
        who = self.process(f"scan-{self.topic}")
        read = {"isolation": EVERYTHING, "flags": Flag.FINAL}
        when, end = self.afterwards(8, late), self.end
        fields = {"epoch": 1, "timestamp": self.sent[kept] // MS} | self.records(kept)
        self.add("scans", Op.SCAN, who, when, **(read | fields))
        if self.first:
            for name, op, step in (("earliest", Op.EARLIEST, 0), ("assign", Op.ASSIGN, 2)):
                self.add(name, op, who, self.afterwards(step, late), self.partitions, offset=start)
        if self.last:
            more = {"offset": end, "order": 1 << 40}
            self.add("ends", Op.SCAN_END, who, when, self.partitions, **(read | more))
            self.add(
                "latest", Op.LATEST, who, self.afterwards(12, late), self.partitions, offset=end
            )

    def transaction(self, name: str, ordinal: int, begin: int, end: int) -> ScenarioBlock:
        """A committed transaction from phase `begin` to `end`; what its rows say of it."""
        tid = self.clients.names.transactional_ids.number(name)
        named = {"process": self.producer(name, transaction_timeout_ms=10_000)}
        named |= {"tid": tid, "pid": 7_000 + tid, "pepoch": 0}
        fields = named | {"txn": ordinal, "txn_state": int(Txn.COMMITTED), "end_inv": self.at(end)}
        if ordinal == 0:
            self.add(f"{name}-init", Op.INIT_PRODUCER, inv=self.at(0), partition=NOWHERE, **named)
        for op, phase in ((Op.TXN_BEGIN, begin), (Op.TXN_COMMIT, end)):
            when = self.at(phase, 1 if op is Op.TXN_BEGIN else 0)
            self.add(f"{name}-{ordinal}-{phase}", op, inv=when, partition=NOWHERE, **fields)
        return fields
