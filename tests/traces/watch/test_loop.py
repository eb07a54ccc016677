"""`highwater check --watch`: what is said, where it is written, and when it ends."""

import json
import re
from collections.abc import Callable, Iterator
from io import StringIO
from pathlib import Path
from random import Random
from typing import Any

import pytest
from attrs import define, field
from click.testing import CliRunner
from rich.console import Console

from tests.traces.fixture import fixture
from tests.traces.watch.growing import Growing
from traces.checks.catalogue import CHECKS
from traces.commands.check import check
from traces.generate.small import IN_CALLS, injected
from traces.watch import Loop, Watch
from traces.watch.finality import EARLY


@define
class Bench:
    """A run that grows in the pauses of the loop that watches it."""

    run: Path
    grow: Iterator[None]
    json_file: Path
    clock: float = 0.0
    said: StringIO = field(factory=StringIO)
    seen: list[dict[str, Any]] = field(factory=list[Any])
    at_pause: Callable[[], None] = lambda: None

    def watch(self, *, until: float | None = None, terminal: bool = False) -> bool:
        console = Console(file=self.said, force_terminal=terminal, width=120, color_system=None)
        loop = Loop(Watch(self.run), console, self.json_file, until, self.now, self.pause)
        return loop.run()

    def now(self) -> float:
        return self.clock

    def pause(self, seconds: float) -> None:
        self.clock += seconds
        self.at_pause()
        if self.json_file.exists():
            self.seen.append(json.loads(self.json_file.read_text())["runs"][0])
        next(self.grow, None)


def bench(folder: Path, name: str = "not_assigned", seed: int = 11) -> Bench:
    lines, meta = injected(fixture(seed, steps=15), IN_CALLS[name])
    growing = Growing(folder / "run", lines, meta, Random(seed))
    (folder / "run").mkdir()
    return Bench(folder / "run", growing.steps(20), folder / "out.json")


def test_every_check_that_is_told_early_is_a_check() -> None:
    assert set(EARLY) <= set(CHECKS)


def test_the_log_tells_what_happens_and_when(tmp_path: Path) -> None:
    at = bench(tmp_path)
    assert at.watch()
    lines = at.said.getvalue().splitlines()
    assert all(re.match(r"\d\d:\d\d:\d\d \S", line) for line in lines)
    kinds = [line.split()[1] for line in lines]
    assert kinds.count("began") == kinds.count("closed") == len(list(at.run.glob("*.ndjson")))
    assert [line.split()[2] for line in lines if " meta.json " in line] == ["complete"]
    violated = [line for line in lines if " VIOLATED C4 " in line]
    assert len(violated) == 1
    assert " t:" in violated[0]
    assert "c0#0[" in violated[0]


def test_the_json_file_is_whole_after_every_batch(tmp_path: Path) -> None:
    at = bench(tmp_path)
    at.watch()
    assert len(at.seen) > 10
    assert all(one["watching"] and set(one["checks"]) <= set(CHECKS) for one in at.seen)
    verdicts = [one["checks"]["C4"]["verdict"] for one in at.seen]
    assert sorted(verdicts) == verdicts  # pending, then violated, and never back
    assert set(verdicts) == {"pending", "violated"}
    assert {one["checks"]["L4"]["verdict"] for one in at.seen} == {"pending"}
    (witness,) = at.seen[-1]["checks"]["C4"]["witnesses"]
    assert [e["op"] for e in witness["events"]] == ["revoked", "poll"]


def test_a_terminal_shows_a_table(tmp_path: Path) -> None:
    at = bench(tmp_path)
    at.watch(terminal=True)
    screen = at.said.getvalue()
    assert "only what is assigned is read" in screen
    assert "at the end: L2 L3 L4" in screen
    assert "VIOLATED C4" in screen


