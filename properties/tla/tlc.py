"""TLC behind the checker interface: every run in folders of its own, every report cross-checked."""

import re
import shutil
import tempfile
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

from attrs import evolve, field, frozen

from properties.tla import tools
from properties.tla.checker import Outcome, Status
from properties.tla.processes import Finished, run
from properties.tla.report import OUT_OF_MEMORY, SUCCESS, TEMPORAL, VIOLATIONS, TlcReport
from properties.tla.specs import ModelConfig, SpecTree

HEAP_MB = 3072
#: Up to about this many states, TLC ends before the optimising compiler has paid for itself.
QUICK_STATES = 100_000
#: How TLC searches, whoever starts it; why, says `Tlc`.
_SEARCH = ("-tool", "-deadlock", "-workers", "1", "-fp", "0", "-lncheck", "final")
#: The end of one run in a JVM's output: the line that `Batch` prints after each.
_END = re.compile(r"@!@!@ENDRUN (?P<code>\d+) (?P<cpu_s>[\d.E-]+) @!@!@\n")


@frozen
class Tlc:
    """The explicit-state checker.

    One worker, so that the search is breadth first and counterexamples are the shortest. One
    fingerprint polynomial, and liveness checked once at the end, so that a lasso, of which TLC
    finds any, is the same in every run. TLC
    unpacks its standard modules into the temporary folder and names its work folder by the clock:
    two runs that share either trip over each other, so each gets its own, removed afterwards.
    """

    tree: SpecTree = field(factory=SpecTree)
    heap_mb: int = HEAP_MB
    quick: bool = False
    name: str = "TLC"

    def check(self, module: str, cfg: str, limit_s: float) -> Outcome:
        return self.check_file(module, self.tree.model(module, cfg), limit_s)

    def check_file(self, module: str, cfg: Path, limit_s: float) -> Outcome:
        """Check with a cfg of any location."""
        finished, report = self.run(self.tree.folder(module), module, cfg, limit_s)
        return named(judge(finished, report, limit_s), ModelConfig.read(cfg))

    def check_together(
        self, module: str, cfgs: Sequence[str], limit_s: float
    ) -> dict[str, Outcome]:
        """Check configurations of one module in one JVM, within `limit_s` for all of them.

        The start and warm-up of a JVM are most of a small model's cost. TLC is not made to run
        twice in one process, so such an outcome counts only if it is the expected one, to the digit
        (`properties/tla/runner.py`). Temporal properties leave buffers behind that two files would
        share. So a model with one is left out, and with it everything that TLC reached after it, or
        did not reach.
        """
        models = [self.tree.model(module, cfg).resolve() for cfg in cfgs]
        with _scratch() as scratch:
            command = [
                *jvm(self.tree, scratch, self.heap_mb, self.quick),
                "Batch",
                module,
                str(scratch / "states"),
                " ".join(_SEARCH),
                *map(str, models),
            ]
            finished = run(command, self.tree.folder(module), limit_s)
        outcomes: dict[str, Outcome] = {}
        began = 0
        for cfg, model, end in zip(cfgs, models, _END.finditer(finished.output), strict=False):
            one = evolve(
                finished,
                code=int(end["code"]),
                output=finished.output[began : end.start()],
                errors="",
                cpu_s=float(end["cpu_s"]),
                timed_out=False,
            )
            report = TlcReport.read(one.output)
            if report.first(TEMPORAL) is not None:
                break
            outcomes[cfg] = named(judge(one, report, limit_s), ModelConfig.read(model))
            began = end.end()
        return outcomes

    def run(
        self, folder: Path, module: str, cfg: Path, limit_s: float
    ) -> tuple[Finished, TlcReport]:
        """Run TLC on `folder/module.tla` and return its output, unjudged."""
        with _scratch() as scratch:
            command = [
                *jvm(self.tree, scratch, self.heap_mb, self.quick),
                *("tlc2.TLC", *_SEARCH),
                *("-metadir", str(scratch / "states"), "-config", str(cfg.resolve()), module),
            ]
            finished = run(command, folder, limit_s)
        return finished, TlcReport.read(finished.output)


