"""`server.properties`: every mistake is named by its file and line, and nothing else is refused."""

import pytest

from refimpl.configs import BROKER, ConfigError
from refimpl.edge.server.addresses import Address, advertised_of, listener_of, listeners_of
from refimpl.edge.server.properties import (
    PropertiesError,
    directories_of,
    read_properties,
    setting,
)

FILE = """\
# The broker
broker.id=1
log.dirs : /var/lib/one,\\
           /var/lib/two
! as Java writes comments, too
zookeeper.connect localhost:2181/kafka
num.io.threads=8
listener.name.plaintext.x=1
"""


def test_java_s_syntax_is_read_and_what_has_no_effect_is_warned_of_once() -> None:
    found = read_properties(FILE + "num.io.threads=9\n", "server.properties")
    assert found.values == {
        "broker.id": "1",
        "log.dirs": "/var/lib/one,/var/lib/two",
        "zookeeper.connect": "localhost:2181/kafka",
        "num.io.threads": "9",
        "listener.name.plaintext.x": "1",
    }
    assert [str(one) for one in found.warnings] == [
        "server.properties:9: num.io.threads is not supported and has no effect",
        "server.properties:8: listener.name.plaintext.x is not supported and has no effect",
    ]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (
            "num.partitions=two",
            "Invalid value two for configuration num.partitions: Not a number of type INT",
        ),
        (
            "num.partitions",
            "Invalid value  for configuration num.partitions: Not a number of type INT",
        ),
        ("a=\\u00g0", "\\u00g0 is not an escape: \\u and four hexadecimal digits are expected"),
    ],
)
def test_a_mistake_is_named_by_its_line(line: str, reason: str) -> None:
    with pytest.raises(PropertiesError) as refused:
        read_properties(FILE + line + "\n", "server.properties")
    assert str(refused.value) == f"server.properties:9: {reason}"


def test_all_mistakes_are_named_at_once() -> None:
    with pytest.raises(PropertiesError) as refused:
        read_properties("num.io.threads=x\nnum.partitions=0\n", "f")
    assert [one.line for one in refused.value.problems] == [1, 2]


def test_a_setting_of_the_command_line() -> None:
    assert setting("num.partitions = 3") == ("num.partitions", "3")
    for wrong in ("num.partitions", "=3", "num.partitions=0", "num.partition=3"):
        with pytest.raises(ConfigError):
            setting(wrong)


def test_where_the_file_says_to_listen_and_to_keep_logs() -> None:
    assert listener_of({}) is None
    assert listener_of({"listeners": "PLAINTEXT://localhost:9093"}) == ("localhost", 9093)
    assert listener_of({"listeners": "PLAINTEXT://:9093"}) == ("", 9093)
    assert listener_of({"listeners": "PLAINTEXT://[::1]:9093"}) == ("::1", 9093)
    for wrong, why in (
        ("PLAINTEXT://a", "NAME://HOST:PORT"),
        ("PLAINTEXT://a:99999", "NAME://HOST:PORT"),
        ("PLAINTEXT://a:1,plaintext://b:2", "different name"),
        ("PLAINTEXT://a:1,PLAINTEXT_2://b:1", "different port"),
        ("INSIDE://a:1", "listener.security.protocol.map has no protocol for INSIDE"),
    ):
        with pytest.raises(ConfigError, match=why):
            listener_of({"listeners": wrong})
    assert advertised_of({"listeners": "PLAINTEXT://localhost:9093"}) is None
    assert advertised_of({"advertised.listeners": "PLAINTEXT://proxy:1"}) == ("proxy", 1)
    assert advertised_of({"advertised.listeners": "PLAINTEXT://:9093"}) == ("", 9093)
    for wrong in ("SSL://a", "SSL://a:9093", "PLAINTEXT://0.0.0.0:9093"):
        with pytest.raises(ConfigError, match=r"advertised\.listeners"):
            advertised_of({"advertised.listeners": wrong})
    assert directories_of({"log.dir": "/a", "log.dirs": "/b,/c"}) == ("/b", "/c")
    assert directories_of({"log.dir": "/a"}) == ("/a",)
    assert directories_of({}) == ()


def test_the_listener_of_a_controller_is_not_one_for_clients() -> None:
    values = {
        "listeners": "INSIDE://:9092,CONTROLLER://:9093,OUTSIDE://:9094",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT,CONTROLLER:SSL",
    }
    assert listeners_of(values) == [Address("INSIDE", "", 9092), Address("OUTSIDE", "", 9094)]
    with pytest.raises(ConfigError, match="no listener for clients"):
        listeners_of({**values, "controller.listener.names": "CONTROLLER,INSIDE,OUTSIDE"})


def test_a_name_that_nobody_knows_is_warned_of_and_left_out() -> None:
    found = read_properties("num.partitions=2\nlog.segment.bytez=1\nconfluent.x=1\n", "f")
    assert found.values == {"num.partitions": "2"}
    assert [str(one) for one in found.warnings] == [
        "f:2: log.segment.bytez: unknown setting, which has no effect; did you mean "
        "log.segment.bytes?",
        "f:3: confluent.x: unknown setting, which has no effect",
    ]


def test_two_names_of_a_broker_agree() -> None:
    assert read_properties("node.id=3\nbroker.id=3\n", "f").values["node.id"] == "3"
    with pytest.raises(PropertiesError, match=r"f:2: broker\.id=4, but node\.id=3 in line 1"):
        read_properties("node.id=3\nbroker.id=4\n", "f")
    with pytest.raises(PropertiesError, match=r"f:1: process\.roles=controller"):
        read_properties("process.roles=controller\n", "f")


def test_every_setting_that_is_supported_is_described_in_a_sentence() -> None:
    assert all(one.summary.endswith(".") for one in BROKER.values() if one.supported)
