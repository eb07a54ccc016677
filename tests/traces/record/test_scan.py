"""The final scan: it reaches the ends of all partitions, or says that it did not."""

from pathlib import Path
from typing import Any

import orjson
import pytest
from attrs import define, field
from click.testing import CliRunner, Result
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from tests.traces.record.clients import Consumer, Producer, lines, message
from traces.ingest.run import read_trace
from traces.model.meta import read_meta
from traces.record import HEADER, fault, recorded
from traces.record.cli import record_scan
from traces.record.cluster import Cluster
from traces.record.scan import Library

SAFE = {"acks": "all", "enable.idempotence": True}


@define
class Log:
    """One topic of two partitions, the second empty, that a scan can be made of."""

    records: list[Any] = field(factory=list[Any])
    end: int = 0
    quiet: bool = False
    leader: int = 1
    lost: bool = False  # the leader of the second partition, since the cluster was asked

    def library(self) -> Library:
        eof = KafkaError._PARTITION_EOF  # pyright: ignore[reportPrivateUsage]
        return Library(self.consumer, self.admin, TopicPartition, None, eof)

    def consumer(self, conf: dict[str, Any]) -> "Reader":
        return Reader(self, conf)

    def admin(self, conf: dict[str, Any]) -> Any:
        raise AssertionError


@define
class Reader:
    """As a consumer of confluent-kafka, assigned to all of the log."""

    log: Log
    conf: dict[str, Any]
    given: bool = False

    def get_watermark_offsets(self, partition: Any, timeout: float) -> tuple[int, int]:
        if partition.partition == 1 and (self.log.leader < 0 or self.log.lost):
            unknown = KafkaError._UNKNOWN_PARTITION  # pyright: ignore[reportPrivateUsage]
            raise KafkaException(KafkaError(unknown))
        return (0, self.log.end if partition.partition == 0 else 0)

    def assign(self, partitions: list[Any]) -> None: ...
    def close(self) -> None: ...

    def consume(self, count: int, timeout: float) -> list[Any]:
        if self.given:
            return []
        self.given = True
        eof = KafkaError._PARTITION_EOF  # pyright: ignore[reportPrivateUsage]
        end = [] if self.log.quiet else [message(self.log.end, error=eof)]
        return [*self.log.records, *end]


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Log:
    found = Log()

    def described(*_: Any) -> Cluster:
        settings = {"partitions": 2, "replication_factor": 3, "min_insync_replicas": 2}
        headless = [] if found.leader > 0 else ["t:1"]
        internal = {"__consumer_offsets": {**settings, "cleanup_policy": "compact"}}
        topic = {**settings, "cleanup_policy": "delete"}
        return Cluster({"t": topic}, internal, headless, {"t": "an-id"})

    monkeypatch.setattr("traces.record.final_scan.library", found.library)
    monkeypatch.setattr("traces.record.final_scan.describe", described)
    return found


def scan(run: Path, *more: str) -> Result:
    arguments = [str(run), "--bootstrap", "nowhere:1", "--timeout", "0.05", *more]
    return CliRunner().invoke(record_scan, arguments)


def record_three(run: Path) -> list[int]:
    producer = recorded(Producer, run, SAFE)
    for _ in range(3):
        producer.produce("t", b"v")
    producer.close()
    sends = lines(run, "producer#0")[:-1]
    return [send["records"][0]["id"] for send in sends]


def stored(offset: int, id: int) -> Any:
    return message(offset, [(HEADER, id.to_bytes(8, "big"))], leader_epoch=1)


def test_a_scan_to_the_end_completes_the_run(tmp_path: Path, log: Log) -> None:
    ids = record_three(tmp_path)
    log.records, log.end = [stored(n, id) for n, id in enumerate(ids)], 3
    done = scan(tmp_path)
    assert done.exit_code == 0, done.output
    run = read_trace(tmp_path)
    assert run.meta.complete
    assert run.meta.internal_topics["__consumer_offsets"].min_insync_replicas == 2
    assert run.warnings == []
    assert "scan" not in run.evidence.missing
    scans = [line for line in lines(tmp_path, "scan-ru#0") if line["op"] == "scan"]
    assert {partition: end for s in scans for partition, end in s["offsets"].items()} == {
        "t:0": 3,
        "t:1": 0,
    }
    assert [r["id"] for s in scans for r in s["records"]] == ids
    assert all(s["isolation"] == "read_uncommitted" for s in scans)


