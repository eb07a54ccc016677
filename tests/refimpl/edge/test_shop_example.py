"""examples/shop: its tests pass, and each of its bugs fails the test that is to find it."""

import re
import shutil
from importlib import import_module
from pathlib import Path
from warnings import catch_warnings, simplefilter

import pytest

# A run inside of this process forgets what it has imported, and C's modules are loaded once.
with catch_warnings():
    simplefilter("ignore")  # kafka-python's
    for _name in (
        *("confluent_kafka", "confluent_kafka.admin", "kafka", "aiokafka"),
        *("refimpl.edge.testing.kafka", "traces.api", "traces.testing", "traces.record.final_scan"),
    ):
        import_module(_name)

pytest_plugins = ["pytester"]

SHOP = Path(__file__).parents[3] / "examples" / "shop"
DIES = "test_a_worker_that_dies_leaves_its_order_to_the_next_one"
#: The test that finds a bug, and what it says
FOUND = {
    "commit-first": (DIES, "G8 violated: what is committed was processed"),
    "commit-seldom": ("test_a_rebalance_repeats_nothing", "{'order 4': 2} != {'order 4': 1}"),
    "not-idempotent": (
        "test_an_order_whose_acknowledgement_is_lost_is_stored_once",
        "assert ['order 1', 'order 1'] == ['order 1']",
    ),
    "zombie": (
        "test_a_worker_that_hangs_repeats_no_more_than_the_order_in_hand",
        "{'order 6': 2} != {'order 6': 1}",
    ),
}


@pytest.fixture
def shop(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A copy of the example, as somebody has who has nothing else."""
    shutil.copytree(SHOP, pytester.path, dirs_exist_ok=True)
    return pytester


def test_its_tests_pass(shop: pytest.Pytester) -> None:
    result = shop.runpytest_inprocess("-p", "no:cacheprovider")
    result.assert_outcomes(passed=len(_tests()))


@pytest.mark.parametrize("bug", FOUND)
def test_a_bug_is_found(shop: pytest.Pytester, bug: str) -> None:
    test, says = FOUND[bug]
    result = shop.runpytest_inprocess("-p", "no:cacheprovider", "-k", test, "--bug", bug)
    outcomes = result.parseoutcomes()
    assert outcomes.get("failed", 0) + outcomes.get("errors", 0) == 1
    assert says in result.stdout.str()


def test_every_bug_has_its_test() -> None:
    bugs = re.findall(r'^    "([\w-]+)": \w+,$', (SHOP / "bugs.py").read_text(), re.MULTILINE)
    assert sorted(bugs) == sorted(FOUND)
    assert {test for test, _ in FOUND.values()} <= set(_tests())


def _tests() -> list[str]:
    return re.findall(r"^def (test_\w+)", (SHOP / "test_shop.py").read_text(), re.MULTILINE)
