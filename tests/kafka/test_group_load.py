"""Kafka's own coordinator runtime, loader and log: a high watermark that advances behind the last
record of a load, and before its end, is heard by nobody.

The report is docs/findings/kafka-group-stale-after-load.md.
"""

import os
import subprocess
from pathlib import Path

from chaos.real.kafka.judge import CACHE, java
from tests.kafka.played import python

SECONDS_TO_PLAY = 180


def played(folder: Path, when: str, classes: Path | None = None) -> list[tuple[str, ...]]:
    """The high watermark, what a read sees, and the answer to a request without records; then
    again behind another record. With `classes` before Kafka's own."""
    log = folder / when / "__consumer_offsets-0"
    log.mkdir(parents=True)
    command = java("LoadBehindAdvance", log, when)
    if classes is not None:
        at = command.index("-cp") + 1
        command[at] = f"{classes}{os.pathsep}{command[at]}"
    run = subprocess.run(
        command, capture_output=True, text=True, check=True, timeout=SECONDS_TO_PLAY
    )
    return [tuple(line.split("\t")) for line in run.stdout.splitlines() if "\t" in line]


def test_what_is_committed_behind_a_load_is_not_seen_before_the_next_record(tmp_path: Path) -> None:
    found = played(tmp_path, "during")
    mended = "this Kafka does so no more: say so in docs/findings/kafka-group-stale-after-load.md"
    assert found == [("2", "1", "TimeoutException"), ("3", "3", "answered")], mended


def test_what_is_committed_after_a_load_is_seen(tmp_path: Path) -> None:
    assert played(tmp_path, "after") == [("2", "2", "answered"), ("3", "3", "answered")]


def test_kafka_with_the_fix_sees_it(tmp_path: Path) -> None:
    classes = CACHE / "fixes" / "group-stale-after-load"
    made = python("examples/kafka_fixes.py", "group-stale-after-load", classes)
    assert made.returncode == 0, made.stdout + made.stderr
    found = played(tmp_path, "during", classes)
    assert found == [("2", "2", "answered"), ("3", "3", "answered")]
