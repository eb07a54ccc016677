"""Cost of the quick pre-checks, with and without anomalies, and of the checks beside Jepsen's.

Usage: python -m bench.bench_precheck [--rows N …] [--files N] [--anomalies K] [--jepsen LINES]
       [--keep FOLDER]

A trace of N rows is generated and judged by fingerprints and order alone, then by exact checks
where those leave doubt, and must come to the truth that was written beside it; `--files` cuts it
into so many files of Parquet. `--jepsen` makes a
history as Jepsen's checker was measured on (10 processes, 20 live keys that retire after 1,024
writes, half sends and half polls of up to 8 records, a final drain) and judges it by the kernels
alone. CPU seconds are those of all processes together.
"""

import argparse
import shutil
import tempfile
from multiprocessing import get_context
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from attrs import define, field

from bench.measuring import conditions, timed
from traces.engines import local
from traces.engines.precheck import spark as prechecks
from traces.engines.precheck.quick import COVERED
from traces.engines.session import session
from traces.engines.spark import read_ops
from traces.generate.plan import TOPIC_PARTITIONS, TOPICS
from traces.generate.schedule import plan_of
from traces.generate.write import Generated, context_in, truth_in, write_parquet
from traces.model.arrow import pa, pq
from traces.model.configured import history_context
from traces.model.context import Ints
from traces.model.schema import COLUMNS, NONE, OPS, Op
from traces.verdicts.jepsen import add_cycles
from traces.verdicts.verdict import tally

JEPSEN_CPU = {10_000: 1.54, 100_000: 12.93, 1_000_000: 184.23}  # measured, cold


def quick(spark: Any, folder: Path) -> None:
    """Both pre-checks over a generated trace, and what they leave to the exact checks."""
    contexts, ops = {0: context_in(folder)}, read_ops(spark, str(folder / "ops"))
    size = sum(file.stat().st_size for file in (folder / "ops").iterdir())
    print(f"{ops.rows:,} rows, {size / ops.rows:.1f} B each in Parquet")
    left, _ = timed("fingerprints and order", ops.rows, lambda: prechecks.doubts(ops, contexts))
    some = sum(topic < TOPICS for _, topic, _ in left.partitions)
    print(
        f"  doubtful: {some} of {TOPIC_PARTITIONS} partitions and {len(left.partitions) - some} "
        f"of scenarios, {len(left.groups)} groups, {len(left.producers)} producers"
    )
    found, _ = timed(
        "exact checks where there is doubt",
        ops.rows,
        lambda: [
            r.asDict(recursive=True) for r in prechecks.findings(ops, contexts, left).collect()
        ],
    )
    tallies = tally(found)[0]
    add_cycles(tallies, jepsen=False)
    counts = {check: one.total for check, one in tallies.items() if one.total}
    truth = {check: n for check, n in truth_in(folder).items() if check in COVERED}
    assert counts == truth, (counts, truth)
    print(f"  all {sum(truth.values())} anomalies of {len(truth)} covered checks found, no other")


