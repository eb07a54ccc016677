"""Map work over the pieces: in processes of this machine, or in the workers of a Spark cluster."""

import os
import pickle
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context, parent_process
from threading import Thread
from typing import TYPE_CHECKING, Any, cast

from traces.ingest.whole import Map
from traces.model.arrow import pa

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ANSWERS = pa.schema([("number", pa.int64()), ("answer", pa.binary())])


@contextmanager
def processes(count: int | None = None) -> Generator[Map]:
    """Work in so many processes at a time; by default in one for each core.

    They are started anew and share nothing. A single piece is read right here.
    """
    count = count or os.cpu_count() or 1
    pools: list[ProcessPoolExecutor] = []

    def over(work: Callable[[Any], Any], items: Iterable[Any]) -> Iterable[Any]:
        several = list(items)
        if len(several) < 2 or count < 2:
            return map(work, several)
        if not pools:
            spawn = get_context("spawn")
            pools.append(ProcessPoolExecutor(count, spawn, initializer=_end_with_parent))
        return pools[0].map(work, several)

    try:
        yield over
    except BaseException:
        for pool in pools:
            pool.shutdown(wait=False, cancel_futures=True)
        raise
    finally:
        for pool in pools:
            pool.shutdown()


def _end_with_parent() -> None:
    """A worker whose parent was killed would wait for work that nobody gives it, for ever."""
    if (parent := parent_process()) is not None:
        Thread(target=_wait_for, args=(parent,), daemon=True).start()


def _wait_for(parent: Any) -> None:
    parent.join()
    os._exit(1)


def in_spark(spark: "SparkSession") -> Map:
    """Work in tasks of a Spark session, one for each item.

    The folders must be where all workers see them. The rows never come near Spark: a task reads
    its piece, writes its file, and answers with what is small.
    """

    def over(work: Callable[[Any], Any], items: Iterable[Any]) -> Iterable[Any]:
        several = [pickle.dumps(item) for item in items]
        if not several:
            return []

        def run(batches: Iterable[Any]) -> Iterator[Any]:
            for batch in batches:
                for number in cast("list[int]", batch.column(0).to_pylist()):
                    answer = pickle.dumps(work(pickle.loads(several[number])))
                    yield pa.record_batch([[number], [answer]], schema=_ANSWERS)

        numbers = cast("Any", spark.range(0, len(several), 1, len(several)))
        found = numbers.mapInArrow(run, "number bigint, answer binary").collect()
        answers = {row["number"]: pickle.loads(row["answer"]) for row in found}
        return [answers[number] for number in range(len(several))]

    return over
