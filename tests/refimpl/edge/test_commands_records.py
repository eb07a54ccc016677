"""`highwater produce` and `highwater consume` of our own broker, and the trace that they leave."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from refimpl.edge import BlockingCluster
from refimpl.edge.commands.consume import consume
from refimpl.edge.commands.produce import produce
from tests.refimpl.edge.asking import alone, refused, told
from traces.commands.check import check
from traces.record.cli import record_scan


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with BlockingCluster(brokers=1, seed=1, offsets_topic=True) as cluster:
        for topic in ("keyed", "plain", "traced", "grouped"):
            cluster.create_topic(topic, partitions=2, replicas=1)
        yield cluster.bootstrap


def test_lines_become_records_and_records_lines(bootstrap: str, tmp_path: Path) -> None:
    to, file = ("--topic", "keyed", "--partition", "1"), tmp_path / "j"
    told(produce, bootstrap, *to, "--key-separator", ":", "--json", str(file), text="a:1\nb:2\n")
    assert [one["offset"] for one in json.loads(file.read_bytes())] == [0, 1]
    end = ("--from-beginning", "--until-end", "--json", str(file))
    assert told(consume, bootstrap, "--topic", "keyed", *end) == "1\n2\n"
    first, _ = map(json.loads, file.read_bytes().splitlines())
    assert first.pop("timestamp") > 0
    of_record: dict[str, Any] = {"topic": "keyed", "partition": 1, "offset": 0, "headers": []}
    assert first == {**of_record, "key": "a", "value": "1"}


def test_a_count_and_an_end_stop_the_reading(bootstrap: str) -> None:
    told(produce, bootstrap, "--topic", "plain", "--partition", "0", text="a\nb\nc\n")
    read = ("--topic", "plain", "--from-beginning")
    assert told(consume, bootstrap, *read, "--max-messages", "2") == "a\nb\n"
    assert told(consume, bootstrap, *read, "--until-end", "--partition", "0") == "a\nb\nc\n"
    assert told(consume, bootstrap, *read, "--until-end", "--partition", "1") == ""
    assert told(consume, bootstrap, "--topic", "plain", "--until-end") == ""


def test_a_group_goes_on_where_it_was(bootstrap: str) -> None:
    told(produce, bootstrap, "--topic", "grouped", "--partition", "0", text="a\nb\nc\n")
    read = ("--topic", "grouped", "--group", "g", "--from-beginning", "--max-messages")
    assert told(consume, bootstrap, *read, "2") == "a\nb\n"
    assert told(consume, bootstrap, *read, "1") == "c\n"


def test_what_was_recorded_is_judged(bootstrap: str, tmp_path: Path) -> None:
    run = tmp_path / "run"
    lines = "".join(f"{number}\n" for number in range(20))
    told(produce, bootstrap, "--topic", "traced", "--record", str(run), text=lines)
    read = ("--topic", "traced", "--from-beginning", "--until-end", "--record", str(run))
    assert sorted(map(int, told(consume, bootstrap, *read).split())) == list(range(20))
    scanned = CliRunner().invoke(record_scan, [str(run), "--bootstrap", bootstrap])
    assert scanned.exit_code == 0, scanned.output
    verdicts = tmp_path / "verdicts"
    judged = CliRunner().invoke(check, [str(run), "--json", str(verdicts)])
    assert judged.exit_code == 0, judged.output
    assert b'"L1"' in verdicts.read_bytes()


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--topic", "nope"), "topic nope: UNKNOWN_TOPIC_OR_PARTITION"),
        (("--topic", "plain", "--partition", "9"), "topic plain has no partition 9"),
        (("--topic", "plain", "--group", "g", "--until-end"), "--group goes without"),
    ],
)
def test_mistakes_are_one_line(bootstrap: str, arguments: tuple[str, ...], complaint: str) -> None:
    assert complaint in refused(consume, bootstrap, *arguments)


def test_a_producer_without_a_broker_is_one_line() -> None:
    code, said = alone(produce, "127.0.0.1:1", "--topic", "t", "--timeout", "0.5")
    assert (code, said) == (2, "Error: no answer from 127.0.0.1:1 in 0.5 s\n")
