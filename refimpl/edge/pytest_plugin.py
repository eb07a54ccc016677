"""The pytest plugin: a cluster of real brokers for each test, `kafka`.

Every pytest run of an environment loads this module, so it imports nothing but pytest; the rest
comes with the first test that asks for a cluster.
"""

import os
from collections.abc import Callable, Generator, Mapping
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias, cast
from uuid import uuid4

import pytest

if TYPE_CHECKING:
    from refimpl.edge.testing.kafka import Kafka
    from refimpl.edge.testing.real_kafka import RealKafka

    Cluster: TypeAlias = Kafka | RealKafka

MARKER = "kafka(brokers, configs, topics, seed, env, **settings): the cluster of this test"
#: Of a test: its clusters, and whether it passed; of a session: the cluster that is shared
_CLUSTERS = pytest.StashKey[list[Any]]()
_PASSED = pytest.StashKey[bool]()
_SHARED = pytest.StashKey[Any]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options and ini keys; a marker comes before an option, and that before the ini file."""
    group = parser.getgroup("kafka", "Kafka: brokers in the process of the tests")
    group.addoption("--kafka-brokers", type=int, metavar="N", help="Brokers of each cluster.")
    group.addoption(
        "--kafka-config",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="A setting of server.properties for each cluster; more than once for several.",
    )
    group.addoption("--kafka-seed", type=int, metavar="N", help="The seed of each cluster.")
    group.addoption(
        "--kafka-env", metavar="NAME", help="The environment variable that has the address."
    )
    group.addoption(
        "--kafka-bootstrap",
        metavar="HOST:PORT",
        help="Run the tests on this Kafka; those that need a fault are skipped.",
    )
    parser.addini("kafka_brokers", "brokers of each cluster", default="1")
    parser.addini("kafka_configs", "settings of server.properties, NAME=VALUE", type="linelist")
    parser.addini("kafka_env", "the environment variable that has the address", default="")


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known."""
    config.addinivalue_line("markers", MARKER)


# Fixtures


@pytest.fixture
def kafka(request: pytest.FixtureRequest) -> "Generator[Cluster]":
    """A cluster of this test's own: a `Kafka`, with all methods of `BlockingCluster`."""
    with _started(_item(request), _settings(_item(request))) as cluster:
        yield cluster


@pytest.fixture
def kafka_topic(request: pytest.FixtureRequest, kafka: "Cluster") -> str:
    """A topic on `kafka` that is named after the test."""
    return kafka.create_topic(_topic_name(_item(request), kafka))


@pytest.fixture
def kafka_factory(request: pytest.FixtureRequest) -> "Generator[Callable[..., Cluster]]":
    """Makes more clusters for one test: `other = kafka_factory(brokers=3)`."""
    with ExitStack() as clusters:

        def make(**settings: Any) -> "Cluster":
            """Start one more. With --kafka-bootstrap there is one, and the test is skipped."""
            if request.config.getoption("--kafka-bootstrap"):
                pytest.skip("kafka_factory: with --kafka-bootstrap there is one cluster")
            given = {**_settings(_item(request), {}), **settings}
            return clusters.enter_context(_started(_item(request), {**given, "env": ""}))

        yield make


@pytest.fixture(scope="session")
def kafka_session(request: pytest.FixtureRequest) -> "Generator[Cluster]":
    """One cluster for all tests, for an application that is started once.

    A fault lasts until the end of its test. Topics last: give each test its own.
    """
    config = request.config
    with _in_environment(config, _of_config(config)) as cluster:
        config.stash[_SHARED] = cluster
        try:
            yield cluster
        finally:
            del config.stash[_SHARED]


def _item(request: pytest.FixtureRequest) -> pytest.Item:
    return cast("Any", request).node


# Settings