@contextmanager
def _scratch() -> Generator[Path]:
    scratch = Path(tempfile.mkdtemp(prefix="highwater-tlc-"))
    try:
        yield scratch
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def jvm(tree: SpecTree, scratch: Path, heap_mb: int, quick: bool = False) -> list[str]:
    """The part of a command line that every tool of TLC's jar shares."""
    return [
        *tools.find().command,
        f"-Xmx{heap_mb}m",
        "-Xss8m",
        *(["-XX:TieredStopAtLevel=1"] if quick else []),
        f"-Djava.io.tmpdir={scratch}",
        f"-DTLA-Library={':'.join(map(str, tree.library()))}",
    ]


def judge(finished: Finished, report: TlcReport, limit_s: float) -> Outcome:
    """One outcome from the exit code and the report, which must agree."""
    counts = report.counts()
    outcome = Outcome(
        Status.FAILED,
        generated=counts[0] if counts else None,
        distinct=counts[1] if counts else None,
        depth=report.depth(),
        cpu_s=finished.cpu_s,
        wall_s=finished.wall_s,
        command=finished.command,
    )
    if finished.timed_out:
        return outcome.because(Status.TIMED_OUT, finished.spent(limit_s))
    if report.first(*OUT_OF_MEMORY) or "OutOfMemoryError" in finished.errors:
        return outcome.because(Status.FAILED, "TLC ran out of memory; raise --heap-mb")
    violation = report.violation()
    if violation is not None:
        code, pattern = VIOLATIONS[violation.code]
        match = pattern.match(violation.text.strip())
        name = match.groupdict().get("name") if match else None
        return _agreed(
            code, finished, report, evolve(outcome, status=Status.VIOLATED, violated=name)
        )
    if report.first(SUCCESS) is not None:
        return _passed(counts, finished, report, outcome)
    return outcome.because(Status.FAILED, _complaint(finished, report))


def _passed(
    counts: tuple[int, int, int] | None, finished: Finished, report: TlcReport, outcome: Outcome
) -> Outcome:
    if counts is None or counts[2] != 0:
        left = "says not how many" if counts is None else f"leaves {counts[2]}"
        reason = f"TLC reports success, but {left} states to explore"
        return outcome.because(Status.FAILED, reason)
    return _agreed(0, finished, report, evolve(outcome, status=Status.PASSED))


def _agreed(code: int, finished: Finished, report: TlcReport, outcome: Outcome) -> Outcome:
    """The outcome, if the exit code says the same as the report."""
    if finished.code != code:
        reason = (
            f"TLC's report says that the model {outcome.status.value} (exit code {code}), "
            f"but its exit code is {finished.code}"
        )
        return outcome.because(Status.FAILED, reason)
    try:
        return evolve(outcome, steps=report.steps(), back_to=report.back_to())
    except ValueError as unread:
        return outcome.because(Status.FAILED, f"the counterexample cannot be read: {unread}")


def _complaint(finished: Finished, report: TlcReport) -> str:
    said = report.complaint() or finished.errors.strip() or report.printed.strip()[-2000:]
    if finished.code == 0:
        return f"TLC ended with exit code 0 without a verdict:\n{said}"
    return f"TLC ended with exit code {finished.code}:\n{said}"


def named(outcome: Outcome, config: ModelConfig) -> Outcome:
    """Give a violated property its name in the cfg.

    TLC names invariants and the properties that it checks as `[][A]_v` itself. For a refinement
    (`Abs!Spec`) it gives only a place in the abstract module, for a temporal property nothing. With
    one PROPERTY in the cfg there is no doubt, nor with a `RefinesAbs` for the place's module `Abs`.
    """
    if outcome.status is not Status.VIOLATED or outcome.violated in (
        *config.invariants,
        *config.properties,
    ):
        return outcome
    if len(config.properties) == 1:
        return evolve(outcome, violated=config.properties[0])
    refinement = f"Refines{(outcome.violated or '').rpartition(' of module ')[2]}"
    if refinement in config.properties:
        return evolve(outcome, violated=refinement)
    listed = ", ".join(config.properties) or "no PROPERTY"
    told = outcome.violated or "only that a temporal property is violated"
    reason = (
        f"TLC does not name the violated property (it says: {told}) and the cfg lists {listed}; "
        "keep refinement and temporal properties in configurations of their own"
    )
    return outcome.because(Status.FAILED, reason)
