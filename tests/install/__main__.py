"""Try each extra from the wheel in a fresh environment: `make test-install`. Needs uv.

Prints the table of docs/install.md. Interpreters that are not there are named at the end.
"""

import os
import resource
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import click

ROOT = Path(__file__).parents[2]
VERSIONS = ("3.11", "3.12", "3.13", "3.14")
RUNS = 5

BROKER = """
import highwater
with highwater.BlockingCluster(brokers=3) as cluster:
    cluster.create_topic("orders", replicas=3)
    assert cluster.isr("orders", 0) == {1, 2, 3}
"""
CHECK = """
import highwater
run = highwater.load("examples/leader-kill-acks1")
assert highwater.check(run)["L4"].count == 406
"""
TEST = """
import subprocess, sys
import highwater
run, child = sys.argv[1:]
with highwater.BlockingCluster(brokers=3) as cluster:
    cluster.create_topic("orders", replicas=3)
    subprocess.run([sys.executable, "-c", child, run, cluster.bootstrap], check=True)
    scan = ["highwater", "record-scan", run, "--bootstrap", cluster.bootstrap]
    subprocess.run(scan, check=True, capture_output=True)
judged = highwater.check(highwater.load(run))
assert judged["L4"].verdict == "holds", judged.as_json()
"""
APPLICATION = """
import sys
import highwater
from confluent_kafka import Producer
producer = highwater.recorded(Producer, sys.argv[1], {"bootstrap.servers": sys.argv[2]})
producer.produce("orders", b"a")
producer.flush(30)
"""
#: A client is the user's own
CLIENT = "confluent-kafka"
#: What an extra is tried with: a script, or a verb
TRIED: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "": (("highwater", "--help"), ("highwater", "--version")),
    "broker": (
        ("python", "-c", BROKER),
        ("highwater", "chaos", "--seed", "7"),
        ("highwater", "groups", "--help"),
        ("highwater", "dump-log", "--help"),
    ),
    "check": (("python", "-c", CHECK), ("highwater", "check", "examples/leader-kill-acks1")),
    "html": (("highwater", "check", "examples/leader-kill-acks1", "--html", "{tmp}/report.html"),),
    "spark": (("highwater", "check", "examples/leader-kill-acks1", "--engine", "spark"),),
    "test": (
        ("python", "-c", BROKER),
        ("python", "-c", CHECK),
        ("python", "-c", TEST, "{tmp}/run", APPLICATION),
    ),
    "verify": (("highwater", "explain", "CommittedInIsr"), ("highwater", "spec", "AbsLog")),
}
#: What is imported by whoever uses an extra, for the time that it takes
IMPORTED: Mapping[str, str] = {
    "": "import highwater",
    "broker": "import highwater; highwater.BlockingCluster",
    "check": "import highwater; highwater.check",
    "html": "import highwater; highwater.check; import traces.html.page",
    "spark": "import highwater; highwater.read_ops",
    "test": "import highwater; highwater.BlockingCluster; highwater.check; highwater.recorded",
    "verify": "import properties.cli",
}


def call(command: list[str], env: Mapping[str, str] | None = None) -> str:
    """Run to the end, or say what failed."""
    ran = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    if ran.returncode:
        shown = " ".join(command)[:100].replace("\n", " ")
        raise click.ClickException(f"{shown}: exit code {ran.returncode}\n{ran.stderr[-2000:]}")
    return ran.stdout


def installed(folder: Path, version: str, wheel: Path, extra: str) -> Path | None:
    """A fresh environment with the wheel and one extra; None without such an interpreter."""
    env = folder / f"{version}-{extra or 'none'}"
    made = subprocess.run(["uv", "venv", "--quiet", "--python", version, env], capture_output=True)
    if made.returncode:
        return None
    wanted = f"{wheel}[{extra}]" if extra else str(wheel)
    python = ["--python", str(env / "bin" / "python")]
    call(["uv", "pip", "install", "--quiet", "--compile-bytecode", *python, wanted])
    return env


def megabytes(env: Path) -> float:
    """Of all that is installed."""
    files = (env / "lib").rglob("*")
    return sum(one.stat().st_size for one in files if one.is_file()) / 1e6


def packages(env: Path) -> int:
    """The number of distributions beside this one."""
    return len(list((env / "lib").rglob("*.dist-info"))) - 1


def cpu_s(python: str, script: str, env: Mapping[str, str]) -> float:
    """The least CPU seconds of several runs, above those of an empty script."""

    def once(text: str) -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([python, "-c", text], check=True, env=env, cwd="/")
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    return min(once(script) for _ in range(RUNS)) - min(once("pass") for _ in range(RUNS))


def tried(env: Path, extra: str, folder: Path) -> str:
    """Try an environment; its row of the table."""
    path = {**os.environ, "PATH": f"{env / 'bin'}{os.pathsep}{os.environ['PATH']}"}
    path.pop("PYTHONPATH", None)
    path["HIGHWATER_CACHE"] = str(folder / "cache")
    row = f"{packages(env)} | {megabytes(env):.0f}"
    if extra == "test":
        python = str(env / "bin" / "python")
        call(["uv", "pip", "install", "--quiet", "--python", python, CLIENT])
    for program, *arguments in TRIED[extra]:
        given = [one.replace("{tmp}", str(env)) for one in arguments]
        call([str(env / "bin" / program), *given], path)
    seconds = cpu_s(str(env / "bin" / "python"), IMPORTED[extra], path)
    return f"{row} | {seconds:.2f}"


@click.command()
@click.option("--version", "versions", multiple=True, default=VERSIONS)
@click.option("--extra", "extras", multiple=True, default=tuple(TRIED))
def main(versions: tuple[str, ...], extras: tuple[str, ...]) -> None:
    """Build, install, try, and print the table."""
    with TemporaryDirectory(prefix="highwater-install-") as name:
        folder = Path(name)
        call(["uv", "build", "--quiet", "--wheel", "--out-dir", str(folder), str(ROOT)])
        (wheel,) = folder.glob("*.whl")
        print("| Python | extra | packages | MB | import, CPU-s |\n|---|---|---|---|---|")
        missing: list[str] = []
        for version in versions:
            for extra in extras:
                env = installed(folder, version, wheel, extra)
                if env is None:
                    missing.append(version)
                    break
                row = tried(env, extra, folder)
                print(f"| {version} | {f'`{extra}`' if extra else 'none'} | {row} |", flush=True)
                call(["rm", "-rf", str(env)])
    if missing:
        sys.exit(f"not tried, for there is no such interpreter: {', '.join(missing)}")


if __name__ == "__main__":
    main()
