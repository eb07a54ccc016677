"""The pytest plugin: `kafka_trace` records the clients of a test and judges what they saw.

It is beside the plugin that has the brokers. Like that one it imports nothing but pytest when it
is loaded.
"""

import re
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

if TYPE_CHECKING:
    from traces.testing import Trace

MARKER = "kafka_allow(*checks): findings of these checks do not fail the test"
HOWS = ("judge", "strict", "record", "off")
#: How the verdict of a test is called among the properties of JUnit's XML
VERDICT, SUMMARY, VIOLATED = "kafka_verdict", "kafka_promises", "kafka_violated"
ALLOWED = "kafka_allowed"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options and ini keys; an option comes before the ini file."""
    group = parser.getgroup("kafka", "Kafka: brokers in the process of the tests")
    group.addoption(
        "--kafka-trace",
        choices=HOWS,
        help="Whether recorded clients are judged, whatever settings permit, or only recorded.",
    )
    group.addoption(
        "--kafka-traces", metavar="DIR", help="Keep the traces here, a folder for each test."
    )
    parser.addini("kafka_trace", "judge, strict, record or off", default="judge")
    parser.addini("kafka_traces", "the folder in which traces are kept", default="")
    parser.addini("kafka_allow", "checks whose findings fail no test", type="args")


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known."""
    config.addinivalue_line("markers", MARKER)


@pytest.fixture
def kafka_trace(request: pytest.FixtureRequest) -> "Generator[Trace]":
    """Records clients of `kafka`, or of `kafka_session` where the test has no `kafka`.

    It is judged when the test is over: a broken promise fails it, and so does a trace of which
    nothing could be checked.
    """
    from traces.testing import Trace

    node: pytest.Item = cast("Any", request).node
    shared = "kafka_session" in request.fixturenames and "kafka" not in request.fixturenames
    cluster = request.getfixturevalue("kafka_session" if shared else "kafka")
    trace = Trace(cluster, _folder(request, node), _allowed(node), _how(node.config))
    yield trace
    reported = trace.finish()
    if trace.result is not None:
        said = (VERDICT, trace.result.verdict), (SUMMARY, trace.summary)
        node.user_properties += [*said, (VIOLATED, " ".join(trace.broken))]
        node.user_properties.append((ALLOWED, "\n".join(trace.allowed)))
    if reported is None:
        return
    if _failed(node):
        node.add_report_section("teardown", "kafka trace", reported)
    else:
        pytest.fail(reported, pytrace=False)


def _folder(request: pytest.FixtureRequest, node: pytest.Item) -> Path:
    """The trace's folder: among the test's temporary files, or below `--kafka-traces`."""
    kept = node.config.getoption("--kafka-traces") or node.config.getini("kafka_traces")
    if not kept:
        return request.getfixturevalue("tmp_path") / "kafka-trace"
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", node.nodeid).strip("-")
    folder = node.config.invocation_params.dir / str(kept) / name
    if folder.exists():
        from shutil import rmtree

        rmtree(folder)  # of an earlier run: a trace is of one
    return folder


def _allowed(node: pytest.Item) -> set[str]:
    marked = {str(name) for mark in node.iter_markers("kafka_allow") for name in mark.args}
    return {*marked, *cast("list[str]", node.config.getini("kafka_allow"))}


def _how(config: pytest.Config) -> Any:
    how = config.getoption("--kafka-trace") or config.getini("kafka_trace")
    if how not in HOWS:
        pytest.fail(f"kafka_trace: expected {', '.join(HOWS)}; found {how!r}", pytrace=False)
    return how


def _failed(node: pytest.Item) -> bool:
    """True if the test itself did not pass: then it has a failure already."""
    return not node.stash.get(_PASSED, False)


_PASSED = pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Remember whether a test passed before its trace is judged."""
    report = yield
    if report.when == "call":
        item.stash[_PASSED] = report.passed
    return report


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """The findings that settings allow; with -v, a line for each trace that was judged."""
    lines: list[str] = []
    for reports in terminalreporter.stats.values():
        for one in reports:
            reported: dict[str, str] = dict(getattr(one, "user_properties", ()))
            if SUMMARY not in reported or getattr(one, "when", None) != "teardown":
                continue
            if reported[ALLOWED] or terminalreporter.verbosity > 0:
                lines.append(f"{one.nodeid}: {reported[SUMMARY]}")
                lines += [f"  {line}" for line in reported[ALLOWED].splitlines()]
    if lines:
        terminalreporter.section("kafka traces")
        for line in lines:
            terminalreporter.write_line(line)
