"""Apalache behind the checker interface: symbolic, and worth its time on inductive invariants.

It is used if it is present, as `apalache-mc` on the PATH or as a local docker image (nothing is
ever pulled). Otherwise the answer is *not checked*, never *passed*.
"""

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from attrs import evolve, field, frozen

from properties.tla import itf
from properties.tla.checker import Outcome, Status
from properties.tla.errors import MissingToolError
from properties.tla.processes import Finished, run
from properties.tla.specs import ModelConfig, SpecTree
from properties.tla.verdicts import ApalacheCheck

IMAGE_VARIABLE = "HIGHWATER_APALACHE_IMAGE"
DEFAULT_IMAGE = "apalache/mc"
_MOUNTED = "/var/apalache"
_OUTCOME = re.compile(r"The outcome is: (\w+)|Type checker \[(\w+)\]")
#: The meaning of each outcome, and the exit code that must come with it.
_MEANS = {"NoError": (Status.PASSED, 0), "Error": (Status.VIOLATED, 12), "OK": (Status.PASSED, 0)}
#: A message of Apalache's, of one line or more, ends with its level and the time.
_MESSAGE = re.compile(r"(.+?)\s+([A-Z])@\d\d:\d\d:\d\d\.\d+\n", re.DOTALL)


@frozen
class Runner:
    """The command that starts Apalache with a folder of specs as its working folder."""

    command: tuple[str, ...]
    container: str | None = None

    @classmethod
    def find(cls, folder: Path) -> "Runner":
        local = shutil.which("apalache-mc")
        if local is not None:
            return cls((local,))
        image = os.environ.get(IMAGE_VARIABLE, DEFAULT_IMAGE)
        docker = shutil.which("docker")
        if docker is None:
            raise MissingToolError("no `apalache-mc` on the PATH, and no `docker` either")
        there = subprocess.run(
            [docker, "image", "inspect", image], capture_output=True, text=True, check=False
        )
        if there.returncode != 0:
            said = (there.stderr.strip().splitlines() or ["no such image"])[-1]
            raise MissingToolError(
                f"no `apalache-mc` on the PATH, and no docker image {image} ({said}); "
                f"{IMAGE_VARIABLE} names another image"
            )
        mount = f"{folder}:{_MOUNTED}"
        options = ("--rm", "--pull=never", "--name", folder.name, "-v", mount, "-w", _MOUNTED)
        return cls((docker, "run", *options, image), folder.name)

    def run(self, arguments: tuple[str, ...], folder: Path, limit_s: float) -> Finished:
        # A container's CPU time is not its client's: only the clock can limit it.
        patience_s = limit_s if self.container else None
        finished = run([*self.command, *arguments], folder, limit_s, patience_s)
        if finished.timed_out and self.container is not None:
            # Only the client was killed; the container must be stopped, too.
            stop = [self.command[0], "kill", self.container]
            subprocess.run(stop, capture_output=True, check=False)
        return finished


@frozen
class Apalache:
    """One check of a configuration: an invariant, so many steps from some states, or types."""

    asked: ApalacheCheck
    tree: SpecTree = field(factory=SpecTree)
    name: str = "Apalache"

    def check(self, module: str, cfg: str, limit_s: float) -> Outcome:
        """Run in a folder of its own, which holds copies of all modules: it finds them there."""
        asked = self.asked.module or module
        scratch = Path(tempfile.mkdtemp(prefix="highwater-apalache-"))
        try:
            runner = Runner.find(scratch)
            extending = [self.tree.folder(module) / f"{self.asked.module}.tla"]
            for file in [*self.tree.closure(module), *(extending if self.asked.module else ())]:
                shutil.copy(file, scratch)
            config = ModelConfig.read(self.tree.model(module, cfg))
            (scratch / "model.cfg").write_text(self._model(config), encoding="utf-8")
            finished = runner.run(self._arguments(asked), scratch, limit_s)
            logs = "".join(log.read_text() for log in scratch.glob("**/detailed.log"))
            found = sorted(scratch.glob("out/**/violation.itf.json"))
            states = itf.steps(found[0].read_bytes()) if found else ()
        except MissingToolError as missing:
            return Outcome(Status.NOT_CHECKED, reason=str(missing))
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
        outcome = judge(finished, logs, self.asked, limit_s)
        return evolve(outcome, steps=states if outcome.status is Status.VIOLATED else ())

    def _arguments(self, module: str) -> tuple[str, ...]:
        asked = self.asked
        if asked.inv is None:
            return ("typecheck", "--out-dir=out", f"{module}.tla")
        options = ["--config=model.cfg", f"--inv={asked.inv}", f"--length={asked.length}"]
        options += [f"--init={asked.init}"] if asked.init else []
        return ("check", "--no-deadlock", *options, "--out-dir=out", f"{module}.tla")

    def _model(self, config: ModelConfig) -> str:
        """Without SPECIFICATION, which silently wins over `--init`: such a proof shows nothing."""
        bare = config.without("SPECIFICATION", "INIT", "NEXT")
        return f"INIT Init\nNEXT Next\n{bare.behaviour_only()}"


def judge(finished: Finished, logs: str, asked: ApalacheCheck, limit_s: float) -> Outcome:
    """One outcome from the exit code and the text: too short a run also ends with code 0."""
    outcome = Outcome(
        Status.FAILED, cpu_s=finished.cpu_s, wall_s=finished.wall_s, command=finished.command
    )
    if finished.timed_out:
        return outcome.because(Status.TIMED_OUT, finished.spent(limit_s))
    match = _OUTCOME.search(finished.output)
    said = (match[1] or match[2]) if match else None
    if said not in _MEANS:
        reason = f"Apalache's outcome is {said}" if said else "Apalache has no outcome"
        return outcome.because(Status.FAILED, "\n".join([f"{reason}:", *_complaints(finished)]))
    status, code = _MEANS[said]
    if finished.code != code:
        reason = f"Apalache's outcome is {said}, but its exit code {finished.code} and not {code}"
        return outcome.because(Status.FAILED, reason)
    began = f"Set the initialization predicate to {asked.init}"
    if asked.init and began not in finished.output + logs:
        reason = f"Apalache did not start from {asked.init}: the check would show nothing"
        return outcome.because(Status.FAILED, reason)
    violated = asked.inv if status is Status.VIOLATED else None
    return evolve(outcome, status=status, violated=violated)


def _complaints(finished: Finished) -> list[str]:
    """Apalache's errors, or else the end of its output, among which are the JVM's warnings."""
    messages = _MESSAGE.findall(finished.output)
    errors = [text.strip() for text, level in messages if level == "E"]
    return errors or [(finished.output.strip() or finished.errors.strip())[-2000:]]
