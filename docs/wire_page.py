"""The page of what is served on the wire, built from the broker's own table of APIs."""

from collections.abc import Iterator
from pathlib import Path

from chaos.real.suites.catalogue import REASONS, SUITES
from chaos.real.suites.results import compared as compared_suites
from chaos.real.suites.results import kept as results_of
from refimpl.api.table import APIS
from refimpl.storage.format.compression import MOST_BYTES, MOST_TIMES
from refimpl.storage.log.validation import MOST_NAMED
from tests.wire.differences import ROWS
from tests.wire.generated import kept as answers_of
from tests.wire.generated_differences import ROWS as GENERATED_ROWS
from tests.wire.generated_differences import still_open
from tests.wire.recording import errors_of, is_retriable, kept
from tests.wire.scripts import OF_THREE, SCRIPTS

_HEAD = """\
# On the wire

Which of Kafka's APIs are served, in which versions, and where an answer is not Kafka's. Built by
`make docs` from the broker's table of APIs and from the tests.

ApiVersions announces exactly these. A version from the future is answered by what there is
(KIP-511); an API or a version that is not served ends the connection, as Kafka does.

- *Compared*: in these versions, {steps} requests of [scripts](../tests/wire/scripts.py) are
  answered by ours and by Kafka 4.3.1, and the answers held against each other field by field, error
  codes and messages included. `make test` has Kafka's answers as [files](../tests/wire/recorded);
  `make test-kafka` asks Kafka again, and `HIGHWATER_RECORD=1` records what it says.
- *Generated*: {generated:,} requests are made from Kafka's message definitions, for every API and
  version: each field null, empty, twice, negative, too large, of another version. They are compared
  as well, and a difference fails the tests unless a row below explains it, or it is one of the
  {pinned} that are [pinned](../tests/wire/recorded/generated/open.json).
- *Clients*: whose requests of this API a test sends: `Java` is Kafka's command-line tools and their
  4.3 client, `rdkafka` confluent-kafka, `python` kafka-python, `aio` aiokafka, and `kcat`.

| key | API | versions | compared | clients |
|---|---|---|---|---|
"""

#: By which clients, as the tests of clients and tools use them
_CLIENTS = {
    "Produce": "Java, rdkafka, python, aio, kcat",
    "Fetch": "Java, rdkafka, python, aio, kcat",
    "ListOffsets": "Java, rdkafka, python, aio, kcat",
    "Metadata": "Java, rdkafka, python, aio, kcat",
    "ApiVersions": "Java, rdkafka, python, aio, kcat",
    "FindCoordinator": "rdkafka, python, aio",
    "OffsetCommit": "rdkafka, python, aio",
    "OffsetFetch": "rdkafka, python, aio",
    "JoinGroup": "rdkafka, python, aio",
    "SyncGroup": "rdkafka, python, aio",
    "Heartbeat": "rdkafka, python, aio",
    "LeaveGroup": "rdkafka, python, aio",
    "InitProducerId": "Java, rdkafka, python, aio",
    "AddPartitionsToTxn": "rdkafka, python, aio",
    "AddOffsetsToTxn": "rdkafka, python, aio",
    "EndTxn": "Java, rdkafka, python, aio",
    "TxnOffsetCommit": "Java, rdkafka, python, aio",
    "DescribeQuorum": "Java",
    "GetTelemetrySubscriptions": "Java, rdkafka",
    "PushTelemetry": "Java, rdkafka",
    "ListConfigResources": "Java",
    "DescribeTransactions": "Java",
    "ListTransactions": "Java",
    "OffsetDelete": "Java",
    "ListGroups": "Java, rdkafka",
    "DescribeGroups": "Java, rdkafka",
    "DeleteGroups": "Java, rdkafka",
    "ConsumerGroupHeartbeat": "Java, rdkafka",
    "ConsumerGroupDescribe": "Java, rdkafka",
    "CreateTopics": "Java, rdkafka, python, aio",
    "DeleteTopics": "Java, rdkafka, python, aio",
    "CreatePartitions": "Java, rdkafka, python, aio",
    "DeleteRecords": "Java, rdkafka",
    "DescribeConfigs": "Java, rdkafka, aio",
    "AlterConfigs": "aio",
    "IncrementalAlterConfigs": "Java, rdkafka",
    "DescribeLogDirs": "Java",
    "ElectLeaders": "Java, rdkafka",
    "AlterPartitionReassignments": "Java",
    "ListPartitionReassignments": "Java",
    "DescribeClientQuotas": "Java",
    "AlterClientQuotas": "Java",
    "DescribeUserScramCredentials": "Java",
    "UpdateFeatures": "Java",
    "UnregisterBroker": "Java",
    "DescribeCluster": "Java, python",
    "DescribeProducers": "Java",
    "DescribeTopicPartitions": "Java",
}

