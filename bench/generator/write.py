"""Makes a trace chunk by chunk, and writes it with what is true about it."""

import gc
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from attrs import define, field

from bench.generator.chunk import Carried, Chunk
from bench.generator.lies import LIES, Lie, Slot, slots
from bench.generator.members import consuming
from bench.generator.plan import PLACES, PRODUCERS, Cast, Plan, context_of
from bench.generator.rows import Block, Programs
from bench.generator.scans import scanning
from bench.generator.sends import producing
from traces.arrow import pa, pq
from traces.context import Context
from traces.schema import NONE, OPS, Op

ROW_GROUP = 500_000
CONSUMERS = 8
Due = list[tuple[int, Lie]]  # numbered, so that no two lies share a name


@define
class Generated:
    """A trace while it is made; `told` says which lies it holds."""

    plan: Plan
    cast: Cast = field(factory=Cast)
    told: list[dict[str, Any]] = field(factory=list[dict[str, Any]])
    rows: int = 0
    _last: list[dict[str, int]] = field(factory=list[dict[str, int]])

    @property
    def truth(self) -> dict[str, int]:
        """How often each check has to find something."""
        counts: Counter[str] = Counter()
        for one in self.told:
            counts.update(one["counts"])
        return dict(sorted(counts.items()))

    def parts(self) -> Iterator[tuple[str, Any]]:
        """All rows, a few hundred thousand at a time, by who wrote them down."""
        random = np.random.default_rng(self.plan.seed)
        due, carried, programs = self._schedule(random), Carried(), Programs()
        busy: set[int] = set()
        for number in range(self.plan.chunks):
            chunk = Chunk(self.plan, self.cast, carried, number, random)
            later = due[number + 1] if number + 1 < self.plan.chunks else None
            busy = self._make(chunk, sorted(due[number], key=_rare_first), later, busy)
            roles = self._roles(chunk)
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

    def _schedule(self, random: np.random.Generator) -> list[Due]:
        """Which lie is told in which chunk."""
        due: list[Due] = [[] for _ in range(self.plan.chunks)]
        number = 0
        for one in LIES.values():
            end = self.plan.chunks // (2 if one.rare else 1)  # what is rare may have to wait
            last = end - 1 if one.last is None else one.last
            for _ in range(min(self.plan.lies, 1 if one.once else self.plan.lies)):
                due[int(random.integers(one.first, last + 1))].append((number, one))
                number += 1
        return due

    def _make(self, chunk: Chunk, lies: Due, later: Due | None, before: set[int]) -> set[int]:
        """Make a chunk with these lies in it; one that finds no place is told later."""
        chunk.send()
        by_place, busy = slots(chunk), set(before)

        def tell(stage: str) -> None:
            for number, one in lies:
                if one.stage != stage or self._tell(chunk, one, number, by_place, busy):
                    continue
                if later is None or one.last is not None:
                    raise ValueError(
                        f"no partition is left for the lie {one.name} in generation "
                        f"{chunk.number}: ask for fewer lies, or for more messages"
                    )
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
                where = {"lie": one.name, "counts": one.counts, "generation": chunk.number}
                self.told.append(where | slot.here | {"about": slot.about})
                return True
        return False

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


def _rare_first(due: tuple[int, Lie]) -> tuple[bool, int]:
    number, one = due
    return not one.rare, number


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
    truth = {"rows": made.rows, "counts": made.truth, "lies": made.told}
    (folder / "truth.json").write_bytes(orjson.dumps(truth, option=indent))


def table_of(made: Generated) -> Any:
    """All rows as one table, where they are few."""
    return pa.concat_tables([table for _, table in made.parts()]).cast(OPS)


def context_in(folder: Path) -> Context:
    """What the kernels know of the trace in this folder."""
    meta, cast = orjson.loads((folder / "meta.json").read_bytes()), Cast()
    cast.names.processes.seed(meta["processes"])
    return context_of(meta, cast.names)


def truth_in(folder: Path) -> dict[str, int]:
    """How often each check has to find something in the trace in this folder."""
    return orjson.loads((folder / "truth.json").read_bytes())["counts"]
