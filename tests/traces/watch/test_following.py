"""Lines that a watch reads from files that are still written."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from tests.traces.fixture import Line, fixture, write
from tests.traces.record.clients import Consumer, Producer, message
from traces.model.problems import BadInput
from traces.record import recorded
from traces.watch import Watch

SAFE = {"acks": "all", "enable.idempotence": True}
TOPIC = {"min_insync_replicas": 2, "unclean_leader_election": False}
META: dict[str, Any] = {"format": 1, "complete": False, "topics": {"t": TOPIC}}


def line(process: str, seq: int, op: str, **fields: Any) -> Line:
    times = {"invoked_ns": 10 * seq + 1, "returned_ns": 10 * seq + 2}
    return {"process": process, "seq": seq, "op": op, "outcome": "ok", **times, **fields}


def sent(seq: int, id: int, offset: int) -> Line:
    record = {"topic": "t", "partition": 0, "offset": offset, "id": id}
    return line("p0#0", seq, "send", records=[record])


def append(run: Path, process: str, *lines: Line, end: str = "\n") -> None:
    with (run / f"{process}.ndjson").open("a") as file:
        file.write("\n".join(map(json.dumps, lines)) + end)


def configure(run: Path, **more: Any) -> None:
    meta = META | {"producers": {"p0": {"acks": "all"}}} | more
    (run / "meta.json").write_text(json.dumps(meta))


def found(watch: Watch) -> list[str]:
    return [finding.check.id for finding in watch.step().findings]


def test_two_records_at_one_offset_are_told_with_the_line_that_shows_it(tmp_path: Path) -> None:
    configure(tmp_path)
    watch = Watch(tmp_path)
    append(tmp_path, "p0#0", sent(0, 1, 0))
    assert found(watch) == []
    append(tmp_path, "p0#0", sent(1, 2, 0), end="")
    assert found(watch) == []  # the line has no end yet
    append(tmp_path, "p0#0")
    assert found(watch) == ["L1"]
    assert found(watch) == []  # told once
    assert watch.violated


def test_a_read_of_what_nobody_is_known_to_have_sent_is_no_violation(tmp_path: Path) -> None:
    """The producer has sent it and its line is still on its way to the disk."""
    configure(tmp_path)
    watch = Watch(tmp_path)
    record = {"topic": "t", "partition": 0, "offset": 0, "id": 1}
    append(tmp_path, "c0#0", line("c0#0", 0, "poll", records=[record], isolation="read_committed"))
    assert found(watch) == []
    append(tmp_path, "p0#0", sent(0, 1, 0), line("p0#0", 1, "close"))
    assert found(watch) == []
    assert not watch.violated


def test_a_contradiction_waits_for_the_sender_of_each_record(tmp_path: Path) -> None:
    """One that did not wait for all replicas was promised less, and may not be known yet."""
    configure(tmp_path)
    watch = Watch(tmp_path)
    other = {"topic": "t", "partition": 0, "offset": 0, "id": 2}
    append(tmp_path, "p0#0", sent(0, 1, 0))
    append(tmp_path, "c0#0", line("c0#0", 0, "poll", records=[other]))
    assert found(watch) == []
    append(tmp_path, "p0#0", sent(1, 2, 5))
    assert "L1" in found(watch)


def test_nothing_is_violated_that_a_weak_producer_may_have_lost(tmp_path: Path) -> None:
    configure(tmp_path, producers={"p0": {"acks": "1"}})
    append(tmp_path, "p0#0", sent(0, 1, 0), sent(1, 2, 0))
    assert found(Watch(tmp_path)) == []


def test_meta_json_may_come_late_and_half_of_it_is_none(tmp_path: Path) -> None:
    append(tmp_path, "p0#0", sent(0, 1, 0), sent(1, 2, 0))
    watch = Watch(tmp_path)
    assert found(watch) == []
    (tmp_path / "meta.json").write_text('{"format": 1, "topics": {"t"')
    assert found(watch) == []
    configure(tmp_path)
    assert found(watch) == ["L1"]


def test_a_setting_that_changes_takes_a_verdict_back(tmp_path: Path) -> None:
    configure(tmp_path)
    append(tmp_path, "p0#0", sent(0, 1, 0), sent(1, 2, 0))
    watch = Watch(tmp_path)
    assert found(watch) == ["L1"]
    configure(tmp_path, producers={"p0": {"acks": "1"}})
    assert watch.step().withdrawn == ["L1"]
    assert not watch.violated


def test_a_second_clock_takes_back_what_compares_times(tmp_path: Path) -> None:
    """The end says *not checked* then, and so does the watch as soon as it knows."""
    consumers = {"c0": {"group": "g", "group_protocol": "classic"}}
    safe = {"min_insync_replicas": 2, "unclean_leader_election": False}
    configure(tmp_path, consumers=consumers, internal_topics={"__consumer_offsets": safe})
    member = {"group": "g", "partitions": ["t:0"]}
    joined = line("c0#0", 0, "assigned", generation=2, **member)
    before = line("c1#0", 0, "assigned", generation=1, **member)
    late = line("c1#0", 5, "commit", generation=1, offsets={"t:0": 1}, group="g")
    append(tmp_path, "c0#0", joined)
    append(tmp_path, "c1#0", before, late | {"seq": 1})
    watch = Watch(tmp_path)
    assert found(watch) == ["G4"]
    append(tmp_path, "c2#0", line("c2#0", 0, "close", clock="elsewhere"))
    assert watch.step().withdrawn == ["G4"]
    assert not watch.violated


def test_a_compressed_file_is_read_when_it_is_closed(tmp_path: Path) -> None:
    configure(tmp_path)
    whole = gzip.compress("".join(json.dumps(sent(n, n, 0)) + "\n" for n in (0, 1)).encode())
    watch = Watch(tmp_path)
    file = tmp_path / "p0#0.ndjson.gz"
    file.write_bytes(whole[:-8])
    assert found(watch) == found(watch) == []
    file.write_bytes(whole)
    assert found(watch) == []  # it may still grow
    assert found(watch) == ["L1"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"process": "p0#0"\n', "p0#0.ndjson:2: expected JSON"),
        ('{"process": "p0#0", "op": "close", "outcome": "ok"}\n', "p0#0.ndjson:2: seq: is missing"),
        (json.dumps(line("p0#0", 0, "close")) + "\n", "p0#0.ndjson:2: seq: expected more than 0"),
        (json.dumps(line("p1#0", 1, "close")) + "\n", "p0#0.ndjson:2: process: expected 'p0#0'"),
        (json.dumps(line("p0#0", 1, "cloze")) + "\n", "p0#0.ndjson:2: op: expected one of"),
        ("[]\n", "p0#0.ndjson:2: expected an object"),
    ],
)
def test_a_wrong_line_is_told_by_its_number(tmp_path: Path, text: str, said: str) -> None:
    append(tmp_path, "p0#0", sent(0, 1, 0))
    watch = Watch(tmp_path)
    watch.step()
    with (tmp_path / "p0#0.ndjson").open("a") as file:
        file.write(text)
    with pytest.raises(BadInput) as wrong:
        watch.step()
    assert said in str(wrong.value)


def test_a_file_that_shrinks_is_refused(tmp_path: Path) -> None:
    append(tmp_path, "p0#0", sent(0, 1, 0))
    watch = Watch(tmp_path)
    watch.step()
    (tmp_path / "p0#0.ndjson").write_text("")
    with pytest.raises(BadInput, match="shorter"):
        watch.step()


def test_a_recorder_is_followed_while_it_runs_and_its_file_continues_its_journal(
    tmp_path: Path,
) -> None:
    """The second send is answered only after the journal has become a file."""
    watch = Watch(tmp_path)
    client = Producer()
    producer = recorded(client, tmp_path, SAFE, name="p0")
    producer.produce("t", b"v")
    producer.poll(0)
    producer.produce("t", b"v")
    step = watch.step()
    assert [(p.name, len(calls)) for p, calls in step.batch.calls] == [("p0#0", 1)]
    assert watch.folder.running == ["p0#0"]
    assert watch.folder.configured.producers["p0"].acks == "all"
    client._reports.clear()  # pyright: ignore[reportPrivateUsage]  # it is never answered
    producer.close()
    step = watch.step()
    assert [call["seq"] for _, calls in step.batch.calls for _, call in calls] == [1, 2]
    assert watch.folder.running == []
    assert watch.calls == 3


def _always_seven(*_: Any) -> int:
    return 7


def test_what_a_recorder_tells_of_its_client_counts_from_its_first_call(tmp_path: Path) -> None:
    (tmp_path / "meta.json").write_text(json.dumps(META))
    watch, client = Watch(tmp_path), Producer()
    producer = recorded(client, tmp_path, SAFE, name="p0")
    assert watch.step().batch.began
    for _ in range(2):
        client._offset = 0  # pyright: ignore[reportPrivateUsage]
        producer.produce("t", b"v")
        producer.poll(0)
    assert "L1" in found(watch)


def test_a_recorders_violation_is_told_while_its_clients_run(tmp_path: Path) -> None:
    """A reader goes back, and nobody has closed anything."""
    (tmp_path / "meta.json").write_text(json.dumps(META))
    script = [[message(0), message(1)], [message(0)]]
    reader = recorded(Consumer(script=script), tmp_path, {"group.id": "g"}, id=_always_seven)
    watch = Watch(tmp_path)
    watch.step()  # before it has polled anything
    for expected in ([], ["C2"]):
        reader.consume(2)
        assert [id for id in found(watch) if id == "C2"] == expected


def test_the_end_is_when_all_have_ended_and_the_scan_was_made(tmp_path: Path) -> None:
    w = fixture(3, steps=10)
    run = write(tmp_path / "run", w.lines, w.meta | {"complete": False})
    watch = Watch(run)
    for _ in range(2):  # one of the files is compressed
        watch.step()
    assert watch.folder.running == []
    assert not watch.folder.ended
    (run / "meta.json").write_text(json.dumps(w.meta))
    watch.step()
    assert watch.folder.ended
    (run / "meta.json").write_text(json.dumps(w.meta | {"processes": [*w.lines, "p9#0"]}))
    watch.step()
    assert watch.folder.running == ["p9#0"]