def test_markers_behind_the_last_record_belong_to_the_end(tmp_path: Path, log: Log) -> None:
    ids = record_three(tmp_path)
    log.records, log.end = [stored(n, id) for n, id in enumerate(ids)], 5
    assert scan(tmp_path).exit_code == 0


def test_a_scan_that_stops_before_the_end_completes_nothing(tmp_path: Path, log: Log) -> None:
    ids = record_three(tmp_path)
    log.records, log.end, log.quiet = [stored(0, ids[0])], 3, True
    done = scan(tmp_path)
    assert done.exit_code == 2
    assert "not complete: the scan did not reach the end of t:0" in done.output
    assert orjson.loads((tmp_path / "meta.json").read_bytes())["complete"] is False


def test_a_partition_without_a_leader_completes_nothing(tmp_path: Path, log: Log) -> None:
    ids = record_three(tmp_path)
    log.records, log.end, log.leader = [stored(n, id) for n, id in enumerate(ids)], 3, -1
    done = scan(tmp_path)
    assert done.exit_code == 2
    assert "not complete: t:1 has no leader" in done.output
    assert "the scan did not reach" not in done.output
    read = [line for line in lines(tmp_path, "scan-ru#0") if line["op"] == "scan"]
    assert [(line["partitions"], len(line["records"])) for line in read] == [(["t:0"], 3)]


def test_a_partition_that_loses_its_leader_meanwhile_completes_nothing(
    tmp_path: Path, log: Log
) -> None:
    record_three(tmp_path)
    log.lost = True
    done = scan(tmp_path)
    assert done.exit_code == 2
    assert "not complete: the scan did not reach the end of t:1" in done.output
    assert orjson.loads((tmp_path / "meta.json").read_bytes())["complete"] is False


def test_a_client_that_still_runs_completes_nothing(tmp_path: Path, log: Log) -> None:
    record_three(tmp_path)
    living = recorded(Consumer, tmp_path, {"group.id": "g"})
    done = scan(tmp_path)
    assert done.exit_code == 2
    assert "not complete: consumer#0 is still running" in done.output
    living.close()
    assert scan(tmp_path).exit_code == 0


def test_a_second_scan_takes_the_place_of_the_first(tmp_path: Path, log: Log) -> None:
    record_three(tmp_path)
    scan(tmp_path, "--isolation", "both")
    assert scan(tmp_path).exit_code == 0
    names = sorted(file.name for file in tmp_path.iterdir())
    assert names == ["meta.json", "producer#0.ndjson", "scan-ru#0.ndjson"]
    meta = orjson.loads((tmp_path / "meta.json").read_bytes())
    assert meta["processes"] == ["producer#0", "scan-ru#0"]


def test_transactions_are_read_in_both_isolations(tmp_path: Path, log: Log) -> None:
    recorded(Producer, tmp_path, {"transactional.id": "x"}).close()
    assert scan(tmp_path, "--topics", "t").exit_code == 0
    levels = {lines(tmp_path, name)[0]["isolation"] for name in ("scan-ru#0", "scan-rc#0")}
    assert levels == {"read_uncommitted", "read_committed"}


