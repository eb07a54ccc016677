"""The trace of one test: its clients are recorded, and the recording is judged at its end.

    with Trace(kafka, folder) as trace:
        producer = trace.record(Producer, kafka.conf(acks="all"))
        ...

At the end of the block the clients are closed, the log is read, and a broken promise is a
`PromiseBrokenError`. The pytest plugin and `KafkaTraceTest`, for unittest, are made of this.
"""

import inspect
from collections.abc import Collection, Mapping
from contextlib import suppress
from itertools import chain
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self

from attrs import define, field

from traces.record.ids import IdOf

if TYPE_CHECKING:
    from traces.api import Result
    from traces.record.confluent_ids import SharedAdmins
    from traces.verdicts.verdict import Verdict

How = Literal["judge", "strict", "record", "off"]
JUDGED: tuple[How, ...] = ("judge", "strict")
CLOSE_S = 10.0
"""The time limit for a producer's last records when a test does not wait for them, in seconds."""
QUIET = "2"
"""librdkafka's log_level of the scan: it tells of brokers that a test has stopped."""
EVENTS = 4
"""A witness has no more of them."""


class PromiseBrokenError(AssertionError):
    """A promise is broken by the recorded calls, or none of them could be checked."""


class Brokers(Protocol):
    """The cluster that a trace is of."""

    @property
    def bootstrap_servers(self) -> str:
        """The brokers' addresses."""
        ...

    def recover(self) -> None:
        """Make what was written readable again."""
        ...


@define(eq=False)
class Trace:
    """A recording of the calls of a test's clients, in the folder `run`.

    Findings of the checks in `allow` break nothing. `how` is "judge"; or "strict", so that a
    setting like acks=1 excuses nothing; or "record" to leave the judging to `highwater check`; or
    "off" for no trace at all.
    """

    kafka: Brokers
    run: Path
    allow: Collection[str] = ()
    how: How = "judge"
    clients: list[Any] = field(factory=list[Any], init=False)
    #: What `highwater check` says, once the trace was judged
    result: "Result | None" = field(default=None, init=False)
    _patch: Any = field(default=None, init=False)
    _ids: set[IdOf | None] = field(factory=set[IdOf | None], init=False)
    _orders: set[str | None] = field(factory=set[str | None], init=False)

    def record(
        self,
        client: Any,
        conf: Mapping[str, Any] | None = None,
        *,
        name: str | None = None,
        id: IdOf | None = None,
        commit_order: str | None = None,
        hashes: bool = False,
    ) -> Any:
        """The client, recorded, as `traces.record.recorded` does it. Raises NotAClientError.

        `client` is a client, or a class of confluent-kafka that is made here of `conf`.
        """
        from traces.record import recorded

        if len(self._ids | {id}) > 1:
            raise ValueError("record(id=…): expected the same function for all clients of a test")
        made = recorded(
            *(client, self.run, conf),
            name=name,
            id=id,
            commit_order=commit_order,
            hashes=hashes,
        )
        self._ids.add(id)
        self._orders.add(commit_order)
        self.clients.append(made)
        return made

    def patch(
        self, *, id: IdOf | None = None, commit_order: str | None = None, hashes: bool = False
    ) -> None:
        """Record all clients that anybody makes until the end of the test.

        The classes of confluent-kafka, kafka-python and aiokafka are replaced wherever they were
        imported.
        """
        from traces.record.patching import Patch

        def record(client: Any, conf: Mapping[str, Any] | None = None) -> Any:
            return self.record(client, conf, id=id, commit_order=commit_order, hashes=hashes)

        self._unpatch()
        self._patch = Patch(record)
        self._patch.begin()

    def _unpatch(self) -> bool:
        patch, self._patch = self._patch, None
        if patch is not None:
            patch.undo()
        return patch is not None

    # The end

    def finish(self) -> str | None:
        """Close the clients, read the log and judge; what is broken, in words, None for nothing.

        Raises `ClusterError`, `BadMetaError` and what else a final scan may raise.
        """
        patched = self._unpatch()
        if not self.clients:
            return NO_CLIENT if patched else None
        from traces.record.confluent_ids import SharedAdmins

        admins = SharedAdmins()
        self.kafka.recover()
        for client in self.clients:
            _close(client, admins)
        if self.how == "off":
            rmtree(self.run)
        if self.how not in JUDGED:
            return None
        return self._judge(self._scan(admins))

    def _scan(self, admins: "SharedAdmins") -> list[str]:
        """The final scan; why it is not complete."""
        from traces.record.contents import contents
        from traces.record.final_scan import FinalScan, isolations, settle_all

        left = settle_all(self.run)
        found = contents(self.run)
        if not found.topics:
            return ["no topic was named by any client"]
        scan = FinalScan(
            run=self.run,
            conf={"bootstrap.servers": self.kafka.bootstrap_servers, "log_level": QUIET},
            topics=sorted(found.topics),
            isolations=isolations(found),
            id_of=next(iter(self._ids)),
            admin_of=admins.of,
        ).read(found, left)
        return [
            *(f"{name} is still running" for name in scan.running),
            *scan.damaged.values(),
            *(f"{name} has no leader" for name in scan.headless),
            *(f"the scan did not reach the end of {name}" for name in scan.unread),
        ]

    def _judge(self, incomplete: list[str]) -> str | None:
        import traces
        from traces.checks.catalogue import CHECKS

        if strange := sorted(set(self.allow) - CHECKS.keys()):
            return (
                f"kafka_allow: there is no check {', '.join(strange)}; see highwater check --list"
            )
        if (self.run / "meta.json").exists():
            self.result = traces.check(traces.load(self.run), strict=self.how == "strict")
        broken = self.broken
        if broken:
            return "\n".join([*map(self._story, broken), *self._see_it(), *incomplete])
        if self.result is None or self.result.verdict == "not checked":
            return "\n".join([NOTHING_CHECKED, *incomplete, *self._see_it()])
        return self._untold()

    def _untold(self) -> str | None:
        """That a commit order was promised, of which nothing could be judged."""
        from traces.record.committers import recorded_commits
        from traces.record.contents import lines_of, process_files

        if PROMISED not in self._orders or not recorded_commits(self.run).commits:
            return None
        reported = (lines_of(file, b'"op":"process"') for file in process_files(self.run))
        return None if any(chain.from_iterable(reported)) else NOTHING_PROCESSED

    @property
    def broken(self) -> list[str]:
        """The checks that found what nothing allows."""
        return [one.check for one in self._said("violated")]

    @property
    def allowed(self) -> list[str]:
        """A sentence for each check that found what a setting allows."""
        from traces.verdicts.sentences import counted

        return [f"{one.check} allowed: {counted(one)}" for one in self._said("allowed")]

    def _said(self, word: str) -> list["Verdict"]:
        verdicts = self.result.verdicts.values() if self.result is not None else ()
        return [one for one in verdicts if one.verdict == word and one.check not in self.allow]

    @property
    def summary(self) -> str:
        """The numbers of promises that hold, are violated, allowed to be, and not checked."""
        if self.result is None:
            return "nothing was judged"
        said = [one.verdict for one in self.result.verdicts.values()]
        words = {"holds": "hold", **{one: one for one in ("violated", "allowed", "not checked")}}
        counts = {text: said.count(word) for word, text in words.items()}
        return ", ".join(f"{count} {text}" for text, count in counts.items() if count)

    def _story(self, check: str) -> str:
        """A broken promise, and the events that show it."""
        from traces.verdicts.judged import event
        from traces.verdicts.sentences import counted

        assert self.result is not None
        judged, verdict = self.result.judged, self.result[check]
        assert judged.run is not None
        run = judged.run
        lines = [f"{check} violated: {verdict.title}", f"  {counted(verdict)}"]
        for _, rows in verdict.witnesses[:1]:
            events = sorted((event(run, row) for row in rows[:EVENTS]), key=_invoked)
            lines += [f"  {_line(one, _invoked(events[0]))}" for one in events]
        return "\n".join(lines)

    def _see_it(self) -> list[str]:
        return [f"see it: highwater check {self.run}{' --strict' * (self.how == 'strict')}"]

    # Without pytest

    def __enter__(self) -> Self:
        """The trace, to record clients with."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Finish. Raises PromiseBrokenError, unless something else went wrong."""
        reported = self.finish()
        if error is None and reported is not None:
            raise PromiseBrokenError(reported)