def _settings(node: pytest.Item, marked: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """By the markers of a test, the closest first, then as the run says."""
    settings = _of_config(node.config)
    if marked is None:
        marked = {}
        for marker in node.iter_markers("kafka"):
            if marker.args:
                _refuse(f"kafka marker: expected names such as brokers=3, found {marker.args[0]!r}")
            marked = {**marker.kwargs, **marked}
    configs = {**settings["configs"], **marked.get("configs", {})}
    settings["marked"] = frozenset(marked)
    return {**settings, **marked, "configs": configs}


def _of_config(config: pytest.Config) -> dict[str, Any]:
    option: Callable[[str], Any] = config.getoption
    ini: Callable[[str], Any] = config.getini
    given = option("--kafka-brokers")
    brokers = ini("kafka_brokers") if given is None else given
    lines = [*ini("kafka_configs"), *cast("list[str]", option("--kafka-config"))]
    return {
        "brokers": _number("kafka_brokers", brokers),
        "configs": dict(map(_pair, lines)),
        "seed": option("--kafka-seed"),
        "env": option("--kafka-env") or ini("kafka_env"),
    }


def _number(name: str, text: Any) -> int:
    try:
        return int(text)
    except ValueError:
        _refuse(f"{name}: expected a number, found {text!r}")


def _pair(line: str) -> tuple[str, str]:
    name, equals, value = line.partition("=")
    if not equals:
        _refuse(f"kafka_configs: expected NAME=VALUE, found {line!r}")
    return name.strip(), value.strip()


def _refuse(why: str) -> NoReturn:
    pytest.fail(why, pytrace=False)


# A cluster from its start to its end


@contextmanager
def _started(node: pytest.Item, settings: dict[str, Any]) -> "Generator[Cluster]":
    """A cluster that is this test's; what it waited for in vain fails the test at the end."""
    with _in_environment(node.config, settings) as cluster:
        node.stash.setdefault(_CLUSTERS, []).append(cluster)
        if cluster.seed is not None:
            node.user_properties.append(("kafka_seed", str(cluster.seed)))
        yield cluster
        unmet = cluster.forget()
    _tell(node, unmet)


def _tell(node: pytest.Item, unmet: list[str]) -> None:
    """Fail a test that passed; of another one it may be why it failed."""
    if unmet and node.stash.get(_PASSED, False):
        text = "\n".join(f"kafka.{one}" for one in unmet)
        hint = (
            "" if all(one.startswith("aio.") for one in unmet) else "\n(required=False allows it)"
        )
        pytest.fail(text + hint, pytrace=False)
    if unmet:
        node.add_report_section("teardown", "kafka", "\n".join(unmet))


@contextmanager
def _in_environment(config: pytest.Config, settings: dict[str, Any]) -> "Generator[Cluster]":
    """A cluster whose address stands in the environment."""
    more = dict(settings)
    name, marked = more.pop("env"), more.pop("marked", frozenset[str]())
    address = config.getoption("--kafka-bootstrap")
    with _real(address, more, marked) if address else _own(more) as cluster:
        before = os.environ.get(name) if name else None
        if name:
            os.environ[name] = cluster.bootstrap_servers
        try:
            yield cluster
        finally:
            if name and before is None:
                os.environ.pop(name, None)
            elif name and before is not None:
                os.environ[name] = before


def _own(settings: dict[str, Any]) -> "Kafka":
    from attrs import fields_dict

    from refimpl.edge.testing.cluster import Cluster
    from refimpl.edge.testing.kafka import Kafka

    known = {one.name for one in fields_dict(Cluster).values() if one.init} | {"topics"}
    if strange := settings.keys() - known:
        _refuse(
            f"kafka marker: expected {', '.join(sorted(known | {'env'}))}; "
            f"found {', '.join(sorted(strange))}"
        )
    try:
        return Kafka(**settings)
    except ValueError as error:
        _refuse(f"kafka: {error}")


@contextmanager
def _real(address: str, settings: dict[str, Any], marked: frozenset[str]) -> "Generator[RealKafka]":
    """The Kafka at an address, for tests that do not need to say how it is made."""
    from refimpl.edge.testing.real_kafka import RealKafka

    def skip(what: str) -> NoReturn:
        pytest.skip(f"kafka.{what}: not with --kafka-bootstrap, only on brokers of Highwater")

    for what in marked - {"brokers", "topics", "seed", "env"}:
        pytest.skip(f"kafka({what}=…): not with --kafka-bootstrap, only on brokers of Highwater")
    try:
        real = RealKafka(address, skip).connect()
    except Exception as error:
        _refuse(f"--kafka-bootstrap={address}: no Kafka answers there: {error}")
    with real as cluster:
        if cluster.brokers < settings["brokers"]:
            pytest.skip(f"kafka(brokers={settings['brokers']}): {address} has {cluster.brokers}")
        for name, partitions in settings.get("topics", {}).items():
            cluster.create_topic(name, partitions)
        yield cluster


def _topic_name(node: pytest.Item, cluster: "Cluster") -> str:
    kept = "".join(
        one if one.isascii() and (one.isalnum() or one in "._-") else "-" for one in node.name
    )
    return kept[:200] if cluster.seed is not None else f"{kept[:200]}-{uuid4().hex[:8]}"


# What is said of a test


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Say of a test that failed how to make its clusters again."""
    report = yield
    if report.when == "call":
        item.stash[_PASSED] = report.passed
    clusters = item.stash.get(_CLUSTERS, list[Any]())
    if report.failed and clusters:
        seeds = {one.seed for one in clusters} - {None}
        lines = [str(one) for one in clusters]
        if len(seeds) == 1:
            lines.append(f"again: pytest {item.nodeid!r} --kafka-seed={seeds.pop()}")
        report.sections.append(("kafka", "\n".join(lines)))
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None]:
    """End the faults that a test brought on the shared cluster."""
    yield
    shared = item.config.stash.get(_SHARED, None)
    if shared is not None:
        _tell(item, shared.forget())
