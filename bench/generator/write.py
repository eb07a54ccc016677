"""Makes a trace chunk by chunk, and writes it with what is true about it."""

import gc
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from attrs import define, field

from bench.generator.chunk import Carried, Chunk
from bench.generator.lies import Lie, Slot, slots
from bench.generator.members import consuming
from bench.generator.plan import PLACES, PRODUCERS, TOPICS, Cast, Plan, context_of
from bench.generator.rows import Block, Programs
from bench.generator.scans import scanning
from bench.generator.scenes import SCENES, SPOTS, Spot
from bench.generator.schedule import Due, NoPlace, rare_first, schedule
from bench.generator.sends import producing
from traces.arrow import pa, pq
from traces.context import Context
from traces.names import Names
from traces.schema import NONE, OPS, Op

ROW_GROUP = 500_000
CONSUMERS = 8


@define
class Generated:
    """A trace while it is made; `told` says which lies it holds."""

    plan: Plan
    cast: Cast = field(factory=Cast)
    told: list[dict[str, Any]] = field(factory=list[dict[str, Any]])
    rows: int = 0

    @property
    def truth(self) -> dict[str, int]:
        """How often each check has to find something."""
        return _counted(self.told)

    def parts(self) -> Iterator[tuple[str, Any]]:
        """All rows, a few hundred thousand at a time, by who wrote them down."""
        random = np.random.default_rng(self.plan.seed)
        due, carried, programs = schedule(self.plan, random), Carried(), Programs()
        busy: set[int] = set()
        for number in range(self.plan.chunks):
            chunk = Chunk(self.plan, self.cast, carried, number, random)
            later = due[number + 1] if number + 1 < self.plan.chunks else None
            busy = self._make(chunk, sorted(due[number], key=rare_first), later, busy)
            roles = self._roles(chunk) | self._scenes(number, random, due[number])
            for role, blocks in roles.items():
                table = programs.table(blocks)
                self.rows += table.num_rows
                yield f"{role}-{number:05}", table
            del chunk, roles
            gc.collect()  # lies and their chunk hold each other
        yield "close", self._closed(programs)

    def _closed(self, programs: Programs) -> Any:
        who = np.arange(len(self.cast.names.processes.names))
        inv = np.full(len(who), 2 * self.plan.end)
        table = programs.table([{"process": who, "op": int(Op.CLOSE), "inv": inv, "ret": inv + 1}])
        self.rows += table.num_rows
        return table

    def _make(self, chunk: Chunk, lies: Due, later: Due | None, before: set[int]) -> set[int]:
        """Make a chunk with these lies in it; one that finds no place is told later."""
        chunk.send()
        by_place, busy = slots(chunk), set(before)

        def tell(stage: str) -> None:
            for number, one in lies:
                if one.scene or one.stage != stage:
                    continue
                if self._tell(chunk, one, number, by_place, busy):
                    continue
                if later is None or one.last is not None:
                    raise NoPlace(one.name)
                later.append((number, one))

        tell("sent")
        chunk.due.append(lambda: tell("due"))
        chunk.ready.append(lambda: tell("ready"))
        chunk.store()
        chunk.schedule()
        return busy - before

    def _tell(
        self, chunk: Chunk, one: Lie, number: int, by_place: list[Any], busy: set[int]
    ) -> bool:
        for place in chunk.random.permutation(PLACES).tolist():
            if place in busy or one.group not in (None, place // (PLACES // 2)):
                continue
            slot = Slot(chunk, place, by_place[place], number)
            if one.tell(slot):
                busy.add(place)
                self._note(one, chunk.number, slot)
                return True
        return False

    def _scenes(
        self, number: int, random: np.random.Generator, lies: Due
    ) -> dict[str, list[Block]]:
        """The scenes of a generation, with the lies that are told there."""
        if not self.plan.scenes:
            return {}
        blocks: list[Block] = []
        for kind in SCENES:
            scene, left = kind.of(self.plan, self.cast, number), list(range(SPOTS))
            for n, one in lies:
                if one.scene != kind.__name__:
                    continue
                place = left.pop(int(random.integers(len(left))))
                spot = Spot(scene, place, n, random)
                one.tell(spot)
                self._note(one, number, spot)
            blocks += scene.blocks.values()
        return {"scenes": blocks}

    def _note(self, one: Lie, number: int, spot: Slot | Spot) -> None:
        where = {"lie": one.name, "counts": one.counts, "generation": number}
        self.told.append(where | spot.here | {"about": spot.about})

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
    """What belongs to the rows."""
    indent = orjson.OPT_INDENT_2
    (folder / "meta.json").write_bytes(orjson.dumps(made.cast.meta(), option=indent))
    names = made.cast.names
    known = {"topics": names.topics.names, "groups": names.groups.names}
    truth = {"rows": made.rows, "counts": made.truth, "names": known, "lies": made.told}
    (folder / "truth.json").write_bytes(orjson.dumps(truth, option=indent))


def table_of(made: Generated) -> Any:
    """All rows as one table, where they are few."""
    return pa.concat_tables([table for _, table in made.parts()]).cast(OPS)


def context_in(folder: Path) -> Context:
    """What the kernels know of the trace in this folder."""
    meta = orjson.loads((folder / "meta.json").read_bytes())
    known = orjson.loads((folder / "truth.json").read_bytes())["names"]
    return context_of(meta, Names.seeded(known | {"processes": meta["processes"]}))


def truth_in(folder: Path, *, scenes: bool = True) -> dict[str, int]:
    """How often each check has to find something in this folder, in the scenes or without them."""
    told = orjson.loads((folder / "truth.json").read_bytes())["lies"]
    return _counted(one for one in told if scenes or one["topic"] < TOPICS)


def _counted(told: Iterable[dict[str, Any]]) -> dict[str, int]:
    counts: Counter[str] = Counter()
    for one in told:
        counts.update(one["counts"])
    return dict(sorted(counts.items()))