def cut(folder: Path, files: int) -> None:
    """Put a trace's rows, in their order, into so many files."""
    ops = folder / "ops"
    table = pq.read_table(ops)
    for file in ops.iterdir():
        file.unlink()
    for n, start in enumerate(range(0, len(table), -(-len(table) // files))):
        pq.write_table(table[start : start + -(-len(table) // files)], ops / f"{n:06}.parquet")


@define
class History:
    """Calls of a history, as rows."""

    random: Random
    live: list[int] = field(factory=lambda: list(range(20)))
    logs: dict[int, int] = field(factory=lambda: dict.fromkeys(range(20), 0))
    now: int = 0
    seqs: list[int] = field(factory=lambda: [0] * 11)
    rows: list[tuple[int, ...]] = field(factory=list[tuple[int, ...]])

    def call(self, process: int, op: Op, records: list[tuple[int, int]]) -> None:
        """One call with its records: keys and offsets."""
        now, seq = self.now, self.seqs[process]
        self.now += 2
        self.rows += [
            (process, seq, idx, int(op), key, offset, key * 2_048 + offset, now, now + 1)
            for idx, (key, offset) in enumerate(records)
        ]
        self.seqs[process] += 1

    def send(self, process: int) -> None:
        """One record to one of the live keys; a key that has enough makes room for a new one."""
        slot = self.random.randrange(20)
        key = self.live[slot]
        self.call(process, Op.SEND, [(key, self.logs[key])])
        self.logs[key] += 1
        if self.logs[key] == 1_024:
            self.live[slot] = len(self.logs)
            self.logs[len(self.logs)] = 0

    def poll(self, process: int, position: dict[int, int]) -> None:
        """Up to 8 records of each live key."""
        given: list[tuple[int, int]] = []
        for key in self.live:
            at = position.get(key, 0)
            position[key] = min(at + 8, self.logs[key])
            given += [(key, offset) for offset in range(at, position[key])]
        if given:
            self.call(process, Op.POLL, given)

    def table(self) -> Any:
        """The table of operations."""
        names = ("process", "seq", "idx", "op", "topic", "offset", "id", "inv", "ret")
        columns: dict[str, Ints] = dict(zip(names, np.array(self.rows, np.int64).T, strict=True))
        zero: Ints = np.zeros(len(self.rows), np.int64)
        for name in ("run", "partition", "outcome", "clock", "txn_state", "flags"):
            columns[name] = zero
        arrays = [pa.array(columns.get(name, zero + NONE)) for name in COLUMNS]
        return pa.Table.from_arrays(arrays, names=list(COLUMNS)).cast(OPS)


def write_history(lines: int, path: Path) -> None:
    """A valid history of so many lines; each call is two."""
    made = History(Random(7))
    position = [dict[int, int]() for _ in range(10)]
    for n in range(lines // 2):
        if made.random.random() < 0.5:
            made.send(n % 10)
        else:
            made.poll(n % 10, position[n % 10])
    for key, end in made.logs.items():
        if end:
            made.call(10, Op.POLL, [(key, offset) for offset in range(end)])
    pq.write_table(made.table(), path)


def beside_jepsen(lines: int, folder: Path) -> None:
    """Our kernels on the kind of history that Jepsen's checker was measured on."""
    path = folder / f"history-{lines}.parquet"
    # In a process of its own, so that what it needed is not counted as ours.
    child = get_context("spawn").Process(target=write_history, args=(lines, path))
    child.start()
    child.join()
    contexts = {0: history_context(subscribed=False, compacted=False)}
    rows = pq.read_metadata(path).num_rows
    print(f"history of {lines:,} lines, {rows:,} rows")
    ops, _ = timed("read", lines, lambda: pq.read_table(path))
    found, cost = timed("all checks, kernels alone", lines, lambda: local.find(ops, contexts))
    assert not any(row["found"] for row in found)
    if (theirs := JEPSEN_CPU.get(lines)) is not None:
        print(
            f"  Jepsen's checker: {theirs} CPU-s for {lines:,} lines, {theirs / cost.cpu:.0f} times"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=float, nargs="*", default=[1e6, 1e7])
    parser.add_argument("--files", type=int, help="put the rows into so many files")
    parser.add_argument("--anomalies", type=int, default=2)
    parser.add_argument("--jepsen", type=int, nargs="*", default=[100_000, 1_000_000])
    parser.add_argument("--keep", type=Path, help="generate there, or take what is there")
    given = parser.parse_args()
    print(conditions())
    scratch = given.keep or Path(tempfile.mkdtemp(prefix="highwater-bench-"))
    try:
        for lines in given.jepsen:
            beside_jepsen(lines, scratch)
        if not given.rows:
            return
        with session(memory="4g") as spark:
            spark.range(1000).selectExpr("sum(id)").collect()
            for rows in (1e5, *given.rows):  # the first warms up
                folder = scratch / f"{int(rows)}-{given.anomalies}"
                if not folder.exists():
                    write_parquet(Generated(plan_of(int(rows), anomalies=given.anomalies)), folder)
                if given.files:
                    cut(folder, given.files)
                quick(spark, folder)
    finally:
        if given.keep is None:
            shutil.rmtree(scratch)


if __name__ == "__main__":
    main()
