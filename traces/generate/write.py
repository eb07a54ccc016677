"""Makes a trace chunk by chunk, and writes it with what is true about it."""

import gc
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from attrs import define, field

from traces.generate.anomalies import InRows, Slot, slots
from traces.generate.chunk import Carried, Chunk
from traces.generate.knowledge import Knowledge, from_json
from traces.generate.members import consuming
from traces.generate.plan import PRODUCERS, TOPIC_PARTITIONS, TOPICS, Clients, Plan, context_of
from traces.generate.rows import Block, Programs
from traces.generate.scans import scanning
from traces.generate.scenarios import SCENARIO_PARTITIONS, SCENARIOS, ScenarioSlot
from traces.generate.schedule import Due, NoRoom, rare_first, schedule
from traces.generate.sends import producing
from traces.model.arrow import pa, pq
from traces.model.context import Context
from traces.model.names import Names
from traces.model.schema import NONE, OPS, Op

ROW_GROUP = 500_000
CONSUMERS = 8


@define
class Generated:
    """A trace while it is made; `injected` says which anomalies it holds."""

    plan: Plan
    clients: Clients = field(factory=Clients)
    injected: list[dict[str, Any]] = field(factory=list[dict[str, Any]])
    rows: int = 0
    knowledge: Knowledge = field(factory=Knowledge)
    #: Called after each generation of the groups, `plan.chunks` times
    on_chunk: Callable[[], None] = lambda: None

    @property
    def truth(self) -> dict[str, int]:
        """The number of findings that each check has to report."""
        return _counted(self.injected)

    def context(self) -> Context:
        """The kernels' context of all rows that were made."""
        known = self.knowledge.lives(), self.knowledge.partition_counts()
        return context_of(self.clients.meta(), self.clients.names, *known)

    def parts(self) -> Iterator[tuple[str, Any]]:
        """All rows, a few hundred thousand at a time, by who wrote them down."""
        for name, table in self._parts():
            self.rows += table.num_rows
            self.knowledge.see(table)
            yield name, table

    def _parts(self) -> Iterator[tuple[str, Any]]:
        random = np.random.default_rng(self.plan.seed)
        due, carried, programs = schedule(self.plan, random), Carried(), Programs()
        busy: set[int] = set()
        for number in range(self.plan.chunks):
            chunk = Chunk(self.plan, self.clients, carried, number, random)
            later = due[number + 1] if number + 1 < self.plan.chunks else None
            busy = self._make(chunk, sorted(due[number], key=rare_first), later, busy)
            roles = self._roles(chunk) | self._scenarios(number, random, due[number])
            for role, blocks in roles.items():
                yield f"{role}-{number:05}", programs.table(blocks)
            self.on_chunk()
            del chunk, roles
            gc.collect()  # anomalies and their chunk hold each other
        yield "close", self._closed(programs)

    def _closed(self, programs: Programs) -> Any:
        who = np.arange(len(self.clients.names.processes.names))
        inv = np.full(len(who), 2 * self.plan.end)
        return programs.table([{"process": who, "op": int(Op.CLOSE), "inv": inv, "ret": inv + 1}])

    def _make(self, chunk: Chunk, anomalies: Due, later: Due | None, before: set[int]) -> set[int]:
        """Make a chunk with these anomalies; one that finds no partition is injected later."""
        chunk.send()
        by_tp, busy = slots(chunk), set(before)

        def inject(stage: str) -> None:
            for number, one in anomalies:
                if one.scenario or one.stage != stage:
                    continue
                if self._inject(chunk, one, number, by_tp, busy):
                    continue
                if later is None or one.last is not None:
                    raise NoRoom(one.name)
                later.append((number, one))

        inject("sent")
        chunk.due.append(lambda: inject("due"))
        chunk.ready.append(lambda: inject("ready"))
        chunk.store()
        chunk.schedule()
        return busy - before

    def _inject(
        self, chunk: Chunk, one: InRows, number: int, by_tp: list[Any], busy: set[int]
    ) -> bool:
        for tp in chunk.random.permutation(TOPIC_PARTITIONS).tolist():
            if tp in busy or one.group not in (None, tp // (TOPIC_PARTITIONS // 2)):
                continue
            slot = Slot(chunk, tp, by_tp[tp], number)
            if one.inject(slot):
                busy.add(tp)
                self._note(one, chunk.number, slot)
                return True
        return False

    def _scenarios(
        self, number: int, random: np.random.Generator, anomalies: Due
    ) -> dict[str, list[Block]]:
        """The scenarios of a generation, with the anomalies that are injected there."""
        if not self.plan.scenarios:
            return {}
        blocks: list[Block] = []
        for kind in SCENARIOS:
            scenario, left = (
                kind.of(self.plan, self.clients, number),
                list(range(SCENARIO_PARTITIONS)),
            )
            for n, one in anomalies:
                if one.scenario != kind.__name__:
                    continue
                tp = left.pop(int(random.integers(len(left))))
                slot = ScenarioSlot(scenario, tp, n, random)
                one.inject(slot)
                self._note(one, number, slot)
            blocks += scenario.blocks.values()
        return {"scenarios": blocks}

    def _note(self, one: InRows, number: int, slot: Slot | ScenarioSlot) -> None:
        where = {"anomaly": one.name, "counts": one.counts, "generation": number}
        self.injected.append(where | slot.here | {"witness": slot.witness})

    def _roles(self, chunk: Chunk) -> dict[str, list[Block]]:
        lines = _blocks(chunk.lines)
        members = (lines["process"] >= PRODUCERS) & (lines["process"] < PRODUCERS + CONSUMERS)
        roles = {
            "producers": [*producing(chunk), _where(lines, ~members)],
            "consumers": [*consuming(chunk), _where(lines, members)],
            "scans": scanning(chunk),
        }
        chunk.leave()
        return roles


def _blocks(lines: list[dict[str, int]]) -> dict[str, Any]:
    names = {name for line in lines for name in line} | {"process", "inv"}
    defaults = {"outcome": 0, "txn_state": 0, "flags": 0, "order": 0, "clock": 0}
    return {
        name: np.array([line.get(name, defaults.get(name, NONE)) for line in lines], np.int64)
        for name in names
    }


def _where(block: dict[str, Any], rows: Any) -> dict[str, Any]:
    return {name: column[rows] for name, column in block.items()}


def write_parquet(made: Generated, folder: Path) -> None:
    """Write `ops` in Parquet, and beside it the configuration, the names and the truth."""
    (folder / "ops").mkdir(parents=True)
    for name, table in made.parts():
        pq.write_table(
            table, folder / "ops" / f"{name}.parquet", compression="zstd", row_group_size=ROW_GROUP
        )
    write_beside(made, folder)


def write_beside(made: Generated, folder: Path) -> None:
    """Write `meta.json` and `truth.json` beside the rows."""
    indent = orjson.OPT_INDENT_2
    (folder / "meta.json").write_bytes(orjson.dumps(made.clients.meta(), option=indent))
    names = made.clients.names
    known = {"topics": names.topics.names, "groups": names.groups.names}
    truth = {"rows": made.rows, "counts": made.truth, "names": known, "anomalies": made.injected}
    truth |= {"knowledge": made.knowledge.as_json()}
    (folder / "truth.json").write_bytes(orjson.dumps(truth, option=indent))


def table_of(made: Generated) -> Any:
    """All rows as one table, where they are few."""
    return pa.concat_tables([table for _, table in made.parts()]).cast(OPS)


def context_in(folder: Path) -> Context:
    """The kernels' context of the trace in this folder."""
    meta = orjson.loads((folder / "meta.json").read_bytes())
    truth = orjson.loads((folder / "truth.json").read_bytes())
    names = Names.seeded(truth["names"] | {"processes": meta["processes"]})
    return context_of(meta, names, *from_json(truth["knowledge"]))


def truth_in(folder: Path, *, scenarios: bool = True) -> dict[str, int]:
    """The number of findings due from each check in this folder, scenarios included or not."""
    injected = orjson.loads((folder / "truth.json").read_bytes())["anomalies"]
    return _counted(one for one in injected if scenarios or one["topic"] < TOPICS)


def _counted(injected: Iterable[dict[str, Any]]) -> dict[str, int]:
    counts: Counter[str] = Counter()
    for one in injected:
        counts.update(one["counts"])
    return dict(sorted(counts.items()))
