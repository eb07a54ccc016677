"""Real Kafka, held by the hand: its jars, its tools in one JVM, and a broker of one node.

Everything is fetched and compiled once into the build cache. A broker listens on the loopback
address alone, is stopped by its own process id, and can be killed as a power cut would.
"""

import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from attrs import field, frozen

HERE = Path(__file__).parent
CACHE = Path(os.environ.get("HIGHWATER_CACHE") or HERE.parents[2] / "build") / "kafka"
CLUSTER_ID = "AAAAAAAAAAAAAAAAAAAAAA"
# Short lives: what a second compiler and a parallel collector cost would never be earned back.
LEAN = ("-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:-UsePerfData")
DUMP = "org.apache.kafka.tools.DumpLogSegments"
SECONDS_TO_START = 90
SECONDS_TO_STOP = 60
HEAD = struct.Struct(">iii")

SERVER = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
controller.listener.names=CONTROLLER
log.dirs={log_dir}
offsets.topic.replication.factor=1
offsets.topic.num.partitions=2
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=2
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
log.cleaner.backoff.ms=200
log.segment.delete.delay.ms=1000
{more}
"""

LOG4J = """\
rootLogger.level=WARN
rootLogger.appenderRef.out.ref=out
appender.out.type=Console
appender.out.name=out
appender.out.layout.type=PatternLayout
appender.out.layout.pattern=%p %c{1} %m%n
"""


class NoMavenError(RuntimeError):
    """Maven is what brings Kafka's jars, and it is not on PATH."""

    def __init__(self) -> None:
        super().__init__(
            "mvn is not on PATH, and it brings the jars of Apache Kafka that judge our files. "
            "Install it: apt-get install maven, or brew install maven"
        )


def jars(pom: Path = HERE / "pom.xml", name: str = "jars") -> Path:
    """The folder of the jars that a pom.xml names, fetched once for each content of it."""
    folder = CACHE / name
    stamp = folder / "pom.xml"
    if stamp.exists() and stamp.read_bytes() == pom.read_bytes():
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    scope = ("-DincludeScope=runtime", f"-DoutputDirectory={folder}")
    maven("-f", pom, "dependency:copy-dependencies", *scope)
    shutil.copy(pom, stamp)
    return folder


def maven(*arguments: str | Path) -> None:
    """Run Maven. Raises `NoMavenError`, and CalledProcessError where it fails."""
    if shutil.which("mvn") is None:
        raise NoMavenError
    subprocess.run(["mvn", "-q", "-B", *arguments], check=True)


def print_built(build: Callable[[], Path], sentence: str) -> None:
    """Build a jar, and print how to use it; without Maven one line, and exit code 2."""
    try:
        jar = build()
    except NoMavenError as missing:
        print(missing, file=sys.stderr)
        raise SystemExit(2) from None
    print(sentence.format(jar=jar))


def classpath() -> str:
    """Kafka's jars and our own classes, compiled against them."""
    libraries = jars()
    classes = CACHE / "classes"
    sources = sorted((HERE / "java").glob("*.java"))
    compiled = classes / f"{sources[-1].stem}.class"
    newest = max(source.stat().st_mtime for source in sources)
    if not compiled.exists() or compiled.stat().st_mtime < newest:
        command = ["javac", "-cp", f"{libraries}/*", "-d", classes, *sources]
        subprocess.run(command, check=True)
    return f"{classes}{os.pathsep}{libraries}/*"


def java(*arguments: str | Path) -> list[str]:
    """The command line of a JVM that is started often and lives shortly."""
    settings = CACHE / "log4j2.properties"
    if not settings.exists():
        settings.parent.mkdir(parents=True, exist_ok=True)
        settings.write_text(LOG4J)
    logging = f"-Dlog4j2.configurationFile={settings}"
    return ["java", *LEAN, logging, "-cp", classpath(), *map(str, arguments)]


