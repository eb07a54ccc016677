"""The recorder of a proxy, request by request: ids, sessions, transactions, positions."""

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import orjson
import pytest

from chaos.real.proxy.recording.batches import batches_in, fetched, sent
from chaos.real.proxy.recording.fetching import Aborted, FetchSession
from chaos.real.proxy.recording.grouping import Groups
from chaos.real.proxy.recording.journals import Journals
from chaos.real.proxy.recording.links import Link, Topics
from chaos.real.proxy.recording.sending import Sends
from chaos.real.proxy.recording.sessions import Sessions
from chaos.real.proxy.recording.transacting import Transactions
from refimpl.clients.assignors.protocol import write_assignment
from refimpl.storage.format.batch import (
    BatchHeader,
    Codec,
    decode_records,
    encode_batch,
    placed,
    read_header,
    stamped,
)
from refimpl.storage.format.control import EndTxnMarker, encode_marker
from refimpl.storage.format.record import Record
from refimpl.wire.messages import read_request, read_response, write_request, write_response
from traces.record.settling import settle

PRODUCE, FETCH, OFFSET_FETCH, SYNC, END_TXN = 0, 1, 9, 14, 26
NUMBERED: dict[str, Any] = {"producer_id": 7, "producer_epoch": 2, "base_sequence": 5}
TIME = 1_700_000_000_000


def records(*values: bytes, at: int = TIME) -> list[Record]:
    return [Record(n, at, b"k", value, (("h", b"x"),)) for n, value in enumerate(values)]


def ids(lines: list[dict[str, Any]]) -> list[Any]:
    return [line.get("id") for line in lines]


def read(data: bytes, since: int = 0) -> list[dict[str, Any]]:
    """The records of batches as a reader is given them."""
    view = memoryview(data)
    return [
        line
        for position, header in batches_in(view)
        for line in fetched("t", 0, view, position, header, since)
    ]


def stored(batch: bytes, offset: int, epoch: int = 3) -> bytes:
    """A batch where a leader has put it."""
    head = placed(read_header(batch), offset, epoch)
    return head + batch[len(head) :]


@pytest.mark.parametrize("numbers", [NUMBERED, {}])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP, Codec.ZSTD])
def test_an_id_is_the_same_where_it_is_read(numbers: Any, codec: Codec) -> None:
    batch = encode_batch(records(b"a", b"b", b"a"), codec=codec, **numbers)
    there = sent("t", 0, memoryview(batch), stamped=False)
    assert len({*ids(there)}) == 3
    found = read(stored(batch, 40))
    assert ids(found) == ids(there)
    assert [(one["offset"], one["epoch"]) for one in found] == [(40, 3), (41, 3), (42, 3)]
    assert [one["hash"] for one in found] == [one["hash"] for one in there]
    assert ids(read(stored(batch, 40), since=41)) == ids(there)[1:]
    assert ids(sent("t", 1, memoryview(batch), stamped=False)) != ids(there)


@pytest.mark.parametrize("numbers", [NUMBERED, {}])
def test_an_id_outlives_compaction(numbers: Any) -> None:
    """The cleaner keeps the place of a record in its batch."""
    batch = encode_batch(records(b"a", b"b", b"c"), **numbers)
    there = sent("t", 0, memoryview(batch), stamped=False)
    kept = [one for one in decode_records(stored(batch, 40)) if one.offset != 41]
    cleaned = encode_batch(kept, base_offset=40, last_offset=42, leader_epoch=3, **numbers)
    assert ids(read(cleaned)) == [ids(there)[0], ids(there)[2]]


def test_records_that_look_alike_are_told_apart_by_their_time() -> None:
    one, two = (encode_batch(records(b"a", at=TIME + n)) for n in range(2))
    first, second = (sent("t", 0, memoryview(batch), stamped=False) for batch in (one, two))
    assert ids(first) != ids(second)