def test_large_partitions_are_several_lines_and_one_end(
    tmp_path: Path, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("traces.record.scan.MOST_RECORDS", 2)
    ids = record_three(tmp_path)
    log.records, log.end = [stored(n, id) for n, id in enumerate(ids)], 3
    assert scan(tmp_path).exit_code == 0
    scans = [line for line in lines(tmp_path, "scan-ru#0") if line["op"] == "scan"]
    first, last = (line for line in scans if line["records"])
    assert [len(first["records"]), len(last["records"])] == [2, 1]
    assert "partitions" not in first
    assert last["offsets"] == {"t:0": 3}
    assert "scan" not in read_trace(tmp_path).evidence.missing


def test_what_somebody_wrote_into_meta_json_stays(tmp_path: Path, log: Log) -> None:
    record_three(tmp_path)
    faults = [{"at_ns": 5, "what": "kill -9 broker 1"}]
    own = {"faults": faults, "note": "on a Friday", "producers": {"other": {"acks": "1"}}}
    (tmp_path / "meta.json").write_bytes(orjson.dumps(own))
    scan(tmp_path)
    meta = orjson.loads((tmp_path / "meta.json").read_bytes())
    assert (meta["faults"], meta["note"]) == (faults, "on a Friday")
    assert meta["producers"]["other"] == {"acks": "1"}
    assert meta["producers"]["producer"]["acks"] == "all"


def test_a_fault_is_noted_with_the_time_in_which_it_lasted(tmp_path: Path, log: Log) -> None:
    record_three(tmp_path)
    with fault(tmp_path, "kill -9 broker 1"):
        (begun,) = read_meta(tmp_path).faults
        assert begun.at_ns is not None
        assert begun.until_ns is None
        with fault(tmp_path, "kill -9 broker 2"):
            pass
    scan(tmp_path)
    second, first = read_meta(tmp_path).faults
    assert (first.what, first.at_ns) == (begun.what, begun.at_ns)
    times = [first.at_ns, second.at_ns, second.until_ns, first.until_ns]
    assert None not in times
    assert times == sorted(times, key=lambda at: at or 0)


def test_incarnations_that_differ_are_described_one_by_one(tmp_path: Path, log: Log) -> None:
    record_three(tmp_path)
    recorded(Producer, tmp_path, {"acks": "1"}).close()
    scan(tmp_path)
    meta = orjson.loads((tmp_path / "meta.json").read_bytes())
    acks = {name: settings["acks"] for name, settings in meta["producers"].items()}
    assert acks == {"producer#0": "all", "producer#1": "1"}


def own_id(_topic: str, _key: Any, value: Any, _headers: Any) -> str:
    return bytes(value).decode()


def test_the_applications_own_ids_are_asked_for(tmp_path: Path, log: Log) -> None:
    producer = recorded(Producer, tmp_path, SAFE, id=own_id)
    producer.produce("t", b"order-1")
    producer.close()
    log.records, log.end = [message(0, value=b"order-1")], 1
    refused = scan(tmp_path)
    assert refused.exit_code == 2
    assert "--id MODULE:FUNCTION" in refused.output
    assert scan(tmp_path, "--id", f"{__name__}:own_id").exit_code == 0
    found = [r["id"] for s in lines(tmp_path, "scan-ru#0") for r in s.get("records", ())]
    assert found == ["order-1"]


@pytest.mark.parametrize(
    ("meta", "more", "said"),
    [
        (b"{", (), "meta.json:1: expected JSON"),
        (b"[]", (), "meta.json: expected an object"),
        (None, ("--conf", "acks"), "--conf: expected KEY=VALUE, found 'acks'"),
        (None, ("--id", "no.such:thing"), "--id no.such:thing: expected MODULE:FUNCTION"),
    ],
)
def test_a_users_mistake_is_one_message(
    tmp_path: Path, log: Log, meta: bytes | None, more: tuple[str, ...], said: str
) -> None:
    record_three(tmp_path)
    if meta is not None:
        (tmp_path / "meta.json").write_bytes(meta)
    done = scan(tmp_path, *more)
    assert done.exit_code == 2
    assert said in done.output
    assert "Traceback" not in done.output


def test_an_empty_run_asks_for_topics(tmp_path: Path, log: Log) -> None:
    assert "give them with --topics" in scan(tmp_path).output


def test_without_confluent_kafka_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record_three(tmp_path)

    def missing(name: str) -> Any:
        raise ModuleNotFoundError(name=name)

    monkeypatch.setattr("traces.record.cluster.import_module", missing)
    done = scan(tmp_path)
    assert done.exit_code == 2
    assert "pip install confluent-kafka" in done.output


def test_settings_that_the_cluster_told_before_are_kept(tmp_path: Path, log: Log) -> None:
    ids = record_three(tmp_path)
    log.records, log.end = [stored(n, id) for n, id in enumerate(ids)], 3
    assert scan(tmp_path).exit_code == 0
    meta = orjson.loads((tmp_path / "meta.json").read_bytes())
    assert "earlier" not in meta["topics"]["t"]
    meta["topics"]["t"]["min_insync_replicas"] = 1
    (tmp_path / "meta.json").write_bytes(orjson.dumps(meta))
    assert scan(tmp_path).exit_code == scan(tmp_path).exit_code == 0
    (earlier,) = read_meta(tmp_path).topics["t"].earlier
    assert earlier.settings.min_insync_replicas == 1
    assert earlier.until_ns is not None
    assert earlier.clock == lines(tmp_path, "producer#0")[0]["clock"]


def altered(run: Path, *steps: tuple[str, int, int]) -> None:
    """An administrator's process file: what it set or was told, at which time, to which number."""
    about = {"process": "a#0", "outcome": "ok", "clock": "host"}
    found = [
        {"seq": seq, "op": op, "invoked_ns": at, "returned_ns": at + 5, **about}
        | {"topic_settings": {"t": {"min_insync_replicas": value}}}
        for seq, (op, at, value) in enumerate(steps)
    ]
    end = {"seq": len(found), "op": "close", "invoked_ns": 100, "returned_ns": 100, **about}
    text = b"".join(orjson.dumps(x, option=orjson.OPT_APPEND_NEWLINE) for x in (*found, end))
    (run / "a#0.ndjson").write_bytes(text)


@pytest.mark.parametrize(
    ("steps", "earlier"),
    [
        ([("metadata", 1, 2), ("alter_configs", 10, 2)], []),
        ([("metadata", 1, 1), ("alter_configs", 10, 2)], [(1, 15)]),
        (
            [
                *(("metadata", 1, 2), ("alter_configs", 10, 1)),
                *(("metadata", 20, 1), ("alter_configs", 30, 2)),
            ],
            [(1, 35)],
        ),
        ([("alter_configs", 10, 1)], [(1, None)]),
        ([("alter_configs", 10, 2), ("metadata", 20, 1)], [(1, None)]),
    ],
)
def test_settings_that_an_administrator_changed_and_changed_back_are_told(
    steps: list[tuple[str, int, int]],
    earlier: list[tuple[int, int | None]],
    tmp_path: Path,
    log: Log,
) -> None:
    """The cluster has 2 at the end. None: somebody else has set that, and nobody knows when."""
    ids = record_three(tmp_path)
    log.records, log.end = [stored(n, id) for n, id in enumerate(ids)], 3
    altered(tmp_path, *steps)
    assert scan(tmp_path).exit_code == scan(tmp_path).exit_code == 0
    found = read_meta(tmp_path).topics["t"].earlier
    assert [one.settings.min_insync_replicas for one in found] == [value for value, _ in earlier]
    for one, (_, until) in zip(found, earlier, strict=True):
        assert one.until_ns == until if until else (one.until_ns or 0) > 100
    assert read_trace(tmp_path).rows


def test_the_scan_tells_which_topic_it_has_read(tmp_path: Path, log: Log) -> None:
    ids = record_three(tmp_path)
    log.records, log.end = [stored(n, id) for n, id in enumerate(ids)], 3
    assert scan(tmp_path).exit_code == 0
    reported = [x for x in lines(tmp_path, "scan-ru#0") if x["op"] in ("list_offsets", "scan")]
    assert reported
    assert all(line["topic_ids"] == {"t": "an-id"} for line in reported)


@pytest.mark.parametrize(
    ("more", "who"),
    [
        ((), "all"),
        ((message(3),), "some"),  # without our header
        ((stored(3, 1 << 40),), "some"),  # of a process that is not here
        ((stored(3, 1),), "all"),  # of one that is here, and never sent it
    ],
)
def test_the_scan_notices_others_who_send(
    tmp_path: Path, log: Log, more: tuple[Any, ...], who: str
) -> None:
    ids = record_three(tmp_path)
    phantom = [stored(3, ids[-1] + 100)] if more and who == "all" else more
    log.records, log.end = [*(stored(n, id) for n, id in enumerate(ids)), *phantom], 4
    assert scan(tmp_path).exit_code == 0
    assert read_meta(tmp_path).topics["t"].senders == who
    assert (
        read_trace(tmp_path)
        .evidence.missing.get("senders", "all")
        .startswith(
            "all" if who == "all" else "meta.json says that not all who send to t were recorded"
        )
    )


def test_whoever_knows_says_whether_all_who_send_were_recorded(tmp_path: Path, log: Log) -> None:
    ids = record_three(tmp_path)
    log.records, log.end = [*(stored(n, id) for n, id in enumerate(ids)), message(3)], 4
    assert scan(tmp_path, "--senders", "all").exit_code == scan(tmp_path).exit_code == 0
    found = read_meta(tmp_path)
    assert (found.senders, found.topics["t"].senders) == ("all", None)


def test_of_the_applications_own_ids_those_that_nobody_sent_are_of_others(
    tmp_path: Path, log: Log
) -> None:
    producer = recorded(Producer, tmp_path, SAFE, id=own_id)
    producer.produce("t", b"order-1")
    producer.close()
    for orders, who in ((("order-1",), "all"), (("order-1", "order-2"), "some")):
        log.records = [message(n, value=one.encode()) for n, one in enumerate(orders)]
        log.end = len(orders)
        assert scan(tmp_path, "--id", f"{__name__}:own_id").exit_code == 0
        assert read_meta(tmp_path).topics["t"].senders == who
