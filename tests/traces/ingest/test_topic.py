"""A topic becomes the files of a run: every line once, in order, whatever dies in between."""

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, cast

import pytest
from attrs import define, field
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.traces.fixture import Line, fixture, write
from tests.traces.judging import SEEDED, examples, judged, verdicts
from traces.ingest import topic as intake
from traces.ingest.topic import Intake, Message, State, follow
from traces.model.problems import BadInput

PARTITIONS = 3


@define
class Fake:
    """A topic in memory, read in batches of any size."""

    random: Random
    logs: dict[int, list[tuple[bytes | None, bytes | None]]]
    name: str = "traces"
    at: dict[int, int] = field(factory=dict[int, int])
    started: list[dict[int, int]] = field(factory=list[dict[int, int]])

    def start(self, offsets: Mapping[int, int]) -> Iterable[int]:
        self.started.append(dict(offsets))
        self.at = {partition: offsets.get(partition, 0) for partition in self.logs}
        return self.logs

    def read(self) -> list[Message]:
        messages: list[Message] = []
        for partition in self.random.sample(sorted(self.logs), len(self.logs)):
            log, start = self.logs[partition], self.at[partition]
            end = min(len(log), start + self.random.randint(0, 7))
            messages += [Message(partition, n, *log[n]) for n in range(start, end)]
            if end == len(log):
                messages.append(Message(partition, end, end=True))
            self.at[partition] = end
        return messages


def fake(random: Random, lines: dict[str, list[Line]]) -> Fake:
    """The lines of each process in one partition, in order, among those of the others."""
    logs: dict[int, list[Any]] = {partition: [] for partition in range(PARTITIONS)}
    left = {process: list(mine) for process, mine in lines.items()}
    for _ in range(sum(map(len, lines.values()))):
        process = random.choice([name for name, mine in left.items() if mine])
        line = left[process].pop(0)
        partition = sorted(lines).index(process) % PARTITIONS
        logs[partition].append((process.encode(), json.dumps(line).encode()))
    return Fake(random, logs)


def put(topic: Fake, value: bytes | None, key: bytes | None = b"k", partition: int = 0) -> None:
    topic.logs[partition].append((key, value))


def line(seq: int, process: str = "p0#0", **fields: Any) -> bytes:
    base = {"process": process, "seq": seq, "op": "subscribe", "outcome": "ok"}
    return json.dumps(base | fields).encode()


def seqs(run: Path, process: str = "p0#0") -> list[int]:
    text = (run / f"{process}.ndjson").read_text()
    return [json.loads(found)["seq"] for found in text.splitlines()]


def state(run: Path) -> dict[str, Any]:
    return json.loads((run / "topic.json").read_text())


class Killed(BaseException):
    pass


def dying(random: Random, monkeypatch: pytest.MonkeyPatch, chance: float) -> None:
    """Let the process die before, in the middle of, or after any write."""
    for name in ("_append", "write_whole"):
        whole: Any = getattr(intake, name)

        def write(path: Path, content: Any, whole: Any = whole) -> None:
            if random.random() < chance:
                if isinstance(content, list) and random.random() < 0.7:
                    text = b"".join(cast("list[bytes]", content))
                    with path.open("ab") as file:
                        file.write(text[: random.randrange(len(text) + 1)])
                raise Killed
            whole(path, content)
            if random.random() < chance:
                raise Killed

        monkeypatch.setattr(intake, name, write)


@settings(max_examples=examples(10), phases=SEEDED)
@given(st.integers(0, 10**6))
def test_whatever_dies_every_line_is_there_once(seed: int) -> None:
    w, random = fixture(seed), Random(seed)
    topic = fake(random, w.lines)
    meta = json.dumps(w.meta).encode()
    topic.logs[1].insert(random.randrange(len(topic.logs[1])), (b"meta.json", meta))
    for _ in range(5):  # what is sent twice
        partition = random.randrange(PARTITIONS)
        again = random.choice(topic.logs[partition])
        if again[0] != b"meta.json":
            topic.logs[partition].append(again)
    sent = sum(len(log) for log in topic.logs.values()) - 1
    with TemporaryDirectory() as scratch:
        run, straight = Path(scratch) / "run", Path(scratch) / "straight"
        done: State | None = None
        with pytest.MonkeyPatch.context() as patch:
            dying(random, patch, 0.1)
            while done is None:
                try:
                    done = follow(topic, run, until_end=True)
                except Killed:
                    continue
        write(straight, w.lines, w.meta)
        for process, mine in w.lines.items():
            text = (run / f"{process.replace('/', '%2F')}.ndjson").read_text()
            assert [json.loads(found) for found in text.splitlines()] == mine
        assert done.lines + done.duplicates == sent
        assert verdicts(judged(run)) == verdicts(judged(straight))