def test_a_leaders_clock_leaves_the_id_of_what_is_known_to_be_stamped() -> None:
    """LogAppendTime replaces the times of records, so no id may depend on them."""
    batch = encode_batch(records(b"a", b"b"))
    head = stamped(batch, 0, read_header(batch), 40, 3, TIME + 5000)
    there = head + batch[len(head) :]
    assert ids(read(there)) == ids(sent("t", 0, memoryview(batch), stamped=True))
    assert ids(read(there)) != ids(sent("t", 0, memoryview(batch), stamped=False))
    assert ids(sent("t", 0, memoryview(batch), stamped=None)) == [None, None]


def test_a_batch_that_breaks_off_is_left() -> None:
    batch = stored(encode_batch(records(b"a", b"b"), **NUMBERED), 0)
    assert [one["offset"] for one in read(batch + stored(batch, 2)[:-1])] == [0, 1]


class Seen:
    """A recorder for one connection, and the lines that it wrote."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.journals = folder, Journals(folder)
        self.link = Link("app", lambda: 1, self.journals)
        self.topics = Topics()
        self.sessions = Sessions(self.journals)
        self.sends = Sends(self.topics, self.sessions)
        self.transactions = Transactions(self.topics, self.sessions)
        self.groups = Groups(self.topics)

    def produce(self, batch: bytes, transactional_id: str | None = None) -> Any:
        """A Produce request; the answer takes error, offset and time."""
        partition = {"index": 0, "records": batch}
        topic = {"name": "t", "partition_data": [partition]}
        values = {"transactional_id": transactional_id, "acks": -1, "topic_data": [topic]}
        body = write_request(PRODUCE, 9, values)
        answered = self.sends.produce(self.link, 9, body, 0)

        def answer(error: str | None = None, offset: int = 40, time: int = -1) -> None:
            partition = {"index": 0, "error_code": error, "base_offset": offset}
            given = {**partition, "log_append_time": time}
            topic = {"name": "t", "partition_responses": [given]}
            answered(write_response(PRODUCE, 9, {"responses": [topic]}), 0)

        return answer

    def lines(self, op: str) -> list[dict[str, Any]]:
        """The calls of this kind, when all is over."""
        self.sessions.cut()
        self.sessions.gone(self.link)
        self.groups.gone(self.link)
        self.link.end()
        self.journals.end_all()
        files = [settle(journal).file for journal in sorted(self.folder.glob("*.journal"))]
        files = files or sorted(self.folder.glob("*.ndjson"))
        found = [orjson.loads(line) for file in files for line in file.read_bytes().splitlines()]
        return [line for line in found if line["op"] == op]


@pytest.fixture
def seen(tmp_path: Path) -> Seen:
    return Seen(tmp_path)


def test_all_attempts_at_a_batch_are_one_send(seen: Seen) -> None:
    """The second is answered first; a late answer to the first changes nothing."""
    batch = encode_batch(records(b"a", b"b"), **NUMBERED)
    late, again = seen.produce(batch), seen.produce(batch)
    again("DUPLICATE_SEQUENCE_NUMBER", offset=40)
    late("NOT_LEADER_OR_FOLLOWER", offset=-1)
    seen.produce(batch)()
    (send,) = seen.lines("send")
    assert send["outcome"] == "ok"
    assert [one["offset"] for one in send["records"]] == [40, 41]
    assert (send["producer_id"], send["producer_epoch"]) == (7, 2)


def test_a_refusal_of_one_attempt_leaves_the_batch_open(seen: Seen) -> None:
    """Another attempt may have been stored, or may still be."""
    seen.produce(encode_batch(records(b"a"), **NUMBERED))("NOT_LEADER_OR_FOLLOWER", -1)
    following: Any = {**NUMBERED, "base_sequence": 6}
    seen.produce(encode_batch(records(b"b"), **following))("MESSAGE_TOO_LARGE", -1)
    one, two = seen.lines("send")
    assert (one["outcome"], one["error"]) == ("info", "NOT_LEADER_OR_FOLLOWER")
    assert (two["outcome"], two["error"]) == ("fail", "MESSAGE_TOO_LARGE")


def test_each_attempt_without_a_number_is_a_send(seen: Seen) -> None:
    """Nobody knows which of them was stored; what is refused before the write certainly was not."""
    batch = encode_batch(records(b"a"))
    seen.produce(batch)("NOT_LEADER_OR_FOLLOWER", -1)
    seen.produce(batch)("REQUEST_TIMED_OUT", -1)
    seen.produce(batch)()
    sends = seen.lines("send")
    assert [one["outcome"] for one in sends] == ["fail", "info", "ok"]
    assert ids(sends[0]["records"]) == ids(sends[2]["records"])
    assert ids(sends[1]["records"]) == [None], "nobody had told yet whether times are replaced"


def test_a_topic_whose_times_become_its_leaders_leaves_open_sends_nameless(seen: Seen) -> None:
    """Their records may be stored under either rule, and so under either id."""
    one, two, three = (encode_batch(records(b"%d" % n)) for n in range(3))
    seen.produce(one)()
    late = seen.produce(two)
    seen.produce(three)(offset=41, time=TIME)
    late(offset=42, time=TIME)
    sends = seen.lines("send")
    assert [one["outcome"] for one in sends] == ["ok", "info", "ok"]
    assert ids(sends[0]["records"]) == ids(sent("t", 0, memoryview(one), stamped=False))
    assert ids(sends[1]["records"]) == [None]
    assert ids(sends[2]["records"]) == ids(sent("t", 0, memoryview(three), stamped=True))
    assert len(seen.lines("close")) == 1, "no call was answered twice"


def end(seen: Seen, committed: bool, epoch: int = 2) -> Any:
    """EndTxn; the answer takes an error."""
    values = {"transactional_id": "till", "producer_id": 7, "producer_epoch": epoch}
    body = write_request(END_TXN, 5, {**values, "committed": committed})
    answered = seen.transactions.end(seen.link, read_request(END_TXN, 5, body))

    def answer(error: str | None = None, **more: Any) -> None:
        written = write_response(END_TXN, 5, {"error_code": error, **more})
        answered(read_response(END_TXN, 5, written))

    return answer


def in_txn(sequence: int, epoch: int = 2) -> bytes:
    numbers: Any = {"producer_id": 7, "producer_epoch": epoch, "base_sequence": sequence}
    return encode_batch(records(b"a"), transactional=True, **numbers)


def test_an_end_is_asked_for_until_it_is_answered(seen: Seen) -> None:
    """The next transaction has the epoch that the answer tells (KIP-890)."""
    seen.produce(in_txn(0), "till")()
    end(seen, True)
    end(seen, True)("CONCURRENT_TRANSACTIONS")
    end(seen, True)(producer_id=7, producer_epoch=3)
    seen.produce(in_txn(0, epoch=3), "till")()
    end(seen, False, epoch=3)(producer_id=7, producer_epoch=4)
    begun = seen.lines("txn_begin")
    assert [one["txn"] for one in begun] == [0, 1]
    assert [one["outcome"] for one in seen.lines("txn_commit")] == ["ok"]
    assert [one["txn"] for one in seen.lines("send")] == [0, 1]
    assert [one["txn"] for one in seen.lines("txn_abort")] == [1]


@pytest.mark.parametrize(("attempts", "outcome"), [(1, "fail"), (2, "info")])
def test_a_refused_end_is_certain_if_it_was_the_only_one(
    seen: Seen, attempts: int, outcome: str
) -> None:
    seen.produce(in_txn(0), "till")()
    several = [end(seen, True) for _ in range(attempts)]
    several[-1]("PRODUCER_FENCED")
    (commit,) = seen.lines("txn_commit")
    assert (commit["outcome"], commit["error"]) == (outcome, "PRODUCER_FENCED")


@pytest.mark.parametrize("ends", [True, False])
def test_a_transaction_that_is_open_when_the_proxy_ends_leaves_its_file_cut_off(
    seen: Seen, ends: bool
) -> None:
    """Its client goes on, and may commit it elsewhere."""
    seen.produce(in_txn(0), "till")()
    if ends:
        end(seen, True)(producer_id=7, producer_epoch=2)
    assert len(seen.lines("close")) == ends


def fetch(topics: Mapping[str, Mapping[int, int]], epoch: int, **more: Any) -> Any:
    """A Fetch request of a session: the offsets of partitions."""
    listed = [
        {
            "topic": name,
            "partitions": [{"partition": n, "fetch_offset": at} for n, at in partitions.items()],
        }
        for name, partitions in topics.items()
    ]
    values = {"session_id": 1, "session_epoch": epoch, "topics": listed, **more}
    return read_request(FETCH, 11, write_request(FETCH, 11, values))


def test_a_fetch_session_names_only_what_has_changed() -> None:
    session = FetchSession(Topics())
    session.take(fetch({"t": {0: 5, 1: 7}}, epoch=0))
    assert session.moved() == {("t", 0): 5, ("t", 1): 7}
    session.due["t", 0] = 9
    session.take(fetch({"t": {0: 9}}, epoch=1))
    assert session.moved() == {}
    assert {key: one.offset for key, one in session.asked.items()} == {("t", 0): 9, ("t", 1): 7}
    session.take(fetch({"t": {1: 3}}, epoch=2))
    assert session.moved() == {("t", 1): 3}
    forgotten = [{"topic": "t", "partitions": [0]}]
    session.take(fetch({}, epoch=3, forgotten_topics_data=forgotten))
    assert [*session.asked] == [("t", 1)]


def test_what_was_aborted_is_left_out_as_clients_do() -> None:
    """Producer 7 aborts its first transaction and commits its second."""

    def header(id: int, offset: int) -> BatchHeader:
        batch = encode_batch(records(b"a"), producer_id=id, producer_epoch=0, transactional=True)
        return read_header(stored(batch, offset))

    hidden, shown, later = header(7, 0), header(8, 1), header(7, 3)
    aborts = encode_marker(EndTxnMarker(False, 0), producer_id=7, producer_epoch=0, timestamp=1)
    marker = memoryview(stored(aborts, 2))
    aborted = Aborted([SimpleNamespace(producer_id=7, first_offset=0)])
    assert aborted.hides(hidden)
    assert not aborted.hides(shown)
    aborted.ends(marker, read_header(marker))
    assert not aborted.hides(later)


def test_a_member_is_one_process_by_whatever_connection(seen: Seen) -> None:
    """It is told its part twice in a generation, for it did not hear the first answer."""
    other = Link("app", lambda: 2, seen.journals)
    values = {"group_id": "g", "generation_id": 1, "member_id": "m"}
    body = read_request(SYNC, 5, write_request(SYNC, 5, {**values, "protocol_type": "consumer"}))
    part = {"assignment": write_assignment([("t", 0)]), "protocol_type": "consumer"}
    answer = read_response(SYNC, 5, write_response(SYNC, 5, part))
    for link in (seen.link, other):
        answered = seen.groups.sync(link, body)
        assert answered is not None
        answered(answer)
    found = seen.lines("assigned")
    assert len(found) == 2
    assert len({one["process"] for one in found}) == 1
    assert {one["member"] for one in found} == {"m"}


def test_an_answer_that_failed_says_nothing_about_offsets(seen: Seen) -> None:
    """An answer without a partition would say that nothing is committed."""
    partitions = [{"partition_indexes": [0, 1, 2], "name": "t"}]
    values = {"group_id": "g", "topics": partitions}
    body = read_request(OFFSET_FETCH, 5, write_request(OFFSET_FETCH, 5, values))
    several = (("UNSTABLE_OFFSET_COMMIT", -1), (None, -1), (None, 4))
    told = [
        {"partition_index": n, "error_code": error, "committed_offset": offset}
        for n, (error, offset) in enumerate(several)
    ]
    written = write_response(OFFSET_FETCH, 5, {"topics": [{"name": "t", "partitions": told}]})
    seen.groups.committed(seen.link, body)(read_response(OFFSET_FETCH, 5, written))
    (line,) = seen.lines("committed")
    assert (line["partitions"], line["offsets"]) == (["t:1", "t:2"], {"t:2": 4})
