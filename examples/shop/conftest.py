"""What the tests of the shop share: the shop, its workers and the bank."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
from bugs import BUGS
from shop import Billing, Shop

#: Clients of a test hear in no time of a leader that is new, or of a rebalance
PROMPT = {"topic.metadata.refresh.fast.interval.ms": 20, "retry.backoff.ms": 20, "log_level": 0}
MEMBER = {"heartbeat.interval.ms": 100, "log_level": 0}


def pytest_addoption(parser: pytest.Parser) -> None:
    """The bug that is put in, and how often each test runs."""
    parser.addoption("--bug", choices=sorted(BUGS), help="Run the tests with a bug in the shop.")
    parser.addoption("--count", type=int, default=1, help="Run each test so often.")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Each test as often as asked for."""
    count = metafunc.config.getoption("--count")
    if count > 1:
        metafunc.fixturenames.append("again")
        metafunc.parametrize("again", range(count))


class Bank:
    """Counts what it charged. `before` is called with each order, and may refuse or hang."""

    def __init__(self) -> None:
        self.charged: Counter[str] = Counter()
        self.before: Callable[[str], None] = lambda order: None

    def charge(self, order: str) -> None:
        """Charge for an order."""
        self.before(order)
        self.charged[order] += 1


@pytest.fixture
def bank() -> Bank:
    """A bank that answers."""
    return Bank()


@pytest.fixture
def shop(kafka: Any, request: pytest.FixtureRequest) -> Callable[..., Shop]:
    """Makes shops, with the bug where it is theirs."""
    kind = _kind(Shop, request.config)
    return lambda **more: kind(kafka.bootstrap_servers, **PROMPT, **more)


@pytest.fixture
def billing(
    kafka: Any, bank: Bank, request: pytest.FixtureRequest
) -> Iterator[Callable[..., Billing]]:
    """Makes workers, with the bug where it is theirs; closes them."""
    made: list[Billing] = []
    kind = _kind(Billing, request.config)

    def make(**more: Any) -> Billing:
        def charge(order: Any) -> None:
            bank.charge(order.value().decode())
            if hasattr(worker.consumer, "processed"):  # it is recorded
                worker.consumer.processed(order)

        worker = kind(kafka.bootstrap_servers, charge, **MEMBER, **more)
        made.append(worker)
        return worker

    yield make
    for worker in made:
        with suppress(RuntimeError):  # it was closed
            worker.close()


def _kind(right: Any, config: pytest.Config) -> Any:
    bug = BUGS.get(config.getoption("--bug"))
    return bug if bug is not None and issubclass(bug, right) else right
