"""Scripts for a producer with transactions, played here as `ProducerTransactions.java` does."""

from collections import deque
from random import Random
from typing import Any

from attrs import define, evolve, field

from refimpl.clients.errors import RETRIABLE
from refimpl.clients.network import NetworkClient, node_of
from refimpl.clients.producer.config import ProducerConfig
from refimpl.clients.producer.errors import InvalidTransactionState
from refimpl.clients.producer.machine import ProducerMachine
from refimpl.clients.producer.messages import (
    Failed,
    GroupMetadata,
    TransactionCall,
    TransactionDone,
    TransactionFailed,
)
from refimpl.clients.producer.transactions import MOVED, Transactions
from refimpl.edge.clients.batches import BytesBatches
from refimpl.messages import group as g
from refimpl.messages import transaction_coordination as t
from refimpl.messages.broker import Request, Response, Timer, TopicPartition
from refimpl.messages.controller import InitProducerIdResponse
from tests.refimpl.clients.producer.scripts import (
    LONG,
    LikeKafka,
    Play,
    Script,
    ordered,
)

AGAIN = (
    *("NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS"),
    *("CONCURRENT_TRANSACTIONS", "UNKNOWN_TOPIC_OR_PARTITION", "REQUEST_TIMED_OUT"),
    "NOT_LEADER_OR_FOLLOWER",
)
ALL = (
    *("INVALID_PRODUCER_EPOCH", "PRODUCER_FENCED", "INVALID_REQUEST", "INVALID_TXN_STATE"),
    *("TRANSACTIONAL_ID_AUTHORIZATION_FAILED", "INVALID_PRODUCER_ID_MAPPING"),
)
STARTED = "TRANSACTION_ABORTABLE", "UNKNOWN_PRODUCER_ID"
WRONG = {
    "FindCoordinator": (*ALL, "GROUP_AUTHORIZATION_FAILED"),
    "InitProducerId": (*ALL, "CLUSTER_AUTHORIZATION_FAILED", "INVALID_TRANSACTION_TIMEOUT"),
    "AddPartitionsToTxn": (*ALL, *STARTED, "TOPIC_AUTHORIZATION_FAILED"),
    "AddOffsetsToTxn": (*ALL, *STARTED, "GROUP_AUTHORIZATION_FAILED"),
    "TxnOffsetCommit": (
        *(*ALL, "TRANSACTION_ABORTABLE", "FENCED_INSTANCE_ID", "UNKNOWN_MEMBER_ID"),
        *("ILLEGAL_GENERATION", "GROUP_AUTHORIZATION_FAILED", "UNSUPPORTED_FOR_MESSAGE_FORMAT"),
    ),
    "EndTxn": (*ALL, *STARTED),
}
"""Of each request the errors of which Kafka's client does not try it again."""
ADDING = "AddPartitionsToTxn", "AddOffsetsToTxn"
OF_BATCHES = (
    *("", "", "", "NOT_ENOUGH_REPLICAS", "OUT_OF_ORDER_SEQUENCE_NUMBER", "INVALID_RECORD"),
    *("DUPLICATE_SEQUENCE_NUMBER", "INVALID_PRODUCER_EPOCH", "MESSAGE_TOO_LARGE"),
    *("REQUEST_TIMED_OUT", "TOPIC_AUTHORIZATION_FAILED", "PRODUCER_FENCED"),
)


def transaction_script_of(seed: int) -> Script:
    """One script: settings and steps, most of which go on with what was begun."""
    random = Random(seed)
    partitions = random.randint(1, 3)
    given: Script = {
        "idempotent": True,
        "in_flight": random.choice((2, 5)),
        "partitions": partitions,
        "nodes": partitions,
        "acks": -1,
        "batch_size": random.choice((100, 16384)),
        "linger": random.choice((0, 0, 5)),
        "delivery_timeout": LONG,
        "seed": random.randrange(1 << 31),
        "max_block": random.choice((LONG, LONG, 1000)),
    }
    trouble = random.choice((0.0, 0.1, 0.1, 0.3))
    steps: list[list[Any]] = [["init"], ["told", {}, False], ["told", {}, False], ["begin"]]
    for number in range(random.choice((15, 40, 80))):
        steps += _steps(random, given, trouble, number)
    given["steps"] = steps
    return given