@contextmanager
def answering(program: str) -> Generator[Callable[[Any], Any]]:
    """A program in one JVM that answers each line of JSON with a line of JSON."""
    with subprocess.Popen(
        java(program),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        encoding="utf-8",
    ) as jvm:
        assert jvm.stdin is not None
        assert jvm.stdout is not None
        asked, answers = jvm.stdin, jvm.stdout

        def ask(question: Any) -> Any:
            asked.write(json.dumps(question) + "\n")
            asked.flush()
            return json.loads(answers.readline())

        yield ask
        asked.close()


@frozen
class ToolOutput:
    """The exit code of one of Kafka's tools, its output, and its complaints."""

    status: int
    out: str
    complaints: str


@frozen
class Judge:
    """Kafka's command line tools, run one after the other in one JVM."""

    process: subprocess.Popen[bytes]

    @classmethod
    def start(cls) -> Self:
        command = java("Judge")
        return cls(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE))

    def stop(self) -> None:
        self.process.communicate(timeout=SECONDS_TO_STOP)

    def run(self, tool: str, *arguments: str | Path) -> ToolOutput:
        assert self.process.stdin is not None
        request = "\t".join([tool, *map(str, arguments)])
        self.process.stdin.write(request.encode() + b"\n")
        self.process.stdin.flush()
        status, out, complaints = HEAD.unpack(self._read(HEAD.size))
        texts = (self._read(size).decode(errors="surrogateescape") for size in (out, complaints))
        return ToolOutput(status, *texts)

    def dump(self, *files: Path, options: tuple[str, ...] = ()) -> ToolOutput:
        """DumpLogSegments over these files."""
        return self.run(DUMP, *options, "--files", ",".join(map(str, files)))

    def _read(self, size: int) -> bytes:
        assert self.process.stdout is not None
        data = self.process.stdout.read(size)
        if len(data) != size:
            raise RuntimeError("the JVM that runs Kafka's tools has ended")
        return data


@frozen
class KafkaBroker:
    """A broker of one node on a folder of its own; `running` starts it and stops it."""

    folder: Path
    settings: dict[str, str] = field(factory=dict[str, str])
    port: int = field(factory=lambda: free_port())
    controller: int = field(factory=lambda: free_port())
    environment: dict[str, str] = field(factory=dict[str, str])
    classes: Path | None = None  # that stand before Kafka's own

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def log_dir(self) -> Path:
        return self.folder / "data"

    @property
    def output(self) -> Path:
        return self.folder / "broker.out"

    def format(self, judge: Judge) -> None:
        """Lay out the empty log directory, as `kafka-storage.sh format` does."""
        more = "\n".join(f"{name}={value}" for name, value in self.settings.items())
        properties = self.folder / "server.properties"
        properties.write_text(
            SERVER.format(
                port=self.port, controller=self.controller, log_dir=self.log_dir, more=more
            )
        )
        tool = "kafka.tools.StorageTool"
        answer = judge.run(tool, "format", "-t", CLUSTER_ID, "-c", properties)
        assert answer.status == 0, answer

    @contextmanager
    def running(self) -> Generator[subprocess.Popen[bytes]]:
        """The broker, up; stopped cleanly at the end unless the caller has killed it before."""
        with self.output.open("ab") as output:
            command = java("kafka.Kafka", self.folder / "server.properties")
            if self.classes is not None:
                at = command.index("-cp") + 1
                command[at] = f"{self.classes}{os.pathsep}{command[at]}"
            more = {**os.environ, **self.environment}
            process = subprocess.Popen(command, stdout=output, stderr=output, env=more)
        try:
            self._wait_for(process)
            yield process
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
            try:
                process.wait(SECONDS_TO_STOP)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                raise

    def _wait_for(self, process: subprocess.Popen[bytes]) -> None:
        """Until the port answers; polled, for the broker tells nobody that it is ready."""
        until = time.monotonic() + SECONDS_TO_START
        while process.poll() is None and time.monotonic() < until:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                time.sleep(0.05)
        raise RuntimeError(f"the broker did not start: {self.output.read_text()[-2000:]}")


def free_port() -> int:
    """A port of the loopback address that nobody listens on just now."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]
