"""A standalone cluster of Spark, of which a driver knows nothing but its address.

A master and two workers on loopback, each with a folder of its own and a Python that has the
requirements and not this package: what docs/traces.md says to submit is all that they get.
"""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pyspark
import pytest
from attrs import define, field

from traces.ingest.ingesting import ingest

pytestmark = pytest.mark.cluster
ROOT = Path(__file__).parents[2]
SPARK = Path(pyspark.__file__).parent
EXAMPLE = ROOT / "examples" / "leader-kill-acks1"
PATIENCE = 300  # seconds for what takes ten on a machine that has nothing else to do


@define
class Cluster:
    """A Spark cluster: its folder, and its processes."""

    folder: Path
    python: Path
    package: Path
    master: str
    processes: list[subprocess.Popen[bytes]] = field(factory=list[subprocess.Popen[bytes]])

    def command(self, *arguments: object) -> list[str]:
        """The command that docs/traces.md gives."""
        submit = [str(SPARK / "bin" / "spark-submit"), "--master", self.master]
        submit += ["--conf", "spark.driver.host=127.0.0.1", "--py-files", str(self.package)]
        submit += ["--conf", "spark.executor.memory=1g", "--conf", "spark.ui.enabled=false"]
        return [*submit, str(self.folder / "check.py"), "check", *map(str, arguments)]

    def check(self, *arguments: object, cwd: Path | None = None) -> tuple[int, str]:
        """The exit code and all that was said."""
        done = subprocess.run(
            self.command(*arguments, "--engine", "spark"),
            cwd=cwd or self.folder,
            env=environment(self.python),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=2 * PATIENCE,
        )
        return done.returncode, done.stdout