def _steps(random: Random, given: Script, trouble: float, number: int) -> list[list[Any]]:
    partition = random.randrange(given["partitions"])
    node = str(1 + partition)
    wrong = random.random() < trouble
    match random.randrange(20):
        case 0 | 1 | 2 | 3:
            kind = "send" if random.random() < 0.03 else "send in transaction"
            return [[kind, partition, random.choice((8, 30, 60)), number]]
        case 4:
            offsets = sorted({random.randrange(3): random.randrange(90) for _ in "ab"}.items())
            return [["offsets", [list(one) for one in offsets]]]
        case 5:
            return [[random.choice(("commit", "commit", "abort"))]]
        case 6:
            return [["begin"]]
        case 7 | 8 | 9 | 10 | 11 | 12:
            errors = {api: random.choice(AGAIN + AGAIN + all) for api, all in WRONG.items()}
            return [["told", errors if wrong else {}, random.random() < 0.5]]
        case 13 | 14 | 15 | 16:
            error = random.choice(OF_BATCHES) if wrong else ""
            return [["answer", node, error, 1000 * number]]
        case 17 if wrong:
            return [["lose"]]
        case 18 if wrong:
            return [random.choice((["disconnect", node], ["abort"], ["init"], ["commit"]))]
        case _:
            return [["advance", random.choice((1, 5, 150, 400))]]


@define(eq=False)
class TransactionsLikeKafka(Transactions):
    """`differs` where the two clients are in different states from here on, on purpose."""

    differs: bool = False

    @property
    def has_offsets(self) -> bool:
        return self._offsets is not None

    def batch_failed(self, error: str, message: str) -> None:
        # Kafka's client gives the sequences of such a batch to another one, in the same epoch;
        # and a call that waits for an answer fails with it, and not before.
        waits = self.is_asking and self._call is not None
        self.differs |= self.is_ending and error != "TRANSACTION_ABORTED"
        self.differs |= self.state == "open" and waits
        self.compare(error)
        super().batch_failed(error, message)

    def _give_up(self, error: str, message: str) -> None:
        self.compare(error)
        super()._give_up(error, message)

    def compare(self, error: str) -> None:
        """Of several errors Kafka's client says the last one."""
        known = self.error
        self.differs |= self.state == "abortable" and known is not None and error != known[0]


@define(eq=False)
class NetworkLikeKafka(NetworkClient):
    """There a lookup never waits for the answers of a leader."""

    def anybody(self, now: int) -> int:
        return 100


@define(eq=False)
class ProducerLikeKafka(ProducerMachine):
    """Kafka's sender does nothing else while a request of the transaction is under way."""

    @property
    def like_kafka(self) -> TransactionsLikeKafka:
        assert isinstance(self.transactions, TransactionsLikeKafka)
        return self.transactions

    def run(self, now: int) -> None:
        if not self.like_kafka.is_asking and self.like_kafka.state == "aborting":
            self._fail_unsent("TRANSACTION_ABORTED", "")
        self._run_transactions(now)
        if not self.like_kafka.is_asking:
            super().run(now)

    def _fail_unsent(self, error: str, message: str) -> None:
        if not self.like_kafka.is_asking:
            # Kafka's client sends these again, with other sequences in the same epoch.
            again = [
                one for one in self.accumulator.incomplete if one.has_sequence and not one.in_flight
            ]
            self.like_kafka.differs |= bool(again and self.delivery.restarting)
            super()._fail_unsent(error, message)


