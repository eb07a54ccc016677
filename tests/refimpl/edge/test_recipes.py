"""The recipes of docs/testing.md do what they say."""

import doctest
import re
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

PAGE = Path(__file__).parents[3] / "docs" / "testing.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.M | re.S)
TESTS = [block for block in BLOCKS if "def test_" in block]
#: What a plugin such as pytest-asyncio does
AWAITS = """
import asyncio, inspect, pytest

@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    if inspect.iscoroutinefunction(pyfuncitem.function):
        names = pyfuncitem._fixtureinfo.argnames
        asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
        return True
"""


def test_every_recipe_does_what_it_says() -> None:
    ran = doctest.testfile(
        str(PAGE), module_relative=False, optionflags=doctest.REPORT_NDIFF, encoding="utf-8"
    )
    assert ran.attempted >= 12
    assert ran.failed == 0


@pytest.mark.parametrize(
    "recipe", TESTS, ids=lambda recipe: re.findall(r"def (test_\w+)", recipe)[0]
)
def test_every_test_of_the_page_passes(pytester: pytest.Pytester, recipe: str) -> None:
    pytester.makeconftest(AWAITS)
    pytester.makepyfile(test_shop=recipe)
    result = pytester.runpytest_inprocess("-p", "no:cacheprovider")
    if "and now the charge fails" in recipe:
        result.assert_outcomes(passed=1, errors=1)
        result.stdout.fnmatch_lines("G8 violated: what is committed was processed")
    else:
        result.assert_outcomes(passed=1)
    if "acks=1" in recipe:
        (told,) = re.findall(r"^L4 allowed: .*", PAGE.read_text(encoding="utf-8"), re.M)
        result.stdout.fnmatch_lines([f"  {told}"])


def test_the_page_has_all_the_recipes() -> None:
    assert len(TESTS) == 9


def test_the_class_for_unittest_is_one(pytester: pytest.Pytester) -> None:
    (block,) = [block for block in BLOCKS if "unittest" in block]
    pytester.makepyfile(
        block
        + "    def test(self):\n        assert len(self.kafka.hosts) == 3 and self.kafka_trace\n"
    )
    pytester.runpytest_inprocess("-p", "no:cacheprovider").assert_outcomes(passed=1)