_ABSENT = """\

## What is not served

Tools that need one of these are told so by their client, which reads what ApiVersions announces.

| APIs | why |
|---|---|
| delegation tokens | not built: clients log in by TLS, PLAIN, SCRAM or OAUTHBEARER \
([security](security.md)) |
| AddRaftVoter, RemoveRaftVoter | the metadata are kept as with ZooKeeper: there is no quorum of \
voters. DescribeQuorum answers one voter, the controller, and versions of the metadata as offsets |
| streams groups | not built |

## Where answers differ

| API | in | reason |
|---|---|---|
"""
_ALSO = """\
| all | leader epochs | those of a partition begin with 0 in Kafka and with 1 here, as in the \
spec; they are compared by their order alone |
| UpdateFeatures, ApiVersions | other features than `transaction.version` and \
`share.version` | they have no levels here, and are refused as those that a controller does \
not know |
| ApiVersions | `finalized_features_epoch` | counts the updates of features; in Kafka it is an \
offset of the metadata |
| Produce | records that their header does not match | Kafka opens each batch and refuses it; we \
decompress it, and leave its records to their reader |
| all | `request_percentage` | is of one thread, for there is one: 100 is all that a broker does; \
Kafka has `num.io.threads` and `num.network.threads` of them |
| Fetch | above `consumer_byte_rate` or `request_percentage` | Kafka answers without records and \
mutes the client, who asks again; we answer with them, and mute it for as long |
| CreatePartitions | more than 10,000 at once, without assignments | both refuse the request with \
`POLICY_VIOLATION`; Kafka counts what it has placed by then, we count before anything is placed |
| Produce, ListOffsets | a batch that would decompress to more than {most_mib} MiB | where it has \
to be opened we answer `MESSAGE_TOO_LARGE`. Kafka reads it as a stream, and has all of it in \
memory where it compresses it anew |
| Produce | more than {most_named:,} records of a batch without a key, for a compacted topic | \
Kafka names each of them in its answer, we the first {most_named:,} |
"""
_BEHAVIOUR = """\

## Reading at followers

With `replica.selector.class` set to `org.apache.kafka.common.replica.RackAwareReplicaSelector` a \
leader sends a consumer to a replica of its rack (KIP-392): one in the ISR that has the offset, \
the \
furthest of those; a leader in that rack keeps it. A consumer whose Fetch is of version 11 or \
newer \
may read at any replica, below that one's own high watermark, and waits there for it to move; \
what a \
follower does not have is `OFFSET_OUT_OF_RANGE`, by which clients go back to the leader. A \
`Cluster` \
takes `racks={{1: "a", 2: "b"}}`. The simulator's consumers read at followers with \
`follower_reads=true`, before the oracle that judges every read.

## What hostile clients cannot do

| limit | of each connection | of all |
|---|---|---|
| size of a frame | `socket.request.max.bytes`; memory grows only as bytes arrive | |
| frames above 64 KiB that are received | one | `queued.max.request.bytes`, in the order of asking |
| how long such a frame may make no progress | 30 s | |
| requests that wait for an answer | 64 Produce in a row, 4 MiB of them | \
`queued.max.request.bytes`, beside the one for frames that are received: who lies about sizes \
keeps nobody waiting |
| answers that are not read | 1 MiB, then nothing more is handled | 512 MiB; the largest is cut \
off |
| silence | `connections.max.idle.ms`; TCP asks whether the host is still there | \
`max.connections` |

A compressed batch is decompressed once when it comes, to see that consumers can read it. It is \
opened again for its keys where the topic is compacted, for another codec where it has a \
`compression.type` of its own, by compaction, and to find a time. It is decompressed as a \
whole then, one at a time, to {most_mib} MiB at most, or to {most_times} times its size if that is \
more; nobody opens what is larger. Produce and ListOffsets answer `MESSAGE_TOO_LARGE`, at which \
Kafka's own producer splits its batch, and the cleaner leaves that partition alone. `make test` \
has a [bomb](../tests/refimpl/storage/format/bombs.py) for each codec.

`make fuzz` feeds a million mutated frames to a broker, guided by coverage, and asks after \
each: no \
bug of ours met, at most one answer, which its own version can read, other clients served, all \
memory given back. `make test` has four thousand of them. Each limit has a test that fails \
without it.

## Final and retriable

After a retriable error a client asks again until its time is over, two minutes with a Java \
producer; after a final one it tells its application. Our errors are of Kafka's class wherever the \
answers are compared: no row above may excuse another one. These are the errors that Kafka gives \
there, by its own list:

| API | final | retriable |
|---|---|---|
{errors}
## Clients' metrics and loggers

Clients push their metrics to whoever takes them (KIP-714). `Cluster(client_telemetry=function)` \
calls the function with a `ClientTelemetry` for each push: who it is from, and OpenTelemetry's \
MetricsData, decompressed; a list's `append` keeps them. `highwater broker --client-telemetry \
MODULE:FUNCTION` does so for a process. GetTelemetrySubscriptions and PushTelemetry are \
announced only then, as in Kafka, whose plug-ins are classes of `metric.reporters`. What clients \
are asked for are configurations of type `client-metrics`, which `kafka-client-metrics.sh` \
makes; they are kept as those of topics are. Patterns are RE2's, which has no look-around. An \
exception of the function is INVALID_RECORD to the client.

`kafka-configs.sh --entity-type broker-loggers` describes and changes the levels of this \
process's loggers: Python's, by their names, with Kafka's levels. Ours are `highwater.broker`, \
`highwater.clients` (who is refused), `highwater.certificates`, and `highwater.requests`, which \
at DEBUG names each request. Brokers of one process share them, and a change lasts until it \
ends.

## Faults on real brokers

`highwater faults` (a stage of `make verify`) kills, pauses and cuts off three brokers while \
librdkafka writes and reads: what the clients saw goes to `highwater check`, what the brokers \
did to \
TLC. An ISR changes by request there, and at once in Truncation: `ExpandIsr` stands where the \
leader \
asked, if the controller agreed, for from then on its high watermark waits for the follower. \
`make test-faults` does it to processes on ZooKeeper: SIGKILL, SIGSTOP, files that may not grow \
any more, connections to ZooKeeper that are cut, 200 kills; it goes on where it was. Transactional \
producers of librdkafka, aiokafka and kafka-python write meanwhile. Where nothing may be lost, \
two applications read, process and write in transactions. These clients are processes that are \
killed, stopped and taken over as well. Beside the checks each input record must have exactly one \
committed output. A client that commits nothing for a minute after all brokers are back is \
replaced, and counted: librdkafka's send_offsets_to_transaction may wait for ever \
([5456](https://github.com/confluentinc/librdkafka/issues/5456)). Each process \
writes its steps down before it sends anything, by the clock that all of them share; put together \
they are one trace, which TLC has to accept as well. What a process appended and was killed before \
it could say is inferred from the log that it finds when it starts again, and counted. Where a \
session ended and its process lived on, it registers again (`RegisterAgain` in Replication): the \
broker knows its new epoch before the controller does. Seeds 1 and 2 on 2026-11-22, \
3 and 4 on 2026-11-23: 85 rounds, 674 kills, 173 SIGSTOP, 84 cuts, 87 full disks; in all 65 rounds \
with acks=all and min.insync.replicas=2 the verdict was *holds*; with acks=1 and unclean election \
losses were seen in 12 rounds of 20, and *allowed*. TLC accepts all 25 rounds of seed 4, 83,564 \
steps, and 25 of the 26 of seed 3, 82,453; in the other a full disk had ended the file of steps as \
well, which go by pipes now. With transactional clients, on 2026-11-29: ten rounds of seed 6, \
82 kills of brokers, 21 SIGSTOP, 11,705 transactions committed and 2,323 aborted; 31,526 records \
were processed, each once, and the verdict of each round was *holds*. TLC accepts all ten, \
1,183,585 steps, the log of the transactions' coordinator included.

## Other clients' own tests

`make test-suites` runs the test suites of other clients on ours and on Kafka 4.3.1, with the same \
settings: no test that passes on Kafka may fail here without a reason of the \
[catalogue](../chaos/real/suites/catalogue.py). What became of each test is \
[kept](../chaos/real/suites/results.json), and `make test` holds the table to it. Tests that fail \
on both systems need authentication, a controller, or brokers started by the suite.

| suite | version | tests | pass on Kafka | of these here | of the rest |
|---|---|---|---|---|---|
{suites}
## Beside Kafka and kfake

`python bench/bench_beside.py --write docs/wire_figures.md` measures all of it and goes on where \
it was. The ratios of one run count, the numbers less: all systems and the client share the same \
cores. CPU-s are of all processes of a system. A ratio above 1: we are better than that one. \
Consuming takes less than a second and varies more than it differs; it is the best of five times.

{figures}
`python bench/bench_transactions.py` commits one transaction after the other with librdkafka, in \
rounds of each system in turn. 2026-11-29, three rounds of 60 transactions, two cores at load 20; \
Kafka's figures would grow with longer rounds, because its code is compiled while it runs:

| replicas, records | transactions/s: ours, Kafka, kfake | p50 ms | p99 ms | commits per CPU-s |
|---|---|---|---|---|
| 1, 1 | 306, 61 (**5.00**), 585 (**0.52**) | 2.6, 6.7, 1.5 | 22, 50, 4 | 857, 171, 3,000 |
| 1, 10 | 287, 71 (**4.04**), 544 (**0.53**) | 2.3, 4.5, 1.7 | 11, 111, 3 | 750, 200, 6,000 |
| 1, 100 | 442, 155 (**2.86**), 511 (**0.87**) | 2.4, 3.8, 1.7 | 4, 37, 6 | 750, 300, 3,000 |
| 3, 1 | 153, 17 (**8.76**), 538 (**0.28**) | 5.3, 56.5, 1.6 | 39, 101, 8 | 273, 35, 6,000 |
| 3, 10 | 63, 16 (**3.96**), 471 (**0.13**) | 10.4, 59.5, 1.8 | 115, 178, 7 | 130, 30, 3,000 |
| 3, 100 | 52, 14 (**3.81**), 484 (**0.11**) | 9.6, 64.5, 1.8 | 105, 321, 6 | 130, 28, 3,000 |
| 1, 10, each by another of 1,000 ids | 6.4, 5.4 (**1.19**), 11.6 (**0.56**) | 5.9, 13.2, 2.2 \
| 89, 219, 44 | 131, 71, 411 |

With 1,000 transactional ids (`--ids 1000`) the rate is mostly the client's: to init a producer \
takes it 80 ms with kfake, too. A state log of 100,000 records of these ids costs us 0.11 CPU-s at \
a start, and Kafka 0.25 (`bench/bench_transaction_load.py`).

A small produce request costs 38 to 45 us of CPU at one replica and 56 to 66 at three. It \
was 46 to 51 and 76 to 86 before requests were read by fewer calls and kept as one object \
(`bench/bench_broker.py`, by turns on a busy machine). 3 % of it is the kernel's, the rest is \
spread over the whole way of the request: by py-spy reading it takes 7 %, and no other function \
more than 5 %. At three replicas what came in one burst is fetched by followers in one answer. \
Consuming is bound by the client: 100,000 \
records of 1 KiB cost the broker 0.06 s of CPU, most of it the socket's. Topics of 1,000 \
partitions wait for the disk: each replica's folder and `partition.metadata` are flushed, all of \
them together, and so is each `leader-epoch-checkpoint` where many epochs begin at once, at \
followers those of all partitions in one answer. The controller writes its log once \
for all that comes together. From 64 files on, one `syncfs` \
flushes ext4 and xfs as a whole. Kafka flushes each: of 50 partitions with three replicas 150 \
files `partition.metadata`, 150 `leader-epoch-checkpoint` and 300 times a folder (counted by \
`strace -e fsync,fdatasync` from their creation to a record in each). kfake \
replicates nothing and keeps nothing.
"""
_FIGURES = Path(__file__).parent / "wire_figures.md"
_LIMITS = {"most_mib": MOST_BYTES >> 20, "most_times": MOST_TIMES, "most_named": MOST_NAMED}


