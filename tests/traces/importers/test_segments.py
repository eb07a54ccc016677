"""Log directories as runs: replicas that agree do, and whatever differs on disk is found."""

from pathlib import Path
from typing import Any

import orjson
import pytest
from attrs import evolve
from click.testing import CliRunner, Result

from refimpl.storage.cleaner.compaction import compact
from refimpl.storage.disk.files import FileDisk
from refimpl.storage.format.batch import TimestampType
from refimpl.storage.format.checkpoints import (
    HIGH_WATERMARKS,
    LOG_STARTS,
    RECOVERY_POINTS,
    write_offsets,
)
from refimpl.storage.format.compression import Codec
from tests.traces.importers.brokers import CONFIG, NOW_MS, ORDERS, SAFE, Brokers, flip, positions
from tests.traces.judging import judged
from traces.importers.cli import import_
from traces.record.digest import digest
from traces.verdicts.verdict import Verdict

Line = dict[str, Any]
BEFORE_THE_CRC, IN_THE_RECORDS = 12, 70


@pytest.fixture
def brokers(tmp_path: Path) -> Brokers:
    return Brokers(tmp_path)


def highwater_import(*arguments: str | Path) -> Result:
    return CliRunner().invoke(import_, ["segments", *map(str, arguments)])


def imported(brokers: Brokers, *more: str | Path, safe: bool = True) -> Path:
    run = brokers.folder / "run"
    settings = [word for one in SAFE * safe for word in ("--set", one)]
    done = highwater_import(*brokers.roots, "--out", run, *settings, *more)
    assert done.exit_code == 0, done.output
    return run


def lines(run: Path, node: int) -> list[Line]:
    file = run / f"broker-{node}.ndjson"
    return [orjson.loads(line) for line in file.read_bytes().splitlines()]


def records(run: Path, node: int) -> list[Line]:
    return [record for line in lines(run, node) for record in line.get("records", ())]


def said(run: Path, id: str = "L14") -> Verdict:
    return {verdict.check: verdict for verdict in judged(run).verdicts}[id]


def witness(run: Path, id: str = "L14") -> list[tuple[str, str, int]]:
    """Process, call and offset of each event of the first witness."""
    one = judged(run).as_json()["checks"][id]["witnesses"][0]["events"]
    return [(event["process"], event["op"], event["offset"]) for event in one]


def written(brokers: Brokers) -> None:
    """Some of everything that a log may hold, in several segments."""
    for codec in Codec:
        brokers.append(3, codec=codec)
    brokers.append(2, producer=7)
    brokers.append(2, producer=8, transactional=True)
    brokers.end_transaction(8, committed=True)
    brokers.append(1, producer=8, transactional=True)
    brokers.end_transaction(8, committed=False)
    brokers.append(1, value=None)
    brokers.replicate()
    brokers.elect(2)
    brokers.append(1, producer=7)
    brokers.replicate()


def test_replicas_that_copied_one_another_agree(brokers: Brokers) -> None:
    written(brokers)
    brokers.close()
    assert len(brokers.segments(1)) > 1
    run = imported(brokers)
    for id in ("L12", "L14"):
        assert said(run, id).verdict == "holds"
    assert said(run).reason == "24 looked at"
    assert said(run, "A1").verdict == "not checked"


def test_a_line_tells_what_the_log_holds(brokers: Brokers) -> None:
    written(brokers)
    brokers.close()
    run = imported(brokers, "--id", "json:n")
    found = records(run, 1)
    assert [record["offset"] for record in found] == list(range(24))
    numbers = [record.get("id") for record in found]
    # Two markers, and a tombstone that has no value to hold an id.
    assert numbers == [*range(1, 20), None, 20, None, None, 22]
    first = {"topic": "orders", "partition": 0, "offset": 0, "timestamp": NOW_MS + 1, "epoch": 0}
    hashed = digest(b'{"n": 1}', b"k1", [("h", b"1")])
    assert found[0] == first | {"hash": hashed, "key": "k1", "id": 1, "tombstone": False}
    calls = {line["records"][0]["offset"]: line for line in lines(run, 1)[:-2]}
    assert (calls[15]["producer_id"], calls[15]["records"][1]["sequence"]) == (7, 1)
    assert (calls[17]["transactional"], calls[19]["control"]) == (True, "commit")
    assert (calls[21]["control"], found[22]["tombstone"]) == ("abort", True)
    assert (calls[23]["records"][0]["epoch"], calls[23]["records"][0]["sequence"]) == (1, 2)
    last = lines(run, 1)[-2]
    assert last["offsets"] == last["high_watermark"] == {"orders:0": 24}
    assert (last["leader_epochs"], last["log_start"]) == ({"orders:0": 1}, {"orders:0": 0})
    assert last["topic_ids"] == {"orders": "AAECAwQFBgcICQoLDA0ODw"}


