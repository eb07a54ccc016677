"""Reads and judges a trace in this process, and says what came of it."""

from pathlib import Path
from typing import Any
from zlib import crc32

from hypothesis import Phase, settings

from tests.traces.fixture import Line, write
from traces.engines import local
from traces.ingest.history import Reading, read_history
from traces.ingest.run import read_trace
from traces.verdicts.judged import Judged

# A seed has no smaller one that tells more: looking for it takes minutes and finds nothing.
SEEDED = (Phase.explicit, Phase.reuse, Phase.generate)


def own(seed: int, name: str | None) -> int:
    """Another seed for each of these tests: Hypothesis begins with 0 in all of them."""
    return seed + crc32(str(name).encode())


def examples(few: int) -> int:
    """So many in `make test`, where each seed costs a whole trace; thirty times in `make soak`."""
    return few * max(1, settings().max_examples // 100)


def judged(path: Path, *, strict: bool = False, reading: Reading | None = None) -> Judged:
    """One run, by the kernels themselves, without Spark."""
    one = Judged(path)
    one.run = (
        read_history(path, reading or Reading()) if path.suffix == ".edn" else read_trace(path)
    )
    context = one.run.context
    one.settle(local.find(one.table(0), {0: context}), strict)
    return one


def judged_lines(
    folder: Path, lines: dict[str, list[Line]], meta: dict[str, Any], *, strict: bool = False
) -> Judged:
    """A trace given as lines."""
    return judged(write(folder, lines, meta), strict=strict)


def verdicts(one: Judged) -> dict[str, str]:
    return {verdict.check: verdict.verdict for verdict in one.verdicts}


def counts(one: Judged) -> dict[str, int]:
    """The number of findings against each promise, allowed or not."""
    return {verdict.check: verdict.count for verdict in one.verdicts if verdict.count}


def said(one: Judged, verdict: str) -> set[str]:
    return {v.check for v in one.verdicts if v.verdict == verdict}