@define(eq=False)
class PlayTransactions(Play):
    """One script on our machine."""

    asked: deque[Request] = field(factory=deque[Request], init=False)
    calls: list[Any] = field(factory=list[Any], init=False)
    pending: str | None = None
    refused: set[int] = field(factory=set[int], init=False)
    epochs: int = 0
    #: The API of the last answer
    last: str = ""
    #: The coordinator has confirmed that there is something in the transaction
    is_confirmed: bool = False
    #: A request that adds to the transaction has to be sent again; its partitions
    again: tuple[int, ...] | None = None

    def __attrs_post_init__(self) -> None:
        script = self.script
        config = ProducerConfig.of(
            {
                "transactional.id": "id",
                "max.in.flight.requests.per.connection": script["in_flight"],
                "batch.size": script["batch_size"],
                "linger.ms": script["linger"],
                "retry.backoff.max.ms": 100,
            }
        )
        config = evolve(
            config,
            delivery_timeout_ms=script["delivery_timeout"],
            request_timeout_ms=LONG,
            reconnect_backoff_ms=0,
            rebootstraps=False,
            max_block_ms=script["max_block"],
        )
        self.machine = ProducerLikeKafka(config, BytesBatches(), (1,), lambda: 0.5)
        kafka = LikeKafka(
            True,
            script["in_flight"],
            True,
            first_alone=False,
            remembers_sent=False,
            within_window=False,
        )
        ours = self.machine.transactions
        assert ours is not None
        network = self.machine.network
        backoff = evolve(network.backoff, first_ms=0)
        network = self.machine.network = NetworkLikeKafka(
            *(-1, network.nodes, network.metadata, backoff, True, False, LONG)
        )
        self.machine.transactions = TransactionsLikeKafka(
            *("id", 60_000, script["max_block"], kafka, network)
        )
        self.machine.delivery = self.machine.accumulator.delivery = kafka
        self.machine.accumulator.held = self.machine.transactions.adding
        self.leaders = {p: (1 + p % script["nodes"], 0) for p in range(script["partitions"])}
        self.in_flight = {n: deque() for n in range(1, script["nodes"] + 1)}
        self.machine.metadata.use("t", 0)
        self.update()

    @property
    def transactions(self) -> TransactionsLikeKafka:
        assert isinstance(self.machine.transactions, TransactionsLikeKafka)
        return self.machine.transactions

    def all(self) -> list[Any]:
        """The events of each step, up to where the two may differ."""
        answers: list[Any] = []
        self.give(Timer(0, ""))
        for step in self.script["steps"]:
            self.sent, self.completed, self.calls = [], [], []
            self.last = ""
            self.play(step)
            for _ in range(4):
                self.give(Timer(self.now, ""))
            delivery = self.machine.delivery
            if self.transactions.differs or (isinstance(delivery, LikeKafka) and delivery.differs):
                break
            told = {"sent": self.sent, "completed": self.completed, "calls": self.calls}
            answers.append({**told, "state": self.state()})
        return answers

    def state(self) -> str:
        """The transaction's state in the words of the other side."""
        ours = self.transactions.state
        return {"committing": "ending", "aborting": "ending", "open": "other"}.get(
            ours, "other" if ours == "uninitialized" else ours
        )

    def play(self, step: list[Any]) -> None:
        match step:
            case ["begin"]:
                if self.pending is None:
                    try:
                        self.machine.begin_transaction()
                        self.calls.append({"call": "begin"})
                    except InvalidTransactionState as refusal:
                        name = refusal.cause or refusal.kafka_error
                        self.calls.append({"call": "begin", "error": name})
            case ["init" | "offsets" | "commit" | "abort" as kind, *rest]:
                if self.pending is None:
                    ours = self.transactions
                    if kind == "offsets":
                        ours.differs |= ours.has_offsets
                    elif kind == "commit":
                        # Kafka's client asks again for what is being added.
                        ours.differs |= ours.is_asking and bool(ours.adding)
                    elif kind == "abort":
                        ours.differs |= self.again is not None
                    self.pending = kind
                    self.give(self.call(kind, rest))
            case ["send in transaction", *rest]:
                if self.transactions.state in ("open", "abortable", "fatal"):
                    super().play(["send", *rest])
            case ["told", errors, partial]:
                if self.asked:
                    request = self.asked.popleft()
                    self.tell(request, errors.get(api_of(request.body)), partial)
            case ["lose"]:
                if self.asked:
                    self.lose(self.asked.popleft())
            case _:
                super().play(step)

    def call(self, kind: Any, rest: list[Any]) -> TransactionCall:
        if kind != "offsets":
            return TransactionCall(kind, kind)
        offsets = {TopicPartition("t", p): (offset, -1, "") for p, offset in rest[0]}
        return TransactionCall(kind, kind, offsets, GroupMetadata("g", 3, "m"))

    def lose(self, request: Request) -> None:
        """The answer never comes: of this request alone, as it has its own connection."""
        self.see(request.body, "NETWORK_EXCEPTION")
        lost = Response(request.target, -1, request.correlation_id, None)
        self.machine.network.answered(self.now, lost)
        self.give(Timer(self.now, ""))

    def see(self, body: Any, error: str | None) -> None:
        """An answer after which the two may differ: docs/kafka-diff.md."""
        ours, api = self.transactions, api_of(body)
        self.last = api
        # Kafka's client looks for the coordinator, of which it needs nothing before the abort.
        ours.differs |= ours.state == "abortable" and error in (*MOVED, "NETWORK_EXCEPTION")
        if api in ADDING:
            # Kafka's client then asks for an epoch that it never requests.
            ours.differs |= ours.state == "aborting" and error == "UNKNOWN_PRODUCER_ID"
            self.is_confirmed |= error is None
            self.again = None
            if error in RETRIABLE:
                rows = body.partitions if api == "AddPartitionsToTxn" else ()
                self.again = tuple(sorted(one.partition for one in rows))
                # Kafka's client sends it again before the end of the abort.
                ours.differs |= ours.state == "aborting"
        elif api == "TxnOffsetCommit" and error in RETRIABLE:
            self.again = ()
            ours.differs |= ours.state == "aborting"
        elif api == "EndTxn":
            # Kafka's client stays in the abort that is told so.
            ours.differs |= ours.state == "aborting" and error == "UNKNOWN_PRODUCER_ID"
        if api == "TxnOffsetCommit" and error not in RETRIABLE:
            self.again = None
        if api in ("EndTxn", "InitProducerId") and error is None:
            self.is_confirmed = False

    def ask(self, body: Any) -> None:
        """A request of which Kafka's client may send another one."""
        ours, api = self.transactions, api_of(body)
        if api in (*ADDING, "TxnOffsetCommit"):
            # Their order is that of a heap.
            ours.differs |= bool(ours.adding) and ours.has_offsets
        if api == "AddPartitionsToTxn" and self.again is not None:
            # It sends the same partitions again, and new ones in a request of their own.
            ours.differs |= self.again != tuple(sorted(p.partition for p in body.partitions))
        if api == "EndTxn":
            # It ends nothing of which it knows only that it was asked for.
            ours.differs |= not self.is_confirmed

    def tell(self, request: Request, error: str | None, partial: bool) -> None:
        body = request.body
        self.see(body, error)
        match body:
            case g.FindCoordinatorRequest(kind, keys):
                found = g.FoundCoordinator(keys[0], error, -1 if error else 1 + (kind + 0) % 2)
                answer: Any = g.FindCoordinatorResponse([found])
            case t.InitTransactionalIdRequest():
                identity = (-1, -1) if error else (1000, self.epochs)
                answer = InitProducerIdResponse(error, *identity)
                self.epochs += error is None
            case t.AddPartitionsToTxnRequest():
                rows = sorted(body.partitions)
                other = error and "OPERATION_NOT_ATTEMPTED"
                answer = t.AddPartitionsToTxnResponse(
                    [(p, other if partial and n else error) for n, p in enumerate(rows)]
                )
            case t.AddOffsetsToTxnRequest():
                answer = t.AddOffsetsToTxnResponse(error)
            case g.TxnOffsetCommitRequest():
                rows = sorted(one.partition for one in body.partitions)
                answer = g.TxnOffsetCommitResponse(
                    [(p, None if partial and n else error) for n, p in enumerate(rows)]
                )
            case _:
                answer = t.EndTxnResponse(error)
        self.give(Response(request.target, -1, request.correlation_id, answer))

    def take(self, message: Any, output: Any) -> None:
        match output:
            case TransactionDone(kind):
                self.calls.append({"call": kind})
                self.pending = None
            case TransactionFailed(kind, error):
                ours = self.transactions
                if kind == "offsets" and ours.state == "fatal":
                    # What is not about this call itself leaves Kafka's client waiting.
                    ours.differs |= self.last not in ("AddOffsetsToTxn", "TxnOffsetCommit")
                self.calls.append({"call": kind, "error": error})
                self.pending = None
            case Request() if (told := request_told(output)) is not None:
                self.ask(output.body)
                self.sent.append(told)
                self.asked.append(output)
            case Failed(id, _, error) if getattr(message, "handle", None) == id:
                self.calls.append({"call": "send", "error": error, "id": id})
                self.refused.add(id)
                # Kafka's client appends the record all the same, and may write it.
                ours = self.transactions
                is_aborted = ours.state == "aborting" and not ours.is_asking
                ours.differs |= error == "INVALID_TXN_STATE" and not is_aborted
            case _:
                super().take(message, output)


