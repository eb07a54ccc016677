"""Fixtures of all tests: Hypothesis' budgets, and one lean Spark session."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.internal.conjecture.providers import HypothesisProvider
from hypothesis.internal.constants_ast import Constants

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# `test` draws the same examples every time, on every machine, so that a newcomer's first run is
# green and a red one is a regression. `soak` explores on fresh seeds with thousands of examples:
# some of Kafka's old bugs hide from a hundred. What it finds becomes an `@example` beside the fix.
# `mutants` is `test` for `highwater mutants --auto`, which only wants to know whether one fails.
settings.register_profile("test", deadline=None, print_blob=True, derandomize=True, database=None)
settings.register_profile(
    "mutants",
    parent=settings.get_profile("test"),
    phases=[Phase.explicit, Phase.generate],
)
settings.register_profile(
    "soak",
    deadline=None,
    print_blob=True,
    derandomize=False,
    max_examples=3_000,
    stateful_step_count=80,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "test"))
if settings().derandomize:
    # One example in twenty is a constant of the modules that happen to be loaded, and so depends on
    # what else a worker was given to run. No setting turns that off.
    HypothesisProvider._local_constants = Constants()  # pyright: ignore


#: The tests that `make test` leaves to `make test-slow`.
_SLOW = frozenset((Path(__file__).parent / "slow.txt").read_text(encoding="utf-8").splitlines())


@pytest.hookimpl(tryfirst=True)  # xdist, which is asked before a conftest, looks for the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the slow tests, and those that use Spark; these run in one process: one session."""
    for item in items:
        if isinstance(item, pytest.Function) and "spark" in item.fixturenames:
            item.add_marker(pytest.mark.spark)
        if item.get_closest_marker("spark"):
            item.add_marker(pytest.mark.xdist_group("spark"))
        if item.get_closest_marker("spark") or item.nodeid.partition("[")[0] in _SLOW:
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def spark() -> Iterator["SparkSession"]:
    """One session for the whole run: starting it costs more than all that the tests do with it."""
    from traces.engines.session import session

    with session(memory="1g") as spark:
        yield spark
