"""Both judges of a run: `check` on the clients' recording, `validate --kafka` on the agents' steps.

Each is a process of its own, so that its memory goes with it.
"""

import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import orjson
from attrs import define, field, frozen

from chaos.real.campaign.explained import explained
from chaos.real.campaign.rewritten import NAME, by_the_client
from chaos.real.campaign.running import Played
from chaos.real.campaign.vocabulary import KAFKA

CANNOT_S = 3_600
#: A run must have judged these. librdkafka may lack offsets that other promises of the log need.
DEMANDED = ("L4",)


@frozen
class Find:
    """Something that was found: by whom, its name, and when."""

    judge: str
    what: str
    #: A row of properties/kafka/known.toml, or the name of what logs of brokers show, or nothing
    known: str = ""
    at_ns: int = 0

    @property
    def accuses(self) -> bool:
        """False for a rejection that a row explains: it is a find, and no news."""
        return not self.known


@define
class Judged:
    """The verdict on a run."""

    finds: list[Find] = field(factory=list[Find])
    #: Why something could not be judged
    unjudged: list[str] = field(factory=list[str])
    checks: Mapping[str, str] = field(factory=dict[str, str])
    #: The agents' steps, by partition and transactional id
    partitions: Mapping[str, Any] = field(factory=dict[str, Any])
    texts: dict[str, str] = field(factory=dict[str, str])

    @property
    def exit_code(self) -> int:
        """1: something was found that nothing explains; 2: not judged; 0: all is well."""
        if any(find.accuses for find in self.finds):
            return 1
        return 2 if self.unjudged else 0


def judge(played: Played, folder: Path) -> Judged:
    """Ask both."""
    judged = Judged()
    ends = explained(played.stuck, folder)
    judged.finds += [Find("the end", what, name) for what, name in ends]
    judged.unjudged += [f"a fault broke: {what}" for what in played.broken]
    judged.unjudged += _without_effect(played)
    if not played.complete:
        judged.unjudged.append("the recording is not complete")
    _clients(folder, judged)
    if played.plan.target == KAFKA:
        _steps(folder, judged)
    return judged


def _without_effect(played: Played) -> Iterator[str]:
    """A kind of fault of which none did anything: its orders went nowhere."""
    for kind in played.plan.kinds:
        several = [one for one in played.done if one.step.kind == kind]
        if several and not any(one.effect.amount for one in several):
            yield f"{kind} had no effect: {several[0].effect.why}"


def _clients(folder: Path, judged: Judged) -> None:
    verdicts = folder / "check.json"
    page = ("--html", folder / "report.html")
    code, text = _verb("check", folder / "run", "--json", verdicts, *page)
    judged.texts["check"] = text
    if not verdicts.exists():
        judged.unjudged.append(f"check ended with {code}: {text[-300:]}")
        return
    (told,) = orjson.loads(verdicts.read_bytes())["runs"]
    checks = {name: one["verdict"] for name, one in told.get("checks", {}).items()}
    judged.checks = checks
    violated = [one for one in told.get("incidents", []) if one["verdict"] == "violated"]
    for incident in violated:
        what = f"{', '.join(incident['checks'])}: {incident['title']}"
        known = _of_the_client(incident, folder)
        judged.finds.append(Find("check", what, known, incident.get("since_ns") or 0))
    if code == 3:
        judged.unjudged.append("the second checker refutes the first")
    if code == 2:
        judged.unjudged.append("check cannot judge the clients' recording")
    if told["incomplete"]:
        judged.unjudged += [f"incomplete: {one}" for one in told["incomplete"]]
    if silent := [name for name in DEMANDED if checks.get(name) == "not checked"]:
        judged.unjudged.append(f"not checked: {', '.join(silent)}")


def _of_the_client(incident: Mapping[str, Any], folder: Path) -> str:
    """The name of a client's own defect, if the brokers' logs show that it explains this."""
    only_twice = {*incident["checks"]} <= {"L2"}
    mine = only_twice and by_the_client(folder / "run", folder / "cluster")
    return NAME if mine else ""


def _steps(folder: Path, judged: Judged) -> None:
    verdicts = folder / "steps.json"
    code, text = _verb("validate", "--kafka", folder / "steps", "--json", verdicts)
    judged.texts["validate --kafka"] = text
    if not verdicts.exists():
        judged.unjudged.append(f"validate ended with {code}: {text.strip()[-300:]}")
        return
    partitions = orjson.loads(verdicts.read_bytes())
    judged.partitions = {one["subject"]: one for one in partitions}
    for one in partitions:
        for found in one["explained"]:
            what = f"{one['subject']}: {found['name']} at step {found['step']}"
            judged.finds.append(Find("validate", what, found["name"], found["at_ns"]))
        if (found := one["unexplained"]) is not None:
            what = f"{one['subject']}: step {found['step']}: {found['why']}"
            judged.finds.append(Find("validate", what, "", found["at_ns"]))


def _verb(*arguments: str | Path) -> tuple[int, str]:
    """Exit code and output of one of our own verbs."""
    command = [sys.executable, "-m", "refimpl", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=CANNOT_S)
    return done.returncode, done.stdout + done.stderr
