"""A client's own test suite: where it comes from, how it is run, and what became of each test."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias
from xml.etree import ElementTree

import orjson
from attrs import frozen

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "build" / "suites"
#: One test of Go, which runs in a process of its own: a panic takes no other test along
GO_TEST_S = 180
SUITE_S = 3600

Results: TypeAlias = dict[str, str]
"""The outcome of each test: passed, failed or skipped."""


@frozen
class ClientSuite:
    """A suite at one version. `source` is a Git repository and commit, or a Go module."""

    name: str
    version: str
    source: tuple[str, str]
    run: Callable[["ClientSuite", Path, str], Results]
    #: How many brokers it wants; more than one are told of at the ports of proxies
    brokers: int = 1

    def folder(self, given: Path | None) -> Path:
        """A copy of its source that may be written to; `given` holds checkouts by name."""
        folder = FOLDER / "src" / self.name
        if folder.exists():
            return folder
        folder.parent.mkdir(parents=True, exist_ok=True)
        if given is not None and (given / self.name).exists():
            shutil.copytree(given / self.name, folder)
        elif self.source[0].startswith("https://"):
            repository, commit = self.source
            subprocess.run(["git", "clone", "--quiet", repository, folder], check=True)
            subprocess.run(["git", "-C", folder, "checkout", "--quiet", commit], check=True)
        else:
            shutil.copytree(go_module(*self.source), folder)
        for path in [folder, *folder.rglob("*")]:
            path.chmod(path.stat().st_mode | 0o200)
        return folder


def go_module(module: str, version: str) -> Path:
    """The folder in which Go keeps a module."""
    scratch = FOLDER / "module"
    scratch.mkdir(parents=True, exist_ok=True)
    (scratch / "go.mod").write_text("module suites\n")
    subprocess.run(["go", "get", f"{module}@{version}"], cwd=scratch, check=True)
    listed = subprocess.run(
        ["go", "list", "-m", "-f", "{{.Dir}}", module],
        cwd=scratch,
        check=True,
        capture_output=True,
        text=True,
    )
    return Path(listed.stdout.strip())


def python() -> Path:
    """An interpreter with what the Python suites need beside their clients."""
    home = FOLDER / "venv"
    interpreter = home / "bin" / "python"
    if not interpreter.exists():
        subprocess.run([sys.executable, "-m", "venv", home], check=True)
        needed = Path(__file__).with_name("requirements.txt")
        command = [interpreter, "-m", "pip", "install", "--quiet", "-r", needed]
        subprocess.run(command, check=True)
    return interpreter


def run_pytest(folder: Path, environment: Mapping[str, str], *arguments: str) -> Results:
    """Run a suite of pytest in its folder."""
    report = folder / "report.xml"
    report.unlink(missing_ok=True)
    common = ("-q", "--timeout", "120", "--tb", "native", "-p", "no:cacheprovider")
    with (folder / "output.txt").open("w") as output:
        subprocess.run(
            [python(), "-m", "pytest", *common, f"--junitxml={report}", *arguments],
            cwd=folder,
            env={**os.environ, **environment},
            timeout=SUITE_S,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    found: Results = {}
    for case in ElementTree.parse(report).iter("testcase"):
        module = (case.get("classname") or "").removeprefix("test.").removeprefix("integration.")
        kinds = {child.tag for child in case}
        outcome = "failed" if kinds & {"failure", "error"} else "passed"
        outcome = "skipped" if "skipped" in kinds else outcome
        name = f"{module}::{case.get('name')}"
        if found.get(name) != "failed":  # an error behind a failure is a second case
            found[name] = outcome
    return found


_STATES = {"PASSED": "passed", "FAILED": "failed", "RUNNING": "failed"}


def run_librdkafka(
    folder: Path,
    address: str,
    environment: Mapping[str, str],
    skip: Sequence[str],
    apart: Sequence[tuple[str, str]],
) -> Results:
    """Build librdkafka, and run its tests that need a broker, in quick mode and several at once.

    Without those that begin with a number of `skip`, and those that break sockets beneath the
    client, for they meet its other tests, too; of a test that is `apart` parts run by themselves,
    so that one of them takes no other along.
    """
    tests = folder / "tests"
    if not (tests / "test-runner").exists():
        command = ["./configure", "--disable-curl", "--disable-gssapi", "--disable-zstd"]
        for one in (command, ["make", "libs"], ["make", "-C", "tests", "build"]):
            subprocess.run(one, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    settings = {"metadata.broker.list": address, "test.topic.random": "true"}
    settings["test.timeout.multiplier"] = "3"
    (tests / "test.conf").write_text("".join(f"{name}={settings[name]}\n" for name in settings))
    libraries = f"{folder / 'src'}{os.pathsep}{folder / 'src-cpp'}"
    common = {**os.environ, **environment, "BROKERS": address, "LD_LIBRARY_PATH": libraries}
    left_out = ",".join([*skip, *dict.fromkeys(number for number, _ in apart)])
    found = _librdkafka_report(tests, {**common, "TESTS_SKIP": left_out})
    for number, part in apart:
        ran = _librdkafka_report(tests, {**common, "TESTS": number, "SUBTESTS": f"{part}:"})
        found |= {f"{name}/{part}": outcome for name, outcome in ran.items()}
    return found


def _librdkafka_report(tests: Path, environment: Mapping[str, str]) -> Results:
    """The outcome of each test by librdkafka's runner. It ends with an abort, its report written,
    if a test that failed has left a client."""
    report = tests / "report.json"
    report.unlink(missing_ok=True)
    with (tests / "output.txt").open("a") as output:
        subprocess.run(
            ["./test-runner", "-L", "-K", "-E", "-Q", "-p4"],
            cwd=tests,
            env={**environment, "TEST_REPORT": str(report)},
            timeout=SUITE_S,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    listed = orjson.loads(report.read_bytes())["tests"]
    del listed["<MAIN>"]
    states = {name: one["state"] for name, one in listed.items()}
    return {name: _STATES[state] for name, state in states.items() if state in _STATES}


_GO_VERDICT = re.compile(r"^ *--- (PASS|FAIL|SKIP): (\S+)", re.MULTILINE)
_GO_OUTCOMES = {"PASS": "passed", "FAIL": "failed", "SKIP": "skipped"}


def run_go_together(
    folder: Path, binary: Path, environment: Mapping[str, str], names: Sequence[str]
) -> Results:
    """Run tests of a Go package in one process, for what all of them need takes long to make; one
    that ends the process has failed, and the others go on in the next."""
    found: Results = {}
    with (folder / "output.txt").open("w") as output:
        while left := [name for name in names if name not in found]:
            chosen = ["-test.run", f"^({'|'.join(left)})$", f"-test.timeout={SUITE_S}s"]
            ran = _go_run(folder, [str(binary), "-test.v", *chosen], environment)
            output.write(ran)
            verdicts = _GO_VERDICT.findall(ran)
            found |= {test: _GO_OUTCOMES[verdict] for verdict, test in verdicts}
            begun = re.findall(r"^=== RUN +(\w+)$", ran, re.MULTILINE)
            ended = [name for name in begun if name not in found]
            found |= dict.fromkeys(ended if begun else left, "failed")
    return found


def _go_tests(folder: Path, binary: Path) -> list[str]:
    names = subprocess.run(
        [binary, "-test.list", "^Test"], cwd=folder, check=True, capture_output=True, text=True
    )
    return names.stdout.split()


def _go_run(folder: Path, command: Sequence[str], environment: Mapping[str, str]) -> str:
    ran = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    return ran.stdout


def run_go(folder: Path, binary: Path, environment: Mapping[str, str], skip: str) -> Results:
    """Run each test of a Go package by itself; a test that does not end has failed."""
    found: Results = {}
    with (folder / "output.txt").open("w") as output:
        for name in _go_tests(folder, binary):
            if re.fullmatch(skip, name):
                continue
            limit = f"-test.timeout={GO_TEST_S}s"
            ran = _go_run(
                folder, [str(binary), "-test.v", "-test.run", f"^{name}$", limit], environment
            )
            output.write(ran)
            verdicts = _GO_VERDICT.findall(ran)
            found |= {test: _GO_OUTCOMES[verdict] for verdict, test in verdicts}
            if name not in found:
                found[name] = "failed"
    return found