@pytest.mark.parametrize(
    ("id_source", "expected"),
    [("key", "k1"), ("value", '{"n": 1}'), ("header:h", "1"), ("json:n", 1), (None, None)],
)
def test_the_id_is_where_the_application_put_it(
    brokers: Brokers, id_source: str | None, expected: Any
) -> None:
    brokers.append()
    brokers.close()
    run = imported(brokers, *(() if id_source is None else ("--id", id_source)))
    assert records(run, 1)[0].get("id") == expected


def kept_what_was_truncated(brokers: Brokers) -> None:
    """Broker 3 has a record that only the old leader had, where the new leader wrote another."""
    written(brokers)
    brokers.elect(1)
    brokers.append()
    brokers.copy(3)
    brokers.elect(2)
    brokers.append()


def test_what_a_follower_has_yet_to_cut_is_no_divergence(brokers: Brokers) -> None:
    kept_what_was_truncated(brokers)
    for node in brokers.nodes:
        brokers.crash(node)
    run = imported(brokers)
    assert records(run, 2)[-1]["hash"] != records(run, 3)[-1]["hash"]
    assert said(run).verdict == "holds"


def test_a_record_that_a_follower_should_have_cut_is_found(brokers: Brokers) -> None:
    kept_what_was_truncated(brokers)
    for node in (2, 3):
        brokers.log(node).advance_high_watermark(25)
    brokers.close()
    run = imported(brokers)
    assert said(run).verdict == "violated"
    assert said(run).count == 1
    assert witness(run) == [("broker-2", "dump", 24), ("broker-3", "dump", 24)]


@pytest.mark.parametrize(
    ("settings", "verdict"),
    [
        (("unclean_leader_election=true", "min_insync_replicas=2"), "allowed"),
        (("unclean_leader_election=false", "min_insync_replicas=1"), "allowed"),
        (("unclean_leader_election=false", "min_insync_replicas=2"), "violated"),
        (("min_insync_replicas=2",), "not checked"),
    ],
)
def test_the_configuration_says_whether_a_truncated_tail_is_a_breach(
    brokers: Brokers, settings: tuple[str, ...], verdict: str
) -> None:
    kept_what_was_truncated(brokers)
    for node in (2, 3):
        brokers.log(node).advance_high_watermark(25)
    brokers.close()
    given = [word for one in ("cleanup_policy=delete", *settings) for word in ("--set", one)]
    run = imported(brokers, *given, safe=False)
    assert said(run).verdict == verdict


@pytest.mark.parametrize("segment", [0, -1])
def test_a_flipped_bit_of_one_copy_is_told_by_place_and_found(
    brokers: Brokers, segment: int
) -> None:
    written(brokers)
    brokers.close()
    path = brokers.segments(3)[segment]
    position = positions(path)[-1]
    flip(path, position + IN_THE_RECORDS)
    run = brokers.folder / "run"
    settings = [word for one in SAFE for word in ("--set", one)]
    done = highwater_import(*brokers.roots, "--out", run, *settings)
    assert done.exit_code == 0
    assert f"{path}: byte {position}: the checksum of a batch does not match" in done.output
    assert said(run).verdict == "violated"
    assert [process for process, _, _ in witness(run)] == ["broker-1", "broker-3"]


