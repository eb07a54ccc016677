"""Cost of judging while the same rows are in more and more partitions, in CPU-seconds.

Usage: python -m bench.bench_partitions [--rows 1e6] [--partitions 1e2,1e4,1e5] [--apart]
       [--mode exact|quick]

Every record is sent once and read once, by a final scan, and nothing is broken. With --apart each
partition is judged by itself, as those are that are larger or have something rare in them.
"""

import argparse
from typing import Any

import numpy as np

from bench.measuring import conditions, spent
from traces.engines import local, packs
from traces.engines.precheck import alone, quick
from traces.model.arrow import pa
from traces.model.configured import Known, context
from traces.model.meta import Meta, Producer, Topic
from traces.model.names import Names
from traces.model.schema import COLUMNS, NONE, OPS, Flag, Op

PRODUCERS = 16


def table(rows: int, partitions: int) -> Any:
    """Sends and a final scan of so many partitions, in the order of the clients."""
    each = max(1, rows // partitions // 2)
    offset, partition = (one.ravel() for one in np.mgrid[:each, :partitions])
    messages = each * partitions
    columns = {name: np.full(2 * messages, NONE) for name in COLUMNS}
    for name in ("run", "topic", "idx", "clock", "flags", "outcome", "txn_state", "isolation"):
        columns[name][:] = 0
    columns["partition"], columns["offset"] = np.tile(partition, 2), np.tile(offset, 2)
    columns["id"] = np.tile(np.arange(messages), 2)
    columns["op"] = np.repeat([int(Op.SEND), int(Op.SCAN)], messages)
    columns["process"] = np.r_[partition % PRODUCERS, np.full(messages, PRODUCERS)]
    columns["seq"] = np.arange(2 * messages)
    columns["inv"], columns["ret"] = columns["seq"] * 10, columns["seq"] * 10 + 5
    columns["flags"][messages:] = Flag.FINAL
    return pa.table([pa.array(columns[n], kind) for n, kind in COLUMNS.items()], OPS)


def settings() -> Any:
    """The safest configuration."""
    names = Names.seeded({"processes": [f"p{n}#0" for n in range(PRODUCERS)], "topics": ["t"]})
    safe = Producer(acks="all", idempotence=True, max_in_flight=5, retries=10)
    topic = Topic(min_insync_replicas=2, cleanup_policy="delete", unclean_leader_election=False)
    producers = {f"p{n}": safe for n in range(PRODUCERS)}
    return context(
        Meta(complete=True, topics={"t": topic}, producers=producers),
        names,
        (),
        Known(senders=True, readers=True),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=float, default=1e6)
    parser.add_argument("--partitions", default="1e2,1e4,1e5")
    parser.add_argument("--apart", action="store_true")
    parser.add_argument("--mode", choices=("exact", "quick"), default="exact")
    given = parser.parse_args()
    if given.apart:
        packs.FEWEST, quick.FEW_RECORDS = 1 << 60, 0
    find = alone.find if given.mode == "quick" else local.find
    print(f"{conditions()}; partitions, CPU-s, ms per partition, looked at by L4")
    for partitions in (int(float(n)) for n in given.partitions.split(",")):
        ops = table(int(given.rows), partitions)
        found, cost = spent(lambda ops=ops: find(ops, {0: settings()}))
        assert not any(row["found"] for row in found)
        seen = sum(row["seen"] for row in found if row["check"] == "L4")
        print(f"{partitions:>9,}{cost.cpu:8.2f}{cost.cpu / partitions * 1e3:9.3f}{seen:>12,}")


if __name__ == "__main__":
    main()
