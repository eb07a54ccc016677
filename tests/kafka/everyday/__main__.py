"""`python -m tests.kafka.everyday [--keep FOLDER] [OPERATION …]`: play them."""

import argparse
import shutil
import tempfile
from pathlib import Path

from chaos.real.kafka.judge import Judge
from tests.kafka.everyday.operations import OPERATIONS
from tests.kafka.everyday.page import PAGE, page
from tests.kafka.everyday.playing import everyday_cluster, play


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="OPERATION")
    parser.add_argument("--keep", type=Path, help="keep the runs there")
    parser.add_argument("--write", action="store_true", help="write docs/everyday.md")
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="everyday-"))
    runs = given.keep or folder / "runs"
    runs.mkdir(parents=True, exist_ok=True)
    wanted = [OPERATIONS[name] for name in given.names or OPERATIONS]
    for one in wanted:
        shutil.rmtree(runs / one.name, ignore_errors=True)
    judge = Judge.start()
    (folder / "cluster").mkdir()
    try:
        with everyday_cluster(folder / "cluster", judge) as administrator:
            played = play(wanted, administrator, runs)
    finally:
        judge.stop()
    for one in played:
        print(one.told(), flush=True)
    if given.write:
        PAGE.write_text(page(played), "utf-8")
    shutil.rmtree(folder)


main()
