"""Cost of the recorder for Go: one franz-go producer in one process, plain and recorded in turn.

    python bench/bench_recorder_go.py [--rounds 7] [--seconds 5] [--rate 20000]

A broker of Apache Kafka is started on the loopback address (Java and Maven are needed, as for
`make test-kafka`, and Go). Each message is a document of 1 KB that is made for it, sent with
acks=all. The first round of each kind does not count. A rate of 0 is full speed.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from bench.recorded_rounds import TOPIC, measure  # noqa: E402
from tests.traces.record.go.building import program  # noqa: E402


def pace(bootstrap: str, run: Path) -> list[str | Path]:
    """The program that sends."""
    return [program("pace"), bootstrap, TOPIC, run]


if __name__ == "__main__":
    measure("Cost of the recorder for Go", pace)
