"""One run of the recipe, with steps left out, under one fault; and what became of its orders."""

import os
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from attrs import field, frozen

from examples.recipe.application import TOPIC, Shop, Worker
from examples.recipe.faults import FAULTS, Brokers, Play
from examples.recipe.steps import Row, settings_of
from highwater import Trace
from traces.verdicts.sentences import counted

SEED = 1
WORDS = ("lost", "skipped", "repeated", "unavailable")


@frozen
class Outcome:
    """What became of the orders, each word with the orders that it is about."""

    row: tuple[str, ...]
    fault: str
    orders: dict[str, list[str]]
    verdict: str = "not checked"
    #: What `highwater check` found: the check, its verdict, the sentence with the setting
    findings: list[list[str]] = field(factory=list[list[str]])

    @property
    def words(self) -> tuple[str, ...]:
        """Those that are true."""
        return tuple(word for word in WORDS if self.orders.get(word))


def play(row: Row, fault: str, seed: int = SEED) -> Outcome:
    """Run it with real clients on a cluster of its own."""
    settings = settings_of(row)
    with (
        TemporaryDirectory(prefix="highwater-") as folder,
        Brokers(brokers=3, seed=seed) as kafka,
    ):
        kafka.create_topic(TOPIC, **settings.topic)
        trace = Trace(kafka, Path(folder) / "run")
        shop = Shop(kafka, trace, settings)
        worker = Worker(kafka, trace, settings)
        FAULTS[fault](Play(kafka, shop, worker))
        kafka.recover()
        stored: list[str] = []
        if kafka.leader(TOPIC, 0) is None:
            trace.how = "record"  # nobody can read the log, so there is nothing to judge
        else:
            worker.work()
            stored = [str(value, "utf-8") for value in kafka.values(TOPIC) if value is not None]
        trace.finish()
        orders = judged(shop, stored, worker.processed)
        return Outcome(row, fault, orders, *_said(trace))


def judged(shop: Shop, stored: list[str], processed: Counter[str]) -> dict[str, list[str]]:
    """By definition, from what the shop believes, the log holds and the worker did.

    - lost: the shop takes it for stored, and it is not in the log at the end;
    - skipped: it is in the log, and the worker has read to the end and not processed it;
    - repeated: it is in the log or was processed more than once;
    - unavailable: the shop was told that it is not stored, or may not be.
    """
    times = Counter(stored)
    return {
        "lost": sorted(shop.kept - times.keys()),
        "skipped": sorted(times.keys() - processed.keys()),
        "repeated": sorted(
            one for one in times.keys() | processed.keys() if max(times[one], processed[one]) > 1
        ),
        "unavailable": sorted(shop.refused),
    }


def quietly() -> None:
    """librdkafka writes to standard error that brokers have ended, as they are to."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


def _said(trace: Trace) -> tuple[str, list[list[str]]]:
    result: Any = trace.result
    if result is None:
        return "not checked", []
    found = [result[one.check] for one in result.findings]
    return result.verdict, [[one.check, one.verdict, counted(one)] for one in found]