def _errors() -> str:
    """Rows of the errors that Kafka answers to the requests of each API."""
    found = {one.name: set(errors_of(answers_of(one.name))) for one in APIS.values()}
    for name in (*SCRIPTS, *OF_THREE):
        for step in kept(name):
            found[step["api"]].update(errors_of(step["answer"]))
    return "".join(
        f"| {api} | {', '.join(sorted(errors - again))} | {', '.join(sorted(again))} |\n"
        for api, errors in found.items()
        for again in ({one for one in errors if is_retriable(one)},)
        if errors
    )


def page() -> str:
    """The whole page."""
    compared = _compared()
    steps = sum(len(kept(name)) for name in (*SCRIPTS, *OF_THREE))
    rows = "".join(
        f"| {one.key} | {one.name} | {_range(one.first, one.last)} | "
        f"{_versions(compared.get(one.name, set()))} | {_CLIENTS.get(one.name, '')} |\n"
        for one in sorted(APIS.values(), key=lambda one: one.key)
    )
    explained = [(row.api, row.where, row.reason) for row in (*ROWS, *GENERATED_ROWS)]
    differences = "".join(
        f"| {api.replace('|', ', ')} | {where} | {reason} |\n"
        for api, where, reason in dict.fromkeys(explained)
    )
    suites = "".join(map(_suite, compared_suites()))
    of = {"figures": _FIGURES.read_text(), "suites": suites, "errors": _errors()}
    behaviour = _BEHAVIOUR.format(**of, **_LIMITS)
    return "".join(
        (
            _HEAD.format(steps=steps, **_generated()),
            rows,
            _ABSENT,
            differences,
            _ALSO.format(**_LIMITS),
            behaviour,
        )
    )


