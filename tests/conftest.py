"""What all tests share: Hypothesis' budgets, and one lean Spark session."""

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# `dev` looks elsewhere each time; `ci` finds the same thing twice; `soak` is for nights: some of
# Kafka's old bugs hide from a hundred examples and fall to thousands. Each says whether it is
# random, because Hypothesis' own default is not where the environment names a CI.
settings.register_profile("dev", deadline=None, print_blob=True, derandomize=False)
settings.register_profile("ci", deadline=None, print_blob=True, derandomize=True, database=None)
settings.register_profile(
    "soak",
    deadline=None,
    print_blob=True,
    derandomize=False,
    max_examples=3_000,
    stateful_step_count=80,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci" if "CI" in os.environ else "dev"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Who asks for Spark is marked so, and all of them run in one process: one session for all."""
    for item in items:
        if isinstance(item, pytest.Function) and "spark" in item.fixturenames:
            item.add_marker(pytest.mark.spark)
        if item.get_closest_marker("spark"):
            item.add_marker(pytest.mark.xdist_group("spark"))


@pytest.fixture(scope="session")
def spark() -> Iterator["SparkSession"]:
    """One session for the whole run: starting it costs more than all that the tests do with it."""
    from traces.session import session

    with session(memory="1g") as spark:
        yield spark