def test_another_epoch_in_one_copy_is_found_though_no_checksum_covers_it(brokers: Brokers) -> None:
    written(brokers)
    brokers.close()
    path = brokers.segments(2)[0]
    flip(path, positions(path)[1] + BEFORE_THE_CRC + 3)
    run = imported(brokers)
    assert said(run).verdict == "violated"
    assert witness(run) == [("broker-1", "dump", 3), ("broker-2", "dump", 3)]
    assert said(run, "L12").verdict == "violated"
    assert {process for process, _, _ in witness(run, "L12")} == {"broker-2"}


def test_a_lost_batch_is_found_with_the_end_of_the_log_that_lacks_it(brokers: Brokers) -> None:
    written(brokers)
    brokers.close()
    path = brokers.segments(3)[0]
    first, second, *_ = positions(path)
    content = path.read_bytes()
    path.write_bytes(content[:first] + content[second:])
    run = imported(brokers)
    assert (said(run).verdict, said(run).count) == ("violated", 3)
    assert witness(run) == [("broker-1", "dump", 0), ("broker-3", "dump_end", 24)]


def test_what_a_crash_tore_ends_the_log_and_is_no_divergence(brokers: Brokers) -> None:
    written(brokers)
    brokers.close((1, 2))
    brokers.directories[3].checkpoint()
    path = brokers.segments(3)[-1]
    content, position = path.read_bytes(), positions(path)[-1]
    path.write_bytes(content[:-5])
    run = brokers.folder / "run"
    settings = [word for one in SAFE for word in ("--set", one)]
    done = highwater_import(*brokers.roots, "--out", run, *settings)
    assert f"{path}: byte {position}: what stands here is no whole batch" in done.output
    assert "recovery would cut off" in done.output
    last = lines(run, 3)[-2]
    assert last["offsets"] == last["high_watermark"] == {"orders:0": 23}
    assert said(run).verdict == "holds"


def test_a_bad_checksum_behind_the_recovery_point_is_what_a_crash_leaves(brokers: Brokers) -> None:
    written(brokers)
    brokers.close((1, 2))
    brokers.directories[3].checkpoint()
    write_offsets(FileDisk(brokers.root(3)), RECOVERY_POINTS, {ORDERS: 3})
    segment, *later = brokers.segments(3)
    flip(segment, positions(segment)[1] + IN_THE_RECORDS)
    run = brokers.folder / "run"
    settings = [word for one in SAFE for word in ("--set", one)]
    done = highwater_import(*brokers.roots, "--out", run, *settings)
    assert "the checksum of a batch does not match its bytes; recovery would cut" in done.output
    assert f"{later[-1]}: byte 0: is not read: recovery would remove it" in done.output
    assert lines(run, 3)[-2]["offsets"] == {"orders:0": 3}
    assert said(run).verdict == "holds"


COMPACTING = evolve(CONFIG, cleanup_policy=frozenset({"compact"}), delete_retention_ms=1)


def compacted(tmp_path: Path) -> Brokers:
    """Broker 2 has compacted its log, the others have not come to it yet."""
    brokers = Brokers(tmp_path, COMPACTING)
    for key in (b"a", b"b", b"a", b"c", b"b"):
        brokers.append(key=key)
    brokers.append(producer=8, transactional=True, key=b"d")
    brokers.end_transaction(8, committed=False)
    brokers.append(key=b"e", value=None)
    for _ in range(9):
        brokers.append(key=b"a")
    brokers.replicate()
    log = brokers.log(2)
    log.roll(NOW_MS)
    before = compact(log, 0, NOW_MS, room=1_000)
    compact(log, 0, NOW_MS + 10, room=1_000)
    assert before.end_offset > 10
    brokers.close()
    return brokers


@pytest.mark.parametrize(
    ("policy", "verdict"),
    [("compact", "holds"), ("delete", "violated"), (None, "not checked")],
)
def test_each_broker_compacts_in_its_own_time(
    tmp_path: Path, policy: str | None, verdict: str
) -> None:
    """Replaced records, aborted ones, a tombstone that is due and the marker go from one log."""
    brokers = compacted(tmp_path)
    settings = ["unclean_leader_election=false", "min_insync_replicas=2"]
    settings += [] if policy is None else [f"cleanup_policy={policy}"]
    given = [word for one in settings for word in ("--set", one)]
    run = imported(brokers, *given, safe=False)
    assert len(records(run, 2)) < len(records(run, 1)) - 8
    assert said(run).verdict == verdict


