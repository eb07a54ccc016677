"""`highwater groups` of our own broker."""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from refimpl.edge import BlockingCluster
from refimpl.edge.commands.configs import configs
from refimpl.edge.commands.groups import groups_
from refimpl.edge.commands.topics import topics
from tests.refimpl.edge.asking import refused, rows, told
from tests.refimpl.edge.patience import PATIENCE_S

ck: Any = import_module("confluent_kafka")


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    """A broker with five records in one partition and none in the other; `g` has read two."""
    with BlockingCluster(brokers=1, seed=1) as cluster:
        cluster.create_topic("orders", partitions=2, replicas=1)
        producer = ck.Producer({"bootstrap.servers": cluster.bootstrap})
        for number in range(5):
            producer.produce("orders", str(number), partition=0)
        assert producer.flush(PATIENCE_S) == 0
        conf = {"bootstrap.servers": cluster.bootstrap, "group.id": "g"}
        consumer = ck.Consumer(conf)
        offsets = [ck.TopicPartition("orders", 0, 2), ck.TopicPartition("orders", 1, 0)]
        consumer.commit(offsets=offsets, asynchronous=False)
        consumer.close()
        yield cluster.bootstrap


def test_committed_offsets_and_what_is_left_to_read(bootstrap: str, tmp_path: Path) -> None:
    found = rows(groups_, bootstrap, tmp_path / "j", "--describe", "--group", "g")
    nobody = {"consumer_id": None, "host": None, "client_id": None}
    assert found == [
        {
            **{"group": "g", "topic": "orders", "partition": partition},
            **{"current_offset": offset, "log_end_offset": end, "lag": end - offset, **nobody},
        }
        for partition, offset, end in ((0, 2, 5), (1, 0, 0))
    ]


def test_a_table_has_kafkas_columns_and_dashes(bootstrap: str) -> None:
    lines = told(groups_, bootstrap, "--describe", "--group", "g").splitlines()
    assert lines[0].split() == [
        *("GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG"),
        *("CONSUMER-ID", "HOST", "CLIENT-ID"),
    ]
    assert lines[1].split() == ["g", "orders", "0", "2", "5", "3", "-", "-", "-"]


def test_all_groups_are_listed_with_their_states(bootstrap: str) -> None:
    listed = told(groups_, bootstrap, "--list").splitlines()
    assert ["g", "Classic", "Empty"] in [line.split() for line in listed]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_members_and_states_of_both_protocols(
    bootstrap: str, tmp_path: Path, protocol: str
) -> None:
    conf = {"bootstrap.servers": bootstrap, "group.id": protocol, "group.protocol": protocol}
    member = ck.Consumer({**conf, "client.id": "one"})
    member.subscribe(["orders"])
    while len(member.assignment()) != 2:
        member.poll(0.1)
    of_group = ("--describe", "--group", protocol)
    (found,) = rows(groups_, bootstrap, tmp_path / "j", *of_group, "--members")
    assert (found["client_id"], found["partitions"]) == ("one", 2)
    (state,) = rows(groups_, bootstrap, tmp_path / "j", *of_group, "--state")
    assert state.pop("coordinator").endswith(" (1)")
    assert state.pop("assignment_strategy") in ("range", "uniform")
    assert state == {"group": protocol, "state": "Stable", "members": 1}
    offsets = rows(groups_, bootstrap, tmp_path / "j", *of_group)
    assert [one["consumer_id"] for one in offsets] == [found["consumer_id"]] * 2
    busy = f"group {protocol} is Stable and cannot be"
    assert f"{busy} deleted" in refused(groups_, bootstrap, "--delete", "--group", protocol)
    reset = ("--reset-offsets", "--group", protocol, "--topic", "orders", "--to-latest")
    assert f"{busy} reset" in refused(groups_, bootstrap, *reset, "--execute")
    member.close()


@pytest.mark.parametrize(
    ("scenario", "offsets"),
    [
        (("--to-earliest",), [0, 0]),
        (("--to-latest",), [5, 0]),
        (("--to-current",), [3, 0]),
        (("--to-offset", "4"), [4, 0]),
        (("--shift-by", "-1"), [2, 0]),
        (("--shift-by", "100"), [5, 0]),
        (("--to-datetime", "2001-01-01T00:00:00.000"), [0, 0]),
        (("--to-datetime", "2501-01-01T00:00:00.000"), [5, 0]),
        (("--by-duration", "P1D"), [0, 0]),
        (("--by-duration", "PT0S"), [5, 0]),
    ],
)
def test_offsets_are_reset_only_if_executed(
    bootstrap: str, tmp_path: Path, scenario: tuple[str, ...], offsets: list[int]
) -> None:
    def current() -> list[int]:
        found = rows(groups_, bootstrap, tmp_path / "j", "--describe", "--group", "moved")
        return [one["current_offset"] for one in found]

    reset = ("--reset-offsets", "--group", "moved", "--topic", "orders")
    told(groups_, bootstrap, *reset, "--to-offset", "3", "--execute")
    dry = rows(groups_, bootstrap, tmp_path / "j", *reset, *scenario)
    assert [one["new_offset"] for one in dry] == offsets
    assert current() == [3, 0]
    told(groups_, bootstrap, *reset, *scenario, "--execute")
    assert current() == offsets


def test_offsets_and_groups_are_deleted(bootstrap: str, tmp_path: Path) -> None:
    of_group = ("--group", "gone")
    reset = ("--reset-offsets", *of_group, "--topic", "orders", "--to-earliest")
    told(groups_, bootstrap, *reset, "--execute")
    told(groups_, bootstrap, "--delete-offsets", *of_group, "--topic", "orders:1")
    left = rows(groups_, bootstrap, tmp_path / "j", "--describe", *of_group)
    assert [one["partition"] for one in left] == [0]
    told(groups_, bootstrap, "--delete", *of_group)
    assert "no group gone" in refused(groups_, bootstrap, "--describe", *of_group)


