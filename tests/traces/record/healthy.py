"""A healthy run as the recorder leaves it when every process is killed: three kinds of journals."""

from pathlib import Path
from shutil import copy
from typing import Any

import orjson
from attrs import define, field

from traces.record.polls import Polls
from traces.record.process import Process, now, open_process
from traces.record.run import TAKEN
from traces.record.settling import settle

PLAIN, TRANSACTIONAL = "t", "u"
_PRODUCER = {"acks": "all", "idempotence": True, "max_in_flight": 5, "retries": 10}
_CONSUMER = {
    "group": "g",
    "isolation": "read_committed",
    "auto_commit": False,
    "commit_order": "process_then_commit",
    "auto_offset_reset": "earliest",
    "group_protocol": "classic",
}
_TOPIC = {
    "partitions": 1,
    "replication_factor": 3,
    "min_insync_replicas": 2,
    "cleanup_policy": "delete",
    "unclean_leader_election": False,
}
META: dict[str, Any] = {
    "format": 1,
    "complete": True,
    "topics": {PLAIN: _TOPIC, TRANSACTIONAL: _TOPIC},
    "internal_topics": {"__consumer_offsets": _TOPIC},
    "producers": {"p": _PRODUCER, "q": _PRODUCER},
    "consumers": {"c": _CONSUMER},
    "processes": ["p#0", "q#0", "c#0", "s#0"],
}
#: By what they hold: sends and reports, transactions, polls.
VICTIMS = ("p#0", "q#0", "c#0")


@define
class Healthy:
    """Journals of a run, and the process files that they become."""

    folder: Path
    journals: Path = field(init=False)
    settled: Path = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.journals, self.settled = self.folder / "journals", self.folder / "settled"

    def record(self, rounds: int) -> None:
        """Rounds of sends, of a transaction, and of polls that process and commit them."""
        self.journals.mkdir(parents=True)
        self.settled.mkdir()
        p, q, c, s = (
            self._open(*of)
            for of in (("p", "producer"), ("q", "producer"), ("c", "consumer"), ("s", "scan"))
        )
        member: dict[str, Any] = {"group": "g", "member": "m", "generation": 1}
        polls = Polls(c)
        c.note("subscribe", topics=[PLAIN, TRANSACTIONAL], group="g")
        named = [f"{PLAIN}:0", f"{TRANSACTIONAL}:0"]
        c.note("assigned", partitions=named, **member)
        q.note("init_producer", transactional_id="x", producer_id=7, producer_epoch=0)
        p.write({"context": 1, "topic": PLAIN, "inside": {}})
        log: dict[str, list[tuple[int, int]]] = {PLAIN: [], TRANSACTIONAL: []}
        for number in range(rounds):
            self._send(p, 1, log[PLAIN], number, None if number % 3 else b"k%d" % number)
            of_txn: dict[str, Any] = {"transactional_id": "x", "txn": number}
            q.write({"context": 10 + number, "topic": TRANSACTIONAL, "inside": of_txn})
            q.note("txn_begin", **of_txn)
            self._send(q, 10 + number, log[TRANSACTIONAL], 2 * number, None)
            q.answer(q.call("txn_commit", **of_txn), "ok")
            log[TRANSACTIONAL].append((2 * number + 1, -1))  # the marker
            self._poll(c, polls, member, log, number)
        for topic, found in log.items():
            records = [
                {"topic": topic, "partition": 0, "offset": offset, "id": id}
                for offset, id in found
                if id >= 0
            ]
            ends = {f"{topic}:0": len(found)}
            s.note("scan", records=records, offsets=ends, isolation="read_uncommitted")
        for process in (p, q, c, s):
            process.journal.close()
            copy(process.journal.path, self.settled)
            settle(self.settled / process.journal.path.name)
        (self.settled / "meta.json").write_bytes(orjson.dumps(META))

    def _open(self, client: str, role: str) -> Process:
        head: Any = {"role": role, "client": "a client", "configured": {}}
        return open_process(self.journals, client, head, TAKEN, settle)

    def _send(
        self, by: Process, context: int, log: list[tuple[int, int]], offset: int, key: bytes | None
    ) -> None:
        seq = by.next_seq()
        by.journal.append_send(context, seq, by.first_id + seq, key, now())
        by.journal.append_report(seq, 0, offset, 1000 + offset)
        log.append((offset, by.first_id + seq))

    def _poll(
        self,
        by: Process,
        polls: Polls,
        member: dict[str, Any],
        log: dict[str, list[tuple[int, int]]],
        number: int,
    ) -> None:
        got = [
            (topic, 0, *log[topic][offset], None, 1000 + offset, 1)
            for topic, offset in ((PLAIN, number), (TRANSACTIONAL, 2 * number))
        ]
        seq = by.next_seq()
        about = {"group": "g", "isolation": "read_committed"}
        assert polls.write(got, about, seq, now(), now())
        by.note("process", records_of=seq, group="g")
        offsets = {f"{PLAIN}:0": number + 1, f"{TRANSACTIONAL}:0": 2 * number + 2}
        by.answer(by.call("commit", offsets=offsets, **member), "ok")