@pytest.mark.parametrize("offset", [3, 4])
def test_compaction_excuses_no_lack_of_the_last_record_of_a_key(
    tmp_path: Path, offset: int
) -> None:
    """Of the only one, and of one that another came before."""
    brokers = compacted(tmp_path)
    path = brokers.segments(3)[0]
    content, starts = path.read_bytes(), positions(path)
    path.write_bytes(content[: starts[offset]] + content[starts[offset + 1] :])
    run = imported(brokers, "--set", "cleanup_policy=compact")
    assert (said(run).verdict, said(run).count) == ("violated", 1)
    assert witness(run) == [("broker-1", "dump", offset), ("broker-3", "dump_end", 17)]


def test_a_log_start_that_one_broker_has_raised_is_no_divergence(brokers: Brokers) -> None:
    written(brokers)
    brokers.log(2).advance_log_start(9)
    brokers.log(3).advance_log_start(16)
    log = brokers.log(3)
    log.apply_retention(NOW_MS)
    log.local.delete_due(NOW_MS + 10)
    brokers.close()
    run = imported(brokers)
    assert lines(run, 3)[-2]["log_start"] == {"orders:0": 16}
    assert records(run, 3)[0]["offset"] > 0
    assert said(run).verdict == "holds"


def test_without_a_checkpoint_nobody_knows_what_is_committed(brokers: Brokers) -> None:
    written(brokers)
    brokers.close()
    (brokers.root(2) / HIGH_WATERMARKS).unlink()
    run = imported(brokers)
    assert said(run).verdict == "not checked"
    assert said(run).reason == "the dump of orders:0 of broker-2 does not tell its high watermark"


def test_one_replica_alone_agrees_with_nobody(brokers: Brokers) -> None:
    written(brokers)
    brokers.close()
    run = brokers.folder / "run"
    folder = brokers.root(2) / "orders-0"
    assert highwater_import(folder, "--out", run).exit_code == 0
    assert said(run).reason.startswith("saw nothing to judge")
    assert said(run, "L12").verdict == "holds"


def test_records_that_the_broker_stamped_are_in_the_order_of_their_times(tmp_path: Path) -> None:
    config = evolve(CONFIG, message_timestamp_type=TimestampType.LOG_APPEND_TIME)
    brokers = Brokers(tmp_path, config)
    for _ in range(3):
        brokers.append()
    brokers.replicate()
    brokers.close()
    run = imported(brokers, "--set", "message_timestamp_type=LogAppendTime")
    assert said(run, "L17").verdict == "holds"
    found = lines(run, 1)
    found[1]["records"][0]["timestamp"] -= 1
    (run / "broker-1.ndjson").write_bytes(b"\n".join(map(orjson.dumps, found)) + b"\n")
    assert said(run, "L17").verdict == "allowed"
    assert [offset for _, _, offset in witness(run, "L17")] == [0, 1]