def run_of(folder: Path, *values: bytes | None) -> Path:
    topic = Fake(Random(0), {0: []})
    for value in values:
        put(topic, value)
    follow(topic, folder, until_end=True)
    return folder


def test_lines_that_overtook_each_other_are_put_in_order(tmp_path: Path) -> None:
    run = run_of(tmp_path, line(2), line(0), line(1), line(3))
    assert seqs(run) == [0, 1, 2, 3]


def test_a_line_that_came_already_is_dropped_and_counted(tmp_path: Path) -> None:
    run = run_of(tmp_path, line(0), line(0), line(1), line(0))
    assert seqs(run) == [0, 1]
    assert state(run)["duplicates"] == 2


def test_a_line_that_never_comes_is_missed_at_the_end_and_counted(tmp_path: Path) -> None:
    run = run_of(tmp_path, line(0), line(3), line(4))
    assert seqs(run) == [0, 3, 4]
    assert state(run)["given_up"] == 2


def test_a_line_is_not_waited_for_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intake, "PATIENCE", 3)
    one = Intake(tmp_path, "traces")
    one.take([Message(0, n, b"k", line(seq)) for n, seq in enumerate([0, 2, 3, 4])])
    assert seqs(tmp_path) == [0]
    one.take([Message(0, 4, b"k", line(5))])
    assert seqs(tmp_path) == [0, 2, 3, 4, 5]
    assert state(tmp_path)["given_up"] == 1


def test_what_waits_survives_a_restart(tmp_path: Path) -> None:
    Intake(tmp_path, "traces").take([Message(0, 0, b"k", line(1))])
    assert not (tmp_path / "p0#0.ndjson").exists()
    topic = Fake(Random(0), {0: [(b"k", line(1)), (b"k", line(0))]})
    follow(topic, tmp_path, until_end=True)
    assert topic.started == [{0: 1}]
    assert seqs(tmp_path) == [0, 1]
    assert state(tmp_path)["duplicates"] == 0


def test_what_is_no_line_is_kept_aside_with_its_place(tmp_path: Path) -> None:
    run = run_of(tmp_path, b"{", None, line(0), line(-1), b"7", line(1, outcome="maybe"))
    rejected = [json.loads(found) for found in (run / "rejected.jsonl").read_text().splitlines()]
    assert [(one["offset"], one["field"]) for one in rejected] == [
        (0, ""),
        (1, ""),
        (3, "seq"),
        (4, ""),
        (5, "outcome"),
    ]
    assert rejected[4]["message"] == "expected one of ok, fail, info, found 'maybe'"
    assert state(run)["rejected"] == 5
    assert seqs(run) == [0]


def test_a_line_over_several_lines_is_one(tmp_path: Path) -> None:
    pretty = json.dumps(json.loads(line(0)), indent=2).encode()
    assert seqs(run_of(tmp_path, pretty)) == [0]


def test_a_process_cannot_name_a_file_elsewhere(tmp_path: Path) -> None:
    run = run_of(tmp_path / "run", line(0, process="../../p0"))
    assert [path.name for path in run.glob("*.ndjson")] == ["..%2F..%2Fp0.ndjson"]


def test_without_a_configuration_there_is_one_that_promises_nothing(tmp_path: Path) -> None:
    found = json.loads((run_of(tmp_path, line(0)) / "meta.json").read_text())
    assert found == {"format": 1, "run": "traces", "source": "Kafka topic traces"}


def refusals(tmp_path: Path) -> Iterator[tuple[str, str]]:
    run = run_of(tmp_path / "other", line(0))
    (run / "topic.json").write_text((run / "topic.json").read_text().replace("traces", "orders"))
    yield "other", "is of the topic orders, not of traces"
    run = run_of(tmp_path / "shorter", line(0))
    (run / "p0#0.ndjson").write_text("")
    yield "shorter", "is shorter than topic.json says"
    (tmp_path / "recorded").mkdir()
    (tmp_path / "recorded" / "p0#0.ndjson").write_bytes(line(0))
    yield "recorded", "was not written from a topic"
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "topic.json").write_text("{}")
    yield "broken", "was not written by `highwater ingest --topic`"


def test_a_folder_of_something_else_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    for folder, message in refusals(tmp_path):
        before = {p.name: p.read_bytes() for p in (tmp_path / folder).iterdir()}
        with pytest.raises(BadInput, match=message):
            run_of(tmp_path / folder, line(0))
        after = {p.name: p.read_bytes() for p in (tmp_path / folder).iterdir()}
        assert {name: text for name, text in after.items() if name != ".topic.lock"} == {
            name: text for name, text in before.items() if name != ".topic.lock"
        }


def test_two_cannot_write_into_one_folder(tmp_path: Path) -> None:
    with intake.alone(tmp_path), pytest.raises(BadInput, match="another"):
        run_of(tmp_path, line(0))