def environment(python: Path) -> dict[str, str]:
    keep = {name: os.environ[name] for name in ("PATH", "HOME", "JAVA_HOME") if name in os.environ}
    spark = {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_HOME": str(SPARK)}
    return keep | spark | {"PYSPARK_PYTHON": str(python), "PYSPARK_DRIVER_PYTHON": str(python)}


def await_(what: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not what():
        assert time.monotonic() < deadline, "the cluster does not do what is awaited"
        time.sleep(0.2)


def bare_python(folder: Path) -> Path:
    """A Python with this one's packages, but not with the one under test."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    (site,) = folder.glob("lib/python*/site-packages")
    (packages,) = {Path(p) for p in sys.path if p.endswith("site-packages")}
    (site / "requirements.pth").write_text(f"{packages}\n")
    python = folder / "bin" / "python"
    command = [str(python), "-c", "import numpy, traces"]
    found = subprocess.run(command, cwd=folder, env=environment(python), capture_output=True)
    assert b"No module named 'traces'" in found.stderr
    return python


def packed(folder: Path) -> Path:
    """The wheel, under a name that Spark puts on the path of its workers."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    command += ["--wheel-dir", str(folder), str(ROOT)]
    subprocess.run(command, check=True, env={**os.environ, "PATH": path})
    (wheel,) = folder.glob("*.whl")
    assert zipfile.is_zipfile(wheel)
    return Path(shutil.copy(wheel, folder / "highwatermark.zip"))


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


@contextmanager
def running(cluster: Cluster) -> Generator[Cluster]:
    host = ["--host", "127.0.0.1", "--webui-port", "0"]
    port = cluster.master.rpartition(":")[2]
    start(cluster, "master", "deploy.master.Master", *host, "--port", port)
    for name in ("one", "two"):
        own = ["--cores", "1", "--memory", "1g", "--work-dir", str(cluster.folder / name)]
        start(cluster, name, "deploy.worker.Worker", *host, *own, cluster.master)
    log = cluster.folder / "master.log"
    await_(lambda: len(set(re.findall(r"Registering worker (\S+)", log.read_text()))) == 2)
    try:
        yield cluster
    finally:
        for process in cluster.processes:
            for child in psutil.Process(process.pid).children() if process.poll() is None else ():
                child.kill()
            process.kill()
            process.wait()


def start(cluster: Cluster, name: str, main: str, *arguments: str) -> None:
    own = cluster.folder / name
    own.mkdir()
    with (cluster.folder / f"{name}.log").open("wb") as log:
        command = [str(SPARK / "bin" / "spark-class"), f"org.apache.spark.{main}", *arguments]
        env = environment(cluster.python)
        process = subprocess.Popen(command, cwd=own, env=env, stdout=log, stderr=log)
    cluster.processes.append(process)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Generator[Cluster]:
    folder = tmp_path_factory.mktemp("cluster")
    (folder / "check.py").write_text("from highwater.__main__ import main\n\nmain()\n")
    master = f"spark://127.0.0.1:{free_port()}"
    with running(Cluster(folder, bare_python(folder / "venv"), packed(folder), master)) as there:
        yield there


def here(path: Path, out: Path) -> int:
    """The verdicts of `--engine local`, in the folder where the path leads to the same."""
    command = [sys.executable, "-m", "refimpl", "check", path.name, "--engine", "local"]
    command += ["--json", str(out)]
    return subprocess.run(command, cwd=path.parent, stdout=subprocess.DEVNULL).returncode


def test_a_small_run_and_an_ingested_one_are_judged_as_here(
    cluster: Cluster, tmp_path: Path
) -> None:
    shutil.copytree(EXAMPLE, tmp_path / "run")
    ingest(tmp_path / "run", tmp_path / "ops")
    for name in ("run", "ops"):
        code = here(tmp_path / name, tmp_path / "here.json")
        there, said = cluster.check(name, "--json", "there.json", cwd=tmp_path)
        assert there == code, said
        assert (tmp_path / "there.json").read_bytes() == (tmp_path / "here.json").read_bytes()


def test_a_worker_may_die_in_the_middle(cluster: Cluster, tmp_path: Path) -> None:
    shutil.copytree(EXAMPLE, tmp_path / "run")
    ingest(tmp_path / "run", tmp_path / "ops", size=1 << 14)
    code = here(tmp_path / "ops", tmp_path / "here.json")
    master, *workers = cluster.processes
    submitted = cluster.command("ops", "--json", "there.json", "--engine", "spark")
    with (tmp_path / "said.log").open("wb") as log:
        driver = subprocess.Popen(
            submitted, cwd=tmp_path, env=environment(cluster.python), stdout=log, stderr=log
        )
    # One of them is given the first task: its executor has begun when it has started a Python.
    await_(lambda: any(map(pythons, workers)) or driver.poll() is not None)
    assert driver.poll() is None, (tmp_path / "said.log").read_text()
    working = next(worker for worker in workers if pythons(worker))
    for executor in psutil.Process(working.pid).children(recursive=True):
        executor.send_signal(signal.SIGKILL)
    working.kill()
    assert driver.wait(2 * PATIENCE) == code, (tmp_path / "said.log").read_text()
    assert (tmp_path / "there.json").read_bytes() == (tmp_path / "here.json").read_bytes()
    assert master.poll() is None


def pythons(worker: subprocess.Popen[bytes]) -> list[psutil.Process]:
    below = psutil.Process(worker.pid).children(recursive=True)
    return [process for process in below if "python" in process.name()]


def test_a_job_that_fails_is_no_verdict(cluster: Cluster, tmp_path: Path) -> None:
    shutil.copytree(EXAMPLE, tmp_path / "run")
    ingest(tmp_path / "run", tmp_path / "ops")
    for part in (tmp_path / "ops").glob("part-*.parquet"):
        content = bytearray(part.read_bytes())
        content[8:4096] = bytes(4088)  # the pages, and not what says where they are
        part.write_bytes(content)
    code, said = cluster.check("ops", cwd=tmp_path)
    assert (code, "nothing was judged" in said) == (2, True), said