def test_dumps_join_a_run_of_clients(brokers: Brokers, tmp_path: Path) -> None:
    offset = brokers.append()
    brokers.replicate()
    brokers.close()
    run = tmp_path / "clients"
    run.mkdir()
    send: Line = {"process": "p#0", "seq": 0, "op": "send", "outcome": "ok"}
    record: Line = {"topic": "orders", "partition": 0, "offset": offset, "id": 1}
    record["hash"] = digest(b'{"n": 1}', b"k1", [("h", b"1")])
    close = {"process": "p#0", "seq": 1, "op": "close", "outcome": "ok"}
    lines = [send | {"records": [record]}, close]
    (run / "p#0.ndjson").write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in lines))
    meta = {"format": 1, "topics": {"orders": {"min_insync_replicas": 1}}, "processes": ["p#0"]}
    (run / "meta.json").write_bytes(orjson.dumps(meta))
    given = ("--id", "json:n", "--set", "min_insync_replicas=2", "--set", "cleanup_policy=delete")
    done = highwater_import(*brokers.roots, "--into", run, *given)
    assert done.exit_code == 0, done.output
    joined = orjson.loads((run / "meta.json").read_bytes())
    assert joined["processes"] == ["p#0", "broker-1", "broker-2", "broker-3"]
    # What the clients' run says of a topic is kept.
    settings = {"partitions": 1, "replication_factor": 3, "min_insync_replicas": 1}
    assert joined["topics"]["orders"] == settings | {"cleanup_policy": "delete"}
    assert said(run, "L7").verdict == "holds"
    again = highwater_import(*brokers.roots, "--into", run)
    assert again.exit_code == 2
    assert "broker-1.ndjson: is there already" in again.output
    record["hash"] = 0
    (run / "p#0.ndjson").write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in lines))
    assert said(run, "L7").verdict == "violated"
    assert witness(run, "L7") == [("p#0", "send", 0), ("broker-1", "dump", 0)]


def test_what_is_passed_over_is_counted(brokers: Brokers) -> None:
    written(brokers)
    brokers.close()
    for name in ("orders-1.abc-delete", "__consumer_offsets-3", "lost+found"):
        (brokers.root(1) / name).mkdir()
    done = highwater_import(brokers.root(1), "--out", brokers.folder / "run")
    assert "1 partitions of internal topics" in done.output
    assert "1 folders of partitions that come or go" in done.output
    assert "1 folders that are no partition's" in done.output


def broken_checkpoint(brokers: Brokers) -> list[Path]:
    (brokers.root(1) / LOG_STARTS).write_text("0\n1\norders 0 seven\n")
    return [brokers.root(1)]


def interrupted(brokers: Brokers) -> list[Path]:
    (brokers.root(1) / "orders-0" / "00000000000000000000.log.swap").touch()
    return [brokers.root(1)]


def nameless(brokers: Brokers) -> list[Path]:
    (brokers.root(1) / "meta.properties").unlink()
    return [brokers.root(1).rename(brokers.folder / "logs")]


def newer(brokers: Brokers) -> list[Path]:
    path = brokers.segments(1)[0]
    content = bytearray(path.read_bytes())
    content[16] = 3
    path.write_bytes(content)
    return [brokers.root(1)]


def twice(brokers: Brokers) -> list[Path]:
    return [brokers.root(1)] * 2


def empty(brokers: Brokers) -> list[Path]:
    folder = brokers.folder / "node-9"
    folder.mkdir()
    return [folder]


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (broken_checkpoint, "log-start-offset-checkpoint: byte 4: 'seven', where a number"),
        (interrupted, "00000000000000000000.log.swap: compaction was interrupted here"),
        (nameless, "logs: expected meta.properties with node.id"),
        (newer, "00000000000000000000.log: byte 0: message format 3 is not known"),
        (empty, "node-9: expected folders of partitions, such as orders-0"),
        (twice, "broker 1 has two logs of it"),
    ],
)
def test_what_is_no_log_directory_is_refused_and_nothing_is_written(
    brokers: Brokers, damage: Any, message: str
) -> None:
    written(brokers)
    brokers.close()
    run = brokers.folder / "run"
    done = highwater_import(*damage(brokers), "--out", run)
    assert done.exit_code == 2
    assert message in done.output.replace("\n", "")
    assert not list(run.glob("*"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--id", "body:x"), "expected key, value, header:NAME or json:FIELD, found 'body:x'"),
        (("--set", "colour=red"), "cleanup_policy, "),
        ((), "expected --out for a new run, or --into"),
        (("--into", "nowhere"), "expected the folder of a run, with meta.json"),
    ],
)
def test_a_wrong_option_is_explained(
    brokers: Brokers, arguments: tuple[str, ...], message: str
) -> None:
    brokers.append()
    brokers.close()
    out = ("--out", brokers.folder / "run") if arguments[:1] in (("--id",), ("--set",)) else ()
    done = highwater_import(brokers.root(1), *arguments, *out)
    assert done.exit_code == 2
    assert message in done.output