def api_of(body: Any) -> str:
    """The name of a request's API."""
    return {"InitTransactionalId": "InitProducerId"}.get(
        name := type(body).__name__.removesuffix("Request"), name
    )


def request_told(request: Request) -> dict[str, Any] | None:
    """A request of the transaction as the other side tells of it."""
    node, body = node_of(request.target), request.body
    match body:
        case g.FindCoordinatorRequest(kind, keys):
            return {"api": "FindCoordinator", "type": kind, "key": keys[0]}
        case t.InitTransactionalIdRequest(_, timeout, producer, epoch):
            more: dict[str, Any] = {"api": "InitProducerId", "timeout": timeout}
        case t.AddPartitionsToTxnRequest(_, producer, epoch, partitions):
            numbers = sorted(one.partition for one in partitions)
            more = {"api": "AddPartitionsToTxn", "partitions": numbers}
        case t.AddOffsetsToTxnRequest(_, producer, epoch, group):
            more = {"api": "AddOffsetsToTxn", "group": group}
        case g.TxnOffsetCommitRequest():
            producer, epoch = body.producer_id, body.producer_epoch
            rows = {str(one.partition.partition): one.offset for one in body.partitions}
            more = {"api": "TxnOffsetCommit", "group": body.group_id, "offsets": rows}
            more |= {"generation": body.generation_id, "member": body.member_id}
        case t.EndTxnRequest(_, producer, epoch, committed):
            more = {"api": "EndTxn", "committed": committed}
        case _:
            return None
    return {**more, "node": node, "producer": producer, "epoch": epoch}


def difference(script: Script, theirs: list[Any]) -> tuple[str | None, int]:
    """The first step in which ours does something else, if there is one; the steps compared."""
    play = PlayTransactions(script)
    ours = play.all()
    for number, (mine, other) in enumerate(zip(ours, theirs, strict=False)):
        mine, other = in_order(mine, play.refused), in_order(other, play.refused)
        if mine != other:
            different = "\n".join(
                f"  {key}\n    ours  {mine[key]}\n    Kafka {other[key]}"
                for key in mine
                if mine[key] != other[key]
            )
            return f"step {number}, {script['steps'][number]}:\n{different}", number
    return None, len(ours)


def in_order(step: Any, refused: set[int]) -> dict[str, Any]:
    """The events of a step, in one order where they have none. Kafka appends what it refuses."""
    sent = step["sent"]
    batches = [one for one in sent if "batches" in one]
    completed = [one for one in step["completed"] if one["id"] not in refused]
    (produced,) = ordered([{"sent": batches, "completed": completed}])
    asked = [one for one in sent if "batches" not in one]
    return {**produced, "asked": asked, "calls": step["calls"], "state": step["state"]}