def _generated() -> dict[str, int]:
    """The number of generated requests, and of those answers that are still to be mended."""
    chunks = (of for name in APIS.values() for of in answers_of(name.name).values())
    return {"generated": sum(map(len, chunks)), "pinned": sum(map(len, still_open().values()))}


def _suite(name: str) -> str:
    """The row of one suite."""
    kept = results_of(name)
    theirs = {test for test, outcome in kept["kafka"].items() if outcome == "passed"}
    rest = [test for test in theirs if kept["ours"].get(test) != "passed"]
    reasons = {one.reason for test in rest for one in REASONS if one.covers(name, test)}
    counts = f"{len(kept['kafka'])} | {len(theirs)} | {len(theirs) - len(rest)}"
    return f"| {name} | {SUITES[name].version} | {counts} | {'; '.join(sorted(reasons))} |\n"


def _compared() -> dict[str, set[int]]:
    """The versions that the recorded scripts send, by API."""
    found: dict[str, set[int]] = {}
    for name in (*SCRIPTS, *OF_THREE):
        for step in kept(name):
            found.setdefault(step["api"], set()).add(step["version"])
    return found


def _range(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}–{last}"


def _versions(versions: set[int]) -> str:
    return ", ".join(_range(*one) for one in _runs(sorted(versions)))


def _runs(versions: list[int]) -> Iterator[tuple[int, int]]:
    """First and last of each stretch without a gap."""
    first = last = None
    for one in versions:
        if last is not None and first is not None and one != last + 1:
            yield first, last
            first = one
        first, last = (one if first is None else first), one
    if first is not None and last is not None:
        yield first, last