NO_CLIENT = "patch() recorded nothing: no client was made while it was in force"
NOTHING_CHECKED = "clients were recorded, and nothing of what they did could be checked"
NOTHING_PROCESSED = (
    "commit_order=process_then_commit was promised, offsets were committed, and no client told "
    "what it processed: call consumer.processed(message), or leave commit_order out"
)
PROMISED = "process_then_commit"


def _invoked(event: Mapping[str, Any]) -> int:
    return event.get("invoked_ns", 0)


def _line(event: Mapping[str, Any], begin: int) -> str:
    """One event of a witness: when, who, what, and about which record."""
    from traces.verdicts.judged import event_line

    return f"{(_invoked(event) - begin) / 1e6:9.1f} ms  {event_line(dict(event))}"


def _close(client: Any, admins: "SharedAdmins") -> None:
    """Close a client that the test left open; one that cannot be closed has crashed.

    A client of aiokafka cannot: its event loop may be over. As it leaves, a client of
    confluent-kafka asks for the ids of its topics.
    """
    process, asking = client._process, client._ids.ask  # pyright: ignore[reportPrivateUsage]
    if process.ended:
        return
    if hasattr(asking, "admin_of"):
        asking.admin_of = admins.of
    if not inspect.iscoroutinefunction(getattr(client, "stop", None)):
        with suppress(Exception):
            if not (hasattr(client, "flush") and client.flush(CLOSE_S)):
                client.close()
    process.end("crash")


class KafkaTraceTest:
    """A mixin beside `KafkaTest`: `self.kafka_trace` records, and is judged after each test.

    class TestOrders(KafkaTest, KafkaTraceTest, unittest.TestCase): ...
    """

    kafka: Any
    kafka_allow: Collection[str] = ()
    kafka_trace: Trace

    def setUp(self) -> None:
        """Begin the trace; what it shows is said after the test, while the cluster is there."""
        case: Any = self
        folder = Path(mkdtemp(prefix="highwater-"))
        case.addCleanup(rmtree, folder)
        self.kafka_trace = case.enterContext(Trace(self.kafka, folder, self.kafka_allow))
        following: Any = super()
        following.setUp()