def test_an_interrupted_watch_says_what_it_has_found(tmp_path: Path) -> None:
    at = Bench(tmp_path, iter(()), tmp_path.with_suffix(".json"))
    topic = {"min_insync_replicas": 2, "unclean_leader_election": False}
    meta = {"format": 1, "topics": {"t": topic}, "producers": {"p0": {"acks": "all"}}}
    (tmp_path / "meta.json").write_text(json.dumps(meta))
    with (tmp_path / "p0#0.ndjson").open("w") as file:
        for seq in (0, 1):
            record = {"topic": "t", "partition": 0, "offset": 5, "id": seq}
            call = {"process": "p0#0", "seq": seq, "op": "send", "outcome": "ok"}
            file.write(json.dumps(call | {"records": [record]}) + "\n")

    def interrupt() -> None:
        raise KeyboardInterrupt

    at.at_pause = interrupt
    assert not at.watch()
    assert "stopped violated; still open: p0#0" in at.said.getvalue()
    run = json.loads(at.json_file.read_text())["runs"][0]
    assert (run["verdict"], run["watching"], run["running"]) == ("violated", True, ["p0#0"])


def test_until_judges_what_is_there_when_nothing_comes_any_more(tmp_path: Path) -> None:
    at = bench(tmp_path)
    at.grow = iter([next(at.grow) for _ in range(10)])  # ten steps, and then it hangs
    assert at.watch(until=5)
    assert at.clock == pytest.approx(5, abs=1)


def test_a_malformed_line_ends_the_watch(tmp_path: Path) -> None:
    (tmp_path / "meta.json").write_text('{"format": 1}')
    (tmp_path / "p9#0.ndjson").write_text("nonsense\n")
    result = CliRunner().invoke(check, [str(tmp_path), "--watch"])
    assert result.exit_code == 2
    assert "STOPPED p9#0.ndjson:1: expected JSON" in result.output


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["{run}", "{run}", "--watch"], "--watch follows one run"),
        (["{run}/meta.json", "--watch"], "--watch follows one run"),
        (["{run}", "--until", "3"], "there is no --watch"),
        (["{run}", "--watch", "--until", "0"], "--until"),
    ],
)
def test_what_cannot_be_watched_is_refused(tmp_path: Path, arguments: list[str], said: str) -> None:
    (tmp_path / "meta.json").write_text("{}")
    result = CliRunner().invoke(check, [a.format(run=tmp_path) for a in arguments])
    assert (result.exit_code, said in result.output) == (2, True), result.output


@pytest.mark.parametrize(("name", "code"), [(None, 0), ("lost", 1)])
def test_the_command_ends_with_the_run(tmp_path: Path, name: str | None, code: int) -> None:
    w = fixture(5, steps=20)
    lines, meta = injected(w, IN_CALLS[name]) if name else (w.lines, w.meta)
    for _ in Growing(tmp_path, lines, meta, Random(1)).steps(1):
        pass
    out = tmp_path / "out.json"
    result = CliRunner().invoke(check, [str(tmp_path), "--watch", "--json", str(out)])
    assert result.exit_code == code, result.output
    assert ("promises L4 L3" in result.output) == bool(code)
    watched = json.loads(out.read_text())
    assert "watching" not in watched["runs"][0]
    CliRunner().invoke(check, [str(tmp_path), "--json", str(out)])
    assert json.loads(out.read_text()) == watched


def test_a_broken_meta_is_told_and_never_passes(tmp_path: Path) -> None:
    """It said nothing, and went on to "nothing is violated"."""
    at = Bench(tmp_path, iter(()), tmp_path.with_suffix(".json"))
    (tmp_path / "meta.json").write_text('{"format": 1,')
    (tmp_path / "p0#0.ndjson").write_text("")

    def interrupt() -> None:
        raise KeyboardInterrupt

    at.at_pause = interrupt
    assert not at.watch()
    output = at.said.getvalue()
    assert " BAD meta.json:1: expected JSON: " in output
    assert "and what depends on meta.json was not looked at" in output
    (run,) = json.loads(at.json_file.read_text())["runs"]
    assert run["warnings"][0].startswith("meta.json:1: expected JSON")
