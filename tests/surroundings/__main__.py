"""Run tests where machines differ: `make test-odd`. Needs Linux's `unshare`.

A fresh machine has been up for seconds, and a server for years. Homes have spaces in their names,
a container may lack /proc, and nobody should have to be root. Each surrounding puts some of that
around the same tests, in namespaces of its own, so that compiled clients and Java see it as well.
"""

import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import click
from attrs import field, frozen

ROOT = Path(__file__).parents[2]
DAY_S = 24 * 3600
#: Rooms that read a clock, files, processes or the names of places.
TESTS = (
    *("tests/traces/record", "tests/traces/ingest", "tests/traces/watch"),
    *("tests/refimpl/edge", "tests/refimpl/storage/disk", "tests/chaos/test_command.py"),
    *("tests/test_repository.py", "tests/test_docs.py", "tests/test_wheel.py"),
    *("tests/refimpl/test_command_line.py", "tests/properties/tla/test_tla_tools.py"),
)


@frozen
class Surrounding:
    """One kind of machine."""

    up_s: int
    """Seconds since it was booted, by the clocks that processes read."""
    is_root: bool = True
    has_proc: bool = True
    path: str = ""
    """The folder in which the checkout and temporary files are, where that is not the real one."""
    environment: Mapping[str, str] = field(factory=dict[str, str])


SURROUNDINGS: Mapping[str, Surrounding] = {
    "fresh": Surrounding(5, environment={"TZ": "Pacific/Chatham", "LC_ALL": "C"}),
    "user": Surrounding(150, is_root=False, environment={"TZ": "America/St_Johns"}),
    "spaces": Surrounding(
        30 * DAY_S, path="a home with spaces", environment={"LC_ALL": "tr_TR.UTF-8"}
    ),
    "bare": Surrounding(3 * 365 * DAY_S, has_proc=False, environment={"TZ": "Asia/Kathmandu"}),
}


def command(one: Surrounding, tests: Sequence[str], home: Path) -> list[str]:
    """The command that runs these tests there; `home` is a folder for what it needs."""
    awake = int(time.clock_gettime(time.CLOCK_BOOTTIME))
    place = home / one.path if one.path else ROOT
    script = ["set -e"]
    if one.path:
        place.mkdir()
        script.append(f"mount --bind {shlex.quote(str(ROOT))} {shlex.quote(str(place))}")
    if not one.has_proc:
        script.append("mount -t tmpfs none /proc")
    script.append(f"cd {shlex.quote(str(place))}")
    python = shlex.quote(str(place / Path(sys.prefix).relative_to(ROOT) / "bin/python"))
    as_whom = "" if one.is_root else "unshare --user --map-user=1000 --map-group=1000 "
    script.append(f"exec {as_whom}{python} -m pytest {shlex.join(tests)}")
    clocks = [f"--{clock}={one.up_s - awake}" for clock in ("monotonic", "boottime")]
    as_root = [] if os.geteuid() == 0 else ["--map-root-user"]
    namespaces = ["unshare", *as_root, "--mount", "--time", *clocks, "--fork", "--kill-child"]
    return [*namespaces, "sh", "-c", "\n".join(script)]


def environment(one: Surrounding, home: Path) -> dict[str, str]:
    """The environment of the tests: imports and temporary files are of that place."""
    if not one.path:
        return {**os.environ, **one.environment}
    place, files = home / one.path, home / f"{one.path} and files"
    files.mkdir()
    told = {"PYTHONPATH": str(place), "TMPDIR": str(files)}
    told["PYTHONPYCACHEPREFIX"] = str(files / "compiled")  # the checkout's would name this place
    return {**os.environ, **told, **one.environment}


@contextmanager
def busy(cores: int) -> Generator[None]:
    """Keep so many cores busy meanwhile."""
    burning = [sys.executable, "-c", "while True: pass"]
    burners = [subprocess.Popen(burning) for _ in range(cores)]
    try:
        yield
    finally:
        for one in burners:
            one.kill()
            one.wait()


@click.command()
@click.argument("tests", nargs=-1)
@click.option(
    *("--in", "names"),
    type=click.Choice([*SURROUNDINGS]),
    multiple=True,
    help="Only there; all by default.",
)
@click.option("--busy", "cores", default=0, help="Keep so many cores busy meanwhile.")
@click.option("--pytest", "options", default="-q -m 'not slow'", help="More options for pytest.")
def odd(tests: Sequence[str], names: Sequence[str], cores: int, options: str) -> None:
    """Run TESTS, or those that surroundings may matter to, in each surrounding."""
    failed: list[str] = []
    for name in names or SURROUNDINGS:
        one = SURROUNDINGS[name]
        click.echo(f"== {name}: {one}")
        with tempfile.TemporaryDirectory(prefix="highwater-odd-") as home, busy(cores):
            asked = [*shlex.split(options), *(tests or TESTS)]
            there = environment(one, Path(home))
            if subprocess.run(command(one, asked, Path(home)), env=there).returncode:
                failed.append(name)
    if failed:
        raise click.ClickException(f"tests fail in {', '.join(failed)}")


if __name__ == "__main__":
    odd()