def test_what_is_done_to_groups_is_recorded(bootstrap: str, tmp_path: Path) -> None:
    run = tmp_path / "run"
    of_group = ("--group", "recorded", "--record", str(run))
    of_topic = (*of_group, "--topic", "orders")
    told(groups_, bootstrap, "--reset-offsets", *of_topic, "--to-offset", "3", "--execute")
    told(groups_, bootstrap, "--delete-offsets", *of_group, "--topic", "orders:1")
    told(groups_, bootstrap, "--delete", *of_group)
    files = sorted(run.glob("*.ndjson"))
    found = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    changed = [line for line in found if line["op"] != "close"]
    assert [(line["op"], line["outcome"], line["group"]) for line in changed] == [
        ("alter_offsets", "ok", "recorded"),
        ("delete_offsets", "ok", "recorded"),
        ("delete_groups", "ok", "recorded"),
    ]
    assert changed[0]["offsets"] == {"orders:0": 3, "orders:1": 0}
    assert changed[1]["partitions"] == ["orders:1"]


RESET = ("--reset-offsets", "--group", "g")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--describe", "--group", "nobody"), "no group nobody"),
        (("--delete", "--group", "nobody"), "no group nobody"),
        ((), "--list, --describe"),
        (("--list", "--group", "g"), "--group does not go with --list"),
        (("--list", "--state"), "go with --describe"),
        (("--list", "--record", "run"), "--record goes with --reset-offsets --execute"),
        ((*RESET, "--all-topics", "--to-latest", "--record", "run"), "--record goes with"),
        (("--list", "--to-latest"), "--reset-offsets takes one of"),
        (("--delete",), "say --group or --all-groups"),
        ((*RESET, "--to-latest"), "say --topic or --all-topics"),
        ((*RESET, "--all-topics"), "takes one of --to-earliest"),
        ((*RESET, "--all-topics", "--to-latest", "--to-earliest"), "takes one of"),
        ((*RESET, "--topic", "nope", "--to-latest"), "topic nope: UNKNOWN_TOPIC_OR_PARTITION"),
        ((*RESET, "--topic", "orders:7", "--to-latest"), "expected TOPIC or TOPIC:0,1"),
        ((*RESET, "--topic", "orders", "--to-datetime", "noon"), "found 'noon'"),
        ((*RESET, "--topic", "orders", "--by-duration", "1d"), "found '1d'"),
        (("--list", "--command-property", "acks"), "'acks' is no KEY=VALUE"),
        (("--list", "--command-property", "no.such=1"), "no.such"),
    ],
)
def test_mistakes_are_told(bootstrap: str, arguments: tuple[str, ...], complaint: str) -> None:
    assert complaint in refused(groups_, bootstrap, *arguments)


def until(condition: Callable[[], bool], members: Sequence[Any]) -> None:
    """Have members of a share group poll until something is so."""
    limit = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < limit
        for member in members:
            member.poll(timeout=0.1)


def test_share_groups_are_shown_and_never_changed(bootstrap: str, tmp_path: Path) -> None:
    def described(*more: str) -> Any:
        return rows(groups_, bootstrap, tmp_path / "j", "--describe", "--group", "s", *more)

    def produce(count: int) -> None:
        for number in range(count):
            producer.produce("work", str(number))
        assert producer.flush(PATIENCE_S) == 0

    told(topics, bootstrap, "--create", "--topic", "work", "--partitions", "1")
    earliest = ("--group", "s", "--add-config", "share.auto.offset.reset=earliest")
    told(configs, bootstrap, "--alter", *earliest)
    conf = {"bootstrap.servers": bootstrap, "group.id": "s"}
    members = [ck.ShareConsumer({**conf, "client.id": name}) for name in ("one", "two")]
    producer = ck.Producer({"bootstrap.servers": bootstrap})
    for member in members:
        member.subscribe(["work"])
        member.poll(timeout=0.1)
    listed = ["s", "Share", "Stable"]
    until(
        lambda: listed in map(str.split, told(groups_, bootstrap, "--list").splitlines()), members
    )
    until(lambda: [one["members"] for one in described()] == [2], members)
    produce(3)
    until(lambda: described()[0]["lag"] == 0, members)
    produce(2)
    (found,) = described()
    assert found.pop("start_offset") in range(4), "up to 3, while the end is 5"
    assert found == {"group": "s", "topic": "work", "partition": 0, "lag": 2, "members": 2}
    both = {one["client_id"]: one for one in described("--members")}
    assert {name: one["assignment"] for name, one in both.items()} == dict.fromkeys(
        ("one", "two"), "work:0"
    )
    (state,) = described("--state")
    assert (state["assignment_strategy"], state["members"]) == ("simple", 2)
    tables = told(groups_, bootstrap, "--describe").split("\n\n")
    assert [table.split()[3] for table in tables] == ["CURRENT-OFFSET", "START-OFFSET"]
    for member in members:
        member.close()
    reset = ("--reset-offsets", "--all-topics", "--to-earliest")
    moved = rows(groups_, bootstrap, tmp_path / "j", *reset, "--all-groups")
    assert "s" not in {one["group"] for one in moved}
    for change in (("--delete",), ("--delete-offsets", "--all-topics"), reset):
        assert "group s is a share group" in refused(groups_, bootstrap, *change, "--group", "s")
    (left,) = described()
    assert (left["lag"], left["members"]) == (2, 0)
