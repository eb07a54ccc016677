"""Keeps recordings of everyday operations as regression inputs, with their verdicts.

`python -m tests.kafka.everyday.keep RUNS NAME …` copies from a folder that `--keep` has made. What
is kept is judged by `make test` (tests/traces/test_everyday.py).
"""

import gzip
import sys
from pathlib import Path

import orjson

from tests.kafka.everyday.operations import OPERATIONS
from tests.kafka.everyday.playing import Played, judged
from traces.record import meta

KEPT = Path(__file__).parents[2] / "traces" / "data" / "everyday"


def keep(run: Path) -> None:
    """The process files, compressed, and meta.json."""
    folder = KEPT / run.name
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    for file in run.glob("*.ndjson"):
        packed = gzip.compress(file.read_bytes(), 9, mtime=0)
        (folder / f"{file.name}.gz").write_bytes(packed)
    meta.write(folder, meta.read(run))


def main(runs: str, *names: str) -> None:
    for name in names:
        keep(Path(runs) / name)
    kept = sorted(folder for folder in KEPT.iterdir() if folder.is_dir())
    verdicts = judged(kept)
    told: dict[str, dict[str, list[str]]] = {}
    for folder in kept:
        one = Played(OPERATIONS[folder.name], folder, "", "", 0, "", verdicts[folder.name])
        undecided = sorted(check for checks in one.undecided().values() for check in checks)
        named = {verdict: one.named(verdict) for verdict in ("holds", "allowed")}
        told[folder.name] = {**named, "undecided": undecided}
    (KEPT / "verdicts.json").unlink()
    options = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE
    (KEPT / "expected.json").write_bytes(orjson.dumps(told, option=options))


main(*sys.argv[1:])
