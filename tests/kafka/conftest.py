"""Everything in this folder asks real Kafka, so it runs only where it is asked for."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from chaos.real.kafka.judge import Judge, NoMavenError, jars

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.kafka)


@pytest.fixture(scope="session")
def judge() -> Iterator[Judge]:
    """Kafka's command line tools; without Maven the suite fails, and says why."""
    try:
        jars()
    except NoMavenError as missing:
        pytest.fail(str(missing), pytrace=False)
    tools = Judge.start()
    yield tools
    tools.stop()
