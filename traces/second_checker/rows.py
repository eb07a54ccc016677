"""The part of a call about one record or one partition: the unit that the second checker reads."""

from collections.abc import Iterator
from typing import Any

from attrs import define

TraceLine = dict[str, Any]
PartitionName = str  # "topic:partition", as the trace writes it

# What calls tell about partitions besides their records, under the names that witnesses use: a
# poll what a broker answered, a dump what a replica knew.
REPORTS = {
    "poll": {"high_watermark": "mark", "log_start": "log_start", "last_stable": "last_stable"},
    "dump": {"high_watermark": "dump_mark", "log_start": "dump_start"},
}
ENDS = {"scan": "scan_end", "dump": "dump_end"}
MESSAGES = ("send", "poll", "process", "acquire", "acknowledge")


@define(eq=False)
class Row:
    """One record of a line, or one partition that it names; `n` is the line's place in its file."""

    line: TraceLine
    record: TraceLine
    op: str
    partition: PartitionName
    n: int
    i: int

    @property
    def process(self) -> str:
        """The process that made the call."""
        return self.line["process"]

    @property
    def outcome(self) -> str:
        """The outcome of the call."""
        return self.line["outcome"]

    @property
    def ok(self) -> bool:
        """True if the call certainly happened."""
        return self.line["outcome"] == "ok"

    @property
    def inv(self) -> int | None:
        """When the call was made."""
        return self.line.get("invoked_ns")

    @property
    def ret(self) -> int | None:
        """When the call returned."""
        return self.line.get("returned_ns")

    @property
    def offset(self) -> int | None:
        """The record's offset, or the offset that the call names for the partition."""
        return self.record.get("offset")

    @property
    def id(self) -> Any:
        """The record's id."""
        return self.record.get("id")

    @property
    def group(self) -> str | None:
        """The group in whose name the call was made."""
        return self.line.get("group")

    @property
    def generation(self) -> int | None:
        """The generation of the group, as the caller knew it."""
        return self.line.get("generation") if self.group is not None else None

    @property
    def life(self) -> str | None:
        """The id of the row's topic: the same name may be that of several topics, one by one."""
        ids: dict[str, str] = self.line.get("topic_ids") or {}
        topic = self.partition.rpartition(":")[0] or self.partition
        return self.record.get("topic_id") or ids.get(topic)

    @property
    def unit(self) -> tuple[str, str, int]:
        """The transaction that the row belongs to, or its call where there is none."""
        txn = self.line.get("txn")
        return (self.process, "call", self.line["seq"]) if txn is None else (self.process, "t", txn)

    @property
    def call(self) -> tuple[str, int]:
        """The call of the row: one operation of a history is several lines."""
        return self.process, self.line["seq"]

    @property
    def at(self) -> tuple[int, int]:
        """The position of the row in the program of its process."""
        return self.n, self.i


TOPICS = ("create_topics", "delete_topics", "describe_topics")


def lives_reported(line: TraceLine) -> Iterator[tuple[str, str]]:
    """Topics, each with the id that a line reports."""
    reported_names: dict[str, str] = line.get("topic_ids") or {}
    yield from reported_names.items()
    for record in line.get("records") or ():
        if record.get("topic_id") is not None:
            yield record["topic"], record["topic_id"]


def before(one: Row, two: Row) -> bool:
    """True if one call certainly returned before the other began: one clock, both times known."""
    if one.ret is None or two.inv is None:
        return False
    return same_clock(one, two) and one.ret < two.inv


def same_clock(one: Row, two: Row) -> bool:
    """True if the times of these calls can be compared."""
    return one.line.get("clock", "host") == two.line.get("clock", "host")


def rows_of(line: TraceLine, n: int) -> Iterator[Row]:
    """All rows of one line."""
    op = line["op"]
    for i, record in enumerate(line.get("records") or ()):
        number = record.get("partition")
        partition = record["topic"] if number is None else f"{record['topic']}:{number}"
        yield Row(line, record, "marker" if line.get("control") else op, partition, n, i)
    partitions: list[PartitionName] = line.get("partitions") or []
    offsets: dict[PartitionName, int] = line.get("offsets") or {}
    named: dict[PartitionName, int | None] = {**dict.fromkeys(partitions), **offsets}
    if op in MESSAGES or op in ("subscribe", *TOPICS):
        named = {}
    if op == "subscribe" or (op == "acquire" and line.get("records") == []):
        # Of a share group's member: what it asks for, and of what it waited for in vain.
        word = "joined" if op == "subscribe" else "waited"
        for i, partition in enumerate(dict.fromkeys(partitions)):
            yield Row(line, {}, word, partition, n, i)
    if op == "committed" and "offsets" not in line:
        named = {}  # no answer is not the answer that there is none
    word = ENDS.get(op, op)
    if op == "list_offsets" and line.get("query") in ("earliest", "latest"):
        word = line["query"]
    for i, (partition, offset) in enumerate(named.items()):
        yield Row(line, {"offset": offset}, word, partition, n, i)
    for name, word in REPORTS.get(op, {}).items():
        reported: dict[PartitionName, int] = line.get(name) or {}
        epochs: dict[PartitionName, int] = line.get("leader_epochs") or {}
        for i, (partition, offset) in enumerate(reported.items()):
            yield Row(
                line, {"offset": offset, "epoch": epochs.get(partition)}, word, partition, n, i
            )
