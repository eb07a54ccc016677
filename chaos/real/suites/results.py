"""The outcome of each test of each suite on each system, kept in a file."""

from pathlib import Path

import orjson

from chaos.real.suites.catalogue import REASONS
from chaos.real.suites.suite import Results

FILE = Path(__file__).with_name("results.json")


def everything() -> dict[str, dict[str, Results]]:
    """By suite and system."""
    return orjson.loads(FILE.read_bytes()) if FILE.exists() else {}


def compared() -> list[str]:
    """The suites that were run on both systems."""
    results = everything().items()
    return sorted(name for name, systems in results if {"kafka", "ours"} <= systems.keys())


def kept(suite: str) -> dict[str, Results]:
    """By system: `kafka` and `ours`."""
    return everything()[suite]


def keep(results: dict[str, dict[str, Results]]) -> None:
    """Write them anew."""
    FILE.write_bytes(orjson.dumps(results, option=orjson.OPT_INDENT_2) + b"\n")


def unexplained(suite: str, theirs: Results, ours: Results) -> list[str]:
    """The tests that pass on Kafka, and here neither pass nor have a reason not to."""
    return [
        test
        for test, outcome in sorted(theirs.items())
        if outcome == "passed"
        and ours.get(test) != "passed"
        and not any(one.covers(suite, test) for one in REASONS)
    ]
